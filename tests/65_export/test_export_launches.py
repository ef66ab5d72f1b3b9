"""What an exported launcher asks of the CUDA runtime: kernels, grids, memory and arguments are those of the launches.

A runtime of the test's own writes it down. What is expected is worked out here from the launches and their sizes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_export_versions import draws

from tests.support.exported import Made, build
from tilegen.backends.compiler.tensor_maps import DATA_TYPES
from tilegen.backends.text.arrays import scratch_buffers
from tilegen.export.versions import every_launch
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.lowering import Launch
from tilegen.lowering.launch.grid import limits_of_grid

RECORDER = Path(__file__).with_name("recorder.cpp")
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
ALPHA, COUNT = 0.75, -3
AT_ONCE = 6  # blocks, on the GPU that the recorder tells of
SCALED = """\
kernel scaled(alpha: f32, X: f32[N], k: i8, Y: f32[N]) -> Y: f32[N], Z: f32[2*N - 1]:
    Y[i] = alpha * X[i] + f32(k) * Y[i]
    Z[i] = X[i/2]

schedule blocks for scaled:
    tile(Y.i, 128) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""


def load_with_recorder(made: Made, folder: Path) -> ctypes.CDLL:
    made.write(folder)
    rows = []
    for launch in every_launch(made.table).values():
        integer = 8 if launch.wide else 4
        sizes = [8] * len(launch.tensors) + [128] * len(launch.maps)
        sizes += [DTYPE_BYTES[s.dtype] for s in launch.scalars] + [integer] * len(launch.sizes)
        rows.append(f'{{"{launch.name}", {{{", ".join(map(str, [*sizes, 0]))}}}}},')
    (folder / "arguments.inc").write_text("\n".join(rows))
    options = ("-shared", "-fPIC", f"-I{folder}")
    library = ctypes.CDLL(str(build(folder, f"{made.name}.cpp", str(RECORDER), to="recorded.so", options=options)))
    library.take_record.restype = ctypes.c_char_p
    getattr(library, f"{made.name}_workspace_bytes").restype = ctypes.c_size_t
    getattr(library, f"{made.name}_error_text").restype = ctypes.c_char_p
    return library


def lines_of(launch: Launch, sizes: Mapping[str, int], places: Mapping[str, int]) -> list[str]:
    """What the recorder writes of one launch."""
    grid = [extent.evaluate(sizes) for extent in launch.grid]
    if 0 in grid:
        return []
    lines = []
    for each in launch.maps:
        extents, strides = each.extents(sizes), (*each.strides(sizes), 1)
        numbers = [DATA_TYPES[each.dtype][1], SWIZZLES[each.swizzle], places[memory_of(each.buffer)]]
        box = each.box
        if each.windows:  # what the recorder has in the place of a box
            upper = [end.evaluate(sizes) for end in each.upper]
            strides, corners = (
                (*strides[:-1], 1),
                [c % 2**32 for pair in zip(each.lower, upper, strict=True) for c in pair],
            )
            numbers += [*corners, *each.steps]
            box = (each.box[0], *[0] * (len(extents) - 2), each.pixels)
        numbers += [n for dimension in zip(extents, box, strides, strict=True) for n in dimension]
        lines.append(" ".join(["map", *map(str, numbers)]))
    shared = launch.shared_bytes if launch.shared_bytes > 48 * 1024 else 0
    lines += [f"shared {shared} of {launch.name}"] if shared else []
    packed = [struct.pack("<Q", places[memory_of(name)]) for name in launch.tensors]
    packed += [bytes(128)] * len(launch.maps)
    packed += [struct.pack("<f", ALPHA) if s.dtype == "f32" else struct.pack("<b", COUNT) for s in launch.scalars]
    packed += [struct.pack("<q" if launch.wide else "<i", sizes[name]) for name in launch.sizes]
    if launch.dealt:
        lines += lines[-1:] if shared else []  # once to ask how many blocks run at once
        grid[0] = min(grid[0], max(1, AT_ONCE // (grid[1] * grid[2])))
    numbers = [*grid, *launch.launched_block, shared]
    early = ["early 1"] if launch.dependent else []
    return [*lines, " ".join([launch.name, *map(str, numbers), *early, *(each.hex() for each in packed)])]


def expected(made: Made, sizes: Mapping[str, int], places: Mapping[str, int]) -> list[str] | None:
    """What it writes of a call; None where that is refused."""
    version = made.choose(sizes, places)
    if version is None:
        return None
    for launch in version.launches:
        limits = limits_of_grid(launch.dealt > 0)
        if any(along.evaluate(sizes) > most for along, most in zip(launch.grid, limits, strict=True)):
            return None
    return [line for launch in version.launches for line in lines_of(launch, sizes, places)]


def scratch_places(made: Made, start: int, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """(where each scratch array lies in a workspace that begins at `start`, the bytes of it)."""
    found, end = {}, 0
    for buffer in scratch_buffers(made.core.tree):
        found[buffer.name] = start + end
        elements = 1
        for number, dimension in enumerate(buffer.order, 1):
            elements *= buffer.shape[dimension].evaluate(sizes) + buffer.pad * (number == len(buffer.order))
        end += -(-elements * DTYPE_BYTES[buffer.dtype] // 256) * 256
    return found, end


@pytest.mark.parametrize(
    ("file", "schedule", "kernel"),
    [
        ("gemm", "across", None),
        ("gemm", "padded", None),
        ("gemm_split", "split_k", None),
        ("total", "two_launches", None),
        ("conv2d", "strided", None),
        ("hgemm", "persistent", "hgemm"),
        ("hgemm", "clusters", "hgemm"),
        ("hconv", "pixels", "hconv"),
        ("hgemm", "launched_early", "hgemm"),
        (SCALED, "blocks", None),
    ],
    ids=lambda value: value.split()[0] if value else "",
)
def test_launches_are_those_of_the_version(file: str, schedule: str, kernel: str | None, tmp_path: Path) -> None:
    made = Made(file, schedule, kernel)
    library = load_with_recorder(made, tmp_path)
    launch = getattr(library, f"{made.name}_launch")
    numbers = {"f32": ctypes.c_float(ALPHA), "i8": ctypes.c_int8(COUNT)}
    scalars = {scalar.name: numbers[scalar.dtype] for scalar in made.interface.scalars}
    launched = 0
    for sizes, low in draws(made, 150):
        places = {t.name: low[t.name] + (n << 58) for n, t in enumerate(made.interface.tensors)}
        workspace = 31 << 58
        scratch, bytes_ = scratch_places(made, workspace, sizes)
        given = [scalars.get(name) or ctypes.c_void_p(places[name]) for name in made.interface.order]
        extents = [ctypes.c_int64(sizes[name]) for name in made.interface.sizes]
        wanted = expected(made, sizes, places | scratch)
        more = ctypes.c_void_p(workspace), ctypes.c_size_t(min(bytes_, 2**63)), None
        error = launch(*given, *extents, *more)
        record = library.take_record().decode().splitlines()
        if wanted is None:
            assert error != 0
            assert record == []
            continue
        told = getattr(library, f"{made.name}_error_text")().decode()
        assert error == 0, (sizes, told)
        assert getattr(library, f"{made.name}_workspace_bytes")(*extents) == bytes_
        assert record == wanted, (sizes, places)
        launched += 1
    assert launched > 20
