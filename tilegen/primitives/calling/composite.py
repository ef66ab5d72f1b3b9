"""Composite steps as the primitive steps that they stand for, with the values of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from tilegen.errors import SourceError, Span
from tilegen.ir.nodes import LOOP_KINDS, Tree
from tilegen.ir.steps import Argument, Arithmetic, Define, Dots, Items, Number, StepCall, Word, apply_operator
from tilegen.ir.walk import loops
from tilegen.primitives import registry
from tilegen.primitives.calling.words import fill_in, unknown_step

MOST_STEPS = 1000


def names_in(tree: Tree) -> frozenset[str]:
    """What means something in a tree: its loops, buffers, sizes and scalars."""
    kernel = tree.kernel
    known = [loop.name for loop in loops(tree.body)], [b.name for b in tree.buffers], [s.name for s in kernel.scalars]
    return frozenset(kernel.sizes).union(*known, (loop.collapsed for loop in loops(tree.body)))


def expand(
    call: StepCall, defines: Mapping[str, Define], taken: Set[str] = frozenset(), values: Mapping[str, Any] = {}
) -> tuple[StepCall, ...]:
    """The primitive steps that `call` stands for: those of its definition, or itself.

    Names that a definition makes for itself, which are none of its parameters and results, are other ones in each use:
    where `inner` is one of `taken`, it is `inner_2`.

    Args:
        taken: the names that mean something where the step stands.
        values: those of the schedule's parameters.

    Raises:
        SourceError: no such step, arguments that do not fit, or a definition that leads back to itself.
    """
    return tuple(_expand(_evaluate(call, values), defines, set(taken), ()))


def _expand(call: StepCall, defines: Mapping[str, Define], taken: set[str], around: tuple[str, ...]) -> list[StepCall]:
    define = defines.get(call.word)
    if define is None and call.word not in registry():
        raise unknown_step(call, (*registry(), *defines))
    if define is None:
        return [call]
    if call.word in around:
        raise SourceError(f"'{call.word}' is defined by itself", call.span)
    values = _bindings(define, call)
    made = dict.fromkeys(result.text for step in define.steps for result in step.results)
    values |= {name: Word(_fresh_name(name, taken)) for name in made if name not in values}
    done: list[StepCall] = []
    for step in define.steps:
        done += _expand(_evaluate(step, values), defines, taken, (*around, call.word))
        if len(done) > MOST_STEPS:
            raise SourceError(f"'{call.word}' stands for more than {MOST_STEPS} steps", call.span)
    # A message about an inner step points at the line that the user wrote.
    return [replace(step, span=call.span, text=call.text, composite=call) for step in done]


def _fresh_name(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found


def _bindings(define: Define, call: StepCall) -> dict[str, Any]:
    if misfit := _misfit(define, call):
        written = f"{define.word}({', '.join(define.parameters)})"
        if define.results:
            written += f" -> {', '.join(define.results)}"
        raise SourceError(misfit, call.span, notes=(f"it is written {written}",))
    given: dict[str, Any] = dict(zip(define.parameters, call.arguments, strict=False))
    given |= {k.name: k.value for k in call.keywords}
    return given | dict(zip(define.results, call.results, strict=True))


def _misfit(define: Define, call: StepCall) -> str | None:
    """What a call has too much or too little of, as of a primitive step; None where it fits."""
    most, wanted = len(define.parameters), len(define.results)
    given = [*define.parameters[: len(call.arguments)], *(k.name for k in call.keywords)]
    if len(call.arguments) > most:
        return f"{call.word} takes {most} arguments at most"
    for name in given:
        if name not in define.parameters:
            return f"{call.word} has no argument '{name}'"
        if given.count(name) > 1:
            return f"'{name}' is given twice"
    for name in define.parameters:
        if name not in given:
            return f"{call.word} needs '{name}'"
    if len(call.results) != wanted:
        return f"{call.word} gives {wanted} name{'s' * (wanted != 1)} after '->', not {len(call.results)}"
    return None


def _evaluate(call: StepCall, values: Mapping[str, Any]) -> StepCall:
    return replace(
        call,
        arguments=tuple(_bind_argument(a, values) for a in call.arguments),
        keywords=tuple(replace(k, value=_bind_argument(k.value, values)) for k in call.keywords),
        results=tuple(_bind_word(r, values) for r in call.results),
    )


def _bind_word(word: Word, values: Mapping[str, Any]) -> Word:
    bound = values.get(word.text)
    return bound if isinstance(bound, Word) else word


def _bind_argument(argument: Argument, values: Mapping[str, Any]) -> Argument:
    match argument:
        case Word(text, span):
            bound = values.get(text)
            match bound:
                case int():
                    return Number(bound, span, text)
                case str():
                    return Word(bound, span)
                case None if "{" in text:
                    return Word(fill_in(text, values, span), span)
                case None:
                    return _part_of(argument, values)
                case _:
                    spanned: Argument = replace(bound, span=bound.span or span)
                    return spanned
        case Items(items, span):
            return Items(tuple(_bind_argument(i, values) for i in items), span)
        case Arithmetic(operator, left, right, span):
            return Number(
                _arithmetic(operator, _bind_argument(left, values), _bind_argument(right, values), span), span
            )
        case Number() | Dots():
            return argument
        case _:
            raise TypeError(argument)


def _part_of(word: Word, values: Mapping[str, Any]) -> Word:
    """`A.loop`, where these stand for other names, with the last word of the second; `block.x` stands for itself."""
    first, dot, rest = word.text.partition(".")
    bound, part = values.get(first), values.get(rest)
    if not dot or not isinstance(bound, Word) or word.text in LOOP_KINDS:
        return word
    return replace(word, text=f"{bound.text}.{part.text.rpartition('.')[2] if isinstance(part, Word) else rest}")


def _arithmetic(operator: str, left: Argument, right: Argument, span: Span | None) -> int:
    for side in (left, right):
        if not isinstance(side, Number):
            raise SourceError("arithmetic in a step takes numbers and parameters", span)
    assert isinstance(left, Number)
    assert isinstance(right, Number)
    return apply_operator(operator, left.value, right.value, span)
