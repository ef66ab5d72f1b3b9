"""The table of versions, and its C++, choose what a call from Python chooses."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.exported import Made, load_launcher
from tilegen.errors import LimitError
from tilegen.export.versions import Version
from tilegen.ir.nodes import DTYPE_BYTES

SCHEDULES = [
    ("vector_add", "vector", None),
    ("gemm", "across", None),
    ("gemm", "padded", None),
    ("gemm_split", "split_k", None),
    ("softmax", "blocks", None),
    ("total", "two_launches", None),
    ("conv2d", "strided", None),
    ("hgemm", "persistent", "hgemm"),
    ("hgemm", "launched_early", "hgemm"),
]
WIDTHS = [1, 2, 3, 4, 8, 16, 64, 128, 256, 1024, 4096, 33 * 128, 8 * 4096]


def draws(made: Made, count: int) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Sizes that the kernel admits, some of which pass 32 and 64 bits, and addresses."""
    dice = random.Random(17)
    while count:
        choices = (dice.choice(WIDTHS), dice.randint(1, 10**6), 2 ** dice.randint(0, 47), 4 * dice.randint(1, 10**4))
        sizes = {name: dice.choice(choices) for name in made.interface.sizes}
        starts = {t.name: dice.choice((0, 0, 0, 1, 2, 4)) * DTYPE_BYTES[t.dtype] for t in made.interface.tensors}
        if all(c.holds(sizes) for c in made.core.kernel.assumptions):
            yield sizes, {name: 2**40 + start for name, start in starts.items()}
            count -= 1


def chosen_by_calls(made: Made, sizes: Mapping[str, int], addresses: Mapping[str, int]) -> Version | None:
    """The version of the table with the text that a call runs."""
    try:
        launches = made.texts.launches(made.texts.choose(sizes, addresses))
    except LimitError:
        return None
    bodies = [(launch.body, launch.grid, launch.wide) for launch in launches]
    same = [v for v in made.table if [(each.body, each.grid, each.wide) for each in v.launches] == bodies]
    assert same, "a call runs what the table lacks"
    return same[0]


@pytest.mark.parametrize(("file", "schedule", "kernel"), SCHEDULES)
def test_the_table_chooses_as_a_call_does(file: str, schedule: str, kernel: str | None) -> None:
    made = Made(file, schedule, kernel)
    seen = set()
    for sizes, addresses in draws(made, 400):
        found, wanted = made.choose(sizes, addresses), chosen_by_calls(made, sizes, addresses)
        assert (found and found.name) == (wanted and wanted.name), (sizes, addresses)
        seen.add(found and found.name)
    assert len(seen) > len(made.table) // 2, "the sizes tell little"


@pytest.mark.parametrize(("file", "schedule", "kernel"), SCHEDULES)
def test_the_launcher_chooses_as_a_call_does(file: str, schedule: str, kernel: str | None, tmp_path: Path) -> None:
    made = Made(file, schedule, kernel)
    library = load_launcher(made, tmp_path)
    version = getattr(library, f"{made.name}_version")
    for sizes, addresses in draws(made, 400):
        arrays = [ctypes.c_void_p(addresses[t.name]) for t in made.interface.tensors]
        number = version(*arrays, *(ctypes.c_int64(sizes[name]) for name in made.interface.sizes))
        wanted = chosen_by_calls(made, sizes, addresses)
        assert (None if number < 0 else made.table[number].name) == (wanted and wanted.name), (sizes, addresses)


def test_sizes_that_are_fixed_leave_one_width() -> None:
    assert [version.name for version in Made("gemm", "naive", M=32, N=32, K=32).table] == ["plain"]
    assert [version.name for version in Made("gemm", "naive", M=10**5, N=10**5, K=32).table] == ["plain_64"]


def test_a_text_that_versions_share_has_one_name() -> None:
    made = Made("gemm", "padded")
    vector, scalar = (next(v for v in made.table if v.name == name) for name in ("vector", "scalar"))
    assert vector.launches[:2] == scalar.launches[:2]
    assert vector.launches[2].name != scalar.launches[2].name


def test_rings_of_bulk_copies_are_loose_together() -> None:
    """A version for each set of vector loops would be 8; a producer starts all copies, or there is none."""
    made = Made("hgemm", "persistent", "hgemm")
    assert [v.name for v in made.table if not v.wide] == ["whole", "vector", "mixed_1", "mixed_2", "scalar"]
