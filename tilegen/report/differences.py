"""What a step has changed in a tree, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Mark = Literal["same", "new", "gone"]

_WORD = re.compile(r"\s+|[\w.]+|[^\w\s]")
_ALIKE = 0.5  # lines with so large a share of common words are one line that has been changed


@dataclass(frozen=True)
class DifferentLine:
    """A line of a tree, as runs of words with the same mark; `depth` is its indentation in characters.

    Its own mark is "same" also where single words of it are not.
    """

    mark: Mark
    depth: int
    parts: tuple[tuple[Mark, str], ...]


def differences(before: str, after: str) -> list[DifferentLine]:
    """The lines of `after`, and those that are gone. A line that has only been indented is the same."""
    old, new = before.splitlines(), after.splitlines()
    matcher = SequenceMatcher(None, [line.strip() for line in old], [line.strip() for line in new], autojunk=False)
    found: list[DifferentLine] = []
    for kind, i, j, k, m in matcher.get_opcodes():
        found += [_whole("same", line) for line in new[k:m]] if kind == "equal" else _changes(old[i:j], new[k:m])
    return found


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[DifferentLine]:
    """Lines for lines: each new one beside the first old one that it is made of."""
    start = 0
    for line in new:
        place = next((n for n in range(start, len(old)) if _are_alike(old[n], line)), None)
        if place is None:
            yield _whole("new", line)
            continue
        yield from (_whole("gone", each) for each in old[start:place])
        yield DifferentLine("same", _depth(line), tuple(_words(old[place].strip(), line.strip())))
        start = place + 1
    yield from (_whole("gone", each) for each in old[start:])


def _are_alike(one: str, other: str) -> bool:
    return SequenceMatcher(None, _split(one), _split(other), autojunk=False).ratio() >= _ALIKE


def _words(old: str, new: str) -> Iterator[tuple[Mark, str]]:
    before, after = _split(old), _split(new)
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield "same", "".join(after[k:m])
            continue
        if i < j:
            yield "gone", "".join(before[i:j])
        if k < m:
            yield "new", "".join(after[k:m])


def _split(line: str) -> list[str]:
    return _WORD.findall(line.strip())


def _whole(mark: Mark, line: str) -> DifferentLine:
    return DifferentLine(mark, _depth(line), ((mark, line.strip()),))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
