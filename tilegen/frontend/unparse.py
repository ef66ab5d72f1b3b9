"""Syntax as the text of the language again: expressions on one line, and schedules with all of their steps."""

from __future__ import annotations

from tilegen.frontend import syntax as s
from tilegen.ir.steps import Parameter, Schedule

# Precedence, from the loosest; what stands alone is above them all.
_ARGUMENT, _CHOICE, _OR, _AND, _NOT, _COMPARED, _SUM, _PRODUCT, _SIGNED, _POWER, _ATOM = range(11)
_LEVELS = {"or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}


def text_of(node: s.Syntax, level: int = _ARGUMENT) -> str:
    """`node` as text, in parentheses where the precedence around it, `level`, is higher than its own."""
    text, own = _text_and_level(node)
    return f"({text})" if own < level else text


def text_of_schedule(schedule: Schedule) -> str:
    """The schedule for its kernel with all of its steps, those that it inherits among them."""
    head = f"schedule {schedule.name} for {schedule.kernel}{text_of_parameters(schedule)}:"
    steps = [step.text for step in schedule.steps] or ["pass"]
    comment = [f"# {line}".rstrip() for line in schedule.doc.split("\n")] if schedule.doc else []
    comment += [f"# By form: {schedule.form}"] if schedule.form else []
    return "\n".join([*comment, head, *(f"    {text}" for text in steps)])


def text_of_parameters(schedule: Schedule) -> str:
    """`(TM=64 in {32, 64}, TN=32) where TM * TN <= 2048`; empty where the schedule has none."""
    parameters = ", ".join(map(text_of_parameter, schedule.parameters))
    facts = ", ".join(fact.text for fact in schedule.facts)
    return (f"({parameters})" if parameters else "") + (f" where {facts}" if facts else "")


def text_of_parameter(parameter: Parameter) -> str:
    among = f" in {{{', '.join(map(str, parameter.candidates))}}}" if parameter.candidates else ""
    return f"{parameter.name}={parameter.default}{among}"


def _text_and_level(node: s.Syntax) -> tuple[str, int]:
    """The text, and its precedence."""
    match node:
        case s.Num(value):
            return repr(value), _ATOM
        case s.Name(text):
            return text, _ATOM
        case s.Subscript(base, items):
            return f"{base.text}[{_comma_separated(items)}]", _ATOM
        case s.Apply(function, args):
            return f"{function.text}({_comma_separated(args)})", _ATOM
        case s.Reduction(word, items, body):
            return f"{word.text}[{_comma_separated(items)}]({text_of(body)})", _ATOM
        case s.Within(name, low, high):
            return f"{name.text} in {text_of(low, _CHOICE)}..{text_of(high, _CHOICE)}", _ARGUMENT
        case s.Fallback(read, value):
            return f"{text_of(read, _CHOICE)} else {text_of(value, _CHOICE)}", _ARGUMENT
        case s.Choice(then, condition, other):
            return f"{text_of(then, _OR)} if {text_of(condition, _OR)} else {text_of(other, _CHOICE)}", _CHOICE
        case s.Hit(items, condition):
            kept = f"({_comma_separated(items)})" if len(items) > 1 else text_of(items[0], _OR)
            return f"{kept} if {text_of(condition, _OR)}", _ARGUMENT
        case s.Unary("not", arg):
            return f"not {text_of(arg, _NOT)}", _NOT
        case s.Unary(operator, arg):
            return f"{operator}{text_of(arg, _SIGNED)}", _SIGNED
        case s.Binary("**", left, right):
            return f"{text_of(left, _ATOM)}**{text_of(right, _SIGNED)}", _POWER
        case s.Binary(operator, left, right):
            own = _LEVELS.get(operator, _COMPARED)
            # Comparisons form no chains here, and what stands on the right of an operator is done before it.
            return f"{text_of(left, own + (own == _COMPARED))} {operator} {text_of(right, own + 1)}", own
        case _:
            raise TypeError(node)


def _comma_separated(items: tuple[s.Syntax, ...]) -> str:
    return ", ".join(map(text_of, items))
