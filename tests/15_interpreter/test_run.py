"""The interpreter: any tree runs, and nothing that has no value or does not exist is ever read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilegen.errors import ArgumentError, Source
from tilegen.frontend import build, parse
from tilegen.interpreter import InterpreterError, bf16_to_float32, float_to_bf16, run
from tilegen.interpreter.scalar import converter
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Buffer, Condition, Kernel, Load, Loop, Stmt, Tree
from tilegen.ir.written import tree_of


def kernel(text: str) -> Kernel:
    (decl,) = parse(Source("test.tg", text)).kernels.values()
    return build(decl)


COPY = kernel("kernel copy(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n")
STAGED = Buffer("A.shared", "f32", (const(4),), "shared", (0,), copy_of="A", scope="io")


def staged_tree(load_guard: tuple[Condition, ...] = (), outside: bool = False) -> Tree:
    """A copy in tiles of 4 through a shared buffer, right unless an argument spoils it."""
    io, ii = var("io"), var("ii")
    i = io * 4 + ii
    inside = (Condition(var("N") - 1 - i),)
    load = Stmt("A.shared", Access("A.shared", (ii,)), Load("A", (i,), "f32"), guard=(*inside, *load_guard))
    value = Load("A.shared", (ii + 1 if outside else ii,), "f32")
    store = Stmt("B", Access("B", (i,)), value, instance=(i,), guard=inside)
    body = (Loop("A.shared.i", const(4), (replace_loop(load),), "cooperative"), Loop("ii", const(4), (store,)))
    tree = tree_of(COPY)
    return Tree(COPY, (*tree.buffers, STAGED), (Loop("io", var("N").ceildiv(4), body, "block.x"),))


def replace_loop(stmt: Stmt) -> Stmt:
    """The copy runs over a loop of its own name."""
    names = {"ii": var("A.shared.i")}
    assert isinstance(stmt.value, Load)
    return replace(
        stmt,
        target=Access("A.shared", tuple(x.substitute(names) for x in stmt.target.index)),
        value=replace(stmt.value, index=tuple(x.substitute(names) for x in stmt.value.index)),
        guard=tuple(Condition(c.value.substitute(names), c.equal) for c in stmt.guard),
    )


A = np.arange(10, dtype=np.float32)


def test_a_staged_copy_runs() -> None:
    assert (run(staged_tree(), {"N": 10}, {"A": A})["B"] == A).all()


def test_a_shared_buffer_forgets_between_iterations_of_its_scope() -> None:
    only_first = (Condition(-var("io")),)
    with pytest.raises(InterpreterError) as caught:
        run(staged_tree(only_first), {"N": 10}, {"A": A})
    error = caught.value
    assert (error.buffer, error.element, error.statement) == ("A.shared", (0,), "B")
    assert error.message == "the statement 'B' reads A.shared[0], which has no value"
    assert error.witness == "io = 1, ii = 0"


def test_an_access_outside_a_buffer() -> None:
    with pytest.raises(InterpreterError, match=r"outside its shape \[4\]") as caught:
        run(staged_tree(outside=True), {"N": 12}, {"A": np.zeros(12, np.float32)})
    assert caught.value.element == (4,)


def test_what_is_not_written_is_poison() -> None:
    head = "kernel f(A: f32[N], b: i32[N]) -> C: f32[N], d: i32[N]:\n"
    k = kernel(head + "    C[i] = A[i] for i < 2\n    d[i] = b[i] for i < 2\n")
    result = run(tree_of(k), {"N": 4}, {"A": A[:4], "b": np.ones(4, np.int32)})
    assert np.isnan(result["C"][2:]).all()
    assert (result["d"] == [1, 1, -(2**31), -(2**31)]).all()


def test_nests_deeper_than_python_allows() -> None:
    tree = tree_of(COPY)
    (loop,) = tree.body
    for n in range(40):
        loop = Loop(f"one{n}", const(1), (loop,))
    assert (run(replace(tree, body=(loop,)), {"N": 10}, {"A": A})["B"] == A).all()


def test_the_first_of_equals_wins() -> None:
    k = kernel("kernel f(A: f32[M, N]) -> at: i32[M]:\n    at[i] = argmax[k](A[i, k])\n")
    values = np.array([[1, 3, 3, 2], [-5, -5, -7, -6]], np.float32)
    assert (run(tree_of(k), {"M": 2, "N": 4}, {"A": values})["at"] == [1, 0]).all()


def test_integers_wrap_and_floor() -> None:
    text = "kernel f(a: i8[N]) -> b: i8[N], c: i8[N], d: i8[N]:\n"
    k = kernel(text + "    b[i] = a[i] * 3\n    c[i] = a[i] // 4\n    d[i] = a[i] % 4\n")
    a = np.array([100, -100, -7, 7], np.int8)
    result = run(tree_of(k), {"N": 4}, {"a": a})
    assert (result["b"] == [44, -44, -21, 21]).all()
    assert (result["c"] == [25, -25, -2, 1]).all()
    assert (result["d"] == [0, 0, 1, 3]).all()


def test_functions_outside_their_domain_give_no_exception() -> None:
    text = "kernel f(A: f32[N]) -> B: f32[N], C: f32[N], D: f32[N], E: f32[N]:\n"
    k = kernel(text + "    B[i] = log(A[i])\n    C[i] = sqrt(A[i])\n    D[i] = 1/A[i]\n    E[i] = exp(A[i] * 1000)\n")
    values = np.array([-1, 0, np.inf, np.nan, 4], np.float32)
    result = run(tree_of(k), {"N": 5}, {"A": values})
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result["B"], np.log(values))
        np.testing.assert_array_equal(result["C"], np.sqrt(values))
        np.testing.assert_array_equal(result["D"], 1 / values)
        np.testing.assert_array_equal(result["E"], np.exp(values * 1000))


@pytest.mark.parametrize(
    ("arrays", "sizes"),
    [
        ({}, {"N": 10}),
        ({"A": A}, {}),
        ({"A": A}, {"N": 9}),
        ({"A": A.astype(np.float64)}, {"N": 10}),
        ({"A": A}, {"N": 0}),
    ],
)
def test_arguments_that_do_not_fit(arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
    with pytest.raises(ArgumentError):
        run(tree_of(COPY), sizes, arrays)


def test_bf16_rounds_to_nearest_even() -> None:
    one, step = 1.0, 2.0**-7
    values = np.array([one, one + step / 2, one + step * 1.5, one + step / 2 + 1e-6, 3e38, 1e39, -0.0, 1e-40, np.nan])
    expected = [one, one, one + 2 * step, one + step]
    assert (bf16_to_float32(float_to_bf16(values))[:4] == expected).all()
    bits = float_to_bf16(values)
    scalar = np.array([converter("bf16")(float(v)) for v in values])
    np.testing.assert_array_equal(bf16_to_float32(bits), scalar.astype(np.float32))


def test_f16_rounds_as_numpy_does() -> None:
    values = np.concatenate([np.random.default_rng(1).standard_normal(500) * 1e-6, [65504.0, 65520.0, 1e-8, 0.1]])
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert [converter("f16")(float(v)) for v in values] == [float(v) for v in expected]
