"""Kernels whose equations are well defined, for all sizes; what is refused is in tests/errors/frontend."""

from __future__ import annotations

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.nodes import Kernel
from tilegen.ir.printing.show import show
from tilegen.ir.written import tree_of
from tilegen.judge import check_equations


def kernel(head: str, *equations: str) -> Kernel:
    text = f"kernel f({head}:\n" + "".join(f"    {line}\n" for line in equations)
    return build(parse(Source("test.tg", text)).kernels["f"])


@pytest.mark.parametrize(
    ("head", "equations"),
    [
        # Each element once, though no index is a loop by itself.
        ("x: f32[N, 2]) -> y: f32[2*N]", ["y[2*i + j] = x[i, j]"]),
        ("x: f32[N]) -> y: f32[N]", ["y[N - 1 - i] = x[i]"]),
        ("x: f32[N]) -> y: f32[N, 4]", ["y[i/4, i % 4] = x[i] for i < N"]),
        ("x: f32[N, N]) -> y: f32[2*N, N]", ["y[i + j, j] = x[i, j]"]),
        # What is read has been defined.
        ("x: f32[N]) -> y: f32[N]", ["var t: f32[N]", "t[i] = x[i] for i < 200", "y[i] = t[i] for i < 100"]),
        ("x: f32[N]) -> y: f32[N]", ["var t: f32[2*N]", "t[2*i] = x[i]", "y[i] = t[2*i]"]),
        ("x: f32[N]) -> y: f32[N]", ["var t: f32[N, N]", "t[i, j] = x[i] for j <= i", "y[i] = sum[k <= i](t[i, k])"]),
        # Outside, a fallback stands for what has no value.
        ("x: f32[N]) -> y: f32[N]", ["var t: f32[N]", "t[i] = x[i]", "y[i] = t[i + 3] else 0"]),
        # A fact on the sizes keeps a read inside.
        ("x: f32[N], z: f32[M]) -> y: f32[N] where M >= N + 2", ["y[i] = z[i + 2]"]),
    ],
)
def test_well_defined_kernels_stay_as_they_are(head: str, equations: list[str]) -> None:
    written = kernel(head, *equations)
    assert check_equations(written) == written


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x[i - 1] if i > 0 else x[0]", "select(i > 0, (x[i - 1] else 0), x[0])"),
        ("x[0] if i == 0 else x[i - 1]", "select(i == 0, x[0], (x[i - 1] else 0))"),
        ("x[i - 1] if not (i < 1) else 0", "select(not i < 1, (x[i - 1] else 0), 0.0)"),
        ("x[0] if i < 1 or x[i - 1] > 0 else 1", "select(i < 1 or (x[i - 1] else 0) > 0.0, x[0], 1.0)"),
        ("x[i - 1] if i > 0 and x[i - 1] > 0 else 1", "(x[i - 1] else 0) > 0.0, (x[i - 1] else 0), 1.0)"),
        ("x[i + 1] if i != N - 1 else 2", "select(i != N - 1, (x[i + 1] else 0), 2.0)"),
        # One that is inside anyway needs no help.
        ("x[i] if i > 3 else 0", "select(i > 3, x[i], 0.0)"),
    ],
)
def test_a_choice_guards_its_reads(value: str, expected: str) -> None:
    written = kernel("x: f32[N]) -> y: f32[N]", f"y[i] = {value}")
    assert expected in show(tree_of(check_equations(written)))
