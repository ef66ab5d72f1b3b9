"""at_most: a loop whose size is limited has a constant extent, for the sizes at which that is enough."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.simulator.threads import faults
from tilegen.api import load
from tilegen.backends.text import emit
from tilegen.errors import ArgumentError, UsageError
from tilegen.interpreter import reference, run
from tilegen.ir.parts.derived import Limited
from tilegen.judge import check_derived
from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes, sizes_to_check
from tilegen.lowering import lower
from tilegen.poly import Refused
from tilegen.proof import prove

TEXT = """
kernel norm(X: f32[M, N]) -> Y: f32[M, N]:
    var s: f32[M]
    s[i] = sum[j](X[i, j] * X[i, j])
    Y[i, j] = X[i, j] / s[i]

schedule held for norm(MOST=32):
    fuse(s.i, Y.i) -> i
    rename(s.j, Y.j) -> j
    at_most(j, MOST)
    tile(i, 8) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(s, at=t)
    cache_register(X, at=t)

schedule walked for norm:
    fuse(s.i, Y.i) -> i
    tile(Y.j, 64) -> jo, ji
    tile(i, 8) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(s, at=t)

family fast for norm:
    held(MOST in {8, 32})
    walked
"""


def test_a_row_of_any_length_up_to_that_stays_in_registers():
    tree = load(TEXT).kernel("norm").schedule("held").tree
    assert [(b.name, str(b.shape[-1])) for b in tree.buffers if b.copy_of == "X"] == [("X.reg", "32")]
    (launch,) = lower(tree)
    assert prove(tree.kernel, (launch,)).verdict == "proved"
    assert ", N <= 32\n// arrays" in emit((launch,))
    for n in (1, 31, 32):
        assert faults((launch,), tree, {"M": 9, "N": n}) is None
        arrays = {"X": np.arange(1, 9 * n + 1, dtype=np.float32).reshape(9, n)}
        for output, expected in reference(tree.kernel, {"M": 9, "N": n}, arrays).items():
            np.testing.assert_allclose(run(tree, {"M": 9, "N": n}, arrays)[output], expected.value, rtol=1e-5)


def test_other_sizes_are_refused():
    held = load(TEXT).kernel("norm").schedule("held")
    with pytest.raises(ArgumentError, match="for N <= 32 only, and N = 33"):
        held.compile("cpu", unproved=True)(np.ones((2, 33), np.float32))
    with pytest.raises(UsageError, match="for N <= 32 only, and N = 33"):
        power_sizes(held.tree.kernel, {"N": 33}, GPU_LIMITS)


def test_a_family_takes_it_where_it_serves():
    chooser = load(TEXT).kernel("norm").family("h100")
    facts = {each.name: [fact.text for fact in each.facts] for each in chooser.candidates}
    assert facts == {"held(MOST=8)": ["N <= 8"], "held(MOST=32)": ["N <= 32"], "walked": []}
    assert chooser.choose(M=64, N=33).name == "walked"
    assert "not N <= 8" in str(chooser.explain(M=64, N=20))


def test_checks_are_at_sizes_that_each_is_for():
    kernel = load(TEXT).kernel("norm")
    held, walked = (kernel.schedule(name).tree for name in ("held", "walked"))
    assert power_sizes(held.kernel, {}, GPU_LIMITS)["N"] == 32
    sizes = sizes_to_check([walked, held], {})
    assert any(each["N"] > 32 for each in sizes)
    assert any(1 < each["N"] <= 32 for each in sizes)


def test_a_row_of_a_comparison_says_why_it_is_not_at_its_sizes():
    kernel = load(TEXT).kernel("norm")
    found = kernel.schedule("walked").compare(kernel.schedule("held"), device="cpu", machine="h100", N=100, M=8)
    walked, held = found.rows
    assert walked.predicted
    assert "for N <= 32 only, and N = 100" in held.error


def test_what_is_not_limited_as_told_is_refused():
    kernel = load(TEXT).kernel("norm").schedule("held").tree.kernel
    check_derived(kernel)
    for wrong in (
        replace(kernel, derived=Limited(kernel.derived.extent, 16)),
        replace(kernel, assumptions=()),
        replace(kernel, equations=kernel.equations[:1]),
    ):
        with pytest.raises(Refused, match="more than the extent N limited"):
            check_derived(wrong)
