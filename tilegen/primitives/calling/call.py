"""From a call in a schedule to the primitive that it means: the fields of the class are the signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from tilegen.errors import SourceError, did_you_mean
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.steps import Argument, Dots, Items, Number, StepCall, Word
from tilegen.primitives import Primitive, registry
from tilegen.primitives.calling.words import unknown_step


def signature(word: str) -> str:
    """How the step `word` is written: tile(loop, size, parts) -> outer, inner."""
    cls = registry()[word]
    inside, behind = fields_by_place(cls)
    text = ", ".join(f.name if f.default is MISSING else f"{f.name}={_default(f)}" for f in inside)
    arrow = f" -> {', '.join(f.name for f in behind)}" if behind else ""
    return f"{word}({text}){f' [{arrow[1:]}]' if _count_required(behind) < len(behind) else arrow}"


def _default(f: Field[Any]) -> str:
    return "[]" if f.default == () else str(f.default)


# What finds the declared instructions by name; asked only where a step names one.
Instructions = Callable[[], Mapping[str, Instruction]]


def bind(call: StepCall, instructions: Instructions = dict) -> Primitive:
    """The primitive that `call` means, its arguments checked and converted.

    Raises SourceError at the call, or at the argument that does not fit, with the way it is written.
    """
    if call.word not in registry():
        raise unknown_step(call, registry())
    cls = registry()[call.word]
    inside, behind = fields_by_place(cls)
    given = _arguments_by_field(call, inside)
    for f in inside:
        if f.name not in given and f.default is MISSING:
            raise SourceError(f"{call.word} needs '{f.name}'", call.span, notes=_usage(call))
    if not _count_required(behind) <= len(call.results) <= len(behind):
        least = "at most " if _count_required(behind) < len(behind) else ""
        count = f"{least}{len(behind)} name{'s' * (len(behind) != 1)} after '->'"
        raise SourceError(f"{call.word} gives {count}, not {len(call.results)}", call.span, notes=_usage(call))
    kinds = {f.name: str(f.type) for f in inside}
    arguments = {
        name: _instruction(value, name, call, instructions)
        if kinds[name].startswith("Instruction")
        else _convert(value, kinds[name], name, call)
        for name, value in given.items()
    }
    arguments |= {f.name: r.text for f, r in zip(behind, call.results, strict=False)}
    step: Primitive = cls(**arguments)
    return step


def _usage(call: StepCall) -> tuple[str, ...]:
    return (f"it is written {signature(call.word)}",)


def _arguments_by_field(call: StepCall, inside: list[Field[Any]]) -> dict[str, Argument]:
    """The arguments by the name of their field."""
    names = [f.name for f in inside]
    given: dict[str, Argument] = {}
    rest = inside[1:]
    by_keyword = {keyword.name for keyword in call.keywords}
    several = inside and str(inside[0].type).startswith("tuple")
    if several and all(f.default is not MISSING or f.name in by_keyword for f in rest):
        given[names[0]] = Items(call.arguments, call.span)
    elif len(call.arguments) > len(inside):
        raise SourceError(f"{call.word} takes {len(inside)} arguments at most", call.span, notes=_usage(call))
    else:
        given |= dict(zip(names, call.arguments, strict=False))
    for keyword in call.keywords:
        span = keyword.span or call.span
        if keyword.name not in names:
            notes = (*did_you_mean(keyword.name, names), *_usage(call))
            raise SourceError(f"{call.word} has no argument '{keyword.name}'", span, notes=notes)
        if keyword.name in given:
            raise SourceError(f"'{keyword.name}' is given twice", span, notes=_usage(call))
        given[keyword.name] = keyword.value
    return given


def fields_by_place(cls: type[Any]) -> tuple[list[Field[Any]], list[Field[Any]]]:
    """(fields in the parentheses, fields after the arrow)."""
    everything: tuple[Field[Any], ...] = fields(cls)
    behind = [f for f in everything if str(f.type).startswith("NewName")]
    return [f for f in everything if f not in behind], behind


def _count_required(behind: list[Field[Any]]) -> int:
    """How many names after the arrow are needed."""
    return sum(f.default is MISSING for f in behind)


def _convert(value: Argument, kind: str, name: str, call: StepCall) -> Any:
    """`value` as the Python value that a field of type `kind` (its annotation's text) holds."""
    if kind.startswith("tuple") or ("tuple" in kind and isinstance(value, Items)):
        if not isinstance(value, Items):
            raise SourceError(f"'{name}' of {call.word} takes a list in brackets", value.span or call.span)
        dots, nested = "Dots" in kind, kind.count("tuple") > 1

        def item(i: Argument) -> Any:
            if isinstance(i, Items) and nested:
                return tuple(_word(word, name, call) for word in i.items)
            if kind.startswith("tuple[int"):
                return _need_number(i, name, call)
            return i if isinstance(i, Dots) and dots else _word(i, name, call)

        return tuple(item(i) for i in value.items)
    if kind.startswith("int"):
        return _need_number(value, name, call)
    return _word(value, name, call)


def _instruction(
    value: Argument, name: str, call: StepCall, instructions: Instructions
) -> Instruction | tuple[Instruction, ...]:
    """The instruction that is named; of a list those that there are, for names with types need not all be some."""
    known = instructions()
    if isinstance(value, Items) and value.items:
        there = [known[word] for each in value.items if (word := _word(each, name, call)) in known]
        if there:
            return tuple(there)
        value = value.items[0]
    word = _word(value, name, call)
    if word not in known:
        notes = did_you_mean(word, known) or ("tilegen help lists them",)
        raise SourceError(f"there is no instruction '{word}'", value.span or call.span, notes=notes)
    return known[word]


def _need_number(value: Argument, name: str, call: StepCall) -> int:
    if not isinstance(value, Number):
        text = ""
        notes: tuple[str, ...] = ()
        if isinstance(value, Word):
            text = f", and '{value.text}' is no parameter of the schedule"
            notes = (f"parameters stand in the schedule's head, with their values: {value.text}=8",)
        raise SourceError(f"'{name}' of {call.word} takes a number{text}", value.span or call.span, notes=notes)
    return value.value


def _word(value: Argument, name: str, call: StepCall) -> str:
    match value:
        case Word(text):
            return text
        case Number(number):
            return str(number)
        case _:
            raise SourceError(f"'{name}' of {call.word} takes a name", value.span or call.span)
