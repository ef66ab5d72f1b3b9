"""What a launch has to move at least is what its equations read and write: never more, and nearly all of it."""

import pytest

import tilegen
from tilegen.backends.calls.text_versions import TextVersions
from tilegen.backends.system.record import Record
from tilegen.lab.counts.footprint import moved_at_least
from tilegen.lab.predict.explain import explain_tree
from tilegen.lab.predict.machine import H200

# kernel -> the elements that it touches of its tensors at N = 64
TOUCHED = {
    "f(X: f32[N, N], v: f32[N]) -> y: f32[N]:\n    y[i] = v[i] + X[i, 0]": 3 * 64,
    "f(X: f32[N, N]) -> y: f32[N]:\n    y[i] = sum[k <= i](X[i, k])": 64 * 65 // 2 + 64,
    "f(X: f32[N, N]) -> y: f32[N, N]:\n    y[i, j] = X[i, j] for j <= i": 64 * 65,
    "f(X: f32[N, N]) -> y: f32[N]:\n    y[i] = X[i, i]": 128,
    "f(X: f32[2*N]) -> y: f32[N]:\n    y[i] = X[2*i + 1]": 128,
    "f(X: f32[N]) -> y: f32[N]:\n    y[i] = X[N - 1 - i] + (X[i - 3] else 0)": 128,
    "f(X: f32[N]) -> y: f32[N]:\n    y[i] = X[i - 60] else 0": 68,
    "f(X: f32[N, N], d: i32[N]) -> y: f32[N]:\n    y[i] = X[i, d[i]] else 0": 3 * 64,
    "f(X: f32[N, N]) -> y: f32[N, N]:\n    y[i, j] = X[j, i]": 2 * 64 * 64,
    "f(X: f32[N + 2]) -> y: f32[N]:\n    y[i] = sum[r < 3](X[i + r])": 130,
}


def launches(text, sizes):
    tree = tilegen.load(f"kernel {text}\n").kernel().schedule().tree
    versions = TextVersions(tree, "cuda", Record())
    return versions.launches(versions.choose(sizes, {}))


@pytest.mark.parametrize("text", TOUCHED)
def test_what_is_touched_is_counted_and_no_more(text) -> None:
    (launch,) = launches(text, {"N": 64})
    assert 0.9 * TOUCHED[text] - 64 <= moved_at_least(launch, {"N": 64}) / 4 <= TOUCHED[text]


NORM = """norm(X: f32[N, P]) -> Y: f32[N, P]:
    var s: f32[N]
    var m: f32[N]
    s[n] = sum[p](X[n, p] - X[n, 0])
    m[n] = X[n, 0] + s[n] / f32(P)
    Y[n, p] = X[n, p] - m[n]"""


def test_a_launch_that_reads_a_column_and_a_vector_is_not_charged_a_matrix() -> None:
    """Three rows are moved in a norm: one for the sum, two for the result."""
    sizes = {"N": 64, "P": 1024}
    moved = [moved_at_least(launch, sizes) / 4 / 64 for launch in launches(NORM, sizes)]
    assert moved == pytest.approx([1024 + 1, 3, 2 * 1024 + 1])
    reports = explain_tree(tilegen.load(f"kernel {NORM}\n").kernel().schedule().tree, sizes, compiled=False)
    bound = sum(report.prediction.bounds["global memory"] for report in reports)
    assert bound == pytest.approx(4 * 64 * sum(moved) / H200.copy / 1e9)
