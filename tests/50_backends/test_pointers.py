"""Pointers to the tiles of arrays, where several lines would say where they begin."""

from __future__ import annotations

import pytest

from tests.support.stock import schedule_stock
from tilegen.backends.text import emit
from tilegen.lowering import lower


def lines_of(name, schedule, language="cuda", **version):
    text = emit(lower(schedule_stock(name, schedule).tree, **version), language)
    return [line.strip() for line in text.splitlines()]


def test_a_tile_has_a_pointer_in_front_of_the_first_line_that_needs_it():
    lines = lines_of("gemm", "warps")
    at = lines.index("float* C_tile = &C[bi * TM * N + bj * TN];")
    assert lines[at + 1] == "if (full_tile) {"


def test_a_test_has_braces_around_the_pointer_and_the_loop_in_it():
    lines = lines_of("conv_pieces_first", "two_f16")
    at = lines.index("const float* K_tile = &K[(KS_f * C + be * 64) * 3 * 3];")
    assert lines[at - 1] == "if (be * 64 + te < C) {"


def test_what_a_loop_reads_is_reached_from_the_array():
    """A pointer would have registers in all of the loop."""
    assert not [line for line in lines_of("gemm", "warps") if "A_tile" in line or "B_tile" in line]


def test_the_pointer_of_a_dealt_tile_is_in_its_loop():
    lines = lines_of("block_scaled", "with_scales")
    (at,) = (n for n, line in enumerate(lines) if line.startswith("__nv_bfloat16* C_tile = &C["))
    assert any(line.startswith("for (int tile = blockIdx.x;") for line in lines[:at])


@pytest.mark.parametrize(("schedule", "version"), [("tiled", {"whole": True}), ("naive", {})])
def test_a_tile_that_one_line_reads_has_none(schedule, version):
    assert not [line for line in lines_of("gemm", schedule, **version) if "_tile" in line]


def test_what_begins_in_front_of_a_tile_is_reached_from_the_array():
    lines = lines_of("hconv", "warps", whole=True)
    assert not [line for line in lines if "X_tile" in line]


def test_functions_of_opencl_have_no_pointers():
    assert not [line for line in lines_of("gemm", "warps", "opencl") if "_tile =" in line and "full" not in line]
