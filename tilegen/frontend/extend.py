"""Schedules that extend others, as flat lists of steps: what is inherited, with what the text says of it.

An extension has the steps of its base, in order, and its lines change them one after the other:

    word(first, ...)                 replaces the inherited step of this word and first argument; else stands at the end
    before|after word(first): ...    inserts steps beside an inherited one
    instead of word(first): ...      replaces it by other steps
    without word(first)              drops it

Its head gives new parameters, new defaults and new facts. An inherited parameter that no step speaks of any more is
dropped, with the facts that speak of it, and so is a fact that the new defaults break.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tilegen.errors import Collected, SourceError, did_you_mean
from tilegen.frontend.by_form import Renaming, find_form, renaming
from tilegen.frontend.data import data_folder
from tilegen.frontend.parsing.parameter_facts import check_facts
from tilegen.frontend.syntax import Name, ScheduleDecl
from tilegen.ir.nodes import Kernel
from tilegen.ir.parameter_facts import Fact
from tilegen.ir.steps import Define, Parameter, Schedule, StepCall, Word, names_in
from tilegen.ir.walk import walk

_LONGEST = 100  # chain of schedules, each of which extends the next


@dataclass(frozen=True)
class Texts:
    """What is found in this text and in the files that its schedules extend.

    Attributes:
        stock: the schedules of a stock file.
        kernel: of a file, "" for this text, the kernel of a name; None where there is none that is well formed.
        defines: the composite steps of such a file by their words.
        renamed: the composite steps that get other names, which are found on the way.
    """

    stock: Callable[[str], Sequence[Schedule]]
    kernel: Callable[[str, str], Kernel | None]
    defines: Callable[[str], Mapping[str, Define]]
    renamed: dict[str, Define] = field(default_factory=dict)


class _From(Enum):
    """Where a step of a schedule is from."""

    BASE = "the base, as it is there"
    REPLACING = "a step of the schedule that replaces an inherited one"
    NEW = "the schedule, in a place of its own"


@dataclass(frozen=True)
class _Step:
    call: StepCall
    origin: _From


@dataclass(frozen=True)
class _Flat:
    """A schedule without its head: all parameters, facts and steps, and the kernels that it is for."""

    kernels: tuple[Name, ...]
    parameters: tuple[Parameter, ...]
    steps: tuple[StepCall, ...]
    facts: tuple[Fact, ...] = ()
    form: str = ""
    differs: str = ""


def flat_schedules(declared: Sequence[ScheduleDecl], texts: Texts) -> tuple[Schedule, ...]:
    """Each schedule with all of its steps, once for each kernel that it is for.

    Raises SourceError for a base that is nowhere or leads back to the schedule, and for a change of no inherited step.
    """
    by_name = {each.name.text: each for each in declared}
    known: dict[str, _Flat] = {}
    flat: list[Schedule] = []
    collected, wrong = Collected(), set[str]()
    for each in declared:
        if wrong.isdisjoint(_bases(each, by_name)):  # the mistakes of a base are reported once
            wrong.add(each.name.text)
            with collected:
                flat += _schedules(each, _flat(each, by_name, known, texts, ()))
                wrong.remove(each.name.text)
    collected.raise_any()
    return tuple(flat)


def _bases(declared: ScheduleDecl, by_name: Mapping[str, ScheduleDecl]) -> set[str]:
    """The names of all schedules of the text that one extends."""
    found = set[str]()
    while declared.base and declared.base.text in by_name and declared.base.text not in found:
        found.add(declared.base.text)
        declared = by_name[declared.base.text]
    return found


def _schedules(declared: ScheduleDecl, flat: _Flat) -> Iterator[Schedule]:
    kernels = tuple(kernel.text for kernel in flat.kernels)
    name = declared.name
    for kernel in flat.kernels:
        head = (name.text, kernel.text, flat.parameters, flat.steps, declared.doc)
        named = Schedule(*head, span=name.span, kernel_span=kernel.span, kernels=kernels, facts=flat.facts)
        yield replace(named, form=flat.form, differs=flat.differs)


def _flat(
    declared: ScheduleDecl,
    by_name: Mapping[str, ScheduleDecl],
    known: dict[str, _Flat],
    texts: Texts,
    around: tuple[str, ...],
) -> _Flat:
    """`declared` with what it inherits; `around` are the schedules that wait for it as their base."""
    name, base = declared.name.text, declared.base
    if name in known:
        return known[name]
    if base is None:
        steps = tuple(c for each in declared.changes for c in each.steps)
        found = _Flat(declared.kernels, declared.parameters, steps, declared.facts)
    elif len(around) == _LONGEST:
        raise SourceError(f"more than {_LONGEST} schedules extend one another", base.span)
    elif base.text in (*around, name):
        chain = (*around, name)
        circle = " extends ".join((*chain[chain.index(base.text) :], base.text))
        raise SourceError(f"'{name}' extends itself", base.span, notes=(circle,))
    elif base.text in by_name:
        inherited = _flat(by_name[base.text], by_name, known, texts, (*around, name))
        found = _extend_by_form(declared, base, inherited, texts, "")
    else:
        inherited = _stock_base(declared, base, by_name, texts)
        found = _extend_by_form(declared, base, inherited, texts, base.text.rpartition(".")[0])
    check_facts(found.facts, found.parameters)
    _check_used(declared, found)
    known[name] = found
    return found


def _check_used(declared: ScheduleDecl, flat: _Flat) -> None:
    """Raises SourceError where the head has a parameter that no step and no fact speaks of."""
    used = _words_of(flat.steps, flat.parameters).union(*(fact.names() for fact in flat.facts))
    for parameter in declared.parameters:
        if parameter.name not in used:
            near = did_you_mean(parameter.name, sorted(used))
            raise SourceError(f"no step uses the parameter '{parameter.name}'", parameter.span, notes=near)


def _stock_base(declared: ScheduleDecl, base: Name, by_name: Mapping[str, ScheduleDecl], texts: Texts) -> _Flat:
    """A schedule of another file, for all of its kernels where `declared` says which is meant; else for those of them
    that this text has, or for the one of the file's name."""
    stock, (file, _, name) = texts.stock, base.text.rpartition(".")
    offered = [schedule for schedule in stock(file) if schedule.name == name] if file else []
    if offered:
        served = offered[0].kernels
        own = [k for k in served if texts.kernel("", k)] or [k for k in served if k == file] or served
        kernels = tuple(Name(kernel, base.span) for kernel in (served if declared.kernels else own))
        return _Flat(kernels, offered[0].parameters, offered[0].steps, offered[0].facts)
    names = [f"{file}.{s.name}" for s in stock(file)] if file else [n for n in by_name if n != declared.name.text]
    notes = did_you_mean(base.text, names)
    if not notes:
        found = " or ".join(_stock_names_of(name, declared, stock)[:3]) or "gemm.across"
        notes = (f"a schedule of another file is extended with its name: extends {found}",)
    raise SourceError(f"there is no schedule '{base.text}' to extend", base.span, notes=notes)


def _stock_names_of(schedule: str, declared: ScheduleDecl, stock: Callable[[str], Sequence[Schedule]]) -> list[str]:
    """The stock schedules called `schedule`, with their files; those for the kernels of `declared`, if it has any."""
    kernels = {kernel.text for kernel in declared.kernels}
    return [
        f"{file}.{schedule}"
        for file in sorted(f.name.removesuffix(".tg") for f in data_folder("schedules").iterdir())
        if any(each.name == schedule and (not kernels or each.kernel in kernels) for each in stock(file))
    ]


def _extend_by_form(declared: ScheduleDecl, base: Name, inherited: _Flat, texts: Texts, file: str) -> _Flat:
    """`_extend`, where the schedule is for a kernel that computes the same as that of the base in the names of this."""
    own = {kernel.text for kernel in inherited.kernels}
    others = [k for name in declared.kernels if name.text not in own and (k := texts.kernel("", name.text))]
    bases = [kernel for name in inherited.kernels if (kernel := texts.kernel(file, name.text))]
    for kernel in others if bases else ():
        found = [find_form(each, kernel) for each in bases]
        form = min(
            (each for each in found if not isinstance(each, str)), key=lambda each: len(each.steps), default=None
        )
        if form is None:
            inherited = replace(inherited, differs=f"'{base.text}' is for another kernel: {found[0]}")
        elif form.names.text or form.steps:
            if len(declared.kernels) > 1:
                notes = (f"'{kernel.name}' has other names: {form.names.text}",)
                raise SourceError(f"'{base.text}' serves one of these kernels at a time", base.span, notes=notes)
            new = renaming(form.names, form.kernel, inherited.steps, inherited.parameters, texts.defines(file))
            texts.renamed.update({define.word: define for define in new.composites()})
            inherited = _in_names_of(new, inherited, base.text)
            ahead = tuple(replace(step, span=base.span, schedule=base.text) for step in form.steps)
            inherited = replace(inherited, steps=(*ahead, *inherited.steps))
    return _extend(declared, base, inherited)


def _in_names_of(new: Renaming, inherited: _Flat, base: str) -> _Flat:
    made = "".join(f"; {old} is called {word}" for old, word in new.own.items())
    parameters, steps = tuple(map(new.parameter, inherited.parameters)), tuple(map(new.call, inherited.steps))
    facts, form = tuple(map(new.fact, inherited.facts)), f"{base} with {new.names.text}{made}"
    return replace(inherited, parameters=parameters, steps=steps, facts=facts, form=form)


def _extend(declared: ScheduleDecl, base: Name, inherited: _Flat) -> _Flat:
    steps = _change_steps(declared, base.text, inherited.steps)
    given = {p.name: p for p in declared.parameters}
    all_ = [_with_default(p, given.get(p.name)) for p in inherited.parameters]
    used = {*given, *_words_of(steps, all_)}
    kept = [p for p in all_ if p.name in used]
    parameters = (*kept, *(p for p in declared.parameters if p.name not in {k.name for k in kept}))
    defaults, computed = {p.name: p.default for p in parameters}, {p.name for p in parameters if p.computed}
    of_these = [fact for fact in inherited.facts if fact.names() <= defaults.keys()]
    kept_facts = (fact for fact in of_these if fact.names() & computed or fact.holds(defaults))
    facts = (*kept_facts, *declared.facts)
    kernels = declared.kernels or inherited.kernels
    return replace(inherited, kernels=kernels, parameters=parameters, steps=steps, facts=facts)


def _with_default(inherited: Parameter, given: Parameter | None) -> Parameter:
    """The parameter with the default that the extension gives; its candidates stay where that is one of them."""
    if given is None:
        return inherited
    if given.candidates or given.default not in inherited.candidates:
        return given
    return replace(given, candidates=inherited.candidates)


def _words_of(steps: Iterable[StepCall], parameters: Sequence[Parameter]) -> set[str]:
    """The words in the arguments of steps, those in braces too, and in what computes the parameters among them."""
    values = walk(tuple((call.arguments, call.keywords) for call in steps))
    texts = [value.text for value in values if isinstance(value, Word)]
    found = {word for text in texts for word in (text, *re.findall(r"\{(\w+)\}", text))}
    computed = {parameter.name: names_in(parameter.computed) for parameter in parameters if parameter.computed}
    while more := set().union(*(computed[name] for name in computed.keys() & found)) - found:
        found |= more
    return found


# -- the steps


def _change_steps(declared: ScheduleDecl, base: str, inherited: Sequence[StepCall]) -> tuple[StepCall, ...]:
    steps = [_Step(call, _From.BASE) for call in inherited]
    for change in declared.changes:
        if change.inherited is None:
            (call,) = change.steps
            _replace_or_append(steps, call, base)
            continue
        at = _position(steps, change.inherited, base, inherited)
        start = at + (change.where == "after")
        end = start if change.where in ("before", "after") else at + 1
        steps[start:end] = [_Step(call, _From.NEW) for call in change.steps]
    return tuple(step.call for step in steps)


def _replace_or_append(steps: list[_Step], call: StepCall, base: str) -> None:
    """Put a step that stands alone in the place of the inherited one of its word and first argument, or at the end."""
    name = StepCall(call.word, call.arguments[:1])
    alike = [n for n, step in enumerate(steps) if _is_named(step.call, name)]
    inherited = [n for n in alike if steps[n].origin is _From.BASE]
    if len(inherited) == 1:
        steps[inherited[0]] = _Step(call, _From.REPLACING)
        return
    way = f"say what it replaces, instead of {call.word}(...):, or what it stands after, after {call.word}(...):"
    if inherited:
        text = f"'{base}' has {len(inherited)} steps that this one could replace"
        raise SourceError(text, call.span, notes=(_texts_of(steps[n].call for n in inherited), way))
    if any(steps[n].origin is _From.REPLACING for n in alike):
        text = f"the step of '{base}' that this one could replace is replaced above"
        raise SourceError(text, call.span, notes=(f"a second step stands in a block: after {call.word}(...):",))
    steps.append(_Step(call, _From.NEW))


def _position(steps: Sequence[_Step], wanted: StepCall, base: str, inherited: Sequence[StepCall]) -> int:
    """Where the step that `wanted` names stands. Raises SourceError where there is none, or several."""
    found = [n for n, step in enumerate(steps) if _is_named(step.call, wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        way = "give as many arguments as tell the one that is meant from the others"
        notes = (_texts_of(steps[n].call for n in found), way)
        raise SourceError(f"there are {len(found)} steps {wanted.text}", wanted.span, notes=notes)
    if any(_is_named(call, wanted) for call in inherited):
        way = "say all that is to stand there in one block: instead of ...:"
        raise SourceError(f"the step {wanted.text} of '{base}' is dropped or replaced above", wanted.span, notes=(way,))
    calls = [step.call for step in steps]
    of_word = [call for call in calls if call.word == wanted.word]
    known = f"its steps are {_texts_of(of_word or calls)}"
    raise SourceError(f"'{base}' has no step {wanted.text}", wanted.span, notes=(known,))


def _texts_of(calls: Iterable[StepCall]) -> str:
    return "; ".join(call.text for call in calls)


def _is_named(call: StepCall, wanted: StepCall) -> bool:
    """True if `call` has the word of `wanted`, begins with its arguments, and has those that it gives by name."""
    begins = call.arguments[: len(wanted.arguments)] == wanted.arguments
    return call.word == wanted.word and begins and all(keyword in call.keywords for keyword in wanted.keywords)
