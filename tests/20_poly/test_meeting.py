"""Two iterations that meet in an element: loops that both must be in the same iteration of have one name."""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest

from tests.support.stock import schedule_stock
from tilegen.lowering import lower
from tilegen.poly.execution import rows_before, ways_before, ways_between
from tilegen.poly.instances import Placed, Use, project
from tilegen.poly.rows import rename
from tilegen.poly.system import Undecided, equal_rows, solvable
from tilegen.proof.lift import lift
from tilegen.proof.reading.inlining import without_calls


def apart(original, one, two, a, b, shared, order):
    """The same question with names of its own for every loop that is not given as shared."""
    names = two.primed_names(shared)
    return original.pair(one, two, shared) + (*order, *equal_rows(a.forms, [f.rename(names) for f in b.forms]))


def questions(program):
    for one in program.leaves:
        for two in program.leaves:
            pairs = {(a.buffer, a.index, b.index): (a, b) for a in one.leaf.uses for b in two.leaf.uses}
            for a, b in pairs.values():
                if a.buffer == b.buffer:
                    for shared, order in ways_before(one, two):
                        yield one.leaf, two.leaf, a, b, shared, order


def tree_under(name, schedule):
    """The tree that is asked about while the schedule is written."""
    return schedule_stock(name, schedule).tree


def read_back(name, schedule):
    """The tree that the printed text is proven with: loops that run ahead stand in it as several."""
    tree = tree_under(name, schedule)
    launches = [replace(each, body=without_calls(each.body)) for each in lower(tree, whole=True)]
    return lift(tree.kernel, tuple(launches)).tree(tree.reassociated)


@pytest.mark.parametrize(
    ("made", "name", "schedule"),
    [
        (tree_under, "gemm", "rectangular"),
        (tree_under, "gemm", "warps"),
        (tree_under, "transpose", "swizzled"),
        (tree_under, "softmax", "warps"),
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
        found, _ = program.original.meeting_rows(one, two, a, b, shared, order)
        assert solvable(found) == wanted, (one.stmt.name, two.stmt.name, a.buffer, shared, order)
        answers[wanted] += 1
    assert min(answers.values()) > 5, answers


class At(NamedTuple):
    placed: Placed
    use: Use


def chains(program):
    """A write, another one and a read of one buffer in a chip's memory, and what is known of the first and the last."""
    for name in (b.name for b in program.buffers.values() if b.space == "shared"):
        used = [At(p, u) for p in program.leaves for u in p.leaf.uses if u.buffer == name]
        for meant, read in product((a for a in used if a.use.writes), (a for a in used if not a.use.writes)):
            for shared, order in ways_before(meant.placed, read.placed):
                names = {n: f"{n}~" for n in meant.placed.leaf.primed_names(shared)}
                plain = {f"{n}'": n for n in read.placed.leaf.names} | {n: f"{n}~" for n in read.placed.leaf.names}
                place = equal_rows([f.rename(names) for f in meant.use.forms], read.use.forms)
                rows = rename(meant.placed.leaf.domain, names) + rename(order, plain) + place
                for other in (a for a in used if a.use.writes and a.placed.common_depth(read.placed) >= len(shared)):
                    yield (meant, names), other, (read, {}), shared, program.original.rows(read.placed.leaf) + rows


@pytest.mark.parametrize(("name", "schedule"), [("gemm", "pipelined"), ("gemm", "transposed"), ("conv2d", "deep")])
def test_what_comes_between_is_possible_where_some_order_of_loops_is(name, schedule):
    program = project(read_back(name, schedule))
    possible = asked = 0
    for one, other, last, shared, known in chains(program):
        names = {n: f"{n}*" for n in other.placed.leaf.primed_names(shared)}
        place = equal_rows([f.rename(names) for f in other.use.forms], last[0].use.forms)
        there = rename(other.placed.leaf.domain, names) + place
        ways = ways_between(one, (other, names), last, shared, lambda rows=known: rows, lambda rows=there: rows)
        behind = rows_before(one[0].placed, one[1], other.placed, names, len(shared))
        orders = product(behind, list(rows_before(other.placed, names, last[0].placed, {}, len(shared))))
        some = any(solvable(known + (*there, *a, *b)) for a, b in orders)
        assert any(map(solvable, ways)) == some
        possible, asked = possible + some, asked + 1
    assert 0 < possible < asked
