"""Functions of a lowered program: what is read back is what a call does, and a wrong call is refused."""

from dataclasses import replace

import pytest

from tests.support.written import ahead
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Const, Stmt
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Call, Declare, For, Function, If, Let, nodes
from tilegen.poly import Refused
from tilegen.proof import prove
from tilegen.proof.reading.inlining import without_calls

n, i = var("n"), var("i")


def assign(*index):
    return Stmt("C", Access("C", index), Const(0.0, "f32"))


FILL = Function("fill", ("n",), (), (For("i", const(4), (assign(n, i + n * 4),)),))


def test_the_statements_stand_where_the_function_is_called():
    body = (FILL, For("j", const(2), (Call("fill", (var("j") + 1,)),)), Call("fill", (const(0),)))
    j = var("j")
    assert without_calls(body) == (
        For("j", const(2), (For("i", const(4), (assign(j + 1, i + j * 4 + 4),)),)),
        For("i", const(4), (assign(const(0), i),)),
    )


def test_a_function_can_call_another_one():
    both = Function("both", ("m",), (), (Call("fill", (var("m"),)), Call("fill", (var("m") + 1,))))
    assert without_calls((FILL, both, Call("both", (const(1),)))) == without_calls(
        (FILL, Call("fill", (const(1),)), Call("fill", (const(2),)))
    )


OF_A = Function("clear", (), (), (Stmt("C", Access("C.reg", (var("a"),)), Const(0.0, "f32")),))
FAULTS = {
    "it is not there": (Call("fill", (n,)),),
    "it is made behind the call": (Call("fill", (const(0),)), FILL),
    "it is made in another list": (If((), (FILL,)), Call("fill", (const(0),))),
    "an argument is missing": (FILL, Call("fill", ())),
    "an argument too many": (FILL, Call("fill", (n, n))),
    "two parameters of one name": (replace(FILL, parameters=("n", "n")), Call("fill", (n, n))),
    "an argument means a loop of the function": (FILL, For("i", const(2), (Call("fill", (i,)),))),
    "a name has another value since": (OF_A, Let("a", const(1)), Call("clear", ())),
    "a loop has taken a name": (OF_A, For("a", const(2), (Call("clear", ()),))),
    "registers have been declared anew": (OF_A, Declare("C.reg"), Call("clear", ())),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_no_compiler_would_take_or_means_something_else_is_refused(fault):
    with pytest.raises(Refused):
        without_calls(FAULTS[fault])


def calls_with(change):
    """The launches of a product with `change` made to the call of each place in turn."""
    tree = ahead(("pipeline(ko, STAGES)", "pipeline(ki, R, across=ko)"))
    (launch,) = lower(tree)
    assert prove(tree.kernel, (launch,)).verdict == "proved"
    calls = [v for v in nodes(launch.body) if isinstance(v, Call)]
    assert len(calls) > 6
    for place in range(len(calls)):
        count = iter(range(len(calls)))
        yield tree, replace(launch, body=put(launch.body, lambda v, c=count, p=place: change(v) if next(c) == p else v))


def put(body, change):
    return tuple(
        change(v)
        if isinstance(v, Call)
        else replace(v, body=put(v.body, change), orelse=put(v.orelse, change))
        if isinstance(v, If)
        else replace(v, body=put(v.body, change))
        if isinstance(v, For | Function)
        else v
        for v in body
    )


@pytest.mark.parametrize("step", [1, -1])
def test_a_call_of_another_place_is_no_product(step):
    for tree, launch in calls_with(
        lambda call: replace(call, arguments=(call.arguments[0] + step, *call.arguments[1:]))
    ):
        assert prove(tree.kernel, (launch,)).verdict.startswith("refused: ")


def test_arguments_the_other_way_round_are_no_product():
    for tree, launch in calls_with(lambda call: replace(call, arguments=call.arguments[::-1])):
        # What is added to a loop can stand before the plus sign, too.
        if without_calls(launch.body) != without_calls(lower(tree)[0].body):
            assert prove(tree.kernel, (launch,)).verdict.startswith("refused: ")
