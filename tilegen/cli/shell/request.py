"""The kernels and schedules that the arguments of a command select."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import TypeVar

from tilegen import api
from tilegen.cli.shell.arguments import STANDARD_INPUT, is_fraction
from tilegen.cli.shell.streams import read_input
from tilegen.errors import SourceError, TilegenError, UsageError, did_you_mean, join_errors
from tilegen.frontend.files import read_file, shorten
from tilegen.ir import nodes
from tilegen.ir.steps import Parameter, Schedule, Setting
from tilegen.lab.choice.family import Candidate, Chooser
from tilegen.lab.predict.machine import Machine

N = TypeVar("N", int, float)

_WITH_SCHEDULES = re.compile(r"(?P<file>.+):(?P<names>\w+(,\w+)*)", re.DOTALL)
_MOST_ROWS = 1000


@dataclass(frozen=True)
class Attempt:
    """A schedule with values for its parameters, applied to a kernel, or why it cannot be.

    `file` is the word for the file that it is from, `schedule` None for the kernel as written; `given` are the values
    that --set gives. A family has `chosen` it.
    """

    file: str
    schedule: str | None
    given: Mapping[str, Setting]
    kernel: api.Kernel
    result: api.Scheduled | TilegenError
    chosen: bool = False

    @property
    def name(self) -> str:
        return self.schedule or "unscheduled"

    @property
    def applied(self) -> api.Scheduled | None:
        """None where it cannot be applied."""
        return None if isinstance(self.result, TilegenError) else self.result

    @property
    def tree(self) -> nodes.Tree | TilegenError:
        """The tree, or why there is none."""
        return self.result if isinstance(self.result, TilegenError) else self.result.tree

    @property
    def written(self) -> str:
        """Its text with that of the kernel, which needs no other text."""
        file, kernel = self.kernel.file, self.kernel.ir.name
        found = next((each for each in file.schedules if each.name == self.schedule), None)
        return file.self_contained(found.name, kernel) if found else file.kernel_alone(kernel)


def attempt(file: str, kernel: api.Kernel, schedule: str | None, given: Mapping[str, Setting]) -> Attempt:
    """A schedule, None for none, with these values for its parameters, applied to the kernel."""
    result: api.Scheduled | TilegenError
    try:
        result = kernel.schedule(schedule, **given)
    except TilegenError as error:
        result = error
    return Attempt(file, schedule, given, kernel, result)


def suggested(file: str, kernel: api.Kernel, machine: str | None, sizes: Mapping[str, int]) -> Attempt:
    """The one schedule that `suggest` writes for these sizes of the kernel, as a row of the file's."""
    from tilegen.suggest import sizes_beside

    given = {name: size for name, size in sizes.items() if name in kernel.ir.sizes}
    found = kernel.suggest(machine, **sizes_beside(kernel.ir, given))
    return attempt(file, found.kernel(kernel.ir.name, **kernel.values), found.schedules[0].name, {})


def by_form(file: api.File, kernel: str | None, schedules: Iterable[str]) -> api.File:
    """The file with stock schedules, such as gemm.across, for a kernel, which it has under names such as gemm_across.

    Raises UsageError where it has no such kernel, and SourceError where there is no such schedule.
    """
    of = file.kernel(kernel).ir.name if kernel or len(file.kernels) != 1 else next(iter(file.kernels))
    lines = [f"schedule {name.replace('.', '_')} for {of} extends {name}" for name in schedules]
    return api.from_text("\n".join((file.text.rstrip("\n"), "", *lines, "")), file.source.name, cache=file.cache)


@dataclass(frozen=True)
class Request:
    """The arguments that all commands share.

    Attributes:
        asked: names of schedules; none for all of the kernel's. `gemm.across` is a stock schedule, by form.
        settings: schedule parameters and the kernel's integer attributes, with the values that each is to have in turn.
        sizes: what --size gives.
        json_file: where the result goes as JSON.
        any_value: take values that are not among the candidates of their parameter, too.
        points: all sizes to go through, of which `sizes` are the first.
        loaded: the files that requests of one command have loaded, by name: a pipe cannot be read again.
    """

    file: str
    kernel: str | None
    asked: Sequence[str]
    settings: Mapping[str, Sequence[Setting]]
    sizes: Mapping[str, int]
    json_file: str | None
    any_value: bool = False
    loaded: dict[str, api.File] = field(default_factory=dict, compare=False, repr=False)
    points: Sequence[Mapping[str, int]] = ()

    def load(self) -> api.File:
        """The file. A note on standard error tells of another one of its name, or of schedules that it does not get."""
        if self.file not in self.loaded:
            self.loaded[self.file] = self._load()
        return self.loaded[self.file]

    def _load(self) -> api.File:
        # What a command tells of the judge and of the proof is found out by it.
        if self.file == "-":
            file = api.from_text(read_input(), STANDARD_INPUT, cache=False)
        else:
            try:
                file = api.load(self.file, cache=False)
            except SourceError:
                _refuse_measurements(self.file)
                raise
        stock = [name for name in self.asked if "." in name]
        if stock:
            return by_form(file, self.kernel, stock)
        if file.remark:
            print(f"note: {file.remark}", file=sys.stderr)
        return file

    @property
    def schedule(self) -> Sequence[str]:
        """The names of `asked`, `gemm_across` for the stock schedule gemm.across."""
        return [name.replace(".", "_") for name in self.asked]

    def written_kernel(self) -> api.Kernel:
        """The kernel without a schedule, with the sizes and attributes that are given."""
        values = {name: _number(value) for name, (value, *_) in self.settings.items()}
        return self.load().kernel(self.kernel, **join(self.sizes, values))

    def schedules(self, fixed: Mapping[str, int]) -> dict[str, api.Scheduled]:
        """The schedules, applied, with the sizes `fixed` as constants. Raises the errors of those that cannot be."""
        found = self.attempts(fixed)
        if errors := [each for each in found.values() if isinstance(each, TilegenError)]:
            raise join_errors(errors)
        return {name: each for name, each in found.items() if not isinstance(each, TilegenError)}

    def attempts(self, fixed: Mapping[str, int]) -> dict[str, api.Scheduled | TilegenError]:
        """The schedules, and for each that cannot be applied the reason. Raises that reason where none can."""
        found = {each.name: each.result for each in self.tried(fixed)}
        failed = [each for each in found.values() if isinstance(each, TilegenError)]
        if len(failed) == len(found):
            raise join_errors(failed)
        return found

    def tried(self, fixed: Mapping[str, int]) -> list[Attempt]:
        """`attempts`, with every value of the settings; all of one kernel."""
        return list(_attempts(self, select(self), fixed))

    def one(self, command: str, fixed: Mapping[str, int]) -> api.Scheduled:
        """The only schedule. Raises UsageError where there are several."""
        found = select(self).schedules
        if len(found) > 1:
            notes = (", ".join(each.name for each in found),)
            raise UsageError(f"{command} takes one schedule: say --schedule", notes=notes)
        return next(iter(self.schedules(fixed).values()))

    def built_kernel(self, selection: Selection, fixed: Mapping[str, int]) -> api.Kernel:
        """The kernel of the selection with the attributes that are set, and the sizes `fixed` as constants.

        Raises:
            UsageError: --set gives what none has, or a value that is no candidate; --fix fixes no size.
        """
        _check_settings(selection, self.settings)
        _check_fixed(selection, fixed)
        settings = {name: value for name, (value, *_) in self.settings.items() if name in selection.attributes}
        attributes = {name: _number(value) for name, value in settings.items()}
        built = selection.file.kernel(selection.kernel, **join(fixed, attributes))
        if not self.any_value:
            _check_candidates(selection, self.settings)
        return built

    def family(self, machine: str | Machine | None, fixed: Mapping[str, int]) -> Chooser | None:
        """What chooses among the schedules of the kernel's family, where that is named, or no schedule is; else None.

        Raises what `built_kernel` raises.
        """
        named = [f for f in self.load().families if list(self.schedule) in ([], [f.name])]
        kernels = {f.kernel for f in named if self.kernel in (None, f.kernel)}
        if not kernels:
            return None
        unscheduled = replace(self, asked=(), kernel=self.kernel or (kernels.pop() if len(kernels) == 1 else None))
        built: Chooser | None = unscheduled.built_kernel(select(unscheduled), fixed).family(machine)
        return built

    def of_member(self, member: Candidate) -> Request:
        """This for a member of a family."""
        values = {name: [value] for name, value in member.parameters.items()}
        return replace(self, asked=[member.schedule], settings={**self.settings, **values}, any_value=True)

    def check_sizes(self, kernel: nodes.Kernel) -> None:
        """Raises UsageError where --size names what is no size of the kernel, or gives one below 1."""
        for name, value in (each for sizes in self.points or [self.sizes] for each in sizes.items()):
            if name not in kernel.sizes:
                message = f"kernel '{kernel.name}' has no size '{name}'"
                raise UsageError(message, notes=self._size_notes(name, value, kernel))
            if value < 1:
                raise UsageError(f"size {name} is {value}, and sizes are at least 1")

    def _size_notes(self, size: str, value: int, kernel: nodes.Kernel) -> tuple[str, ...]:
        """Notes for a name that is no size of the kernel: what may be meant."""
        declared = self.load().kernels.get(kernel.name)
        if declared and size in declared.constants:
            return (f"it is a constant of the kernel: --set {size}={value} changes it",)
        return did_you_mean(size, kernel.sizes, "its sizes are", none="it has none")


def split_target(word: str) -> tuple[str, list[str]]:
    """`gemm:naive,tiled` as a file and schedules; a path with a colon in it is a path, if there is such a file."""
    found = _WITH_SCHEDULES.fullmatch(word)
    if not found or os.path.exists(word):
        return word, []
    return "-" if found["file"] == STANDARD_INPUT else found["file"], found["names"].split(",")


@dataclass(frozen=True)
class Selection:
    """A kernel of a file, None for the only one, and schedules of it, none where it has none."""

    file: api.File
    kernel: str | None
    schedules: tuple[Schedule, ...] = field(default=())

    @property
    def parameters(self) -> dict[str, list[Parameter]]:
        """The parameters of the schedules, by their names."""
        found: dict[str, list[Parameter]] = {}
        for parameter in (p for s in self.schedules for p in s.parameters):
            found.setdefault(parameter.name, []).append(parameter)
        return found

    @property
    def attributes(self) -> set[str]:
        """The attributes of the kernel."""
        kernels = self.file.kernels
        declared = kernels.get(self.kernel) if self.kernel else next(iter(kernels.values()), None)
        return {*declared.constants} if declared else set()


def select(request: Request) -> Selection:
    """The kernel and the schedules that are asked for, the first one for the first kernel that it names.

    Without names these are all schedules of the kernel, or of the only kernel that has any.

    Raises:
        UsageError: there are none of these names, or there are schedules for several kernels and no name.
    """
    file, names = request.load(), request.schedule
    known = list(dict.fromkeys(s.kernel for s in file.schedules if not names or s.name == names[0]))
    wanted = request.kernel or (known[0] if names and known or len(known) == 1 else None)
    if wanted is None and len(known) > 1:
        message = f"{file.source.name} has schedules for several kernels: say --kernel"
        raise UsageError(message, notes=(", ".join(known),))
    found = [file.find_schedule(name, wanted) for name in names]
    return Selection(file, wanted, tuple(found or [s for s in file.schedules if s.kernel == wanted]))


def _attempts(request: Request, selection: Selection, fixed: Mapping[str, int]) -> Iterator[Attempt]:
    """Each schedule with all values of its parameters; the kernel as written where there is no schedule."""
    settings = request.settings
    built = request.built_kernel(selection, fixed)
    if fixed is not request.sizes:  # those of show and emit are constants by now
        request.check_sizes(built.ir)  # before schedules are applied, which takes seconds
    if not selection.schedules:
        yield attempt(request.file, built, None, {})
    for schedule in selection.schedules:
        for given in _combinations(schedule, settings):
            yield attempt(request.file, built, schedule.name, given)


def _combinations(schedule: Schedule, settings: Mapping[str, Sequence[Setting]]) -> Iterator[dict[str, Setting]]:
    names = [p.name for p in schedule.parameters if p.name in settings]
    count = prod(len(settings[name]) for name in names)
    if count > _MOST_ROWS:
        raise UsageError(f"'{schedule.name}' has {count} combinations of these values; {_MOST_ROWS} is the limit")
    for values in product(*(settings[name] for name in names)):
        yield dict(zip(names, values, strict=True))


def _refuse_measurements(path: str) -> None:
    """Raises UsageError where the file is what a command has measured, and no text of kernels."""
    try:
        from tilegen.report import read_measured
    except ModuleNotFoundError:  # a plugin, without which nothing is known of such files
        return
    name = shorten(path)
    try:
        read_measured(read_file(path) or "", name)
    except UsageError:
        return
    word = shlex.quote(name)
    notes = (f"tilegen report OWN.tg --measured {word} shows it beside schedules, and tilegen plot {word} draws it",)
    raise UsageError(f"{name} is a record of measurements, and FILE is a text of kernels and schedules", notes=notes)


def _number(value: Setting) -> float:
    """A number of --set: an attribute of the kernel. Words are none, and refused where integers are wanted."""
    return float(value) if isinstance(value, str) and is_fraction(value) else value  # type: ignore[return-value]


def join(sizes: Mapping[str, N], attributes: Mapping[str, N]) -> dict[str, N]:
    """The two mappings as one. Raises UsageError where they give one name two values."""
    for name, value in attributes.items():
        if sizes.get(name, value) != value:
            raise UsageError(f"{name} is to be {sizes[name]} and {value}")
    return {**sizes, **attributes}


# -- mistakes in the arguments


def _check_settings(selection: Selection, settings: Mapping[str, Sequence[Setting]]) -> None:
    """Raises UsageError at an unknown name, and at an attribute with several values."""
    for name, values in settings.items():
        if name in selection.attributes and len(values) > 1:
            notes = ("parameters of schedules take several values",)
            raise UsageError(f"{name} is a constant of the kernel, and all rows are of one kernel", notes=notes)
        if name not in selection.attributes and name not in selection.parameters:
            known = sorted({*selection.attributes, *selection.parameters})
            near = did_you_mean(name, known, "there are")
            raise UsageError(f"no schedule has a parameter '{name}', and the kernel no attribute", notes=near)
        fractions = [each for each in values if isinstance(each, str) and is_fraction(each)]
        if fractions and name not in selection.attributes:
            raise UsageError(f"--set takes NAME=INTEGER, not '{name}={fractions[0]}'")


def _check_candidates(selection: Selection, settings: Mapping[str, Sequence[Setting]]) -> None:
    """Raises UsageError for a value that is not among the candidates of its parameter."""
    for name, values in settings.items():
        for parameter in selection.parameters.get(name, ()):
            for value in values:
                if parameter.candidates and value not in parameter.candidates:
                    listed = ", ".join(map(str, parameter.candidates))
                    raise UsageError(
                        f"{name}={value} is none of the candidates of {name}",
                        parameter.span,
                        notes=(f"they are {listed}", "--any-value takes others, too"),
                    )


def _check_fixed(selection: Selection, fixed: Mapping[str, int]) -> None:
    """Raises UsageError where a parameter of the schedules, which is no size, is to be fixed."""
    kernels = selection.file.kernels
    declared = kernels.get(selection.kernel) if selection.kernel else None
    sizes = {*declared.size_names(), *declared.constants} if declared else set()
    for name in fixed:
        if name in selection.parameters.keys() - sizes:
            notes = (f"--set {name}={fixed[name]} sets it",)
            raise UsageError(f"{name} is a parameter of the schedule, not a size", notes=notes)
