"""Bank conflicts: the turns of patterns that were counted on an H200, and what mends them."""

import pytest
from stock import scheduled

from tilegen.lab.banks import Remedy, lane_map, remedies, turns
from tilegen.lab.sites import program_of
from tilegen.lowering import lower

LANES = range(32)
# (bytes of a lane, address of a lane, turns of a load, of a store) as Nsight Compute counted them
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
    assert turns(lanes, width)[0] == load
    assert turns(lanes, width, store=True)[0] == store


def test_idle_lanes_take_no_turn():
    assert turns([-1] * 31 + [128], 4) == (1, 1)
    assert turns([n * 128 if n < 4 else -1 for n in LANES], 4) == (4, 1)


def test_the_map_names_the_lanes_of_a_bank():
    assert lane_map([n * 128 for n in LANES]) == [(0, list(LANES))]
    assert lane_map([n * 4 for n in LANES]) == [(n, [n]) for n in LANES]


def shared_sites(name, schedule, buffer):
    launch = lower(scheduled(name, schedule).tree)[-1]
    return launch, [s for s in program_of(launch).sites if s.buffer == buffer]


def test_transpose_is_mended_by_one_element_or_a_swizzle():
    launch, sites = shared_sites("transpose", "tiled", "X.shared")
    pad, swizzle = remedies(launch, sites, {"M": 1024, "N": 1024})
    assert pad == Remedy("pad", 1, 1.0, 32 * 4)
    assert (swizzle.kind, swizzle.amount, swizzle.degree, swizzle.bytes) == ("swizzle", 32, 1.0, 0)
    assert str(swizzle) == "swizzle: column ^ (row % 32)"


def test_what_has_no_conflict_needs_no_remedy():
    launch, sites = shared_sites("transpose", "padded", "X.shared")
    assert remedies(launch, sites, {"M": 1024, "N": 1024}) == []


def test_a_pad_keeps_vectors_aligned():
    launch, sites = shared_sites("gemm", "wider", "A.shared")
    for remedy in remedies(launch, sites, {"M": 256, "N": 256, "K": 256}):
        assert remedy.kind == "swizzle" or remedy.amount % 4 == 0
