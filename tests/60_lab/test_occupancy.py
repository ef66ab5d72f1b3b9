"""Occupancy: what fits into an SM, and what does not."""

import pytest

from tilegen.errors import UsageError
from tilegen.lab.predict.occupancy import Limits, limits_of, occupancy


def test_s15_two_blocks_of_520_bytes_fit_and_a_third_does_not():
    # The lecture's core: 1.5 KB of shared memory, dealt out by the byte; threads and registers enough for three.
    core = Limits(384, 16, 65536, 1536, 1536, shared_unit=1)
    held = occupancy(core, 128, 0, 520)
    assert (held.blocks, held.limited_by) == (2, ("shared memory",))
    assert occupancy(core, 128, 0, 512).blocks == 3


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("sm_90", 256, 32, 0, 8, "threads"),
        ("sm_90", 256, 128, 16640, 2, "registers"),
        ("sm_90", 256, 255, 0, 1, "registers"),
        ("sm_90", 128, 32, 48 * 1024, 4, "shared memory"),
        ("sm_90", 32, 16, 0, 32, "blocks"),
        ("sm_90", 1024, 32, 0, 2, "threads"),
        ("sm_80", 128, 32, 40 * 1024, 4, "shared memory"),
        ("sm_75", 256, 32, 0, 4, "threads"),
        ("sm_75", 128, 32, 32 * 1024, 2, "shared memory"),
    ],
)
def test_blocks_of_an_sm(arch, threads, registers, shared, blocks, limit):
    held = occupancy(limits_of(arch), threads, registers, shared)
    assert held.blocks == blocks
    assert limit in held.limited_by


def test_the_share_counts_warps():
    assert occupancy(limits_of("sm_90"), 96, 0, 0).share == 63 / 64
    assert occupancy(limits_of("sm_90a"), 1024, 32, 0).share == 1


def test_an_unknown_architecture_is_a_mistake():
    with pytest.raises(UsageError, match="sm_91"):
        limits_of("sm_91")
