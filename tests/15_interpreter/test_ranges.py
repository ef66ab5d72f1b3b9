"""Where indices run, against sums written out by hand: neither the reference nor the tree may cut a range short."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen import load
from tilegen.interpreter import reference, run
from tilegen.ir.written import tree_of

X = np.array([1, 2, 3, 4, 5], np.int32)


def at(i: int, outside: int = 0) -> int:
    return int(X[i]) if 0 <= i < len(X) else outside


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("y[i] = sum[r in -1..2](x[i + r] else 0)", [at(i - 1) + at(i) + at(i + 1) for i in range(5)]),
        ("y[i] = sum[r in -R..R + 1](x[i + r] else 0)", [sum(at(i + r) for r in range(-2, 3)) for i in range(5)]),
        ("y[i] = sum[j in i - 2..i](x[j] else 7)", [at(i - 2, 7) + at(i - 1, 7) for i in range(5)]),
        ("y[i] = sum[i - 2 <= j < i](x[j])", [at(i - 2) + at(i - 1) for i in range(5)]),
        ("y[i] = sum[r in -3..-1](r * (x[i + r] else 0))", [-3 * at(i - 3) - 2 * at(i - 2) for i in range(5)]),
        ("y[i] = argmax[r in -2..0](x[i + r] else 0)", [-2, -1, -1, -1, -1]),
        ("y[i] = argmin[j in i - 2..i + 1](x[j] else 9)", [0, 0, 0, 1, 2]),
        ("y[i + 1] = x[i] else 9 for -1 <= i < N - 1", [at(i - 1, 9) for i in range(5)]),
        ("y[i] = sum[a in i - 1..i + 1, b in a - 1..a](x[b] else 0)", [at(i - 2) + at(i - 1) for i in range(5)]),
        ("y[i] = sum[j in i - 2..N](x[j] else 1)", [sum(at(j, 1) for j in range(i - 2, 5)) for i in range(5)]),
    ],
)
def test_a_range_runs_from_its_lower_end(equation: str, expected: list[int]) -> None:
    check(equation, expected)


def check(equation: str, expected: list[int], s: int = 0) -> None:
    text = f"kernel f(x: i32[N], R: int = 2, s: int = 0) -> y: i32[N]:\n    {equation}\n"
    kernel = load(text).kernel(s=s).ir
    found = reference(kernel, {"N": 5}, {"x": X})["y"]
    assert found.value.tolist() == expected
    assert found.written.all()
    assert run(tree_of(kernel), {"N": 5}, {"x": X})["y"].tolist() == expected
    assert load(text).kernel(s=s).schedule().compile("cpu")(X).tolist() == expected


LEAST, MOST = -(2**31), 2**31 - 1


@pytest.mark.parametrize(
    ("equation", "s", "expected"),
    [
        ("y[i] = sum[k, (i + s*k) % 2 == 1](x[k])", 2, [0, 15, 0, 15, 0]),
        ("y[i] = sum[k, (i + s*k) % 2 == 1](x[k])", 3, [6, 9, 6, 9, 6]),
        ("y[i] = sum[k, s*k >= i](x[k])", 0, [15, 0, 0, 0, 0]),
        ("y[i] = sum[k](x[k]) for s*k >= i", 0, [15, 0, 0, 0, 0]),
        ("y[i] = prod[k, s*k >= 1](x[k])", 0, [1] * 5),
        ("y[i] = max[k, s*k >= i](x[k])", 0, [5, LEAST, LEAST, LEAST, LEAST]),
        ("y[i] = min[k < 3 and i >= 2](x[k + i - 2])", 0, [MOST, MOST, 1, 2, 3]),
        ("y[i] = argmax[k, s*k >= i](x[k])", 0, [4, 0, 0, 0, 0]),
        ("y[i] = argmin[k > i](x[k])", 0, [1, 2, 3, 4, 5]),
        ("y[i] = sum[k in 4..2](x[k + i])", 0, [0] * 5),
    ],
)
def test_brackets_leave_out_terms_and_never_elements(equation: str, s: int, expected: list[int]) -> None:
    check(equation, expected, s)
