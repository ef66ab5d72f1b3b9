"""The CUDA compiler: it runs without a GPU, tells what a kernel takes, and refuses at the right line."""

import pytest

from tests.support.warpgroup_kernels import BUDGETS
from tests.support.written import tree_from
from tilegen.backends.compiler import nvrtc
from tilegen.backends.text import emit
from tilegen.backends.text.helpers import paragraphs
from tilegen.errors import DeviceError
from tilegen.ir.hardware.budgets import launched_registers
from tilegen.lowering import lower

pytestmark = pytest.mark.nvrtc

TEXT = """\
#include <cuda_fp16.h>
extern "C" __global__ void reversed(const __half* __restrict__ a, float* __restrict__ out)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = __half2float(a[threadIdx.x]);
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void crowded(const float* __restrict__ a, float* __restrict__ out, int n)
{
    float kept[256];
    for (int i = 0; i < 256; i++) kept[i] = a[i * n];
    for (int i = 0; i < n; i++) out[i] = kept[(i * i) % 256];
}
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_it_compiles_for_any_architecture(arch: str) -> None:
    compiled = nvrtc.compile_text(TEXT, arch)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.resources["reversed"].shared == 64 * 4
    assert 0 < compiled.resources["reversed"].registers < 64
    assert compiled.resources["reversed"].stack == 0
    assert compiled.resources["crowded"].stack >= 256 * 4


def test_every_function_that_texts_take_compiles() -> None:
    functions = "\n\n".join(each.text for each in paragraphs("cuda"))
    nvrtc.compile_text(f'{functions}\nextern "C" __global__ void none() {{}}\n', "sm_90a")


def test_a_refusal_shows_the_line() -> None:
    with pytest.raises(DeviceError) as caught:
        nvrtc.compile_text('extern "C" __global__ void f()\n{\n    missing = 1;\n}\n', name="f.cu")
    assert caught.value.render().splitlines() == [
        'f.cu:3:1: error: the CUDA compiler refuses the text for sm_90: identifier "missing" is undefined',
        "      missing = 1;",
        "  ^^^^^^^^^^^^^^^^",
    ]
    assert caught.value.exit_code == 5


def test_an_unknown_architecture_is_a_device_error() -> None:
    with pytest.raises(DeviceError, match="sm_13"):
        nvrtc.compile_text(TEXT, "sm_13")


@pytest.mark.parametrize("case", BUDGETS)
def test_the_compiler_gives_all_registers_that_there_are(case) -> None:
    """With fewer at the launch, consumers would wait for registers that nobody has."""
    (launch,) = launches = lower(tree_from(BUDGETS[case]))
    found = nvrtc.compile_text(emit(launches, "cuda"), "sm_90a").resources[launch.name]
    assert found.registers == launched_registers(*launch.bounds) == 168
