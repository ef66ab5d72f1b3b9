"""A syntax error in plain words, from what the parser could have accepted."""

from __future__ import annotations

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from tilegen.errors import SourceError, Span
from tilegen.frontend.parsing.place import Place

_OPERATORS = {"ADD", "MUL", "POW", "COMPARE", "AND", "OR", "IF"}
_VALUES = {"NUMBER", "NAME", "LPAR", "NOT", "ADD"}
_WORDS = {
    "_NL": "the end of the line",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "$END": "the end of the text",
    "NAME": "a name",
    "WORD": "a name",
    "NUMBER": "a number",
    "DOTS": "'...'",
    "STRING": "a text in double quotes",
}
_KEYWORDS = {
    "KERNEL", "SCHEDULE", "DEFINE", "DEF", "VAR", "WHERE", "FOR", "IN", "EXTENDS", "PASS", "BEFORE", "AFTER", "INSTEAD",
    "OF", "WITHOUT", "IF", "ELSE", "AND", "OR", "NOT", "INSTRUCTION", "BY", "SINCE", "AS", "LANE", "REGISTER", "PTX",
    "SHARED", "AT", "ELEMENT", "ACCUMULATES", "EXACTLY", "TERM", "TERMS", "A", "TIME", "WITH", "FRACTION", "BITS",
    "TRUNCATED", "ROUNDED", "APPROXIMATES", "WITHIN", "BESIDE",
}  # fmt: skip
_SIGNS = {
    "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}", "COLON": ":", "COMMA": ",",
    "EQUAL": "=", "ARROW": "->", "DOTDOT": "..", "DOTS": "...",
}  # fmt: skip


def complain(place: Place, error: UnexpectedInput) -> SourceError:
    """The error to show for one of lark's."""
    match error:
        case UnexpectedToken():
            accepted = set(error.accepts or error.expected)
            return _at_token(place, error.token, accepted)
        case UnexpectedCharacters():
            span = Span(place.source, error.line, error.column)
            return SourceError(f"the character '{error.char}' cannot stand here", span)
        case _:
            raise TypeError(error)


def _at_token(place: Place, found: Token, accepted: set[str]) -> SourceError:
    if "ELSE" in accepted and found.type == "_NL":
        return SourceError(
            "'else' is missing here", _end_of(place, found), notes=("a choice is 'a if condition else b'",)
        )
    expected = _expectation(accepted)
    if found.type in ("_NL", "$END", "_DEDENT") or found.line is None:
        return SourceError(f"{expected} is missing here", _end_of(place, found), notes=_way_out(place, found, accepted))
    if found.type == "_INDENT":
        span = Span(place.source, found.end_line or 1, found.end_column or 1)
        return SourceError(f"this line is indented more than the one above; {expected} is expected", span)
    return SourceError(
        f"{expected} is expected here, not '{found}'", place.of(found), notes=_way_out(place, found, accepted)
    )


def _expectation(accepted: set[str]) -> str:
    """`a, b or c`: at most four things, an expression and an operator counting as one each."""
    left = accepted - {"APPROXIMATES"} if "EQUAL" in accepted else set(accepted)
    named: list[str] = []
    if {"NAME", "NUMBER", "LPAR"} <= left:
        named.append("an expression")
        left -= _VALUES
    elif {"WORD", "NUMBER"} <= left:
        named.append("an argument")
        left -= {"WORD", "NUMBER", "DOTS", "ADD", "LSQB", "LPAR"}
    elif len(left & _OPERATORS) > 1:
        named.append("an operator")
        left -= _OPERATORS
    if {"KERNEL", "SCHEDULE"} <= left:
        return "a kernel, a schedule, a family, an instruction, a 'define' or a 'def'"
    signs = sorted(f"'{_SIGNS[t]}'" for t in left & _SIGNS.keys())
    keywords = sorted(f"'{t.lower()}'" for t in left & _KEYWORDS)
    others = sorted(_WORDS[t] for t in left & _WORDS.keys() - _SIGNS.keys())
    named = [*others, *signs, *named, *keywords] if len(named) == 0 else [*named, *signs, *keywords, *others]
    named = list(dict.fromkeys(named))[:4]
    if len(named) == 1:
        return named[0]
    return f"{', '.join(named[:-1])} or {named[-1]}" if named else "something else"


def _end_of(place: Place, found: Token) -> Span:
    """Just after the last thing before a line end or the end of the text."""
    lines = place.text.split("\n")
    number = min(found.line or len(lines), len(lines))
    if found.type != "_NL":
        while number > 1 and not lines[number - 1].split("#")[0].strip():
            number -= 1
    return Span(place.source, number, len(lines[number - 1].split("#")[0].rstrip()) + 1)


def _way_out(place: Place, found: Token, accepted: set[str]) -> tuple[str, ...]:
    """A note for the mistakes that are easy to make."""
    line = place.source.line(found.line or 1).strip()
    if "_INDENT" in accepted:
        return ("the lines of a block are indented under its head",)
    if "COLON" in accepted and found.type == "_NL":
        return ("a head ends with ':'",)
    if found.type == "EQUAL" and "COMPARE" in accepted:
        return ("equality is written '=='",)
    if line.startswith(("before ", "after ", "instead ", "without ")):
        return ("these words stand in a schedule that extends another one",) if "LPAR" in accepted else ()
    if "ARROW" in accepted and line.startswith("kernel"):
        return ("a kernel names its outputs: kernel f(A: f32[N]) -> B: f32[N]:",)
    if "EQUAL" in accepted and line.startswith("schedule"):
        return ("a parameter has a default: T=32, or T=32 in {16, 32, 64} to try several",)
    if "EQUAL" in accepted and (found.type in ("ADD", "MUL") or found == "+=") and "LSQB" not in accepted:
        return ("an equation is written with '='; a sum over k is C[i] = sum[k](...)",)
    return ()


def misaligned_error(place: Place, newline: Token) -> SourceError:
    """Of a line that goes back to an indentation that no open block has."""
    last = Token("_NL", "x", end_line=newline.end_line, end_column=newline.end_column)
    last.line, last.column = newline.end_line, newline.end_column
    last.end_column = (newline.end_column or 1) + 1
    return SourceError(
        "this line is indented like no block around it",
        place.of(last),
        notes=("the lines of one block start in the same column",),
    )
