"""Questions to each launch by itself: one that a step leaves as it is need not be asked again."""

from __future__ import annotations

from tilegen.poly.project import Placed, Program


def unasked(program: Program, question: str) -> list[Placed]:
    """The leaves of the launches that are other ones than in the tree of which `question` was asked last.

    The answer may depend on the leaves of a launch and on their places in it, on the buffers that they use, and on
    nothing else but what may be reassociated. What the judge remembers counts for no proof.
    """
    known = program.original.memo.get((question, program.tree.reassociated), ())
    assert isinstance(known, tuple)
    new = {number for number, launch in enumerate(program.launches) if launch not in known}
    return [placed for placed in program.leaves if placed.places[0] in new]


def remember(program: Program, question: str) -> None:
    """Nothing was found wrong in this tree."""
    program.original.memo[question, program.tree.reassociated] = program.launches
