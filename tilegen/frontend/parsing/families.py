"""Families of instructions: one declaration that stands for one for each value of its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from lark import Token

from tilegen.errors import Source, SourceError
from tilegen.frontend.parsing.expressions import name
from tilegen.frontend.parsing.place import Branch, Place, branch, branches, rule
from tilegen.frontend.syntax import Name
from tilegen.ir.printing.shown import counted


@dataclass(frozen=True)
class Family:
    """A declaration with parameters: `instruction name{N}(...) ... for N in {8, 16, ..., 256}:`.

    Attributes:
        name: with its parameters in braces.
        text: the declaration without what its parameters run over, in the lines where it stands.
        members: the values of the parameters by the name of the member that they make.
    """

    name: Name
    text: Source
    members: Mapping[str, Mapping[str, str]] = field(hash=False)

    def member(self, name: str) -> Source:
        """The declaration of the member called `name`."""
        values = self.members[name]
        words = "|".join(values)
        text = re.sub(rf"\{{({words})\}}|\b({words})\b", lambda m: values[m[1] or m[2]], self.text.text)
        return Source(self.text.name, text)

    def corners(self) -> Iterator[str]:
        """Members that have each word among the values, and the last one."""
        seen = set[str]()
        for member, values in self.members.items():
            words = {value for value in values.values() if not value.isdecimal()}
            if not words <= seen:
                yield member
            seen |= words
        yield (*self.members,)[-1]


def family(place: Place, tree: Branch) -> Family:
    """The family of a parse tree.

    Raises:
        SourceError: its name does not have the parameters whose values are given, or the values do not fit.
    """
    word = name(place, tree.children[1])
    ranges = [part for part in branches(tree.children) if rule(part) == "varied"]
    choices = [list(_choices(place, part)) for part in ranges]
    given = {parameter for each in choices for parameter in each[0]}
    for parameter in re.findall(r"\{(\w+)\}", word.text):
        if parameter not in given:
            notes = (f"after the architecture stands: for {parameter} in {{8, 16, ..., 256}}, or in {{bf16, f16}}",)
            raise SourceError(f"the values of '{parameter}' are not given", word.span, notes=notes)
    members: dict[str, Mapping[str, str]] = {}
    for several in product(*choices):
        values = {parameter: value for each in several for parameter, value in each.items()}
        member = re.sub(r"\{(\w+)\}", lambda match, values=values: values[match[1]], word.text)  # type: ignore[misc]
        if member in members:
            notes = ("the name has what they differ in, in braces",)
            raise SourceError(f"two members of the family are called '{member}'", word.span, notes=notes)
        members[member] = values
    return Family(word, Source(place.source.name, _text_without(place, tree, ranges)), members)


def _choices(place: Place, tree: Branch) -> Iterator[dict[str, str]]:
    """The values that one entry of the head gives its parameter, or several parameters together."""
    first = tree.children[0]
    names = _words(branch(tree.children[1])) if first == "(" else [str(first)]
    rows = [part for part in branches(tree.children) if rule(part) == "varied_value"]
    values = [_words(row) for row in rows]
    for at, (row, words) in enumerate(zip(rows, values, strict=True)):
        if row.children[0] == "...":
            yield from ({names[0]: str(value)} for value in _between(place, row, values[:at], values[at + 1 :]))
        elif len(words) != len(names):
            message = f"{', '.join(names)} take {counted(names, 'value')} at a time, and not {len(words)}"
            raise SourceError(message, place.of(row))
        else:
            yield dict(zip(names, words, strict=True))


def _between(place: Place, row: Branch, before: list[list[str]], behind: list[list[str]]) -> range:
    """The numbers that '...' leaves out: the last two before it tell the step, the next one after it the end."""
    around = [words[0] for words in (*before[-2:], *behind[:1]) if len(words) == 1 and words[0].isdecimal()]
    if len(around) == 3:
        one, two, end = map(int, around)
        if one < two < end and (end - two) % (two - one) == 0:
            return range(2 * two - one, end, two - one)
    notes = ("two numbers stand before it and the last one after it: {8, 16, ..., 256}",)
    raise SourceError("'...' does not say how the values go on", place.of(row), notes=notes)


def _words(tree: Branch) -> list[str]:
    """Its words and numbers, and what stands between quotes."""
    return [str(each).strip('"') for each in tree.children if isinstance(each, Token) and each not in ("(", ",", ")")]


def _text_without(place: Place, tree: Branch, ranges: list[Branch]) -> str:
    """The declaration without its ranges, and the comment above it, in their lines; nothing stands before them."""
    tokens = [each for each in tree.children if isinstance(each, Token)]
    ranging, colon = [each for each in tokens if each == "for"][-1], [each for each in tokens if each == ":"][-1]
    assert ranging.start_pos is not None
    assert colon.start_pos is not None
    head = place.text[: ranging.start_pos].rstrip()
    cut = place.text[len(head) : colon.start_pos]
    text = head + ":" + "\n" * cut.count("\n") + place.text[colon.end_pos :]
    lines, first = text.split("\n"), place.of(tree).line - 1
    last = place.of(branches(tree.children)[-1]).line
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return "\n".join((*[""] * first, *lines[first:last]))
