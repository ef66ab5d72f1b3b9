"""What calls of one kind have in common, decided once: what has to be made, what must not overlap, what is launched."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from tilegen.backends.calls.engine import Caller, Engine, Launcher
from tilegen.errors import ArgumentError
from tilegen.ir.nodes import Scalar

_REMEMBERED = 256


@dataclass(frozen=True)
class Form:
    """How the values of a call are distinguished: which are arrays, scalars, sizes; (position, name) of each.

    `plans` are those of the calls that looked like this, by what their arrays are; the oldest ones are forgotten.
    """

    arrays: tuple[tuple[int, str], ...]
    scalars: tuple[tuple[int, Scalar], ...]
    sizes: tuple[tuple[int, str], ...]
    plans: dict[Hashable, Plan] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the arrays."""
        return tuple(name for _, name in self.arrays)

    def remember(self, key: Hashable, plan: Plan) -> None:
        """Keeps the plan for calls with the same key; one thread at a time."""
        while len(self.plans) >= _REMEMBERED:
            del self.plans[next(iter(self.plans))]
        self.plans[key] = plan


@dataclass(frozen=True)
class Plan:
    """What a call does with its arrays, which are `names`; what it makes itself stands after those that are given.

    Attributes:
        engine: the device that it is for.
        makers: of the outputs that are not given, and of the memory between launches.
        bytes: of each array that is given, with what lies between its rows.
        rows: (bytes of a row, bytes from one to the next) of each of them, 0 where its rows are not apart.
        apart: (written, other) positions of given arrays that must not share memory.
        results: where the outputs are, in their order.
        between: how many arrays, the last ones, are memory that is kept between launches.
        held: of these, what graphs may use again.
    """

    engine: Engine
    caller: Caller
    names: tuple[str, ...]
    makers: tuple[Callable[[], Any], ...]
    bytes: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]
    apart: tuple[tuple[int, int], ...]
    launchers: tuple[Launcher, ...]
    results: tuple[int, ...]
    between: int
    held: list[Sequence[Any]]

    def run(self, given: Sequence[Any], addresses: list[int], scalars: Sequence[Any]) -> Sequence[Any]:
        """Launches on the caller's stream; returns all memory, what is made too, whose addresses it appends.

        Raises:
            ArgumentError: an output overlaps another array.
            DeviceError: too little memory is free, or the device refuses.
        """
        if not self.engine.is_current():
            with self.engine.use():
                return self.run(given, addresses, scalars)
        memory = self.complete(given, addresses)
        stream = self.caller.stream()
        for launch in self.launchers:
            launch(memory, addresses, scalars, stream)
        if self.between and self.caller.loses_captured(stream):
            self.held.append(memory[-self.between :])
        return memory

    def complete(self, given: Sequence[Any], addresses: list[int]) -> Sequence[Any]:
        """All memory of a call, on the current device, as `run` returns it."""
        for written, other in self.apart:
            start, others_start = addresses[written], addresses[other]
            near = start < others_start + self.bytes[other] and others_start < start + self.bytes[written]
            if near and not self._in_other_columns(written, other, others_start - start):
                first, second = self.names[written], self.names[other]
                raise ArgumentError(f"{first} and {second} share memory, and {first} is written to")
        if not self.makers:
            return given
        memory, address_of = list(given), self.caller.address
        for make in self.makers:
            array = make()
            memory.append(array)
            addresses.append(address_of(array))
        return memory

    def _in_other_columns(self, one: int, other: int, distance: int) -> bool:
        """True if the rows of two arrays, that number of bytes from one another, lie side by side in rows of both."""
        (row, pitch), (others_row, others_pitch) = self.rows[one], self.rows[other]
        if not pitch or pitch != others_pitch:
            return False
        return row <= distance % pitch <= pitch - others_row

    def prepare(
        self, given: Sequence[Any], addresses: list[int], scalars: Sequence[Any]
    ) -> tuple[Sequence[Any], Callable[[], None]]:
        """(all memory of a call, a call that launches on it, without anything else).

        Of several threads one launches at a time: a launch may read what the one before it has written.
        """
        with self.engine.use():
            memory = self.complete(given, addresses)
        only_launch, one_at_a_time = replace(self, makers=(), apart=(), between=0), Lock()

        def launch() -> None:
            with one_at_a_time:
                only_launch.run(memory, addresses, scalars)

        return memory, launch


class Prepared:
    """A kernel with its arrays: a call launches it on them again, on the caller's stream, and returns the outputs.

    It holds the arrays, and the memory that is kept between launches. `outputs` is what the calls write into: one
    array, or a tuple if there are several.
    """

    def __init__(self, launch: Callable[[], Any], outputs: Any) -> None:
        self._launch = launch
        self.outputs = outputs

    def __call__(self) -> Any:
        """Returns when the work is queued. Raises DeviceError where the device refuses."""
        self._launch()
        return self.outputs
