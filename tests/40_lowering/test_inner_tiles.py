"""Reads with a fallback: tiles whose reads are all inside have none, and those at borders have them."""

import pytest

from tests.support.simulator.threads import faults
from tilegen.backends.text import emit
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.written import tree_of
from tilegen.lowering import lower
from tilegen.proof import prove
from tilegen.schedule import apply

POOL = """kernel pool(X: f32[N]) -> Y: f32[N]:
    Y[i] = max[r < 3](X[i + r - 1] else {fallback})

schedule s for pool():
    tile(i, 8) -> b, t
{more}    bind(b, block.x)
    bind(t, thread.x)
    cache_register(Y, at=b)
"""


@pytest.mark.parametrize("fallback", ["-inf", "0"])
@pytest.mark.parametrize("more", ["", "    tile(t, 2) -> t, w\n    order(b, t, r, w)\n    unroll(w)\n"])
def test_only_tiles_at_a_border_test_where_they_read(fallback, more):
    module = parse(Source("pool.tg", POOL.format(fallback=fallback, more=more)))
    tree = apply(build(module.kernels["pool"]), module.schedules[0]).tree
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    for n in (1, 7, 8, 24, 27):
        assert faults(launches, tree, {"N": n}) is None
    inner, border = emit(launches, "cuda").split("} else {")
    assert "b * 8 >= 1 && b * 8 + 8 < N" in inner
    assert "?" not in inner.rpartition("if (b * 8")[2]
    assert "?" in border


def test_a_choice_keeps_its_own_tests():
    text = "kernel k(X: f32[N]) -> Y: f32[N]:\n    Y[i] = sum[r < 3]((X[i + r - 1] else 0) if i > 3 else X[i])\n"
    tree = tree_of(build(parse(Source("k.tg", text)).kernels["k"]))
    assert "else {" not in emit(lower(tree), "cuda")
