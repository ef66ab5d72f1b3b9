"""A way of waiting is a row: one that no launch of tilegen's has makes one launch of two, whose blocks all wait."""

from dataclasses import replace

import pytest

from tests.support.overlapping_kernels import CHAIN
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.affine import var
from tilegen.ir.nodes import Access, Buffer, Condition, Const, Stmt
from tilegen.ir.walk import substitute
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Declare, For, If, Let
from tilegen.lowering.launch.timelines import Barrier, Timeline
from tilegen.proof import prove

GRID = Timeline("grid", "grid", "wait_for_grid()", asks=(("COOPERATIVE", 2),), only_cuda=True)
WAIT = Barrier(GRID)
# Each block reads what another one has written.
TREE = tree_from(CHAIN.replace("P[i] * 2", "P[N - 1 - i] * 2"))


def joined(first, second):
    """A launch that does what two do, with a wait in between."""
    names = {b: var(a) for (a, *_), (b, *_) in zip(first.coordinates, second.coordinates, strict=True)}
    return replace(
        first,
        body=(*first.body, WAIT, *substitute(second.body, names)),
        tensors=("A", "B", "C", "P"),
        buffers={**first.buffers, **second.buffers},
        memory=tuple({b.name: b for b in (*first.memory, *second.memory)}.values()),
        asks=GRID.asks,
    )


ONE = joined(*lower(TREE))
FIRST, _, SECOND = ONE.body


def with_body(*body):
    return replace(ONE, body=body)


def test_it_is_proved_and_read_back_and_runs():
    assert prove(TREE.kernel, (ONE,)).verdict == "proved"
    text = emit((ONE,))
    assert "CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 1" in text
    assert difference(text, (ONE,), "cuda") is None
    assert difference(text.replace("wait_for_grid();", ""), (ONE,), "cuda")
    assert faults((ONE,), TREE, {"N": 70}) is None


ZERO = Const(0.0, "f32")
REGISTER = Buffer("kept", "f32", (), "register", ())
START = Stmt("kept", Access("kept", ()), ZERO)
FAULTS = {
    "without the wait": with_body(FIRST, SECOND),
    "without any": replace(with_body(FIRST, SECOND), asks=()),
    "not asked for": replace(ONE, asks=()),
    "of a block": with_body(FIRST, Barrier(), SECOND),
    "too early": with_body(WAIT, FIRST, SECOND),
    "too late": with_body(FIRST, SECOND, WAIT),
    "on a branch": with_body(FIRST, If(FIRST.test, (WAIT,)), SECOND),
    "by some blocks": with_body(FIRST, If((Condition(var("pb"), equal=True),), (WAIT,)), SECOND),
    "in a loop": with_body(FIRST, For("times", var("pb"), (WAIT,)), SECOND),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused_and_runs_wrong(name):
    assert prove(TREE.kernel, (FAULTS[name],)).verdict.startswith("refused")
    assert faults((FAULTS[name],), TREE, {"N": 70})


def test_names_hold_on_and_memory_on_the_chip_does_not():
    named = with_body(Let("far", var("pb") * 32), FIRST, WAIT, substitute(SECOND, {"pb": var("far") // 32}))
    assert prove(TREE.kernel, (named,)).verdict == "proved"
    kept = with_body(Declare("kept", ZERO, START), FIRST, WAIT, START, SECOND)
    kept = replace(kept, buffers={**ONE.buffers, "kept": REGISTER})
    assert "used where it is not declared" in prove(TREE.kernel, (kept,)).violation.violation.sentence
    shared = replace(ONE, shared_bytes=4)
    assert "memory on the chip outlives that" in prove(TREE.kernel, (shared,)).violation.violation.sentence
