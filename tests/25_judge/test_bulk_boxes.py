"""What the judge refuses of bulk loops that no step makes: each tree is a right one with one thing changed."""

from dataclasses import replace

import pytest
from bulk import CASES
from written import tree_from

from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop, Stmt
from tilegen.ir.walk import rewrite_nodes
from tilegen.judge import judge
from tilegen.judge.bulk import check_bulk
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
            "the bulk loops from 'tile.i' on hold more than one copy",
        ),
    ],
)
def test_a_box_that_is_none(change, sentence):
    tree = tree_from(CASES["once"])
    with pytest.raises(Refused) as caught:
        check_bulk(project(changed(tree, change)))
    assert caught.value.violation.sentence == sentence


def test_a_whole_box_is_right():
    assert judge(tree_from(CASES["once"])) is None
