"""What lies beyond the borders is not moved, and no launch is faster than its roofline says."""

import pytest

import tilegen
from tilegen.lab.counts.sites import program_of
from tilegen.lab.counts.traffic import traffic
from tilegen.lab.predict.explain import explain_tree
from tilegen.lab.predict.machine import H200
from tilegen.lowering import lower

ROWS = """\
kernel copied(X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j] = X[i, j]

schedule tiles for copied():
    tile(i, 8) -> bi, ti
    tile(j, 32) -> bj, tj
    order(bi, bj, ti, tj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
"""
WINDOWS = """\
kernel sums(X: f32[N]) -> Y: f32[N]:
    Y[i] = sum[r](X[i + r - 1] else 0) for r < 3

schedule tiles for sums():
    tile(i, 8) -> bi, ti
    bind(bi, block.x)
    bind(ti, thread.x)
    unroll(r)
"""


def bytes_of(tensor, text, sizes):
    (launch,) = lower(tilegen.load(text).schedule("tiles").tree)
    return sum(each.distinct for each in traffic(program_of(launch), sizes) if each.site.buffer == tensor)


@pytest.mark.parametrize("sizes", [{"M": 64, "N": 64}, {"M": 9, "N": 33}, {"M": 1, "N": 2049}, {"M": 8191, "N": 65537}])
@pytest.mark.parametrize("tensor", ["X", "Y"])
def test_tiles_that_borders_cut_move_what_is_inside(tensor, sizes):
    assert bytes_of(tensor, ROWS, sizes) == pytest.approx(4 * sizes["M"] * sizes["N"], rel=1e-3)


@pytest.mark.parametrize("count", [8, 16, 1024, 2**21])
def test_windows_are_cut_at_both_ends_of_the_tensor(count):
    """A block asks for ten elements by three terms of eight sums; at each end one term of one sum is beyond."""
    terms = 3 * count
    assert bytes_of("X", WINDOWS, {"N": count}) == pytest.approx(4 * 10 * count / 8 * (terms - 2) / terms, rel=1e-5)


LATER = """\
kernel sums(X: f32[N], h: f32[K]) -> Y: f32[N]:
    Y[i] = sum[k](max(X[i + k] else 0, h[k]))

schedule tiles for sums():
    tile(i, 256) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(Y, at=t)

schedule eight extends tiles:
    tile(k, 8) -> k, ku
    unroll(ku)
"""


@pytest.mark.parametrize(("schedule", "share"), [("tiles", 1), ("eight", 2 / 8)])
def test_a_test_of_a_border_is_counted_in_each_iteration_that_makes_it(schedule, share):
    """A read with a fallback is one; eight iterations without are after two, of the sum and of the read."""
    sizes = {"N": 2048, "K": 4096}
    (report,) = explain_tree(tilegen.load(LATER).schedule(schedule).tree, sizes, H200, compiled=False)
    assert report.work.tests == share * sizes["N"] * sizes["K"]


# Schedules on an H200 with microseconds of examples/results.md: those that come nearest to what it predicts.
MEASURED = [
    ("hgemm", "few_rows", {}, {}, {"M": 128, "N": 8192, "K": 8192}, 37.5),
    ("conv_pieces", "two_f16", {"C": 128, "H": 28, "W": 28, "F": 128}, {"TN": 8, "TY": 4, "TX": 4}, {"B": 32}, 46.5),
    ("hconv", "more_filters", {"C": 256, "H": 14, "W": 14, "F": 256}, {"TN": 8, "TY": 2}, {"B": 32}, 15.6),
    ("hconv", "more_filters", {"C": 512, "H": 7, "W": 7, "F": 512}, {"TN": 8, "TY": 1, "STAGES": 6}, {"B": 32}, 16.5),
]


@pytest.mark.parametrize(("file", "schedule", "fixed", "parameters", "sizes", "measured"), MEASURED)
def test_nothing_measured_was_faster_than_its_roofline(file, schedule, fixed, parameters, sizes, measured):
    tree = tilegen.load(file).schedule(schedule, fixed, **parameters).tree
    launches = explain_tree(tree, fixed | sizes, H200, compiled=False)
    predicted = 1e3 * sum(each.prediction.milliseconds for each in launches)
    assert 0.6 * measured < predicted <= measured
