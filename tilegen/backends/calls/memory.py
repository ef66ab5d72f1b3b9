"""How much memory there is: checked before it is taken, since Linux gives more than it has and kills who uses it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tilegen.errors import DeviceError

if TYPE_CHECKING:
    from tilegen.backends.calls.engine import Engine

T = TypeVar("T")

# What is smaller is not asked for: a call of a small kernel does not wait for the system's figures.
_SMALL = 2**28
ADDRESSABLE = 2**48


def free_bytes() -> int | None:
    """Bytes of memory that this process can still take, as far as the system tells."""
    known = [n for n in (_of_machine(), _of_group()) if n is not None]
    return min(known, default=None)


def allocate(make: Callable[[], T], bytes_: int, what: str, engine: Engine) -> T:
    """What `make` makes of a number of bytes of an engine's memory.

    Raises:
        DeviceError: they are not free.
    """
    if not engine.on_gpu:  # a GPU says by itself what it has not, and libraries keep there what is free
        check_free(bytes_, what, engine.free_bytes)
    try:
        return make()
    except MemoryError:  # cupy's own is a kind of it
        raise too_little(bytes_, what, None) from None


def check_free(bytes_: int, what: str, free: Callable[[], int | None]) -> None:
    """Raises DeviceError where fewer bytes are `free`, or where no machine has that many, if `free` does not know."""
    if bytes_ < _SMALL:
        return
    there = free()
    if bytes_ > (ADDRESSABLE if there is None else there):
        raise too_little(bytes_, what, there)


def too_little(bytes_: int, what: str, there: int | None) -> DeviceError:
    """The error for `what`, which takes more bytes than are `there`."""
    rest = f"{bytes_text(there)} are free" if there is not None else "that much is not free"
    return DeviceError(f"{what} needs {bytes_text(bytes_)} of memory, and {rest}", notes=("smaller sizes need less",))


def bytes_text(bytes_: int) -> str:
    """A number of bytes for a reader, in the largest unit of which there is one at least."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if bytes_ >= 1000**power:
            return f"{bytes_ / 1000**power:,.1f} {unit}"
    return f"{bytes_} bytes"


def _of_machine() -> int | None:
    for line in _read_lines("/proc/meminfo"):
        word, _, rest = line.partition(":")
        if word == "MemAvailable":
            return int(rest.split()[0]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _of_group() -> int | None:
    """What a container leaves, of either version of its interface."""
    for most, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        numbers = [line for path in (most, used) for line in _read_lines(path)[:1]]
        if len(numbers) == 2 and all(map(str.isdigit, numbers)):
            known = [line.split() for line in _read_lines(str(Path(most).parent / "memory.stat"))]
            cached = sum(int(number) for word, number in known if word in ("inactive_file", "total_inactive_file"))
            return max(0, int(numbers[0]) - int(numbers[1]) + cached)
    return None


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []
