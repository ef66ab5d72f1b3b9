"""round_up: sums over whole tiles, whose terms beyond the tensors are products of zeros."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.simulator.threads import faults, verdict
from tilegen.api import load
from tilegen.errors import IllegalStep
from tilegen.interpreter import reference, run
from tilegen.ir.nodes import Const
from tilegen.ir.parts.derived import RoundedUp
from tilegen.ir.reductions.rounded import round_up_range
from tilegen.ir.written import tree_of as whole_tree
from tilegen.judge import check_derived
from tilegen.lowering import lower
from tilegen.poly import Refused
from tilegen.proof import prove

DOT = "kernel dot(x: f32[K, N], y: f32[K]) -> z: f32[N]:\n    z[i] = sum[k](x[k, i] * y[k])\n"
STEPS = """
schedule s for dot():
    round_up(k, 4)
    tile(k, 4) -> ko, ki
    tile(i, 8) -> b, t
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(z, at=b)
    cache_shared(x, at=ko)
    cache_shared(y, at=ko)
"""


def tree_of(text, steps=STEPS):
    return load(text + steps).schedule("s").tree


def test_no_tile_is_partial_along_the_sum():
    tree = tree_of(DOT)
    (launch,) = lower(tree)
    assert prove(tree.kernel, (launch,)).verdict == "proved"
    assert faults((launch,), tree, {"K": 6, "N": 9}) is None
    arrays = {"x": np.ones((6, 9), np.float32), "y": np.arange(6, dtype=np.float32)}
    for output, expected in reference(tree.kernel, {"K": 6, "N": 9}, arrays).items():
        np.testing.assert_array_equal(run(tree, {"K": 6, "N": 9}, arrays)[output], expected.value)


def test_what_is_not_rounded_as_told_is_refused():
    kernel = tree_of(DOT).kernel
    (equation,) = kernel.equations
    (k,) = equation.reduced
    for wrong in (
        replace(kernel, derived=RoundedUp("z", k.name, 8)),
        replace(kernel, derived=RoundedUp("z", "i", 4)),
        replace(kernel, equations=(replace(equation, reduced=(replace(k, extent=k.extent + 4),)),)),
        replace(kernel, equations=(replace(equation, value=Const(0, "f32")),)),
    ):
        with pytest.raises(Refused, match="more than the range"):
            check_derived(wrong)


def test_zeros_have_to_stand_in_all_factors_but_of_integers():
    """Infinity times zero is no number."""
    scaled = "kernel scaled(x: {0}[K], a: {0}[1]) -> z: {0}[1]:\n    z[i] = sum[k](x[k] * a[i])\n"
    made = RoundedUp("z", "k", 4)
    check_derived(round_up_range(load(scaled.format("i32")).kernel().ir, made))
    with pytest.raises(Refused, match="not all products of zeros"):
        check_derived(round_up_range(load(scaled.format("f32")).kernel().ir, made))


def test_the_witness_is_a_term_that_is_read_inside():
    text = "kernel near(x: i32[N]) -> z: i32[N]:\n    z[i] = sum[-1 <= r < 1](x[i + r] else 0)\n"
    with pytest.raises(IllegalStep) as error:
        load(text).kernel().schedule().round_up("r", 3)
    assert error.value.witness.startswith("z(i=0, r=1)")
    assert error.value.witness.endswith("(N=2)")


def test_the_witness_is_a_term_that_its_condition_takes():
    text = "kernel odd(x: i32[N, K]) -> z: i32[N]:\n    z[i] = prod[k](x[i, k] if i % 2 == 1 else 1)\n"
    with pytest.raises(IllegalStep) as error:
        load(text).kernel().schedule().round_up("k", 4)
    assert error.value.witness == "z(i=1, k=1) is one term more (N=2, K=1)"


@pytest.mark.parametrize(("other", "legal"), [("1", True), ("2", False)])
def test_a_choice_of_what_the_reduction_starts_from_adds_nothing(other, legal):
    text = f"kernel few(x: i32[8]) -> z: i32[1]:\n    z[i] = prod[k < 5](x[k] if k < 5 else {other})\n"
    steps = "\nschedule s for few():\n    round_up(k, 4)\n"
    if legal:
        tree = tree_of(text, steps)
        assert prove(tree.kernel, lower(tree)).verdict == "proved"
        assert verdict(whole_tree(tree.kernel), {}) is None
    else:
        with pytest.raises(IllegalStep, match="is no sum"):
            tree_of(text, steps)


def test_where_the_tile_divides_the_range_any_reduction_is_as_it_was():
    text = "kernel most(x: f32[K]) -> z: f32[1] where K % 4 == 0:\n    z[i] = max[k](x[k])\n"
    steps = "\nschedule s for most():\n    round_up(k, 4)\n    tile(k, 4) -> ko, ki\n"
    tree = tree_of(text, steps)
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_a_sum_that_no_output_reads_is_rounded_up_with_the_same_care():
    unread = "kernel two(x: f32[K]) -> z: f32[1]:\n    var w: f32[1]\n    w[i] = sum[k](x[k]{})\n    z[i] = x[i]\n"
    fine, wrong = (load(unread.format(more)).kernel().ir for more in (" * x[k]", " + 1"))
    made = RoundedUp("w", fine.equations[0].reduced[0].name, 4)
    check_derived(round_up_range(fine, made))
    assert verdict(whole_tree(round_up_range(fine, made)), {"K": 3}) is None
    with pytest.raises(Refused, match="not all products of zeros"):
        check_derived(round_up_range(wrong, made))
    assert verdict(whole_tree(round_up_range(wrong, made)), {"K": 3}) == "derived"
