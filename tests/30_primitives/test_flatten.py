"""flatten: dimensions side by side are one, and what is computed is the kernel as written."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.simulator.threads import faults
from tilegen.api import load
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep
from tilegen.interpreter import reference, run
from tilegen.ir.affine import var
from tilegen.ir.reductions.flattened import with_elements
from tilegen.judge import check_derived
from tilegen.lab.checks.sizes import sizes_to_check
from tilegen.lowering import lower
from tilegen.poly import Refused
from tilegen.poly.instances import symbols_alone
from tilegen.proof import prove

TEXT = """
kernel dense(X: f32[B, T, S, K], W: f32[N, K]) -> Y: f32[B, T, S, N]:
    var P: f32[B, T, S, N]
    P[b, t, s, n] = sum[k](X[b, t, s, k] * W[n, k])
    Y[b, t, s, n] = max(P[b, t, s, n], 0.0)

schedule tiles for dense:
    flatten(P.b, P.t, P.s) -> m
    fuse(P.m, Y.m) -> m
    fuse(P.n, Y.n) -> n
    tile(m, 8) -> bm, tm
    tile(n, 4) -> bn, tn
    order(bm, bn, tm, tn, k)
    bind(bm, block.y)
    bind(bn, block.x)
    bind(tm, thread.y)
    bind(tn, thread.x)
    cache_register(P, at=tn)

kernel linear(X: bf16[B, T, C], W: bf16[F, C]) -> Y: bf16[B, T, F]:
    var S: f32[B, T, F]
    S[b, t, f] = sum[c](f32(X[b, t, c]) * f32(W[f, c]))
    Y[b, t, f] = bf16(S[b, t, f])

schedule fast for linear extends hgemm.persistent

kernel totals(X: f32[M, H, W]) -> y: f32[M]:
    y[i] = sum[h, w](X[i, h, w])

schedule rows for totals:
    flatten(h, w) -> p
    bind(i, block.x)
"""
SIZES = {"B": 3, "T": 5, "S": 2, "K": 7, "N": 6}


def tree_of(schedule, **fixed):
    file = load(TEXT)
    (kernel,) = (s.kernel for s in file.schedules if s.name == schedule)
    return file.kernel(kernel, **fixed).schedule(schedule).tree


def inputs(sizes):
    draw = np.random.default_rng(1)
    shapes = {"X": "BTSK", "W": "NK"}
    return {name: draw.standard_normal([sizes[n] for n in shape]).astype(np.float32) for name, shape in shapes.items()}


def test_tiles_run_over_borders_and_results_have_the_shape_as_written():
    tree, arrays = tree_of("tiles"), inputs(SIZES)
    assert {b.name: [str(e) for e in b.shape] for b in tree.buffers if b.role in ("input", "output")} == {
        "X": ["B*T*S", "K"],
        "W": ["N", "K"],
        "Y": ["B*T*S", "N"],
    }
    found, (expected,) = run(tree, SIZES, arrays)["Y"], reference(tree.kernel, SIZES, arrays).values()
    np.testing.assert_allclose(found, expected.value, rtol=1e-5)
    assert faults(lower(tree), tree, SIZES) is None


@pytest.mark.pocl
def test_calls_take_arrays_as_written():
    arrays = inputs(SIZES)
    program = load(TEXT).kernel("dense").schedule("tiles").compile("cpu")
    found = program(*arrays.values())
    assert found.shape == (3, 5, 2, 6)
    np.testing.assert_allclose(found, np.maximum(arrays["X"] @ arrays["W"].T, 0), rtol=1e-4, atol=1e-5)


def test_checks_have_tiles_over_borders():
    sets = sizes_to_check([tree_of("fast")], {})
    assert any(each["T"] > 1 and each["B"] * each["T"] > 128 and each["B"] * each["T"] % 128 for each in sets)


def test_the_text_multiplies_sizes():
    text = emit(lower(tree_of("tiles")))
    assert "int B, int T, int S, int K, int N)" in text
    assert "bm * 8 + tm < B * T * S" in text


def test_a_fixed_size_is_a_factor():
    tree = tree_of("tiles", T=4, S=1)
    assert str(tree.buffer("X").shape[0]) == "B*4"
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_a_size_that_is_left_in_a_condition_is_still_one_for_the_solver():
    text = TEXT.replace("* W[n, k])", "* W[n, k] if k < B else 0.0)")
    tree = load(text).kernel("dense").schedule("tiles").tree
    assert symbols_alone(tree.kernel) == ("B", "K", "N", "B*T*S")
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_terms_keep_their_order():
    tree = tree_of("rows")
    assert "for p < H*W" in str(tree)
    assert not tree.reassociated


def test_a_product_by_form_sees_its_rows_as_one_dimension():
    tree = tree_of("fast")
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
    assert "X_map describes X: BFLOAT16, dimensions (C, B*T)" in emit(lower(tree))


def test_sizes_in_a_witness_are_those_that_matter():
    wrong = TEXT.replace("order(bm, bn, tm, tn, k)", "tile(k, 2) -> ko, ki\n    bind(ki, thread.z)")
    with pytest.raises(IllegalStep) as error:
        load(wrong).kernel("dense").schedule("tiles")
    assert "(K=2, N=1, B*T*S=1)" in error.value.witness


def test_sizes_in_a_witness_can_be():
    text = TEXT.replace("f32[B, T, S, N]:", "f32[B, T, S, N] where T % 2 == 0:", 1)
    wrong = text.replace("order(bm, bn, tm, tn, k)", "tile(k, 2) -> ko, ki\n    bind(ki, thread.z)")
    with pytest.raises(IllegalStep) as error:
        load(wrong).kernel("dense").schedule("tiles")
    assert "(T=2, K=2, N=1, B*T*S=2)" in error.value.witness


def wrong_kernels():
    """(what is wrong, a kernel that is derived so)."""
    kernel = tree_of("tiles").kernel
    first, second = kernel.equations
    yield "has more than", replace(kernel, equations=(replace(first, reduced=()), second))
    made = kernel.derived
    yield "another extent", replace(kernel, derived=replace(made, extents=made.extents[:2]))
    swapped = (made.extents[1], made.extents[0], made.extents[2])
    yield "another extent", replace(kernel, derived=replace(made, extents=swapped))
    yield "for more than", replace(kernel, derived=replace(made, tensors=made.tensors[1:]))
    yield "has more than", replace(kernel, derived=replace(made, loops=made.loops[1:]))
    moved = with_elements(first, lambda name, index: (index[0] + (name == "X"), *index[1:]))
    yield "for more than", replace(kernel, equations=(moved, second))
    other = tuple(replace(t, order=(1, 0)) if t.name == "X" else t for t in kernel.tensors)
    yield "has more than", replace(kernel, tensors=other)
    column = replace(kernel.origin.tensor("X"), order=(1, 0, 2, 3))
    tensors = tuple(column if t.name == "X" else t for t in kernel.origin.tensors)
    yield "has more than", replace(kernel, origin=replace(kernel.origin, tensors=tensors))
    other_loop = replace(first.loops[0], extent=var("B"))
    yield "has more than", replace(kernel, equations=(replace(first, loops=(other_loop, *first.loops[1:])), second))


@pytest.mark.parametrize(
    ("words", "kernel"), [pytest.param(*each, id=str(n)) for n, each in enumerate(wrong_kernels())]
)
def test_another_kernel_is_not_taken_for_it(words, kernel):
    with pytest.raises(Refused) as error:
        check_derived(kernel)
    assert words in error.value.violation.sentence


def test_extents_are_factors_that_are_no_sizes():
    text = """
kernel added(X: f32[B, (T - 1)/2 + 1, K], s: f32[T]) -> Y: f32[B, (T - 1)/2 + 1, K]:
    Y[b, t, k] = X[b, t, k] + 1.0

schedule rows for added:
    flatten(b, t) -> m
"""
    tree = load(text).schedule("rows").tree
    assert "for m < B*((T + 1)/2)" in str(tree)
    assert "m < B * ((T + 1) / 2)" in emit(lower(tree))
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
    X = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    arrays = {"X": X, "s": np.zeros(5, np.float32)}
    np.testing.assert_array_equal(run(tree, {"B": 2, "T": 5, "K": 3}, arrays)["Y"], X + 1)


def test_sizes_in_a_witness_fit_factors_that_are_no_sizes():
    text = """
kernel sums(X: f32[B, (T - 1)/2 + 1, K], s: f32[T]) -> y: f32[B, (T - 1)/2 + 1] where T % 4 == 0:
    y[b, t] = sum[k](X[b, t, k])

schedule wrong for sums:
    flatten(b, t) -> m
    tile(k, 2) -> ko, ki
    bind(ki, thread.x)
"""
    with pytest.raises(IllegalStep) as error:
        load(text).schedule("wrong")
    assert "(T=4, K=2, B*((T + 1)/2)=2)" in error.value.witness
