"""Kernels from their text: ranges, conditions, names of loops, types, sizes."""

from __future__ import annotations

import pytest

from tilegen.errors import Source, UsageError
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Cast, Condition, Const, Expr, Index, Kernel, Load, Op
from tilegen.ir.walk import loads, walk


def kernel(text: str, **values: int) -> Kernel:
    (decl,) = parse(Source("test.tg", text)).kernels.values()
    return build(decl, values)


def one(head: str, equation: str, **values: int) -> Kernel:
    return kernel(f"kernel f({head}:\n    {equation}\n", **values)


def last_argument(k: Kernel) -> Expr:
    value = k.equations[0].value
    assert isinstance(value, Op)
    return value.args[-1]


def ranges(k: Kernel) -> dict[str, str]:
    return {r.name: str(r.extent) for e in k.equations for r in (*e.loops, *e.reduced)}


def test_gemm() -> None:
    k = one("A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]", "C[i, j] = sum[k](A[i, k] * B[k, j])")
    assert k.sizes == ("M", "K", "N")
    assert [t.role for t in k.tensors] == ["input", "input", "output"]
    (e,) = k.equations
    assert [r.name for r in e.loops] == ["i", "j"]
    assert [r.name for r in e.reduced] == ["k"]
    a, b = Load("A", (var("i"), var("k")), "f32"), Load("B", (var("k"), var("j")), "f32")
    assert e.value == Op("*", (a, b), "f32")


@pytest.mark.parametrize(
    ("item", "extent", "conditions"),
    [
        ("k", "K", []),
        ("k < 3", "3", []),
        ("k <= 3", "4", []),
        ("k in 0..K - 1", "K - 1", []),
        ("k in 2..K", "K", ["k - 2 >= 0"]),
        ("0 <= k < K", "K", []),
        ("k <= i", "K", ["i - k >= 0"]),
        ("k in i..K", "K", ["-i + k >= 0"]),
        ("k >= 1 and k < K", "K", ["k - 1 >= 0"]),
    ],
)
def test_ranges_of_a_reduction(item: str, extent: str, conditions: list[str]) -> None:
    k = one("A: f32[M, K]) -> s: f32[M]", f"s[i] = sum[{item}](A[i, k])")
    assert ranges(k) == {"i": "M", "k": extent}
    assert [str(c) for c in k.equations[0].conditions] == conditions


@pytest.mark.parametrize(
    ("item", "read", "extent", "place", "conditions"),
    [
        ("r in -1..2", "x[i + r] else 0", "3", "i + r - 1", []),
        ("r in -R..R + 1", "x[i + r] else 0", "5", "i + r - 2", []),
        ("r in -M..M", "x[i + r] else 0", "M*2", "-M + i + r", []),
        ("-1 <= r < 2", "x[i + r] else 0", "3", "i + r - 1", []),
        ("-1 <= r and r < 2", "x[r] else 0", "3", "r - 1", []),
        ("r in i - 2..i", "x[r] else 0", "2", "i + r - 2", []),
        ("i - 2 <= r < i", "x[r] else 0", "2", "i + r - 2", []),
        ("r in i - 2..N", "x[r] else 0", "N + 2", "i + r - 2", ["N - i - r + 1 >= 0"]),
        # What stands alone in the index of a read without a fallback runs over that dimension, and no further.
        ("i - 2 <= r < i", "x[r]", "N", "r", ["-i + r + 2 >= 0", "i - r - 1 >= 0"]),
        ("r in i..i + 3", "x[r] else 0", "N + 2", "r", ["-i + r >= 0", "i - r + 2 >= 0"]),
    ],
)
def test_ranges_with_any_lower_end(item: str, read: str, extent: str, place: str, conditions: list[str]) -> None:
    k = one("x: f32[N], m: f32[M], R: int = 2) -> y: f32[N]", f"y[i] = sum[{item}]({read})")
    assert ranges(k) == {"i": "N", "r": extent}
    (load,) = loads(k.equations[0])
    assert str(load.index[0]) == place
    assert [str(c) for c in k.equations[0].conditions] == conditions


def test_a_range_that_begins_before_0_on_the_left_side() -> None:
    k = one("x: f32[N]) -> y: f32[N + 4]", "y[i + 2] = x[i] else 0 for -2 <= i < N + 2")
    assert ranges(k) == {"i": "N + 4"}
    assert str(k.equations[0].index[0]) == "i"
    assert str(k.equations[0].loops[0].low) == "-2"


def test_the_index_of_the_best_value_counts_as_the_text_does() -> None:
    k = one("x: f32[N]) -> y: i32[N]", "y[i] = argmax[r in -1..2](x[i + r] else 0)")
    assert k.equations[0].arg == Index(var("r") - 1)


def test_a_range_from_a_condition_on_another_index() -> None:
    k = one("A: f32[2*N]) -> s: f32[N]", "s[i] = sum[k <= i](A[i + k])")
    assert ranges(k) == {"i": "N", "k": "N"}
    assert k.equations[0].conditions == (Condition(var("i") - var("k")),)


def test_conditions_of_an_equation() -> None:
    k = one("A: f32[M, M]) -> B: f32[M, M]", "B[i, j] = A[j, i] for j <= i and i % 2 == 0")
    assert k.equations[0].conditions == (Condition(var("i") - var("j")), Condition(var("i") % 2, equal=True))


def test_conditions_are_joined_by_commas_as_facts_are() -> None:
    one_way, other = (
        one("A: f32[M, M]) -> B: f32[M, M]", f"B[i, j] = A[j, i] for {condition}").equations[0]
        for condition in ("j <= i and i % 2 == 0 and 1 <= j < 3", "j <= i,\n        i % 2 == 0, 1 <= j < 3")
    )
    assert one_way == other


def test_attributes_that_may_be_fractions_are_numbers_of_their_place() -> None:
    text = "x: f32[N], h: f16[N], eps: float = 1e-5, slope: float = -2) -> y: f32[N], z: f16[N]"
    body = "y[i] = x[i] + eps\n    z[i] = h[i] * slope + h[i]**eps"
    first, second = one(text, body).equations
    assert first.value == Op("+", (Load("x", (var("y.i"),), "f32"), Const(1e-5, "f32")), "f32")
    assert {c for c in walk(second.value) if isinstance(c, Const)} == {Const(-2.0, "f16"), Const(1e-5, "f16")}
    assert one(text, body, eps=0.5).equations[0].value.args[1] == Const(0.5, "f32")


def test_an_index_word_of_two_equations_is_qualified() -> None:
    text = "kernel f(A: f32[M, N]) -> B: f32[M]:\n    var t: f32[M]\n"
    k = kernel(text + "    t[i] = sum[k](A[i, k])\n    B[i] = t[i]\n")
    assert list(ranges(k)) == ["t.i", "k", "B.i"]
    assert [r.index for r in k.equations[0].loops] == ["i"]


def test_fixed_sizes_and_attributes_become_constants() -> None:
    head = "X: f32[H + 2], stride: int = 1) -> Y: f32[(H + 1)/stride]"
    equation = "Y[i] = X[i*stride] * f32(H) + f32(stride)"
    k = one(head, equation, H=7, stride=2)
    assert k.sizes == ()
    assert [t.shape for t in k.tensors] == [(const(9),), (const(4),)]
    assert next(loads(k.equations[0].value)).index == (var("i") * 2,)
    assert one(head, equation).sizes == ("H",)


def test_where() -> None:
    k = one("A: f32[M, K]) -> s: f32[M] where K % 8 == 0, M >= K", "s[i] = sum[k](A[i, k])")
    assert k.assumptions == (Condition(var("K") % 8, equal=True), Condition(var("M") - var("K")))
    assert one("A: f32[M, K]) -> s: f32[M] where K % 8 == 0", "s[i] = sum[k](A[i, k])", K=16).assumptions == ()


def test_storage_orders() -> None:
    head = "A: f32[M, K] col_major, B: f32[L, M, K] order(2, 0, 1)) -> C: f32[M, K] row_major"
    k = one(head, "C[i, j] = A[i, j] + B[0, i, j]")
    assert [t.order for t in k.tensors] == [(1, 0), (2, 0, 1), (0, 1)]


def test_literals_take_the_type_of_what_they_meet() -> None:
    k = one("A: f16[N]) -> B: f16[N]", "B[i] = A[i] * 2 + 1/2")
    assert last_argument(k) == Const(0.5, "f16")
    k = one("a: i8[N]) -> b: i8[N]", "b[i] = a[i] * 2")
    assert last_argument(k) == Const(2, "i8")


def test_index_arithmetic_stays_affine() -> None:
    k = one("A: f32[N]) -> B: f32[N]", "B[i] = A[i] * f32(2*i + N - 1)")
    assert last_argument(k) == Cast(Index(var("i") * 2 + var("N") - 1, "i64"), "f32")


def test_small_powers_are_products() -> None:
    k = one("A: f32[N]) -> B: f32[N]", "B[i] = A[i]**3")
    x = Load("A", (var("i"),), "f32")
    assert k.equations[0].value == Op("*", (Op("*", (x, x), "f32"), x), "f32")


def test_a_function_has_the_types_of_its_arguments() -> None:
    text = "def twice(x) = x + x\nkernel f(A: f32[N], b: i32[N]) -> C: f32[N], d: i32[N]:\n"
    k = kernel(text + "    C[i] = twice(A[i])\n    d[i] = twice(b[i])\n")
    assert [e.value.dtype for e in k.equations] == ["f32", "i32"]


def test_argmax_has_a_companion() -> None:
    k = one("A: f32[M, N]) -> at: i32[M]", "at[i] = argmax[k](A[i, k])")
    assert k.equations[0].best == "at.best"
    assert k.tensor("at.best").dtype == "f32"
    assert k.tensor("at.best").role == "intermediate"


def test_a_read_may_have_more_elements_than_the_target() -> None:
    k = one("A: f32[N + 2]) -> B: f32[N]", "B[i] = A[i] + A[i + 2]")
    assert ranges(k) == {"i": "N"}


@pytest.mark.parametrize("values", [{"Q": 3}, {"N": 0}])
def test_bad_sizes(values: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        one("A: f32[N]) -> B: f32[N]", "B[i] = A[i]", **values)
