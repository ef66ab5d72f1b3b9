"""Bank conflicts: the wavefronts of patterns that were counted on an H200, and what mends them."""

from dataclasses import replace

import pytest

from tests.support.stock import schedule_stock
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.lab.counts.addresses import patterns
from tilegen.lab.counts.banks import Remedy, conflict, lane_map, remedies, wavefronts
from tilegen.lab.counts.sites import program_of
from tilegen.lab.counts.widen import widen
from tilegen.lowering import lower
from tilegen.primitives import registry

LANES = range(32)
# (bytes of a lane, address of a lane, wavefronts of a load, of a store) as Nsight Compute counted them
COUNTED = [
    (4, lambda n: 0, 1, 1),
    (4, lambda n: n * 4, 1, 1),
    (4, lambda n: n * 8, 2, 2),
    (4, lambda n: n * 128, 32, 32),
    (8, lambda n: 0, 1, 2),
    (8, lambda n: n * 8, 2, 2),
    (8, lambda n: n // 2 * 8, 1, 2),
    (8, lambda n: n % 2 * 8, 1, 2),
    (8, lambda n: n % 4 * 8, 2, 2),
    (8, lambda n: n % 4 * 128, 8, 8),
    (8, lambda n: n * 128, 32, 32),
    (16, lambda n: 0, 2, 4),
    (16, lambda n: n * 16, 4, 4),
    (16, lambda n: n // 8 * 16, 2, 4),
    (16, lambda n: n % 8 * 16, 4, 4),
    (16, lambda n: n % 2 * 128, 4, 8),
    (16, lambda n: n % 8 * 128, 32, 32),
    (16, lambda n: n * 32, 8, 8),
    (16, lambda n: n * 144, 4, 4),
]


@pytest.mark.parametrize("case", COUNTED)
def test_turns_are_those_of_the_hardware(case):
    width, place, load, store = case
    lanes = [place(n) for n in LANES]
    assert wavefronts(lanes, width)[0] == load
    assert wavefronts(lanes, width, store=True)[0] == store


def test_idle_lanes_take_no_turn():
    assert wavefronts([-1] * 31 + [128], 4) == (1, 1)
    assert wavefronts([n * 128 if n < 4 else -1 for n in LANES], 4) == (4, 1)


def test_the_map_names_the_lanes_of_a_bank():
    assert lane_map([n * 128 for n in LANES]) == [(0, list(LANES))]
    assert lane_map([n * 4 for n in LANES]) == [(n, [n]) for n in LANES]


def shared_sites(name, schedule, buffer):
    launch = lower(schedule_stock(name, schedule).tree)[-1]
    return launch, [s for s in program_of(launch).sites if s.buffer == buffer]


def test_transpose_is_mended_by_one_element_or_a_swizzle():
    launch, sites = shared_sites("transpose", "tiled", "X.shared")
    pad, swizzle = remedies(launch, sites, {"M": 1024, "N": 1024})
    assert pad == Remedy("pad(X.shared, 1)", 1.0, 32 * 4)
    assert swizzle == Remedy("swizzle(X.shared, 1)", 1.0, 0)


@pytest.mark.parametrize("schedule", ["padded", "swizzled"])
def test_what_has_no_conflict_needs_no_remedy(schedule):
    launch, sites = shared_sites("transpose", schedule, "X.shared")
    assert remedies(launch, sites, {"M": 1024, "N": 1024}) == []


def degrees(launch, sites):
    found = [(patterns(launch, site, {"M": 1024, "N": 1024}), site) for site in sites]
    return [conflict(of, site.bytes, site.store).degree for of, site in found]


@pytest.mark.parametrize(
    ("swizzle", "worst"), [(None, 32), (Swizzle(1, 8), 4), (Swizzle(1, 32), 1), (Swizzle(8, 4), 8)]
)
def test_a_column_meets_as_many_banks_as_rows_are_told_apart(swizzle, worst):
    launch, sites = shared_sites("transpose", "tiled", "X.shared")
    memory = replace(launch.buffers["X.shared"], swizzle=swizzle)
    changed = replace(launch, buffers={**launch.buffers, "X.shared": memory})
    assert sorted(degrees(changed, sites)) == [1, worst]


@pytest.mark.parametrize("case", [("gemm", "wider"), ("gemm", "registers"), ("conv2d", "tiled")])
def test_what_is_proposed_is_a_step_that_does_it(case):
    """The proposed step, taken at the end of the schedule, leaves as many wavefronts as it was said to."""
    sizes = dict.fromkeys("MNKBCHWFRS", 64)
    result = schedule_stock(*case)
    launch = lower(result.tree)[-1]
    for buffer in [b.name for b in launch.buffers.values() if b.space == "shared"]:
        sites = [s for s in program_of(launch).sites if s.buffer == buffer]
        for remedy in remedies(launch, sites, sizes):
            name, _, numbers = remedy.step.removesuffix(")").replace("(", ", ").partition(", ")
            _, *amounts = numbers.split(", ")
            fields = zip(("by",) if name == "pad" else ("unit", "count", "rows"), map(int, amounts), strict=False)
            cleared = replace(launch.buffers[buffer], pad=0, swizzle=None)
            tree = replace(result.tree, buffers=tuple(cleared if b.name == buffer else b for b in result.tree.buffers))
            tree = registry()[name](buffer=buffer, **dict(fields)).apply(tree)
            after = lower(tree)[-1]
            mine = [widen(s, after.buffers[buffer]) for s in program_of(after).sites if s.buffer == buffer]
            met = [conflict(patterns(after, s, sizes), s.bytes, s.store) for s in mine]
            assert sum(m.wavefronts for m in met) / sum(m.least for m in met) == pytest.approx(remedy.degree)


def test_a_pad_and_a_swizzle_keep_vectors():
    launch, sites = shared_sites("gemm", "wider", "A.shared")
    pad, swizzle = remedies(launch, sites, {"M": 256, "N": 256, "K": 256})
    assert (str(pad), str(swizzle)) == ("pad(A.shared, 4)", "swizzle(A.shared, 4)")
