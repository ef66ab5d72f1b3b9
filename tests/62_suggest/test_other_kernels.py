"""Suggestions for kernels that are none of examples/operators: read, proved, right."""

from functools import cache

import pytest

from tests.support.cover import first
from tilegen import api
from tilegen.backends.devices.devices import engine, program
from tilegen.lab.checks.check import cases, check
from tilegen.lab.checks.sizes import GPU_LIMITS, INTERPRETER_LIMITS, power_sizes, sizes_to_check
from tilegen.lab.predict.machine import stock_machine
from tilegen.suggest import suggest

KERNELS = {
    # A tensor that both factors are of, and one that two products read, under other letters.
    "twice": """kernel twice(A: f32[M, K], V: f32[N, K]) -> C: f32[M, M], D: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * A[j, k])
    D[a, b] = sum[c](A[a, c] * V[b, c])
""",
    "distances": """kernel distances(A: f16[B, M, K]) -> C: f32[B, M, M]:
    C[b, i, j] = sum[k](f32(A[b, i, k]) * f32(A[b, j, k]))
""",
    # A sum over two axes of one length: the one along memory is cut.
    "gram": """kernel gram(X: f32[B, C, H, W]) -> G: f32[B, C, C]:
    G[b, c, d] = sum[y, x](X[b, c, y, x] * X[b, d, y, x])
""",
    # Two operands of which no products are summed.
    "pairs": """kernel pairs(X: f32[M, D], C: f32[K, D]) -> Y: i64[M], q: f32[M, K]:
    q[i, k] = sum[j]((X[i, j] - C[k, j])**2)
    Y[i] = argmin[k](q[i, k])
""",
    "longest": """kernel longest(A: f16[M, K], B: f16[K, N]) -> C: f32[M, N]:
    C[i, j] = max[k](f32(A[i, k]) + f32(B[k, j]))
""",
    # What all terms of a result have in common is no operand.
    "weighted": """kernel weighted(P: f32[M, N], m: f32[M], V: f32[N, D]) -> O: f32[M, D]:
    O[i, d] = sum[j <= i](exp(P[i, j] - m[i]) * V[j, d])
""",
    # Rows that are sorted by group, with what follows the products.
    "experts": """kernel experts(X: bf16[N, K], W: bf16[E, F, K], b: f32[E, F], begin: i32[E + 1]) -> Y: bf16[N, F]
where rising(begin, N):
    var P: f32[E, N, F]
    P[e, t, f] = sum[k](f32(X[t, k]) * f32(W[e, f, k]))
    Y[t, f] = bf16(max(P[e, t, f] + b[e, f], 0)) for t in begin[e]..begin[e + 1]
""",
    # Two convolutions of one image, whose filters are parts of one tensor.
    "gated": """kernel gated(X: f32[C, L], K: f32[2, F, C, 3]) -> Y: f32[F, L - 2]:
    Y[f, x] = sum[c, r](X[c, x + r] * K[0, f, c, r]) * sum[c, r](X[c, x + r] * K[1, f, c, r])
""",
    # Neighbours in memory are of different rows.
    "along": """kernel along(X: f32[B, T, D]) -> Y: f32[B, T, D]:
    Y[b, t, d] = sum[u <= t](X[b, u, d])
""",
    # Tiles of the loops i and l are called by a letter before these or after them: li is one of either.
    "letters": """kernel letters(A: f32[I, L], W: f32[L, K]) -> C: f32[I, K]:
    C[i, k] = sum[l](A[i, l] * W[l, k])
""",
    "histogram": """kernel counts(x: i32[N]) -> h: i32[64]:
    h[b] = sum[i](1 if x[i] == b else 0)
""",
    "table": """kernel table(ids: i32[L], G: f32[L, D]) -> dW: f32[V, D]:
    dW[v, d] = sum[l](G[l, d] if ids[l] == v else 0)
""",
    "hits": """kernel hits(X: f32[H, W], least: f32) -> at: i32[P, 2], n: i32[1]:
    at[n[o]] = unordered_list[y, x]((y, x) if X[y, x] > least)
""",
    "in_order": """kernel in_order(X: f32[N]) -> at: i32[P], n: i32[1]:
    at[n[o]] = list[i](i if X[i] > 0)
""",
}

# Of these the operators and fused operators of every run have the like: matmul, upper and conv1d_glu.
LIKE_OTHERS = ("twice", "weighted", "gated", "letters")


@cache
def suggestion(name):
    kernel = api.from_text(KERNELS[name]).kernel().ir
    return suggest(kernel, power_sizes(kernel, {}, GPU_LIMITS), stock_machine("h100"))


@pytest.mark.long
def test_suggestions_are_read(golden):
    golden("\n".join(map(suggestion, KERNELS)), "suggest/others.tg")


@pytest.mark.pocl
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in LIKE_OTHERS else ()) for n in KERNELS])
def test_suggestions_compute_the_kernel(name):
    scheduled = api.from_text(KERNELS[name] + suggestion(name), cache=False).kernel().schedule("suggested")
    assert scheduled.prove().verdict == "proved"
    tried = cases(scheduled.kernel, sizes_to_check([scheduled.tree], {}, INTERPRETER_LIMITS))
    check(program(scheduled.tree, engine("cpu")), tried)


def test_blocks_share_the_terms_of_long_sums_over_an_axis_apart_from_memory():
    kernel = api.from_text("kernel k(X: f32[B, M, N]) -> Y: f32[B, N]:\n    Y[b, j] = sum[i](X[b, i, j])\n").kernel().ir
    texts = [suggest(kernel, {"B": 128, "M": rows, "N": 4095}, stock_machine("h100")) for rows in (4096, 256)]
    assert "TY of them share the terms of a result" in texts[0]
    assert "TY" not in texts[1]


def test_products_by_groups_are_computed_for_the_rows_of_each_group():
    kernel = api.from_text(KERNELS["experts"]).kernel().ir
    text = suggest(kernel, {"N": 16384, "K": 2048, "E": 64, "F": 4096}, stock_machine("h100"))
    assert "anchor(Y) -> s" in text
    assert "deal(e, s, bt, bf, group=4)" in text
    assert "by=wgmma_m64n{TN}k16_bf16" in text


def test_rows_whose_ends_data_tell_stay_whole():
    for name in api.load("sparse").kernels:
        kernel = api.load("sparse").kernel(name).ir
        assert "PART" not in suggest(kernel, power_sizes(kernel, {}, GPU_LIMITS), stock_machine("h100"))


def test_rows_whose_ends_data_tell_are_dealt_out_by_their_mean_length():
    kernel = api.load("sparse").kernel("segment_sums").ir
    ways = {10**6: "4 lanes take a row", 10**5: "A warp takes a row", 10**4: "A block of WARPS warps takes a row"}
    for rows, way in ways.items():
        assert f"# {way}: " in suggest(kernel, {"N": 5 * 10**7, "M": rows}, stock_machine("h100"))


def test_products_of_few_results_have_a_part_of_the_terms_for_each_multiprocessor():
    kernel = "kernel k(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    text = suggest(api.from_text(kernel).kernel().ir, {"M": 256, "N": 256, "K": 524288}, stock_machine("h100"))
    assert "PART=8192 in" in text  # 64 parts, each of two tiles
    assert "TM=128 in {64, 128, 256}, TN=256" in text


@pytest.mark.long
@pytest.mark.pocl
@pytest.mark.parametrize("operands", first(["A[i, k] * B[k, j]", "A[k, i] * B[j, k]"]))
def test_matrices_with_rows_that_vectors_do_not_divide_are_copied_first(operands):
    shapes = "A: f32[M, K], B: f32[K, N]" if "A[i" in operands else "A: f32[K, M], B: f32[N, K]"
    text = f"kernel k({shapes}, b: f32[N]) -> C: f32[M, N]:\n    C[i, j] = max(sum[k]({operands}) + b[j], 0)\n"
    kernel = api.from_text(text).kernel().ir
    found, even = (suggest(kernel, {"M": n, "N": n, "K": n}, stock_machine("h100")) for n in (1029, 1028))
    assert "copies are whole tiles" in found
    assert "copies are" not in even
    scheduled = api.from_text(text + found, cache=False).kernel().schedule("suggested")
    assert scheduled.prove().verdict == "proved"
    tried = cases(scheduled.kernel, sizes_to_check([scheduled.tree], {}, INTERPRETER_LIMITS))
    check(program(scheduled.tree, engine("cpu")), tried)
