"""Vector loops: the lanes of each access lie side by side, and the first one on a whole vector.

Theorem: the lanes of an access to memory are one vector if the loop adds 1 to the index of the dimension that is
stored fastest and nothing to the others, and the first lane's index is a multiple of the width. Or all of them use one
element. Registers have no addresses, and of the two accesses of a copy one may be element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tilegen.ir.affine import const
from tilegen.ir.hardware.limits import ACCESS_LIMIT
from tilegen.ir.nodes import DTYPE_BYTES, Condition
from tilegen.poly.instances import Leaf, Projection, Use
from tilegen.poly.system import Row, form, rows_of, solvable
from tilegen.poly.verdict import NoForm, NoVector, Refused, Words, counterexample

WIDTHS = (2, 4, 8, 16)


def check_vectors(program: Projection) -> None:
    """Refused where a vector loop has no vector's width, or an access in it is no vector."""
    for placed in program.leaves:
        leaf = placed.leaf
        if "vector" not in leaf.kinds:
            continue
        _check_lane_memory(program, leaf)
        _check_leaf(program, leaf)


def _check_lane_memory(program: Projection, leaf: Leaf) -> None:
    """The lanes of a statement run before the next statement, so nothing can live in one lane alone."""
    loop = leaf.names[leaf.kinds.index("vector")]
    for use in leaf.uses:
        if program.buffers[use.buffer].scope == loop:
            raise NoForm(
                f"'{use.buffer}' lives in vector loop '{loop}', whose lanes would share it",
                way=f"cache it outside '{loop}', so that every lane has its own element",
            )


def _check_leaf(program: Projection, leaf: Leaf) -> None:
    depth = leaf.kinds.index("vector")
    loop, extent = leaf.names[depth], leaf.extents[depth]
    if leaf.kinds.count("vector") > 1:
        raise NoVector(
            f"vector loop '{leaf.names[depth + 1 + leaf.kinds[depth + 1 :].index('vector')]}' is inside '{loop}'",
            way=f"leave '{loop}' serial, or unroll it",
        )
    if not extent.is_const or extent.const not in WIDTHS:
        raise NoVector(
            f"vector loop '{loop}' has {extent} lanes, and a vector has 2, 4, 8 or 16",
            way=f"tile({loop}, 4) cuts it into vectors of 4",
        )
    if depth != len(leaf.names) - 1:
        raise NoVector(
            f"vector loop '{loop}' is not innermost: '{leaf.names[depth + 1]}' is inside it",
            way=f"order(..., {loop}) puts it innermost",
        )
    for use in leaf.uses:
        dtype = program.buffers[use.buffer].dtype
        width = extent.const * DTYPE_BYTES[dtype]
        if width > ACCESS_LIMIT and any(loop in i.names() for i in use.index):
            raise NoVector(
                f"a vector of {extent.const} {dtype} has {width} bytes, and {ACCESS_LIMIT} is the most",
                way=f"{ACCESS_LIMIT // DTYPE_BYTES[dtype]} elements fit",
            )
    # Registers have no addresses: any lane may be in any of them.
    uses = [u for u in leaf.uses if program.buffers[u.buffer].space != "register"]
    faults = [f for f in (_fault(program, leaf, use, loop, extent.const) for use in uses) if f]
    if faults and (not leaf.stmt.is_copy or len(faults) == len(uses)):
        first, *others = (refused().violation for refused in faults)
        notes = (*first.notes, *(note for v in others for note in v.notes))
        raise Refused(first.sentence, first.witness, *notes, code=first.code)


def _fault(program: Projection, leaf: Leaf, use: Use, loop: str, width: int) -> Callable[[], Refused] | None:
    """What says why the access is no vector, and not one value for all lanes; None if it is. A copy has two accesses,
    and one of them may be none."""
    if all(loop not in i.names() for i in use.index):
        return None
    buffer = program.buffers[use.buffer]
    fastest = buffer.order[-1] if buffer.order else 0
    for dim, index in enumerate(use.index):
        step = 1 if dim == fastest else 0
        if not index.linear_in(loop) or index.coefficient(loop) != step:
            return partial(_not_adjacent, program, leaf, use, loop)
    if buffer.swizzle and not buffer.swizzle.keeps(width):
        return partial(
            Refused,
            f"the vectors of '{use.buffer}' in loop '{loop}' have {width} elements, and its swizzle moves units of "
            f"{buffer.swizzle.unit}",
            None,
            f"swizzle({use.buffer}, {width}) keeps them whole",
        )
    start = use.index[fastest].substitute({loop: const(0)})
    off = start % width
    if off.is_const and off.const == 0:
        return None
    question = (*program.original.context, *leaf.domain, *rows_of(Condition(off - 1)))
    return partial(_misaligned_error, program, leaf, use, loop, width, question) if solvable(question) else None


def _misaligned_error(
    program: Projection, leaf: Leaf, use: Use, loop: str, width: int, question: tuple[Row, ...]
) -> Refused:
    words = counterexample(program.original, question, leaf.names)
    assert words
    return NoVector(
        f"the vectors of '{use.buffer}' in loop '{loop}' do not start at a multiple of {width} elements of their row",
        f"lane {loop}=0 of {words.instance(leaf)} is at {_lane_element(words, use, loop, 0)}{words.sizes}",
    )


def _not_adjacent(program: Projection, leaf: Leaf, use: Use, loop: str) -> Refused:
    # At sizes where the statement runs, if there are such.
    question = (*program.original.context, *leaf.domain)
    if not solvable(question):
        question = (*program.original.context, *leaf.ranges)
    wrong = next((rows for rows in _not_beside(program, use, loop) if solvable(question + rows)), None)
    if wrong is None:
        return NoForm(
            f"'{loop}' is divided in an index of '{use.buffer}': its lanes are side by side, "
            "and no vector is made of that",
            way="vectorize a loop that the index adds and does not divide",
        )
    words = counterexample(program.original, question + wrong, leaf.names)
    assert words
    lanes = [f"lane {loop}={lane} is at {_lane_element(words, use, loop, lane)}" for lane in (0, 1)]
    return NoVector(
        f"the lanes of '{loop}' are not side by side in '{use.buffer}'",
        f"{' and '.join(lanes)}{words.sizes}",
        "vectorize the loop that runs along the fastest dimension",
    )


def _not_beside(program: Projection, use: Use, loop: str) -> Iterator[tuple[Row, ...]]:
    """The ways in which the second lane is anywhere but beside the first one."""
    order = program.buffers[use.buffer].order
    for dim, index in enumerate(use.index):
        one, two = (form(index.substitute({loop: const(lane)})) for lane in (0, 1))
        step = 1 if dim == order[-1] else 0
        yield one.minus(two, 1 - step).nonnegative()
        yield two.minus(one, 1 + step).nonnegative()


def _lane_element(words: Words, use: Use, loop: str, lane: int) -> str:
    point = {**words.point, loop: lane}
    at = ", ".join(str(i.evaluate({n: point.get(n, 0) for n in i.names()})) for i in use.index)
    return f"{use.buffer}[{at}]"
