"""The parse tree of an instruction as a declaration."""

from __future__ import annotations

from lark import Token

from tilegen.errors import SourceError
from tilegen.frontend.parsing.expressions import convert, convert_all, name, number
from tilegen.frontend.parsing.place import Branch, Place, branch, branches, rule, token
from tilegen.frontend.syntax import (
    Assign,
    DescribedLayout,
    InstructionDecl,
    Layout,
    Name,
    Num,
    Operand,
    Param,
    RowsLayout,
    Subscript,
    SumLine,
)


def instruction(place: Place, tree: Branch) -> InstructionDecl:
    """The declaration. Raises SourceError where it has no text, or several."""
    parts = [part for part in tree.children if part is not None]
    operands = tuple(_operand(place, part) for part in branches(parts) if rule(part) == "operand")
    _by, unit, how, arch = parts[next(at for at, part in enumerate(parts) if part == "by") :][:4]
    word = name(place, tree.children[1])
    lines = [part for part in branches(parts) if rule(part) != "operand"]
    meanings = [line for line in lines if rule(line) == "meaning"]
    texts = [_quoted_text(place, line) for line in lines if rule(line) == "ptx"]
    if len(texts) != 1:
        what, span = ("a second text", texts[1].span) if texts else ("no text", word.span)
        notes = ('one line says how it is written: ptx "... {C}, {A}, {B}, {C};"',)
        raise SourceError(f"the instruction '{word.text}' has {what}", span, notes=notes)
    return InstructionDecl(
        name=word,
        operands=operands,
        unit=name(place, unit),
        arch=name(place, arch),
        and_later=str(how) == "since",
        equations=tuple(_equation(place, line) for line in meanings),
        accumulates=any(str(line.children[1]) == "+=" for line in meanings),
        layouts=tuple(_layout(place, line) for line in lines if rule(line) in ("layout", "rows", "described")),
        protocol=_protocol(place, word, [line for line in lines if rule(line) == "protocol"]),
        sums=tuple(_sum_line(place, line) for line in lines if rule(line) in ("exact_sum", "summation")),
        ptx=texts[0],
        doc=place.doc_above(word.span),
        text=_source_text(place, word, lines),
    )


def _operand(place: Place, tree: Branch) -> Operand:
    word, _, type_, _, shape, _, _, form = tree.children
    span = place.of(tree)
    param = Param(name(place, word), name(place, type_), convert_all(place, shape), None, None, span)
    other = form is not None and form != type_  # values of a type have its own format
    return Operand(param, name(place, form) if other else None, span)


def _equation(place: Place, tree: Branch) -> Assign:
    target, _, value, _ = tree.children
    return Assign(_parse_element(place, target), convert(place, branch(value)), None, place.of(tree))


def _protocol(place: Place, word: Name, lines: list[Branch]) -> Name | None:
    if len(lines) > 1:
        raise SourceError(f"the instruction '{word.text}' says twice how it is waited for", place.of(lines[1]))
    return name(place, lines[0].children[2]) if lines else None


def _layout(place: Place, tree: Branch) -> Layout | RowsLayout | DescribedLayout:
    if rule(tree) == "described":
        element, _, _, _, _, _, _, _, along, _ = tree.children
        return DescribedLayout(_parse_element(place, element), name(place, along), place.of(tree))
    if rule(tree) == "rows":
        element, _, _, _, _, lane, _, _, within, _ = tree.children
        return RowsLayout(_parse_element(place, element), convert(place, lane), convert(place, within), place.of(tree))
    element, _, _, lane, _, _, register, _ = tree.children
    return Layout(_parse_element(place, element), convert(place, lane), convert(place, register), place.of(tree))


def _sum_line(place: Place, tree: Branch) -> SumLine:
    if rule(tree) == "exact_sum":
        return SumLine(None, None, "", None, None, place.of(tree))
    _, terms, _, _, _, _, _, within, _, rounding, _, _, arch, _ = tree.children
    how, _, kept = branch(rounding).children
    if token(how).type == "PARAMETER":
        raise SourceError(f"'{how}' is no parameter of a family", place.of(token(how)))
    bits, left = (_number(place, branch(each).children[0]) if each is not None else None for each in (within, kept))
    since = name(place, arch) if arch is not None else None
    return SumLine(_number(place, terms), bits, str(how), left, since, place.of(tree))


def _number(place: Place, digits: Branch | Token | None) -> Num:
    span = place.of(token(digits))
    if token(digits).type != "NUMBER":
        raise SourceError(f"'{digits}' is no number, and no parameter of a family", span)
    return Num(number(token(digits), span), span)


def _parse_element(place: Place, node: Branch | Token | None) -> Subscript:
    element = convert(place, branch(node))
    assert isinstance(element, Subscript)
    return element


def _quoted_text(place: Place, tree: Branch) -> Name:
    """What stands between the quotes, at the place of the quoted text."""
    quoted = token(tree.children[1])
    return Name(str(quoted)[1:-1], place.of(quoted))


def _source_text(place: Place, word: Name, lines: list[Branch]) -> str:
    """The declaration as it stands in the text, without the comment above it."""
    last = max(place.of(line).line for line in lines)
    written = (place.source.line(number).rstrip() for number in range(word.span.line, last + 1))
    return "\n".join(filter(None, written))
