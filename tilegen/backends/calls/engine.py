"""What a program asks of a device: arrays in, text to entry points, launches, time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tilegen.ir.nodes import Tensor
from tilegen.lowering import Launch
from tilegen.lowering.launch.tensor_maps import TensorMap

# Of addresses: no text has a version that asks for more, and fresh memory begins at a multiple of these bytes.
ALIGNMENT = 16

# A launch that is given its arrays, their addresses, the scalars as the text takes them, and the stream.
Launcher = Callable[[Sequence[Any], Sequence[int], Sequence[Any], int], None]


@dataclass(frozen=True)
class BoundMap:
    """A tensor map, which array has the elements that it describes, and the sizes of the call."""

    map: TensorMap
    array: int
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Run:
    """One launch with its numbers: blocks, threads, bytes of shared memory, sizes, and which arguments it takes.

    A kernel takes the arrays, the maps, the scalars and the sizes, in this order. Arrays are positions in what a call
    has in memory; scalars are positions in what it has of these, each with its type. What it `asks` of the
    driver are attributes of a launch. Where tiles are `dealt` the grid counts these along x, and an engine launches
    as many blocks as its device runs at once, `dealt` at most.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arrays: tuple[int, ...]
    scalars: tuple[tuple[int, str], ...]
    sizes: tuple[int, ...]
    wide: bool
    maps: tuple[BoundMap, ...] = ()
    asks: tuple[tuple[str, int], ...] = ()
    dealt: int = 0


class Caller(Protocol):
    """The library that the arrays of a call belong to: it makes fresh ones, and has a current stream."""

    def maker(self, dtype: str, shape: tuple[int, ...], order: tuple[int, ...], *, zeros: bool) -> Callable[[], Any]:
        """A call that makes an array for such a tensor: of zeros, or of what is in its memory.

        It raises MemoryError where too little is free.
        """

    @property
    def address(self) -> Callable[[Any], int]:
        """The address of an array's first element."""

    @property
    def stream(self) -> Callable[[], int]:
        """The address of the stream that is current on the device."""

    def loses_captured(self, stream: int) -> bool:
        """True if a graph is captured on the stream, and memory that is freed meanwhile can be given to others."""


class Engine(Protocol):
    """A device and its library. Its arrays are those of `xp`, which is numpy or cupy."""

    name: str
    language: str
    on_gpu: bool
    xp: Any

    def facts(self, arrays: Sequence[Any]) -> tuple[Hashable, list[int]] | None:
        """(all that decides how a kernel is launched on these arrays, their addresses).

        None where an array has to be adopted first; what `adopt` gives has not.
        """

    def device_of(self, arrays: Mapping[str, Any]) -> Engine:
        """The device on which arrays of `xp`, by name, lie; the current one if there are none.

        Raises:
            ArgumentError: they lie on several.
        """

    def caller(self, arrays: Sequence[Any]) -> Caller:
        """The library that arrays, of which `facts` are known, belong to."""

    def is_current(self) -> bool:
        """True if launches of this thread go to the device."""

    def use(self) -> AbstractContextManager[Any]:
        """A context in which they do."""

    def adopt(self, value: Any, tensor: Tensor) -> Any:
        """`value`, an array of any library, as an array of `xp` that shares its memory, or ArgumentError."""

    def give_back(self, array: Any, tensor: Tensor, given: Sequence[Any]) -> Any:
        """An output `array` of `xp` as an array of the library that the arrays `given` in the call belong to."""

    def free_bytes(self) -> int | None:
        """How much memory is free for arrays, as far as that is known."""

    def pointer(self, array: Any) -> int:
        """The address of the first element."""

    def build(self, text: str, launches: Sequence[Launch]) -> Mapping[str, Any]:
        """The entry points of `text` by name."""

    def launcher(self, entry: Any, run: Run) -> Launcher:
        """`entry` with all of its numbers, to be launched on arrays."""

    def synchronize(self) -> None:
        """Returns when everything launched is done."""

    def capture(self, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """One call that does what the calls do, each of which has run before, at little cost for the host.

        It holds the calls, and so their memory.
        """

    def time(self, calls: Sequence[Callable[[], None]], behind: Sequence[Callable[[], None]] = ()) -> float:
        """Milliseconds that the calls take one after the other, directly after others that are not timed."""
