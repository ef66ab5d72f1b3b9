"""Arguments that click cannot parse: `--size M=4096 N=4096`, and lists with commas."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from math import isfinite, prod
from typing import Any

import click

from tilegen.errors import UsageError, check_64_bits
from tilegen.ir.steps import Setting, is_name

STANDARD_INPUT = "<stdin>"  # as messages call it
SEVERAL = ("--size", "--set", "--fix")
MOST_POINTS = 100
_RANGE = re.compile(r"(?P<first>\d{1,18})\.\.(?P<last>\d{1,18})(?P<by>[x+])(?P<step>\d{1,18})")
_PAIR = re.compile(r"[A-Za-z_]\w*=.*")


class Finite(click.FloatRange):
    """A number of an option, and no NaN, which is between any two bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{found} is no finite number.", param, ctx)
        return found


def repeat_options(arguments: list[str]) -> list[str]:
    """Arguments as click reads them: `--size M=1 N=2` becomes `--size M=1 --size N=2`; `-:s` is no option."""
    result: list[str] = []
    option = ""
    for word in (STANDARD_INPUT + word[1:] if word.startswith("-:") else word for word in arguments):
        if word in SEVERAL:
            option = word
        elif option and is_pair(word):
            result += [option, word]
        else:
            # click reports an option without a pair.
            result += [option, word] if option and result[-2:-1] != [option] else [word]
            option = ""
    return result + ([option] if option and result[-2:-1] != [option] else [])


def is_pair(word: str) -> bool:
    """True for NAME=VALUE."""
    return _PAIR.fullmatch(word) is not None


def parse_numbers(pairs: Iterable[str], option: str) -> dict[str, int]:
    """The values of `M=4096` and the like by name. Raises UsageError for anything but NAME=INTEGER."""
    found: dict[str, int] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not is_name(name) or not re.fullmatch(r"-?\d+", value):
            raise UsageError(f"{option} takes NAME=INTEGER, not '{pair}'")
        if name in found:
            raise UsageError(f"{option} gives {name} twice")
        # int() refuses thousands of digits.
        found[name] = check_64_bits(f"{option} {name}", int(value) if len(value) < 100 else 10**100)
    return found


def parse_point(pairs: Iterable[str], option: str) -> dict[str, int]:
    """The only point of a command that goes through none; raises what `parse_points` raises."""
    return parse_points(pairs, option, several=False)[0]


def parse_points(pairs: Iterable[str], option: str, *, several: bool = True) -> list[dict[str, int]]:
    """The sizes to go through, one after the other: every combination where several of them vary.

    `M=512..8192x2` multiplies, `M=256..1024+256` adds, `M=100,1000` lists, and `M=N=512..8192x2` gives both one value.

    Raises:
        UsageError: a pair is none of these, names a size again, or there are more than MOST_POINTS combinations; or
            there is more than one, and they are not to be `several`.
    """
    varied: list[list[dict[str, int]]] = []
    for pair in pairs:
        *names, values = pair.split("=")
        if not names:
            raise UsageError(f"{option} takes NAME=INTEGER, not '{pair}'")
        found = [
            parse_numbers([f"{name}={value}" for name in names], option) for value in _values_of(values, pair, option)
        ]
        if len(found) > 1 and not several:
            notes = ("compare goes through several sizes",) if option == "--size" else ()
            raise UsageError(f"{option} takes NAME=INTEGER, not '{pair}'", notes=notes)
        if twice := [name for name in names if any(name in points[0] for points in varied)]:
            raise UsageError(f"{option} gives {twice[0]} twice")
        varied.append(found)
    if prod(map(len, varied)) > MOST_POINTS:
        raise UsageError(f"{option} gives more than {MOST_POINTS} combinations of sizes")
    return [{name: n for point in points for name, n in point.items()} for points in product(*varied)]


def _values_of(text: str, pair: str, option: str) -> list[str]:
    """The numbers that `text` lists or goes through."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return list(dict.fromkeys(text.split(",")))
    first, last, step = (int(match[name]) for name in ("first", "last", "step"))
    grows = step >= 2 if match["by"] == "x" else step >= 1
    if not grows or not 1 <= first <= last:
        raise UsageError(f"{option} {pair} goes nowhere", notes=("512..8192x2 doubles, 256..1024+256 adds",))
    found = [first]
    while (after := found[-1] * step if match["by"] == "x" else found[-1] + step) <= last and len(found) <= MOST_POINTS:
        found.append(after)
    return list(map(str, found))


def parse_settings(pairs: Iterable[str], several: bool = False) -> dict[str, tuple[Setting, ...]]:
    """The values of --set by name, several of `TS=16,32` if allowed. Raises UsageError for anything else."""
    found: dict[str, tuple[Setting, ...]] = {}
    for pair in pairs:
        name, _, values = pair.partition("=")
        parts = values.split(",") if re.fullmatch(r"-?\w+(,-?\w+)+", values) else [values]
        if len(parts) > 1 and not several:
            raise UsageError(f"--set gives {name} several values", notes=("compare has a row for each of them",))
        if name in found:
            raise UsageError(f"--set gives {name} twice", notes=("several values stand after one =, with commas",))
        found[name] = tuple(dict.fromkeys(_setting(name, part, pair) for part in parts))
    return found


def _setting(name: str, part: str, pair: str) -> Setting:
    """An integer; as text a fraction, for an attribute, or a word that names a type or an instruction."""
    if is_name(name) and (part.isidentifier() or is_fraction(part)):
        return part
    return parse_numbers([f"{name}={part}" if "=" in pair else pair], "--set")[name]


def is_fraction(text: str) -> bool:
    """True for the text of a number that is no integer: 1e-5."""
    return re.fullmatch(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None and not re.fullmatch(r"-?\d+", text)


def parse_list(text: str | None) -> list[str]:
    """A list with commas; empty without a text."""
    return [word.strip() for word in text.split(",") if word.strip()] if text else []
