"""The kernels and schedules that the arguments of a command select."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen import api
from tilegen.errors import TilegenError, UsageError, did_you_mean
from tilegen.ir import nodes
from tilegen.ir.steps import Schedule


@dataclass(frozen=True)
class Request:
    """The arguments that all commands share.

    Attributes:
        schedule: names; none for all of the kernel's.
        settings: schedule parameters and the kernel's integer attributes.
        sizes: what --size gives.
        json_file: where the result goes as JSON.
    """

    file: str
    kernel: str | None
    schedule: Sequence[str]
    settings: Mapping[str, int]
    sizes: Mapping[str, int]
    json_file: str | None

    def load(self) -> api.File:
        """The file. A note on standard error says which stock schedules of its name it does not get."""
        file = api.load(self.file)
        if file.remark:
            print(f"note: {file.remark}", file=sys.stderr)
        return file

    def schedules(self, fixed: Mapping[str, int]) -> dict[str, api.Scheduled]:
        """The schedules, applied, with the sizes `fixed` as constants."""
        return schedules(self.load(), self.kernel, self.schedule, self.settings, fixed)

    def attempts(self, fixed: Mapping[str, int]) -> dict[str, api.Scheduled | TilegenError]:
        """The schedules, and for each that cannot be applied the reason. Raises that reason where none can."""
        found = attempts(self.load(), self.kernel, self.schedule, self.settings, fixed)
        failed = [each for each in found.values() if isinstance(each, TilegenError)]
        if len(failed) == len(found):
            raise failed[0]
        return found

    def one(self, command: str, fixed: Mapping[str, int]) -> api.Scheduled:
        """The only schedule. Raises UsageError where there are several."""
        return one(self.schedules(fixed), command)

    def check_sizes(self, kernel: nodes.Kernel) -> None:
        """Raises UsageError where --size names what is no size of the kernel, or gives one below 1."""
        for name, value in self.sizes.items():
            if name not in kernel.sizes:
                message = f"kernel '{kernel.name}' has no size '{name}'"
                raise UsageError(message, notes=self._size_notes(name, value, kernel))
            if value < 1:
                raise UsageError(f"size {name} is {value}, and sizes are at least 1")

    def _size_notes(self, size: str, value: int, kernel: nodes.Kernel) -> tuple[str, ...]:
        """Notes for a name that is no size of the kernel: what may be meant."""
        declared = api.load(self.file).kernels.get(kernel.name)
        if declared and size in declared.attributes:
            return (f"it is a constant of the kernel: --set {size}={value} changes it",)
        known = list(kernel.sizes)
        return did_you_mean(size, known) or (f"its sizes are {', '.join(known)}" if known else "it has none",)


def schedules(
    file: api.File, kernel: str | None, names: Sequence[str], settings: Mapping[str, int], fixed: Mapping[str, int]
) -> dict[str, api.Scheduled]:
    """`attempts`, all of which have to be possible. Raises the error of the first that is not."""
    found: dict[str, api.Scheduled] = {}
    for name, each in attempts(file, kernel, names, settings, fixed).items():
        if isinstance(each, TilegenError):
            raise each
        found[name] = each
    return found


def attempts(
    file: api.File, kernel: str | None, names: Sequence[str], settings: Mapping[str, int], fixed: Mapping[str, int]
) -> dict[str, api.Scheduled | TilegenError]:
    """The named schedules of the file, applied, or why they cannot be; all of one kernel.

    Without names these are all schedules of `kernel`, or of the only kernel that has any; where there are
    none, the kernel as written.

    Args:
        settings: schedule parameters and the kernel's integer attributes.
        fixed: sizes to fix as constants.
    """
    known = sorted({s.kernel for s in file.schedules if not names or s.name == names[0]})
    wanted = kernel or (known[0] if len(known) == 1 else None)
    if wanted is None and len(known) > 1:
        message = f"{file.source.name} has schedules for several kernels: say --kernel"
        raise UsageError(message, notes=(", ".join(known),))
    found = [file.find_schedule(name, wanted) for name in names]
    chosen = found or [s for s in file.schedules if s.kernel == wanted]
    attributes, parameters = _split_settings(file, wanted, settings, {p.name for s in chosen for p in s.parameters})
    _check_fixed(file, wanted, fixed, parameters={p.name for s in chosen for p in s.parameters})
    built = file.kernel(wanted, **join(fixed, attributes))
    _remark_on(chosen, parameters)
    if not chosen:
        return {"unscheduled": built.schedule()}
    return {s.name: _attempt(built, s, parameters) for s in chosen}


def _check_fixed(file: api.File, kernel: str | None, fixed: Mapping[str, int], parameters: set[str]) -> None:
    """Raises UsageError where a parameter of the schedules, which is no size, is to be fixed."""
    declared = file.kernels.get(kernel) if kernel else None
    sizes = {*declared.size_names(), *declared.attributes} if declared else set()
    for name in fixed:
        if name in parameters - sizes:
            notes = (f"--set {name}={fixed[name]} sets it",)
            raise UsageError(f"{name} is a parameter of the schedule, not a size", notes=notes)


def _attempt(kernel: api.Kernel, schedule: Schedule, parameters: Mapping[str, int]) -> api.Scheduled | TilegenError:
    try:
        return kernel.schedule(schedule.name, **_select(parameters, {p.name for p in schedule.parameters}))
    except TilegenError as error:
        return error


def join(sizes: Mapping[str, int], attributes: Mapping[str, int]) -> dict[str, int]:
    """The two mappings as one. Raises UsageError where they give one name two values."""
    for name, value in attributes.items():
        if sizes.get(name, value) != value:
            raise UsageError(f"{name} is to be {sizes[name]} and {value}")
    return {**sizes, **attributes}


def _remark_on(chosen: Sequence[Schedule], parameters: Mapping[str, int]) -> None:
    """Prints a note for each value that is not among the candidates of its parameter; it is used all the same."""
    for parameter in {p.name: p for s in chosen for p in s.parameters}.values():
        value = parameters.get(parameter.name, parameter.default)
        if parameter.candidates and value not in parameter.candidates:
            listed = ", ".join(map(str, parameter.candidates))
            print(f"note: {parameter.name}={value} is none of the values that are listed: {listed}", file=sys.stderr)


def one(found: Mapping[str, api.Scheduled], command: str) -> api.Scheduled:
    """The only schedule of `found`. Raises UsageError where there are several."""
    if len(found) > 1:
        notes = (", ".join(found),)
        raise UsageError(f"{command} takes one schedule: say --schedule", notes=notes)
    return next(iter(found.values()))


def _select(parameters: Mapping[str, int], names: set[str]) -> dict[str, int]:
    return {name: value for name, value in parameters.items() if name in names}


def _split_settings(
    file: api.File, kernel: str | None, settings: Mapping[str, int], parameters: set[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """(integer attributes of the kernel, parameters of schedules). Raises UsageError at an unknown name."""
    declared = file.kernels.get(kernel) if kernel else next(iter(file.kernels.values()), None)
    attributes = set(declared.attributes) if declared else set()
    for name in settings:
        if name not in attributes | parameters:
            known = sorted(attributes | parameters)
            notes = did_you_mean(name, known) or (f"there are {', '.join(known) or 'none'}",)
            raise UsageError(f"no schedule has a parameter '{name}', and the kernel no attribute", notes=notes)
    return _select(settings, attributes), _select(settings, parameters)
