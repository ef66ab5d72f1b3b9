"""Families: which schedules, with which values for their parameters, may serve a kernel, and for which sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tilegen.errors import Collected, SourceError, did_you_mean
from tilegen.frontend.parsing.calls import parse_names, setting_of
from tilegen.frontend.parsing.parameter_facts import parse_facts
from tilegen.frontend.parsing.place import Branch, Place, branch, branches, token
from tilegen.frontend.syntax import Module
from tilegen.ir.steps import Family, Member, Parameter, Schedule


def families_of_schedules(place: Place, tree: Branch) -> tuple[Family, ...]:
    """A family for each of the kernels that it names."""
    _, word, _, named, _, *lines = tree.children
    members = tuple(_member(place, line) for line in branches(lines))
    kernels = parse_names(place, named)
    return tuple(Family(str(word), kernel, members, place.of(token(word)), kernels) for kernel in kernels)


def without_others(families: Iterable[Family], schedules: Iterable[Schedule]) -> Iterator[Family]:
    """The families, each without the members whose schedules are for others of the kernels that its head names."""
    served = [(schedule.name, schedule.kernel) for schedule in schedules]
    for family in families:
        own = {name for name, kernel in served if kernel == family.kernel}
        others = {name for name, kernel in served if kernel in family.kernels} - own
        yield replace(family, members=tuple(m for m in family.members if m.schedule not in others))


def _member(place: Place, tree: Branch) -> Member:
    word, choices, facts, _ = tree.children
    given = branches(branch(choices).children) if choices is not None else ()
    parameters = tuple(_values(place, each) for each in given)
    where = branch(facts) if facts is not None else None
    return Member(str(word), parameters, parse_facts(place, where), place.of(token(word)))


def _values(place: Place, tree: Branch) -> Parameter:
    values = tuple(setting_of(place, value) for value in branches(tree.children))
    return Parameter(str(tree.children[0]), values[0], values, place.of(token(tree.children[0])))


def check_families(module: Module) -> None:
    """Raises SourceError where a family is for no kernel of the module, or speaks of what is no schedule, parameter or
    size."""
    collected = Collected()
    for number, family in enumerate(module.families):
        with collected:
            if any(other.kernel == family.kernel for other in module.families[:number]):
                raise SourceError(f"kernel '{family.kernel}' has two families", family.span)
            if family.kernel not in module.kernels:
                notes = did_you_mean(family.kernel, module.kernels, "the kernels are")
                raise SourceError(f"there is no kernel '{family.kernel}'", family.span, notes=notes)
            for member in family.members:
                with collected:
                    _check_member(module, family, member)
    collected.raise_any()


def _check_member(module: Module, family: Family, member: Member) -> None:
    there = {s.name: s for s in module.schedules if s.kernel == family.kernel}
    found = there.get(member.schedule)
    if found is None:
        notes = did_you_mean(member.schedule, there, "its schedules are", none="it has none")
        message = f"kernel '{family.kernel}' has no schedule '{member.schedule}'"
        raise SourceError(message, member.span, notes=notes)
    known = [parameter.name for parameter in found.parameters]
    for parameter in member.parameters:
        if parameter.name not in known:
            notes = did_you_mean(parameter.name, known, "its parameters are", none="it has no parameters")
            raise SourceError(f"'{found.name}' has no parameter '{parameter.name}'", parameter.span, notes=notes)
    declared = module.kernels[family.kernel]
    sizes = {*declared.size_names(), *declared.constants}
    numbers = {parameter.name for parameter in found.parameters if isinstance(parameter.default, int)}
    for fact in member.facts:
        if unknown := sorted(fact.names() - {*sizes, *numbers}):
            notes = did_you_mean(unknown[0], sizes, "its sizes are", none="it has none")
            raise SourceError(f"kernel '{family.kernel}' has no size '{unknown[0]}'", fact.span, notes=notes)
