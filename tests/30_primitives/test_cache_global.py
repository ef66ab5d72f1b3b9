"""cache_global: dimensions in brackets become one; whole tiles are read without tests; what is computed is no copy."""

from dataclasses import replace

import pytest

from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep, Source
from tilegen.frontend import build, parse
from tilegen.ir.nodes import Load
from tilegen.ir.printing.show import show
from tilegen.ir.walk import rewrite, walk
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If
from tilegen.proof import prove

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
    tree = tree_from(TEXT)
    text = show(tree)
    assert "global K.global: f32[C*3, F]  copy of K" in text
    assert "K.global[K.global.c*3 + K.global.s, K.global.f] = K[K.global.f, K.global.c, K.global.s]" in text
    assert "shared K.global.shared: f32[6, 4]  copy of K.global, in co" in text
    assert "for K.global.shared.c_s < 6  cooperative" in text


def test_it_computes_the_kernel():
    tree = tree_from(TEXT)
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert difference(emit(launches, "cuda"), launches, "cuda") is None
        assert prove(tree.kernel, launches).verdict == "proved"
        assert faults(launches, tree, {"C": 3, "W": 9, "F": 4 if vector else 5}) is None


ALIGNED = """
kernel conv(X: f32[W, C], K: f32[F, 3, C]) -> Y: f32[F, W]:
    Y[f, x] = sum[c, s]((X[x + s - 1, c] else 0) * K[f, s, c])

schedule aligned for conv():
    tile(f, 4) -> bf, tf
    tile(x, 8) -> bx, tx
    tile(c, 4) -> co, ci
    order(bf, bx, co, tf, tx, ci, s)
    bind(bf, block.y)
    bind(bx, block.x)
    bind(tf, thread.y)
    bind(tx, thread.x)
    cache_register(Y, at=bx)
    cache_shared(X, at=co, vector=4)
    cache_global(X, layout=[0, c], tiles=[1, 4])
    bind(X.global.0, block.x)
"""


def test_what_a_copy_reads_beyond_the_tensor_stays_beyond_its_storage():
    """Whole tiles of channels, and zeros around the rows, which nothing stores."""
    tree = tree_from(ALIGNED)
    assert "(X.global[bx*8 + X.shared.0 - 1, X.shared.c*4 + co*4 + X.shared.v] else 0.0)" in show(tree)
    assert judge(tree) is None
    for version in ({}, {"vector": False}, {"whole": True}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches).verdict == "proved"
        assert difference(emit(launches, "cuda"), launches, "cuda") is None
        assert (
            faults(launches, tree, {"C": 4, "W": 8, "F": 4} if "whole" in version else {"C": 3, "W": 9, "F": 5}) is None
        )


PADDED = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule padded for gemm(TK=4):
    round_up(k, TK)
    cache_global(A, layout=[k, i], tiles=[TK, 8])
    bind(A.global.i, block.x)
    cache_global(B, layout=[k, j], tiles=[TK, 8])
    bind(B.global.k, block.x)
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    tile(k, TK) -> ko, ki
    tile(ti, 4) -> ti, wi
    tile(tj, 4) -> tj, wj
    order(bi, bj, ko, ti, tj, ki, wi, wj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj, vector=4)
    cache_shared(A.global, at=ko, vector=4)
    cache_shared(B.global, at=ko, vector=4)
    cache_register(A.global.shared, at=ki, vector=4)
    cache_register(B.global.shared, at=ki, vector=4)
    unroll(ki)
    pipeline(ko, 3)
    pipeline(ki, 2, across=ko)
"""


def padded_tree():
    return tree_from(PADDED)


def test_whole_tiles_are_longer_than_the_tensor_and_zero_there():
    text = show(padded_tree())
    assert "global A.global: f32[((M + 7)/8)*8, ((K + 3)/4)*4] order(1, 0)  copy of A" in text
    assert "A.global[A.global.i, A.global.k] = (A[A.global.i, A.global.k] else 0)" in text


def test_whole_tiles_are_read_as_vectors_and_without_tests_at_all_sizes():
    launches = lower(padded_tree(), scalarized=frozenset({"C.reg.v"}))
    assert not any(launch.requires for launch in launches)
    text = emit(launches, "cuda")
    product = text[text.index("gemm_C(") :]
    assert "copy_async<16>(&A_global_shared" in product
    assert "copy_async<16>(&B_global_shared" in product
    assert "load_vector<float4>(A_global_shared_reg" in product
    (stages,) = (v for v in walk(launches[-1].body) if isinstance(v, For) and v.name == "ko")
    # The last tiles are not copied ahead: no other test is left.
    tested = {str(c) for v in walk(stages) if isinstance(v, If) for c in v.test}
    assert tested == {"-ko*4 + K - 9 >= 0", "-ko*4 + K - 5 >= 0"}


def test_whole_tiles_compute_the_kernel_at_sizes_that_nothing_divides():
    tree = padded_tree()
    for version in ({}, {"scalarized": frozenset({"C.reg.v"})}, {"vector": False}, {"whole": True}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches).verdict == "proved"
        sizes = {"M": 8, "N": 8, "K": 4} if version in ({}, {"whole": True}) else {"M": 9, "N": 7, "K": 5}
        assert faults(launches, tree, sizes) is None
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None


def test_a_fill_without_zeros_is_refused():
    tree = padded_tree()

    def bare(value):
        return replace(value, fallback=None) if isinstance(value, Load) and value.buffer == "B" else value

    wrong = replace(tree, body=rewrite(tree.body, bare))
    assert judge(wrong) is not None


COMPUTED = """
kernel scaled(A: f32[M, K], x: f32[K]) -> y: f32[M]:
    var R: f32[M, K]
    var s: f32[M], t: f32[M]
    R[r, c] = A[r, c] * 2.0
    t[m] = max[n](A[m, n])
    s[i] = sum[k](R[i, k] * x[k])
    y[o] = s[o] + t[o]

schedule stored for scaled():
    round_up(k, 8)
    cache_global(R, layout=[c, r], tiles=[8, 4])
    bind(r, block.x)
    cache_global(t, layout=[m], tiles=[4])
    bind(m, block.x)
    fuse(i, o) -> i
    tile(i, 4) -> bi, ti
    bind(bi, block.x)
"""


def test_an_intermediate_tensor_is_computed_in_its_new_order_and_not_copied():
    tree = tree_from(COMPUTED)
    text = show(tree)
    assert "global R: f32[((M + 3)/4)*4, ((K + 7)/8)*8] order(1, 0)  intermediate" in text
    assert "R[r, c] = select(r < M and c < K, (A[r, c] else 0) * 2.0, 0)" in text
    # What a maximum of nothing is, is computed beyond a tensor that is one.
    assert "t.init" not in text
    assert "t[m] max= select(m < M, (A[m, n] else 0), -inf)" in text
    assert "R[bi*4 + ti, k] * (x[k] else 0)" in text
    assert tree.kernel.written_kernel == build(parse(Source("test.tg", COMPUTED)).kernels["scaled"])


def test_it_computes_the_kernel_at_all_sizes():
    tree = tree_from(COMPUTED)
    for version in ({}, {"whole": True}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches).verdict == "proved"
        assert difference(emit(launches, "cuda"), launches, "cuda") is None
        assert faults(launches, tree, {"M": 8, "K": 8} if version else {"M": 5, "K": 9}) is None


def test_tiles_that_divide_a_fixed_size_need_no_choice():
    tree = tree_from(COMPUTED, M=8, K=16)
    assert "R[r, c] = A[r, c] * 2.0\n" in show(tree)


def test_reads_beyond_the_tiles_are_refused():
    with pytest.raises(IllegalStep, match="'R' is read where it is not computed") as caught:
        tree_from(COMPUTED.replace("tiles=[8, 4]", "tiles=[4, 4]"))
    assert caught.value.witness == "s(i=0, k=4) reads it (M=1, K=1)"
