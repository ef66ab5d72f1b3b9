"""Two iterations that meet in an element: loops that both must be in the same iteration of have one name."""

import pytest
from stock import scheduled

from tilegen.lowering import lower
from tilegen.poly.order import before
from tilegen.poly.project import project
from tilegen.poly.system import Undecided, same, solvable
from tilegen.proof.raised import raised


def apart(original, one, two, a, b, shared, order):
    """The same question with names of its own for every loop that is not given as shared."""
    names = two.primed(shared)
    return original.pair(one, two, shared) + (*order, *same(a.forms, [f.renamed(names) for f in b.forms]))


def questions(program):
    for one in program.leaves:
        for two in program.leaves:
            pairs = {(a.buffer, a.index, b.index): (a, b) for a in one.leaf.uses for b in two.leaf.uses}
            for a, b in pairs.values():
                if a.buffer == b.buffer:
                    for shared, order in before(one, two):
                        yield one.leaf, two.leaf, a, b, shared, order


def written(name, schedule):
    """The tree that is asked about while the schedule is written."""
    return scheduled(name, schedule).tree


def read_back(name, schedule):
    """The tree that the printed text is proven with: loops that run ahead stand in it as several."""
    tree = written(name, schedule)
    return raised(tree.kernel, lower(tree, whole=True)).tree(tree.reassociated)


@pytest.mark.parametrize(
    ("made", "name", "schedule"),
    [
        (written, "gemm", "rectangular"),
        (written, "gemm", "warps"),
        (written, "transpose", "swizzled"),
        (written, "softmax", "warps"),
        (read_back, "gemm", "registers"),
        (read_back, "gemm", "pipelined"),
        (read_back, "gemm", "across"),
        (read_back, "conv2d", "patches"),
    ],
)
def test_a_meeting_is_possible_where_it_is_with_names_of_their_own(made, name, schedule):
    program = project(made(name, schedule))
    answers = {True: 0, False: 0}
    for one, two, a, b, shared, order in questions(program):
        try:
            wanted = solvable(apart(program.original, one, two, a, b, shared, order))
        except Undecided:
            continue
        found, _ = program.original.meeting(one, two, a, b, shared, order)
        assert solvable(found) == wanted, (one.stmt.name, two.stmt.name, a.buffer, shared, order)
        answers[wanted] += 1
    assert min(answers.values()) > 5, answers
