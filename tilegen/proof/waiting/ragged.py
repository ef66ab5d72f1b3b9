"""Ragged loops whose iterations use shared memory: none needs what another one has left there.

Theorem: let all that is read there of a buffer, by whatever thread, have been written earlier in the same iteration of
the loop, and let nobody outside of the loop use it. Then the last to write it is the same, whichever iterations run.
"""

from __future__ import annotations

from tilegen.judge.places.ragged import is_neutral_update
from tilegen.poly.instances import Placed, Projection
from tilegen.poly.verdict import Refused
from tilegen.proof.waiting.moments import (
    Moment,
    orders_before,
    refuse_uncovered,
    rows_of_same_iteration,
    rows_of_same_place,
)


def check_shared(program: Projection) -> None:
    """Refused where an iteration of a ragged loop may read what an earlier one, or nobody in the loop, has written."""
    for placed in program.leaves:
        for depth, kind in enumerate(placed.leaf.kinds):
            if kind == "ragged" and not is_neutral_update(placed.leaf.stmt):
                for name in placed.leaf.written_buffers:
                    if program.buffers[name].space == "shared":
                        _check_buffer(program, name, placed, depth)


def _check_buffer(program: Projection, name: str, one: Placed, depth: int) -> None:
    """`one` writes the buffer in the ragged loop at this depth."""
    users, loop = [p for p in program.leaves if name in p.leaf.buffers], one.leaf.names[depth]
    if any(p.places[: depth + 1] != one.places[: depth + 1] for p in users):
        raise Refused(f"'{name}' is written in loop '{loop}', whose ends data give, and used outside of it")
    for read in users:
        here = Moment(read)
        for use in {u.index: u for u in read.leaf.uses if u.buffer == name and not u.writes}.values():
            pieces = (
                there.rows + way + same + rows_of_same_place(there, write, here, use)
                for writer in users
                for there in (Moment(writer, "'"),)
                for write in writer.leaf.uses
                if write.buffer == name and write.writes
                for same in (rows_of_same_iteration(there, here, one.leaf.names[: depth + 1]),)
                for way in orders_before(there, here)
            )
            sentence = f"'{name}' may be read in an iteration of '{loop}' that has not written it"
            refuse_uncovered(program, sentence, here, here.rows, pieces)
