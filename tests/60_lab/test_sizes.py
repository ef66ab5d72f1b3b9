"""The sizes that are chosen where the user gives none."""

import pytest

import tilegen
from tilegen.errors import UsageError
from tilegen.ir.nodes import Kernel, Tree
from tilegen.lab.checks.sizes import CPU_LIMITS, GPU_LIMITS, power_sizes, sizes_to_check


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
    (full, *_) = sizes_to_check([scheduled.tree], {})
    assert full["K"] >= 8 * (4 + 1)
