"""Loops run over what their guards leave: emitted, simulated and proved."""

import pytest

from tests.support.simulator.threads import faults
from tilegen.backends.text import emit
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.frontend.stock import standard_steps
from tilegen.lab.counts.sites import program_of
from tilegen.lab.counts.traffic import traffic
from tilegen.lab.counts.trips import with_mean_trips
from tilegen.lowering import lower
from tilegen.proof import prove
from tilegen.schedule import apply

KERNELS = {
    "upper": "C[i, j] = sum[k in i..j+1](A[i, k] * B[k, j]) for j >= i",
    "lower": "C[i, j] = sum[k](A[i, k] * B[k, j]) for k <= i",
    "band": "C[i, j] = sum[k](A[i, k] * B[k, j]) for k <= i + 9, k + 9 >= i",
}
TILED = """
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    tile(k, 4) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko)
"""
AHEAD = TILED + "    pipeline(ko, 3)\n    peel(ko)\n"
LOOPS = {"upper": "bj * 2 - bi * 2 + 2", "lower": "bi * 2 + 2", "band": "8"}


def scheduled(kernel, steps):
    text = f"kernel k(A: f32[N, N], B: f32[N, N]) -> C: f32[N, N]:\n    {KERNELS[kernel]}\n\nschedule s for k():{steps}"
    module = parse(Source("narrow.tg", text))
    return apply(build(module.kernels["k"]), module.schedules[0], defines=standard_steps()).tree


@pytest.mark.parametrize("steps", [TILED, AHEAD], ids=["tiled", "ahead"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_only_the_terms_that_there_are_are_looked_for(kernel, steps):
    tree = scheduled(kernel, steps)
    for whole in (False, True):
        launches = lower(tree, whole=whole)
        assert prove(tree.kernel, launches).verdict == "proved"
        for n in (1, 8, 21):
            if all(c.holds({"N": n}) for launch in launches for c in launch.requires):
                assert faults(launches, tree, {"N": n}) is None
    if steps == TILED:
        assert f"for (int ko = 0; ko < {LOOPS[kernel]}; ++ko)" in emit(launches, "cuda")


def test_counts_are_of_what_runs():
    """Of N/4 tiles of k, a block has a third of those up to the diagonal, and one beyond it has none."""
    sizes = {"N": 512}
    (launch,) = lower(scheduled("upper", TILED), whole=True)
    moved = [t.bytes for t in traffic(program_of(with_mean_trips(launch, sizes)), sizes) if t.site.buffer == "A"]
    tiles = sum(max(0, 2 * bj - 2 * bi + 2) for bi in range(64) for bj in range(64))
    assert moved == [pytest.approx(tiles * 8 * 4 * 4, rel=0.02)]


def test_a_loop_of_several_nests_runs_equally_often_in_all():
    """The sums start at all elements, and have terms at some."""
    text = "kernel k(x: i32[M, N]) -> y: i32[M, N]:\n    y[i, j] = sum[k < j](x[i, k])\n\n"
    module = parse(Source("k.tg", f"{text}schedule s for k():\n    reassociate(y)\n    order(..., j)\n"))
    tree = apply(build(module.kernels["k"]), module.schedules[0]).tree
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"


# A narrowed loop that runs beyond its extent, `j` to the end of the tile of i; one before its begin; and one whose copy
# has a test of its own, for the last tile of j. Each is pipelined, has a pipelined loop inside, or neither.
WAITED_FOR = {
    "beyond": ("Y[i, j] = sum[c](X[j, c]) for j <= i", "order(bi, j, {co}ti, c)"),
    "before": ("Y[i, j] = sum[c](X[j, c]) for j <= i + 9, j + 9 >= i", "order(bi, j, {co}ti, c)"),
    "tested": ("Y[i, j] = sum[c](X[j, c])", "tile(j, 4) -> jo, j\n    order(bi, jo, j, {co}ti, c)"),
}


@pytest.mark.parametrize("pipelined", ["", "j", "co"])
@pytest.mark.parametrize("kernel", WAITED_FOR)
def test_what_all_threads_wait_for_starts_in_each_iteration(kernel, pipelined):
    """A bulk copy has no test but that of the pipeline: with another one in front of it the wait would have no end."""
    equation, order = WAITED_FOR[kernel]
    text = f"kernel k(X: i32[N, 64]) -> Y: i32[N, N]:\n    {equation}\n\nschedule s for k():\n"
    steps = ["tile(i, 8) -> bi, ti", "bind(bi, block.x)", "bind(ti, thread.x)"]
    steps += ["tile(c, 32) -> co, c"] * (pipelined == "co")
    steps += [order.format(co="co, " * (pipelined == "co")), f"cache_shared(X, at={pipelined or 'j'})"]
    steps += ["bulk(X.shared)"] + [f"pipeline({pipelined}, 2)"] * bool(pipelined)
    module = parse(Source("k.tg", text + "".join(f"    {step}\n" for step in steps)))
    tree = apply(build(module.kernels["k"]), module.schedules[0], defines=standard_steps()).tree
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    assert faults(launches, tree, {"N": 9}) is None


@pytest.mark.parametrize("stages", [1, 2])
def test_a_loop_that_numbers_bulk_copies_does_so_in_each_of_its_runs_alike(stages):
    """Of a loop with other iterations for each bj nobody would know the phase of what has arrived."""
    kernel = "kernel k(A: i32[N, N], B: i32[N, N], N: int = 128) -> C: i32[N, N]:\n"
    kernel += "    C[i, j] = sum[k <= i](A[i, k] * B[k, j])\n"
    steps = TILED.replace("    bind(bj, block.x)\n", "") + "    bulk(B.shared)\n"
    steps += f"    pipeline(ko, {stages})\n" if stages > 1 else ""
    module = parse(Source("k.tg", f"{kernel}\nschedule s for k():{steps}"))
    tree = apply(build(module.kernels["k"]), module.schedules[0], defines=standard_steps()).tree
    launches = lower(tree)
    assert "for (int ko = 0; ko < 32; ++ko)" in emit(launches, "cuda")
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
