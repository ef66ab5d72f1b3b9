"""Blocks that stand several times become functions, whose parameters are what differs."""

import pytest

from tests.support.in_line import in_line
from tests.support.stock import schedule_stock
from tilegen.ir.affine import const, var
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Call, Function, nodes
from tilegen.lowering.outline.generalise import Parameters

ko, ki, k, K = (var(name) for name in ("ko", "ki", "k", "K"))


def general(*rows):
    """(the expressions that the rows have in common, the values of each parameter)."""
    parameters = Parameters(frozenset(("k", "K")))
    names = iter("pqrs")
    return parameters.general(rows, lambda *_: next(names)), parameters.values


p, q = var("p"), var("q")


@pytest.mark.parametrize(
    ("rows", "common", "values"),
    [
        ([(k,), (k,)], (k,), {}),
        ([(k,), (k + ko * 8 + 8,)], (k + p * 8,), {"p": (const(0), ko + 1)}),
        ([(k, const(0)), (k + ko * 8 + 8, (ko + 1) % 2)], (k + p * 8, p % 2), {"p": (const(0), ko + 1)}),
        ([(ki % 2,), (const(1),)], (p,), {"p": (ki % 2, const(1))}),
        ([(K - k - 1,), (K - k - ko * 8 - 9,)], (K - k - 1 - p * 8,), {"p": (const(0), ko + 1)}),
        ([(ko, ki), (const(0), const(0))], (p, q), {"p": (ki, const(0)), "q": (ko, const(0))}),
        ([(ko, ko * 2 + 3), (const(1), const(5))], (p, p * 2 + 3), {"p": (ko, const(1))}),
        ([(ko,), (ko,)], (p,), {"p": (ko, ko)}),  # two loops of one name
        # What may be negative has no remainder in C.
        (
            [(ki - ko * 8, ki % 2), (const(0), const(0))],
            (p, q),
            {"p": (ki - ko * 8, const(0)), "q": (ki % 2, const(0))},
        ),
    ],
)
def test_what_expressions_have_in_common_stays_and_the_rests_become_parameters(rows, common, values):
    found, parameters = general(*rows)
    if len(values) == 2:
        common = tuple(v for v in common)
        assert {tuple(v) for v in parameters.values()} == {tuple(v) for v in values.values()}
    else:
        assert (found, parameters) == (common, values)
    for n, row in enumerate(rows):
        at = {name: column[n] for name, column in parameters.items()}
        assert tuple(v.substitute(at) for v in found) == row


def test_what_is_added_to_a_loop_that_counts_is_a_parameter_by_itself():
    rows = [(k, const(0)), (k + ko * 8 + 8, (ko + 1) % 2)]
    parameters = Parameters(frozenset(("k",)), counted=frozenset(("ko",)))
    found = parameters.general(rows, lambda values, otherwise: "ahead" if otherwise == "ahead" else "p")
    assert found == (k + (p + var("ahead")) * 8, (p + var("ahead")) % 2)
    assert parameters.values == {"p": (const(0), ko), "ahead": (const(0), const(1))}


def functions(schedule):
    launch, *_ = lower(schedule_stock("gemm", schedule).tree)
    return {f.name: f.parameters for f in nodes(launch.body) if isinstance(f, Function)}, launch


WHOLE = {"load.shared", "load.A.shared.reg", "load.B.shared.reg", "multiply"}


@pytest.mark.parametrize("schedule", ["across", "split_k"])
def test_the_main_loop_of_a_pipelined_product_is_found_whole(schedule):
    found, launch = functions(schedule)
    assert found.keys() == WHOLE
    assert found["load.shared"] == ("ko", "ahead")
    (inlined,) = in_line((launch,))
    assert not any(isinstance(v, Call | Function) for v in nodes(inlined.body))


@pytest.mark.parametrize("schedule", ["naive", "tiled", "wider", "registers"])
def test_what_stands_once_stays_where_it_is(schedule):
    assert functions(schedule)[0] == {}
