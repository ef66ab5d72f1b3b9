"""What the judge refuses of bulk loops that no step makes: each tree is a right one with one thing changed."""

from dataclasses import replace

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.written import tree_from
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Load, Loop, Stmt
from tilegen.ir.walk import rewrite_nodes
from tilegen.judge import judge
from tilegen.judge.transfers.bulk import check_bulk
from tilegen.judge.transfers.bulk_stores import check_bulk_stores
from tilegen.poly import Refused
from tilegen.poly.instances import project


def changed(tree, change):
    return replace(tree, body=rewrite_nodes(tree.body, change))


def of_copies(change):
    return lambda node: change(node) if isinstance(node, Stmt) and node.is_copy else node


LEFT_OUT = "a bulk copy of 'X' brings a whole box, and some elements are left out"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (of_copies(lambda s: replace(s, guard=(*s.guard, Condition(const(15) - var("tile.i"))))), LEFT_OUT),
        (
            of_copies(lambda s: replace(s, value=replace(s.value, fallback=None), guard=(Condition(var("bi") - 1),))),
            LEFT_OUT,
        ),
        (
            lambda n: replace(n, kind="serial") if isinstance(n, Loop) and n.name == "tile.j" else n,
            "'tile.j' runs as a serial loop, in the bulk loops from 'tile.i' on",
        ),
    ],
)
def test_a_box_that_is_none(change, sentence):
    tree = tree_from(CASES["once"])
    with pytest.raises(Refused) as caught:
        check_bulk(project(changed(tree, change)))
    assert caught.value.violation.sentence == sentence


@pytest.mark.parametrize("case", ["once", "stored", "stored each time"])
def test_a_whole_box_is_right(case):
    assert judge(tree_from(CASES[case])) is None


def of_stores(change):
    return lambda node: change(node) if isinstance(node, Stmt) and node.target.buffer == "Y" else node


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            of_stores(lambda s: replace(s, guard=(*s.guard, Condition(const(5) - var("out.j"))))),
            "a bulk copy to 'Y' writes a whole box, and some elements are left out",
        ),
        (
            of_stores(
                lambda s: replace(s, guard=(), target=replace(s.target, index=(var("out.j"), s.target.index[1])))
            ),
            "an element of 'Y' is stored in bulk twice, and the stores may end in either order",
        ),
        (
            lambda n: (
                replace(n, value=Load("Y", n.target.index, "f32")) if isinstance(n, Stmt) and not n.is_copy else n
            ),
            "'Y' is stored in bulk, and 'Y' reads it in the same launch, at any time",
        ),
        (
            lambda n: replace(n, stages=2) if isinstance(n, Loop) and n.name == "bj" else n,
            "'out' is stored in bulk in 'bj', whose copies run ahead",
        ),
        (
            lambda n: replace(n, kind="thread.z") if isinstance(n, Loop) and n.name == "bj" else n,
            "a bulk copy is the work of one thread, and stands in 'bj'",
        ),
    ],
)
def test_a_store_that_cannot_be(change, sentence):
    tree = tree_from(CASES["stored each time"])
    with pytest.raises(Refused) as caught:
        check_bulk_stores(project(changed(tree, change)))
    assert caught.value.violation.sentence == sentence


def test_what_is_filled_in_bulk_is_not_stored_so():
    """Its bytes arrive at a barrier, where the thread that stores them would have to wait."""
    tree = tree_from(CASES["stored and filled"])
    swap = {"C": "A.shared", "Cs": "A.shared"}

    def change(node):
        if isinstance(node, Stmt) and node.target.buffer == "C":
            return replace(node, value=replace(node.value, buffer=swap["Cs"]))
        return node

    with pytest.raises(Refused) as caught:
        check_bulk_stores(project(changed(tree, change)))
    assert "'A.shared'" in caught.value.violation.sentence
