"""The facts after the `where` of a schedule's head, of which each compares integers made of its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import SourceError, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.parsing.expressions import convert
from tilegen.frontend.parsing.place import Branch, Place, branch, branches
from tilegen.ir.parameter_facts import ARITHMETIC, COMPARISONS, Fact, Formula, Operation
from tilegen.ir.steps import Parameter


def parse_facts(place: Place, tree: Branch | None) -> tuple[Fact, ...]:
    """The facts of a `where`, in their order; none where there is no `where`."""
    found = branches(branch(tree).children) if tree is not None else []
    return tuple(Fact(place.text_of(each), _condition(convert(place, each)), place.of(each)) for each in found)


def check_facts(facts: Sequence[Fact], parameters: Sequence[Parameter]) -> None:
    """Raises SourceError where a fact speaks of what is no parameter, or excludes the defaults, if these are known."""
    defaults = {p.name: p.default for p in parameters}
    unknown_yet = {p.name for p in parameters if p.computed and not p.default}
    for fact in facts:
        if unknown := sorted(fact.names() - defaults.keys()):
            notes = did_you_mean(unknown[0], defaults, "its parameters are", none="it has no parameters")
            raise SourceError(f"the schedule has no parameter '{unknown[0]}'", fact.span, notes=notes)
        if words := sorted(name for name in fact.names() if isinstance(defaults[name], str)):
            raise SourceError(f"'{words[0]}' is a word, and facts compare numbers", fact.span)
        if not unknown_yet & fact.names() and not fact.holds(defaults):
            values = ", ".join(f"{name}={defaults[name]}" for name in defaults if name in fact.names())
            notes = ("the defaults are a candidate, too: the first that is tried",)
            raise SourceError(f"the defaults are not so: {values}", fact.span, notes=notes)


def _condition(syntax: s.Syntax) -> Operation:
    match syntax:
        case s.Binary("and" | "or" as operator, left, right):
            return Operation(operator, (_condition(left), _condition(right)))
        case s.Unary("not", arg):
            return Operation("not", (_condition(arg),))
        case s.Binary(operator, left, right) if operator in COMPARISONS:
            return Operation(operator, (_number(left), _number(right)))
        case _:
            raise SourceError("a comparison of parameters is wanted here", syntax.span, notes=("TM * TN <= 32768",))


def _number(syntax: s.Syntax) -> Formula:
    match syntax:
        case s.Num(int(value)):
            return value
        case s.Name(text):
            return text
        case s.Unary("-", arg):
            return Operation("-", (0, _number(arg)))
        case s.Unary("+", arg):
            return _number(arg)
        case s.Binary(operator, left, right) if operator in ARITHMETIC:
            return Operation(operator, (_number(left), _number(right)))
        case s.Binary("/"):
            notes = ("// rounds down, and TM % 4 == 0 says that a division comes out even",)
            raise SourceError("'/' is not known here", syntax.span, notes=notes)
        case _:
            message = "a number here is made of parameters and integers by + - * // %"
            raise SourceError(message, syntax.span)
