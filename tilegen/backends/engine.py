"""What a program asks of a device: arrays in, text to entry points, launches, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tilegen.ir.nodes import Tensor
from tilegen.lowering import Launch
from tilegen.lowering.tensor_maps import TensorMap


@dataclass(frozen=True)
class BoundMap:
    """A tensor map, the array whose elements it describes, and the sizes of the call."""

    map: TensorMap
    array: Any
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Run:
    """One launch with its numbers: blocks, threads, bytes of shared memory, arguments.

    A kernel takes the arrays, the maps, the scalars and the sizes, in this order. One that is `dependent` may begin
    while the launch before it still runs.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arrays: tuple[Any, ...]
    scalars: tuple[Any, ...]
    sizes: tuple[int, ...]
    wide: bool
    maps: tuple[BoundMap, ...] = ()
    dependent: bool = False


class Engine(Protocol):
    """A device and its library. Its arrays are those of `xp`, which is numpy or cupy."""

    name: str
    language: str
    on_gpu: bool
    xp: Any

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

    def enqueue(self, entry: Any, run: Run) -> Callable[[], None]:
        """A call that launches `entry` on the caller's stream, its arguments converted once."""

    def synchronize(self) -> None:
        """Returns when everything launched is done."""

    def capture(self, calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """One call that does what the calls do, each of which has run before, at little cost for the host."""

    def time(self, calls: Sequence[Callable[[], None]], behind: Sequence[Callable[[], None]] = ()) -> float:
        """Milliseconds that the calls take one after the other, directly behind others that are not timed."""

    def stream(self, arrays: Sequence[Any]) -> Any:
        """A context in which launches go to the stream of the library that `arrays` belong to."""
