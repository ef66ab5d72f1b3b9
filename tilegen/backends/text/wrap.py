"""Long lines are broken where a reader would: behind the assignment, then after the outermost commas, then
before the outermost operators."""

from __future__ import annotations

import re
import textwrap

LONGEST = 120
_ASSIGNMENT = re.compile(r"(.*? [+*]?=) (.*)")


def wrap_line(line: str) -> list[str]:
    """`line`, or several where it is longer than LONGEST."""
    if line.lstrip().startswith("//") and len(line) > LONGEST:
        lead = line[: line.index("//")] + "// "
        return textwrap.wrap(line, LONGEST, subsequent_indent=f"{lead}    ", break_long_words=False)
    if len(line) <= LONGEST or line.lstrip().startswith(("#", "for ")) or "//" in line:
        return [line]  # what stands behind // ends with its line
    indent = line[: len(line) - len(line.lstrip())]
    assignment = _ASSIGNMENT.match(line)
    if assignment:
        return [*_pieces(assignment[1].strip(), indent), *_pieces(assignment[2], indent + "    ")]
    return _pieces(line.strip(), indent)


def _pieces(text: str, indent: str) -> list[str]:
    """`text` packed into lines, broken behind commas or before operators at the least depth that has one."""
    if len(indent) + len(text) <= LONGEST:
        return [indent + text]
    places = _places(text)
    if not places:
        return [indent + text]
    least = min(depth for _, depth, _ in places)
    rank = min(rank for _, depth, rank in places if depth == least)
    cuts = [place for place, depth, r in places if depth == least and r == rank]
    parts = [text[a:b].rstrip() for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    lines = [parts[0]]
    for part in parts[1:]:
        if len(indent) + len(lines[-1]) + 1 + len(part) <= LONGEST and rank != _CHOICE:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return [piece for line in lines for piece in _again(line, indent, len(parts))]


def _again(line: str, indent: str, parts: int) -> list[str]:
    lead = indent + line[: len(line) - len(line.lstrip())]
    return _pieces(line.strip(), lead) if parts > 1 else [lead + line.strip()]


def _places(text: str) -> list[tuple[int, int, int]]:
    """(position, depth of parentheses, rank) of what follows a comma, and of every binary operator between spaces."""
    found: list[tuple[int, int, int]] = []
    depth = 0
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in ("(", "[", "{"):
            depth += 1
        elif mark in (")", "]", "}"):
            depth -= 1
        else:
            found.append((match.start(), depth, _RANKS.get(match[1], _COMMA)))
    return found


# ? and : go together, so do + and -, * and /.
_COMMA, _CHOICE = -1, 0
_RANKS = {"?": _CHOICE, ":": _CHOICE, "||": 1, "&&": 2, "&": 2, "+": 3, "-": 3, "*": 4, "/": 4}
# A parenthesis, what follows a comma, or an operator between spaces: of the last two, the place before them.
_MARK = re.compile(r"[(\[{)\]}]|(?<=, )(?=.)|(?<= )(?=(\|\||&&|[?:&+*/-]) )")
