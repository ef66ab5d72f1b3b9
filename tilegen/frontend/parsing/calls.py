"""Parse trees of schedules and composite steps as values: their heads, and the calls of ir/steps.py."""

from __future__ import annotations

from lark import Token, Tree

from tilegen.errors import SourceError, Span
from tilegen.frontend.parsing.expressions import name, number
from tilegen.frontend.parsing.parameter_facts import parse_facts
from tilegen.frontend.parsing.place import Branch, Place, branch, branches, rule, token
from tilegen.frontend.syntax import Change, ScheduleDecl
from tilegen.ir.steps import (
    Argument,
    Arithmetic,
    Define,
    Dots,
    Items,
    Keyword,
    Number,
    Parameter,
    Setting,
    StepCall,
    Word,
    tensor_of_type,
)


def schedule(place: Place, tree: Branch) -> ScheduleDecl:
    """A schedule with its parameters, what it says of steps, and the comment above it."""
    extends = rule(tree) == "extension"
    _, word, _, kernels, *rest = tree.children
    base = rest[1] if extends else None
    head, facts, *body = rest[2:] if extends else rest
    parse_names(place, kernels)
    given = branches(branch(head).children) if head is not None else ()
    parameters = tuple(_parameter(place, p) for p in given)
    seen: set[str] = set()
    for parameter in parameters:
        if parameter.name in seen:
            raise SourceError(f"the parameter '{parameter.name}' is given twice", parameter.span)
        seen.add(parameter.name)
    return ScheduleDecl(
        named := name(place, word),
        tuple(name(place, kernel) for kernel in _items_of(kernels)),
        name(place, base) if extends else None,
        parameters,
        tuple(_change(place, line, str(word)) for line in branches(body)),
        place.doc_above(named.span),
        parse_facts(place, branch(facts) if facts is not None else None),
    )


def _change(place: Place, tree: Branch, schedule: str) -> Change:
    match rule(tree):
        case "step":
            return Change(None, None, (_call(place, tree, schedule),))
        case "without":
            return Change("without", _inherited_call(place, branch(tree.children[1])), ())
        case "inserted":
            inherited, *steps = branches(tree.children)
            where = "instead of" if tree.children[0] == "instead" else str(tree.children[0])
            return Change(where, _inherited_call(place, inherited), tuple(_call(place, s, schedule) for s in steps))
        case _:
            raise TypeError(tree.data)


def _inherited_call(place: Place, tree: Branch) -> StepCall:
    word, _, given, _ = tree.children
    return StepCall(str(word), *_arguments(place, given), text=place.text_of(tree), span=place.of(tree))


def define(place: Place, tree: Branch) -> Define:
    """A composite step with the comment above it."""
    _, word, _, parameters, _, _, results, *body = tree.children
    names, new = parse_names(place, parameters), parse_names(place, results)
    steps = tuple(_call(place, s) for s in branches(body))
    span = place.of(token(word))
    made = {r.text for step in steps for r in step.results} | set(names)
    for result in _items_of(results):
        if str(result) not in made:
            raise SourceError(f"no step of '{word}' makes the result '{result}'", place.of(result))
    return Define(str(word), names, new, steps, place.doc_above(span), span)


def _items_of(node: Branch | Token | None) -> list[Branch | Token]:
    """What stands between the commas of a list."""
    return branch(node).children[::2] if node is not None else []


def parse_names(place: Place, node: Branch | Token | None) -> tuple[str, ...]:
    found: list[str] = []
    for word in _items_of(node):
        if str(word) in found:
            raise SourceError(f"the name '{word}' is given twice", place.of(word))
        found.append(str(word))
    return tuple(found)


def _parameter(place: Place, tree: Branch) -> Parameter:
    name, _, default, *candidates = tree.children
    if rule(branch(default)) == "arithmetic":
        return Parameter(str(name), 0, (), place.of(token(name)), _arithmetic(place, branch(default)))
    values = tuple(setting_of(place, c) for c in branches(candidates))
    first = setting_of(place, branch(default))
    if values and first not in values:
        raise SourceError(
            f"the default {first} of '{name}' is not among its candidates",
            place.of(tree),
            notes=("the braces list every value to try, the default too",),
        )
    return Parameter(str(name), first, values, place.of(token(name)))


def setting_of(place: Place, tree: Branch) -> Setting:
    sign, digits = tree.children if len(tree.children) == 2 else (None, tree.children[0])
    span = place.of(tree)
    if token(digits).type == "RESULT":
        if "." in str(digits) and not tensor_of_type(str(digits)):
            notes = ("IN=A.type is the type of the tensor A, whichever the kernel is",)
            raise SourceError(f"a parameter has no value '{digits}'", span, notes=notes)
        return str(digits)
    value = number(token(digits), span)
    if isinstance(value, float):
        raise SourceError(f"a parameter is an integer or a word, not {digits}", span)
    return -value if sign == "-" else value


def _call(place: Place, tree: Branch, schedule: str = "") -> StepCall:
    word, _, given, _, _, results = tree.children
    new = tuple(Word(str(r), place.of(r)) for r in _items_of(results))
    parse_names(place, results)
    arguments, keywords = _arguments(place, given)
    return StepCall(str(word), arguments, keywords, new, place.text_of(tree), place.of(tree), schedule)


def _arguments(place: Place, given: Branch | Token | None) -> tuple[tuple[Argument, ...], tuple[Keyword, ...]]:
    arguments: list[Argument] = []
    keywords: list[Keyword] = []
    for item in _items_of(given):
        if isinstance(item, Tree) and rule(item) == "keyword":
            _add_keyword(place, item, keywords)
        elif keywords:
            raise SourceError("an argument without a name cannot follow one with a name", place.of(item))
        else:
            arguments.append(_argument(place, item))
    return tuple(arguments), tuple(keywords)


def _add_keyword(place: Place, tree: Branch, keywords: list[Keyword]) -> None:
    name, _, value = tree.children
    span = place.of(token(name))
    if "." in str(name):
        raise SourceError(f"'{name}' cannot be the name of an argument", span)
    if any(k.name == str(name) for k in keywords):
        raise SourceError(f"the argument '{name}' is given twice", span)
    keywords.append(Keyword(str(name), _argument(place, value), span))


def _argument(place: Place, node: Branch | Token) -> Argument:
    span = place.of(node)
    if isinstance(node, Token):
        return _single_argument(node, span)
    parts = node.children
    match rule(node):
        case "negative":
            value = _argument(place, parts[1])
            return value if parts[0] == "+" else Arithmetic("-", Number(0, span), value, span)
        case "arithmetic":
            return _arithmetic(place, node)
        case "list":
            return Items(tuple(_argument(place, item) for item in _items_of(parts[1])), span)
        case "bracketed":
            return _argument(place, parts[1])
        case "keyword":
            raise SourceError("a list has no named items", span)
        case _:
            raise TypeError(node.data)


def _single_argument(word: Token, span: Span) -> Argument:
    match word.type:
        case "WORD" | "RESULT":
            return Word(str(word), span)
        case "NUMBER":
            value = number(word, span)
            if isinstance(value, float):
                raise SourceError(f"numbers in a schedule are integers, not {word}", span)
            return Number(value, span)
        case "DOTS":
            return Dots(span)
        case _:
            raise TypeError(word.type)


def _arithmetic(place: Place, tree: Branch) -> Arithmetic:
    left, operator, right = tree.children
    if operator not in ("+", "-", "*", "/"):
        notes = ("division is written '/' and has to come out even",)
        raise SourceError(f"a schedule has no operator '{operator}'", place.of(operator), notes=notes)
    return Arithmetic(str(operator), _argument(place, left), _argument(place, right), place.of(tree))
