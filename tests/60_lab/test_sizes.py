"""The sizes that are chosen where the user gives none."""

import pytest

import tilegen
from tests.support.cover import each_stock_schedule
from tests.support.stock import schedule_stock
from tilegen.errors import UsageError
from tilegen.ir.nodes import Kernel, Tree
from tilegen.lab.checks.reach import WAYS, missed, missed_notes, parts_of
from tilegen.lab.checks.sizes import (
    CHECK_LIMITS,
    CPU_LIMITS,
    GPU_LIMITS,
    INTERPRETER_LIMITS,
    points,
    power_sizes,
    sizes_to_check,
    total_bytes,
)


def kernel(text: str) -> Kernel:
    return tilegen.load(text + "\n").kernel().ir


GEMM = "kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])"
ADD = "kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:\n    C[i] = A[i] + B[i]"


def test_a_gemm_is_timed_at_4096_on_a_gpu_and_at_128_on_a_cpu() -> None:
    assert power_sizes(kernel(GEMM), {}, GPU_LIMITS) == {"M": 4096, "K": 4096, "N": 4096}
    assert power_sizes(kernel(GEMM), {}, CPU_LIMITS) == {"M": 128, "K": 128, "N": 128}


def test_what_moves_is_limited_by_its_bytes() -> None:
    assert power_sizes(kernel(ADD), {}, GPU_LIMITS) == {"N": 2**28}


def tree(text: str, *tiles: tuple[str, int]) -> Tree:
    scheduled = tilegen.load(text + "\n").kernel().schedule()
    for loop, size in tiles:
        scheduled = scheduled.tile(loop, size, into=(f"{loop}o", f"{loop}i"))
    return scheduled.tree


def test_checks_have_full_tiles_odd_sizes_and_ones() -> None:
    full, odd, ones = sizes_to_check([tree(GEMM, ("i", 128), ("k", 16)), tree(GEMM, ("j", 32))], {})
    assert full == {"M": 256, "K": 32, "N": 64}
    assert 128 < odd["M"] < 256
    assert all(v % 2 for v in odd.values())
    assert len(set(odd.values())) == 3
    assert set(ones.values()) == {1}


def test_checks_stay_within_their_limits() -> None:
    tiled = tree(GEMM, ("i", 128), ("j", 128), ("k", 128))
    for sizes in sizes_to_check([tiled], {}, (2**16, 2**20)):
        assert sizes["M"] * sizes["K"] * sizes["N"] <= 2**16


def test_a_given_size_stays() -> None:
    assert all(sizes["K"] == 7 for sizes in sizes_to_check([tree(GEMM)], {"K": 7}))


def test_sizes_meet_the_kernel_s_conditions() -> None:
    text = GEMM.replace("N]:", "N] where K % 8 == 0, M >= N + 3:")
    for sizes in sizes_to_check([tree(text)], {}):
        assert sizes["K"] % 8 == 0
        assert sizes["M"] >= sizes["N"] + 3


def test_conditions_that_the_given_sizes_break_are_refused() -> None:
    with pytest.raises(UsageError, match=r"kernel 'gemm' is for K % 8 == 0 only, and K = 7"):
        sizes_to_check([tree(GEMM.replace("N]:", "N] where K % 8 == 0:"))], {"K": 7})


@pytest.mark.parametrize(
    ("facts", "given", "said"),
    [
        ("2 * M == K", {"K": 7}, "K == M*2 only, and no M was found for K = 7"),
        ("M <= 100", {"M": 200}, "M <= 100 only, and M = 200"),
        ("M < K, K % 8 == 0", {"M": 8, "K": 8}, "M < K only, and K = 8, M = 8"),
        ("M == K + 3", {"M": 2}, "K + 3 == M only, and no K was found for M = 2"),
    ],
)
def test_a_size_without_a_partner_is_named(facts: str, given: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        sizes_to_check([tree(GEMM.replace("N]:", f"N] where {facts}:"))], given)
    assert caught.value.message == f"kernel 'gemm' is for {said}"


def test_each_buffer_of_a_pipeline_is_filled_again() -> None:
    scheduled = tilegen.load("gemm").schedule("pipelined", TK=8, STAGES=4)
    sets = sizes_to_check([scheduled.tree], {})
    assert any(each["K"] >= 8 * (4 + 1) and each["K"] % 8 == 0 for each in sets)
    assert any(each["K"] > 8 * 4 and each["K"] % 8 for each in sets)


@each_stock_schedule
def test_checks_of_stock_schedules_reach_each_part(name: str, schedule: str) -> None:
    """Several whole tiles and several with a border of each loop: all but those that isl finds no small sizes for."""
    tree = schedule_stock(name, schedule).tree
    sets = sizes_to_check([tree], {})
    assert all(within(tree.kernel, each) for each in sets)
    far = missed(tree.kernel, parts_of([tree]), sets, {})
    assert not [(part.loop.name, way, least) for part, way, least in far if within(tree.kernel, least)]
    notes = missed_notes([tree], sets, {})
    assert all(any(part.loop.name in note for note in notes) for part, _, _ in far)


def within(kernel: Kernel, sizes: dict[str, int]) -> bool:
    return points(kernel, sizes) <= CHECK_LIMITS[0] and total_bytes(kernel, sizes) <= CHECK_LIMITS[1]


@pytest.mark.parametrize("schedule", ["tiled", "registers", "across"])
def test_sizes_at_borders_differ(schedule: str) -> None:
    """Else nobody sees dimensions that are swapped."""
    sets = sizes_to_check([schedule_stock("gemm", schedule).tree], {})
    assert all(
        len(set(each.values())) == 3
        for each in sets
        if all(value % 4 for value in each.values()) and sum(each.values()) > 3
    )
    assert schedule != "tiled" or {"M": 49, "K": 51, "N": 53} in sets


@pytest.mark.parametrize("given", [{}, {"K": 96}, {"M": 1, "N": 2}])
def test_parts_are_reached_around_sizes_that_are_given(given: dict[str, int]) -> None:
    tiled = tree(GEMM, ("i", 128), ("k", 64), ("j", 32))
    sets = sizes_to_check([tiled], given)
    assert all(each.items() >= given.items() for each in sets)
    for part in (part for part in parts_of([tiled]) if not part.names & given.keys()):
        assert all(any(part.reached(way, each) for each in sets) for way in WAYS), part.loop.name


def test_tiles_beside_multiples_of_their_length_are_found() -> None:
    """The whole tiles of a stencil: 8, 16 and more of N - 2 elements."""
    stencil = "kernel blur(A: f32[N]) -> B: f32[N - 2]:\n    B[i] = A[i] + A[i + 1] + A[i + 2]"
    sets = sizes_to_check([tree(stencil, ("i", 8))], {})
    assert {each["N"] % 8 for each in sets} > {2}


def test_sizes_that_the_kernel_has_not_are_passed_over() -> None:
    few = tree(GEMM.replace("N]:", "N] where M <= 100, N % 32 == 0:"), ("i", 64), ("j", 32))
    sets = sizes_to_check([few], {})
    assert any(64 < each["M"] <= 100 for each in sets)
    assert missed_notes([few], sets, {}) == []  # no sizes have two whole tiles of M, or a border of N


def test_parts_that_only_large_sizes_have_are_named() -> None:
    coarse = tree(ADD, ("i", 2**21))
    notes = missed_notes([coarse], sizes_to_check([coarse], {}, INTERPRETER_LIMITS), {})
    assert notes == [
        "at none of the sizes does io have 2 iterations, the last one whole; --size N=4194304 reaches that",
        "at none of the sizes does io have 2 iterations, the last one at a border; --size N=2097153 reaches that",
    ]
    assert missed_notes([coarse], [{"N": 7}], {"N": 7}) == []
