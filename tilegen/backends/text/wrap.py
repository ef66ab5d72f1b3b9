"""Long lines are broken where a reader would: after an assignment, after the outermost commas, or before the operators
that bind least.

store(&C[(row + vi) * N + bj * TN + wj * 128],            const bool full_tile =
      registers[ci][vi]);                                     bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < N;
"""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

LONGEST = 120
_ASSIGNMENT = re.compile(r"(.*? [+*]?=) (.*)")


def wrap_line(line: str) -> list[str]:
    """`line`, or several where it is longer than LONGEST."""
    if line.lstrip().startswith("//") and len(line) > LONGEST:
        lead = line[: line.index("//")] + "// "
        return textwrap.wrap(line, LONGEST, subsequent_indent=f"{lead}    ", break_long_words=False)
    if len(line) <= LONGEST or line.lstrip().startswith("#") or "//" in line:
        return [line]  # what stands after // ends with its line
    if line.lstrip().startswith("for "):  # its three parts are no longer than lines
        lead = " " * (line.index("(") + 1)
        return [f"{lead * bool(n)}{part}" for n, part in enumerate(re.split("(?<=;) ", line))]
    indent = line[: len(line) - len(line.lstrip())]
    assignment = _ASSIGNMENT.match(line)
    if assignment and len(assignment[1]) <= LONGEST:
        left, right, under = assignment[1], assignment[2], indent + "    "
        below = [left, *_pieces(right, under, under)]
        beside = _pieces(right, f"{left} ", under)
        is_shorter = len(beside) < len(below) and all(len(each) <= LONGEST for each in beside)
        return beside if is_shorter and all(place.depth for place in _places(right)) else below
    return _pieces(line.strip(), indent)


def _pieces(text: str, lead: str, margin: str = "") -> list[str]:
    """`text` after `lead`, in as few lines as it takes; later ones of a sum after `margin`."""
    if len(lead) + len(text) <= LONGEST or not (places := _places(text)):
        return [lead + text]
    least = min(place.depth for place in places)
    if least <= 0:
        under = margin or " " * len(lead) + "    " * (not lead.strip())
        return _packed(_cut(text, 0, len(text), [p for p in places if p.depth == least]), lead, under)
    groups = [[p for p in places if p.first == first and p.depth == least] for first in {p.first for p in places}]
    group = max(filter(None, groups), key=lambda group: _end(text, group[0].first) - group[0].first)
    first = group[0].first
    last = _end(text, first)
    *parts, end = _cut(text, first, last, group)
    parts.append(end + text[last:])
    head, under = lead + text[:first], " " * len(lead) + "    "
    beside = _rows(parts, head, " " * len(head))
    if all(len(row) <= LONGEST for row in beside):
        return beside
    if group[0].rank == _COMMA:
        return [head, *_packed(parts, under, under)]
    return _packed(parts, head, under)


def _cut(text: str, first: int, last: int, places: list[_Place]) -> list[str]:
    """The parts of text[first:last], cut at those places that bind least."""
    cuts = [place.at for place in places if place.rank == min(p.rank for p in places)]
    return [text[a:b].rstrip() for a, b in zip([first, *cuts], [*cuts, last], strict=True)]


def _packed(parts: list[str], lead: str, under: str) -> list[str]:
    """The rows of `parts`, each in as many lines as it takes."""
    rows = _rows(parts, lead, under)
    leads = [lead, *[under] * (len(rows) - 1)]
    return [line for row, lead in zip(rows, leads, strict=True) for line in _pieces(row[len(lead) :], lead)]


def _rows(parts: list[str], lead: str, under: str) -> list[str]:
    """As many of the parts in a row as go into a line: the first row after `lead`, the others after `under`."""
    rows = [lead + parts[0]]
    for part in parts[1:]:
        if len(rows[-1]) + 1 + len(part) <= LONGEST and not part.startswith(("? ", ": ")):
            rows[-1] += f" {part}"
        else:
            rows.append(under + part)
    return rows


class _Place(NamedTuple):
    """Where a line may be broken: after a comma, or before a binary operator between spaces."""

    at: int
    depth: int  # of parentheses
    rank: int
    first: int  # what is after the parenthesis that it is in


def _places(text: str) -> list[_Place]:
    """Those of a text; a product is broken where there is no other place, or where its factors are long."""
    found: list[_Place] = []
    opened = [0]
    below = 0
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in ("(", "[", "{"):
            opened.append(match.end())
        elif mark in (")", "]", "}"):
            below += len(opened) == 1
            opened = opened[:-1] or [match.end()]
        else:
            found.append(_Place(match.start(), len(opened) - 1 - below, _RANKS.get(match[1], _COMMA), opened[-1]))
    others = [place for place in found if place.rank != _PRODUCT]
    outside = [place for place in found if place.depth < min((other.depth for other in others), default=0)]
    are_long = outside and min(outside[0].at, len(text) - outside[-1].at) > _LONG
    return outside if are_long else others or found


def _end(text: str, first: int) -> int:
    """Where the parenthesis is closed that `first` is behind."""
    depth = 1
    for match in _MARK.finditer(text, first):
        depth += (match[0] in ("(", "[", "{")) - (match[0] in (")", "]", "}"))
        if not depth:
            return match.start()
    return len(text)


_LONG = 20  # what is worth a line of its own: a factor `(x - y)`, and no `* W`
# ? and : go together, so do + and -, * and /.
_COMMA, _CHOICE, _PRODUCT = -1, 0, 4
_RANKS = {"?": _CHOICE, ":": _CHOICE, "||": 1, "&&": 2, "&": 2, "+": 3, "-": 3, "*": _PRODUCT, "/": _PRODUCT}
# A parenthesis, what follows a comma, or an operator between spaces: of the last two, the place before them.
_MARK = re.compile(r"[(\[{)\]}]|(?<=, )(?=.)|(?<= )(?=(\|\||&&|[?:&+*/-]) )")
