"""What tuning found fastest, taken up from its records: by kernel, device and sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilegen.errors import ArgumentError, UsageError
from tilegen.frontend.files import read_text
from tilegen.ir.nodes import Kernel
from tilegen.lab.choice.family import Candidate, Chooser
from tilegen.lab.records.records import RunRecord

if TYPE_CHECKING:
    from tilegen.backends.calls.device_program import Program

# A record whose samples were taken in turns with others of the fastest says so in its notes.
TOGETHER = "together"


def read_tuned(path: str | Path) -> list[RunRecord]:
    """The records of a file that have times of a schedule. Raises UsageError where there is none."""
    from tilegen.lab.records.records import read_records

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


class SeveralPrograms:
    """A kernel on one device, which runs another schedule for other sizes; call it with arrays, as a Program."""

    def __init__(self, kernel: Kernel, device: str, unproved: bool) -> None:
        self._kernel, self._device, self._unproved = kernel, device, unproved
        self._programs: dict[Hashable, Program] = {}  # by what is chosen
        self._chosen: dict[Hashable, Program] = {}  # by the shapes of a call

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Runs the kernel as `Program` does, by the schedule for the sizes of these arrays."""
        return self._program(arrays, named)(*arrays, **named)

    def prepare(self, /, *arrays: Any, **named: Any) -> Any:
        """What `Program.prepare` gives, of the schedule for the sizes of these arrays."""
        return self._program(arrays, named).prepare(*arrays, **named)

    def _program(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Program:
        key = (*map(_shape, arrays), *((name, _shape(value, size=True)) for name, value in named.items()))
        if key not in self._chosen:
            sizes = self._sizes(arrays, named)
            if sizes is None:
                return self._any()  # which says what is wrong with the call
            self._chosen[key] = self._for(sizes)
        return self._chosen[key]

    def _sizes(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, int] | None:
        from tilegen.backends.calls.arrays import infer_sizes

        kernel = self._kernel
        tensors = {tensor.name for tensor in kernel.tensors}
        given = dict(zip(kernel.parameters, arrays, strict=False)) | dict(named)
        shapes = {n: tuple(a.shape) for n, a in given.items() if n in tensors and hasattr(a, "shape")}
        try:
            return infer_sizes(kernel, shapes, {n: int(v) for n, v in named.items() if n in kernel.sizes})
        except (ArgumentError, TypeError, ValueError):
            return None

    def _for(self, sizes: Mapping[str, int]) -> Program:
        """The program of what is chosen for these sizes."""
        raise NotImplementedError

    def _any(self) -> Program:
        raise NotImplementedError


def _shape(value: Any, *, size: bool = False) -> Hashable:
    """What a choice may depend on of an argument: the shape of an array, and the value of a size."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if shape is not None else value if size and isinstance(value, int) else None


class FamilyProgram(SeveralPrograms):
    """The programs of a family's members, of which a chooser takes one; `otherwise` makes one for other sizes."""

    def __init__(
        self, kernel: Kernel, chooser: Chooser, device: str, unproved: bool, otherwise: Callable[..., Any] | None
    ) -> None:
        super().__init__(kernel, device, unproved)
        self.chooser, self._otherwise = chooser, otherwise

    def __repr__(self) -> str:
        return f"<FamilyProgram of {self._kernel.name}, of {len(self.chooser.candidates)} members>"

    def choose(self, **sizes: int) -> Candidate:
        """The member that runs at these sizes, all of the kernel's."""
        return self.chooser.choose(**sizes)

    def _for(self, sizes: Mapping[str, int]) -> Program:
        try:
            return self._of_candidate(self.choose(**sizes))
        except UsageError:
            if self._otherwise is None:
                raise
        if "" not in self._programs:
            self._programs[""] = self._otherwise(self._device, self._unproved)
        return self._programs[""]

    def _any(self) -> Program:
        return self._of_candidate(self.chooser.candidates[-1])

    def _of_candidate(self, candidate: Candidate) -> Program:
        if candidate.name not in self._programs:
            self._programs[candidate.name] = candidate.scheduled().compile(self._device, unproved=self._unproved)
        return self._programs[candidate.name]


class TunedProgram(SeveralPrograms):
    """The programs of records of tuning, of which the nearest one is taken."""

    def __init__(
        self,
        kernel: Kernel,
        records: Sequence[RunRecord],
        device: str,
        unproved: bool,
        apply: Callable[[RunRecord], Any],
    ) -> None:
        """`apply` makes of a record what is compiled."""
        super().__init__(kernel, device, unproved)
        self._records, self._apply = records, apply

    def __repr__(self) -> str:
        return f"<TunedProgram of {self._kernel.name}, from {len(self._records)} records>"

    def choose(self, **sizes: int) -> RunRecord:
        """The record whose schedule runs at these sizes, all of the kernel's."""
        device = self._records[0].device
        assert device is not None
        found = find_nearest(self._records, device.name, sizes)
        if found is None:
            raise ArgumentError(f"the sizes of '{self._kernel.name}' are {', '.join(self._kernel.sizes)}")
        return found

    def _for(self, sizes: Mapping[str, int]) -> Program:
        return self._of_record(self.choose(**sizes))

    def _any(self) -> Program:
        return self._of_record(self._records[0])

    def _of_record(self, record: RunRecord) -> Program:
        key = (record.text, record.schedule, *sorted(record.parameters.items()))
        if key not in self._programs:
            self._programs[key] = self._apply(record).compile(self._device, unproved=self._unproved)
        return self._programs[key]
