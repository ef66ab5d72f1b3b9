"""Limits of a text, checked before it is parsed: characters, brackets, digits and names that the parser cannot take."""

from __future__ import annotations

import re
from unicodedata import name

from tilegen.errors import UNSEEN, Source, SourceError, Span
from tilegen.ir.steps import LONGEST_NAME

MOST_CHARACTERS = 256 * 1024
MOST_DIGITS = 40
DEEPEST = 60

# What looks like a sign of the language -> the sign.
_WRITTEN = {
    "\u201c": '"', "\u201d": '"', "\u2212": "-", "\u2013": "-", "\u2014": "-", "\u00d7": "*", "\u00b7": "*",
    "\u00f7": "/", "\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u2192": "->", "\u2026": "...", "\u00a0": "a space",
}  # fmt: skip
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LONG = rf"\d{{{MOST_DIGITS + 1},}}|[A-Za-z_]\w{{{LONGEST_NAME},}}"
_INTERESTING = re.compile(rf"#[^\n\r]*|[()\[\]{{}}]|{_LONG}|[^\x20-\x7e\n\t\r]|\r(?!\n)")


def check_text(source: Source) -> str:
    """The text with line ends as `\\n` and one line end at the end. Raises SourceError."""
    text = source.text
    if len(text) > MOST_CHARACTERS:
        raise SourceError(f"the text has {len(text)} characters; {MOST_CHARACTERS} is the limit", Span(source, 1, 1))
    open_brackets: list[re.Match[str]] = []
    for match in _INTERESTING.finditer(text):
        found = match.group()
        if found.startswith("#"):
            if hidden := UNSEEN.search(text, match.start(), match.end()):
                raise _stray_character_error(source, text, hidden)
            continue
        if found in _CLOSING:
            open_brackets.append(match)
            if len(open_brackets) > DEEPEST:
                raise SourceError(f"brackets are nested more than {DEEPEST} deep", _span_of(source, text, match))
        elif found in _CLOSING.values():
            _close_bracket(source, text, match, open_brackets)
        elif found[0].isascii() and found[0].isdigit():
            raise SourceError(f"a number of {len(found)} digits", _span_of(source, text, match))
        elif found.isascii() and found.isidentifier():
            message = f"a name of {len(found)} letters; {LONGEST_NAME} is the limit"
            raise SourceError(message, _span_of(source, text, match))
        else:
            raise _stray_character_error(source, text, match)
    if open_brackets:
        first = open_brackets[-1]
        raise SourceError(f"this '{first.group()}' is never closed", _span_of(source, text, first))
    return text.replace("\r\n", "\n") + "\n"


def _close_bracket(source: Source, text: str, match: re.Match[str], open_brackets: list[re.Match[str]]) -> None:
    found = match.group()
    if not open_brackets:
        raise SourceError(f"this '{found}' closes nothing", _span_of(source, text, match))
    opened = open_brackets.pop()
    if _CLOSING[opened.group()] != found:
        place = _span_of(source, text, opened)
        raise SourceError(
            f"this '{found}' does not close the '{opened.group()}' at {place.line}:{place.column}",
            _span_of(source, text, match),
        )


def _stray_character_error(source: Source, text: str, match: re.Match[str]) -> SourceError:
    found = match.group()
    shown = f"'{found}'" if found.isprintable() else f"U+{ord(found):04X}"
    notes: tuple[str, ...] = (f"it is U+{ord(found):04X}, {name(found, 'a character without a name').lower()}",)
    if found in _WRITTEN:
        notes += (f"write {_WRITTEN[found]}",)
    elif found.isalpha():
        notes += ("names have the letters A to Z and a to z, digits and _",)
    return SourceError(f"the character {shown} cannot stand here", _span_of(source, text, match), notes=notes)


def _span_of(source: Source, text: str, match: re.Match[str]) -> Span:
    start = match.start()
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(source, text.count("\n", 0, start) + 1, column, min(len(match.group()), 80))
