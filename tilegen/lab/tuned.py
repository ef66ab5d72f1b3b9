"""What tuning found fastest, taken up from its records: by kernel, device and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tilegen.errors import ArgumentError, TilegenError, UsageError
from tilegen.frontend.files import read_text
from tilegen.ir.alike import find_difference
from tilegen.ir.nodes import Kernel, Tree
from tilegen.lab.records import RunRecord

if TYPE_CHECKING:
    from tilegen.backends.device_program import Program

# A record whose samples were taken in turns with others of the fastest says so in its notes.
TOGETHER = "together"


def read_tuned(path: str | Path) -> list[RunRecord]:
    """The records of a file that have times of a schedule. Raises UsageError where there is none."""
    from tilegen.lab.records import read_records

    found = [
        r
        for r in read_records(read_text(path), str(path))
        if r.outcome == "measured" and r.text and r.schedule and r.device
    ]
    if not found:
        raise UsageError(f"{path} has no time of a schedule")
    return found


def find_fastest(records: Sequence[RunRecord], device: str, sizes: Mapping[str, int]) -> RunRecord | None:
    """The fastest record at these sizes on the device of this name; None where there is none.

    Times that were taken in turns are compared with each other alone, and count before all others.
    """
    there = [r for r in records if r.device and r.device.name == device and dict(r.sizes) == dict(sizes)]
    in_turns = [r for r in there if r.notes.get(TOGETHER)]
    return min(in_turns or there, key=lambda r: r.milliseconds or 0.0, default=None)


def find_nearest(records: Sequence[RunRecord], device: str, sizes: Mapping[str, int]) -> RunRecord | None:
    """The fastest record at the sizes that are nearest by their ratios, 0 as 1; None without one on the device."""
    there = [r for r in records if r.device and r.device.name == device and r.sizes.keys() == sizes.keys()]
    if not there:
        return None
    nearest = min(there, key=lambda r: sum(abs(log(max(1, r.sizes[name]) / max(1, sizes[name]))) for name in sizes))
    return find_fastest(there, device, nearest.sizes)


class _Scheduled(Protocol):
    @property
    def tree(self) -> Tree: ...

    def compile(self, device: str = ..., *, unproved: bool = ...) -> Program: ...


class TunedKernel:
    """What a kernel of a file makes of the records of tuning."""

    ir: Kernel
    values: dict[str, float]

    def suggest(self, machine: str | None = None, /, **sizes: int) -> Any:
        """A file with this kernel and a first schedule."""
        raise NotImplementedError

    def of_record(self, record: RunRecord) -> _Scheduled:
        """The schedule of a record, applied to the record's own text."""
        raise NotImplementedError

    def records_of(self, path: str | Path) -> list[RunRecord]:
        """The records of a file that have times of schedules of this kernel.

        Raises:
            UsageError: the file has none.
        """
        same: dict[tuple[Any, ...], bool] = {}
        found = []
        for record in read_tuned(path):
            key = (record.text, record.kernel, *sorted(record.constants.items()))
            if key not in same:
                same[key] = self._is_of(record)
            if same[key]:
                found.append(record)
        if not found:
            raise UsageError(f"{path} has no times of the kernel '{self.ir.name}' with these constants")
        return found

    def _is_of(self, record: RunRecord) -> bool:
        try:
            other = self.of_record(record).tree.kernel.written_kernel
        except TilegenError:  # a text that this tilegen does not take any more
            return False
        return find_difference(self.ir.written_kernel, other) is None

    def compile(
        self, tuned: str | Path | None = None, device: str = "auto", *, unproved: bool = False
    ) -> TunedProgram | Program:
        """A program that runs, for the sizes of each call, the schedule that was fastest on this device.

        Where the file has no times at these sizes, it runs the fastest of the nearest ones, by their ratios. Without a
        file it runs what `suggest` writes: no approximations, no other types; the terms of the reductions that the
        program's `tree.reassociated` names come in another order. `schedule().compile()` is the kernel as written.

            multiply = tilegen.load("gemm").kernel().compile("tune-gemm.jsonl")
            c = multiply(a, b)

        Args:
            tuned: a record of `tilegen tune`.
            device: "cuda", "cpu", or "auto" for the first of the two that is there.
            unproved: True lets calls run what the proof leaves open; otherwise they raise ProofError.

        Raises:
            UsageError: the file has no times of this kernel on this device. DeviceError: the device is not there.
        """
        from tilegen.backends.devices import engine

        if tuned is None:
            (found,) = (file := self.suggest()).schedules
            suggested: Program = (
                file.kernel(self.ir.name, **self.values).schedule(found.name).compile(device, unproved=unproved)
            )
            return suggested
        name, records = engine(device).name, self.records_of(tuned)
        there = [r for r in records if r.device and r.device.name == name]
        if not there:
            others = ", ".join(sorted({r.device.name for r in records if r.device}))
            raise UsageError(f"{tuned} has no times on {name}", notes=(f"it has some on {others}",))
        return TunedProgram(self, there, device, unproved)


class TunedProgram:
    """A kernel on one device, which runs another schedule for other sizes; call it with arrays, as a Program."""

    def __init__(self, of: TunedKernel, records: Sequence[RunRecord], device: str, unproved: bool) -> None:
        self._of, self._records, self._device, self._unproved = of, records, device, unproved
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._chosen: dict[tuple[int, ...], Program] = {}

    def __repr__(self) -> str:
        return f"<TunedProgram of {self._of.ir.name}, from {len(self._records)} records>"

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Runs the kernel as `Program` does, by the schedule for the sizes of these arrays."""
        return self._program(arrays, named)(*arrays, **named)

    def prepare(self, /, *arrays: Any, **named: Any) -> Any:
        """What `Program.prepare` gives, of the schedule for the sizes of these arrays."""
        return self._program(arrays, named).prepare(*arrays, **named)

    def choose(self, **sizes: int) -> RunRecord:
        """The record whose schedule runs at these sizes, all of the kernel's."""
        device = self._records[0].device
        assert device is not None
        found = find_nearest(self._records, device.name, sizes)
        if found is None:
            raise ArgumentError(f"the sizes of '{self._of.ir.name}' are {', '.join(self._of.ir.sizes)}")
        return found

    def _program(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Program:
        from tilegen.backends.arrays import infer_sizes

        kernel = self._of.ir
        tensors = {tensor.name for tensor in kernel.tensors}
        given = dict(zip(kernel.parameters, arrays, strict=False)) | dict(named)
        shapes = {n: tuple(a.shape) for n, a in given.items() if n in tensors and hasattr(a, "shape")}
        try:
            sizes = infer_sizes(kernel, shapes, {n: int(v) for n, v in named.items() if n in kernel.sizes})
        except (ArgumentError, TypeError, ValueError):
            return self._of_record(self._records[0])  # which says what is wrong with the call
        key = tuple(sizes[name] for name in kernel.sizes)
        if key not in self._chosen:
            self._chosen[key] = self._of_record(self.choose(**sizes))
        return self._chosen[key]

    def _of_record(self, record: RunRecord) -> Program:
        key = (record.text, record.schedule, *sorted(record.parameters.items()))
        if key not in self._programs:
            scheduled = self._of.of_record(record)
            self._programs[key] = scheduled.compile(self._device, unproved=self._unproved)
        return self._programs[key]
