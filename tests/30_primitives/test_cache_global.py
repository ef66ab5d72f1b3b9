"""cache_global: dimensions in brackets become one."""

from read_back import difference
from simulate import faults

from tilegen.backends.text import emit
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.show import show
from tilegen.lowering import lower
from tilegen.proof import prove
from tilegen.schedule import apply

TEXT = """
kernel conv(X: f32[C, W], K: f32[F, C, 3]) -> Y: f32[F, W]:
    Y[f, x] = sum[c, s]((X[c, x + s - 1] else 0) * K[f, c, s])

schedule rows for conv():
    cache_global(K, layout=[[c, s], f])
    bind(K.global.f, block.x)
    tile(c, 2) -> co, ci
    tile(f, 4) -> bf, tf
    tile(x, 8) -> bx, tx
    order(bf, bx, co, tx, ci, s, tf)
    bind(bf, block.y)
    bind(bx, block.x)
    bind(tx, thread.x)
    cache_register(Y, at=bx)
    cache_shared(K.global, at=co, vector=4)
"""


def test_joined_dimensions_are_one():
    module = parse(Source("conv.tg", TEXT))
    tree = apply(build(module.kernels["conv"]), module.schedules[0]).tree
    text = show(tree)
    assert "global K.global: f32[C*3, F]  copy of K" in text
    assert "K.global[K.global.c*3 + K.global.s, K.global.f] = K[K.global.f, K.global.c, K.global.s]" in text
    assert "shared K.global.shared: f32[6, 4]  copy of K.global, in co" in text
    assert "for K.global.shared.c_s < 6  cooperative" in text


def test_it_computes_the_kernel():
    module = parse(Source("conv.tg", TEXT))
    tree = apply(build(module.kernels["conv"]), module.schedules[0]).tree
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert difference(emit(launches, "cuda"), launches, "cuda") is None
        assert prove(tree.kernel, launches).verdict == "proved"
        assert faults(launches, tree, {"C": 3, "W": 9, "F": 4 if vector else 5}) is None
