"""Every stock schedule on real devices, at odd and at even sizes: PoCL, a GPU, and the checker of races."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.cover import each_stock_schedule
from tests.support.stock import compile_stock, lower_stock, schedule_stock
from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.architectures import (
    HOPPER,
    compiled_architecture,
    features_of,
    instructions_of,
    require_instructions,
)
from tilegen.backends.devices.devices import engine, program
from tilegen.backends.text import STATIC_SHARED_LIMIT, emit
from tilegen.errors import DeviceError
from tilegen.ir.comparison.tolerance import tolerance_of
from tilegen.ir.hardware.instructions import arch_number
from tilegen.lab.checks.check import cases as trials
from tilegen.lab.checks.check import check
from tilegen.lab.checks.sizes import sizes_to_check
from tilegen.lowering.launch.lists import by_whole_blocks
from tilegen.lowering.launch.timelines import LookBack


def check_on(device, name, schedule):
    """Checks one program, at several sizes at once: threads take turns as often as they can."""
    tree = schedule_stock(name, schedule).tree
    compiled = program(tree, engine(device))
    tried = trials(tree.kernel.called_kernel, sizes_to_check([tree], {}), tolerance_of(tree))
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda case: check(compiled, [case]), tried))
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.pocl
@each_stock_schedule
def test_stock_schedule_on_the_cpu(name, schedule):
    check_on("cpu", name, schedule)


@pytest.mark.gpu
@each_stock_schedule
def test_stock_schedule_on_the_gpu(name, schedule):
    check_on("cuda", name, schedule)


# The vector version on every architecture; the scalar one and 64-bit offsets on the newest.
VERSIONS = [("sm_75", True, False), ("sm_80", True, False), ("sm_90", False, False), ("sm_90", True, True)]


@pytest.mark.nvrtc
@each_stock_schedule
def test_stock_schedule_compiles(name, schedule):
    check_compiles(name, schedule, "sm_90", True, False, lambda text, arch: compile_stock(text, arch)[0])


@pytest.mark.nvrtc
@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize(("arch", "vector", "wide"), VERSIONS)
@each_stock_schedule
def test_every_version_compiles(name, schedule, arch, vector, wide):
    check_compiles(name, schedule, arch, vector, wide)


def static_shared_bytes(launch):
    """All buffers, unless they are too many; what looks back keeps three words more, which are always static."""
    if launch.shared_bytes <= STATIC_SHARED_LIMIT:
        return launch.shared_bytes
    return 16 if any(isinstance(node, LookBack) for node in launch.nodes) else 0  # in front of 16-byte boundaries


def check_compiles(name, schedule, arch, vector, wide, compiler=nvrtc.compile_text):
    launches = lower_stock(name, schedule, vector=vector, wide=wide)
    own = compiled_architecture(instructions_of(launches), arch)
    for each in dict.fromkeys((arch, own)):
        newer = features_of(launches) and arch_number(each) < arch_number(HOPPER)
        if newer or not all(instruction.runs_on(each) for instruction in instructions_of(launches)):
            with pytest.raises(DeviceError, match=f"needs? sm_.*, and this is for {each}"):
                require_instructions(launches, each)
            continue
        compiled = compiler(emit(launches, "cuda"), each)
        assert compiled.cubin
        static = {launch.name: static_shared_bytes(launch) for launch in launches}
        assert set(compiled.resources) == set(static)
        if each == arch:  # what is for one architecture alone is aligned to more than shared memory begins at
            for launch in launches:
                gaps = 12 if any(isinstance(node, LookBack) for node in launch.nodes) else 0  # beside its words
                if by_whole_blocks(launch):  # their words are in front of what is aligned, or after it
                    gaps = max((b.align for b in launch.buffers.values() if b.space == "shared"), default=0)
                assert static[launch.name] - gaps <= compiled.resources[launch.name].shared <= static[launch.name]
