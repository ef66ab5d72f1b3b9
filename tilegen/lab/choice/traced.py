"""Numbers that write down what is computed from them: a formula of these becomes lines of Python for any sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

_LINE = re.compile(r"\bt\d+\b")


class Traced:
    """A number known later: `times` of what has a name. Each operation is one of `lines`, the text and its name, once
    for all users; a factor is none, so that formulas that differ in their factors share their lines."""

    def __init__(self, name: str, lines: dict[str, str], times: float = 1) -> None:
        self.name, self.lines, self.times = name, lines, times

    def __repr__(self) -> str:
        return self.name if self.times == 1 else f"{self.times!r}*{self.name}"

    def __neg__(self) -> Any:
        return self.scaled(-1)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Traced):
            return self.scaled(other)
        return self.line("*".join(sorted((self.name, other.name)))).scaled(self.times * other.times)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, Traced):
            return self.scaled(1 / other)
        return self.line(f"{self.name} / {other.name}").scaled(self.times / other.times)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Traced) and other.name == self.name:
            return Traced(self.name, self.lines, self.times + other.times)
        return self.line(f"{self!r} + {other!r}") if other else self

    def __radd__(self, other: float) -> Any:
        return self.line(f"{other!r} + {self!r}") if other else self

    def __floordiv__(self, other: int) -> Traced:
        return self.line(f"{self!r} // {other}") if other != 1 else self

    def __mod__(self, other: int) -> Traced:
        return self.line(f"{self!r} % {other}")

    def scaled(self, times: float) -> Any:
        """The number multiplied by `times`."""
        return Traced(self.name, self.lines, self.times * times) if times else 0

    def line(self, text: str) -> Traced:
        """What the text computes."""
        return Traced(self.lines.setdefault(text, f"t{len(self.lines)}"), self.lines)


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that takes traced ones, too."""

    def either(*arguments: Any) -> Any:
        one = next((each for each in arguments if isinstance(each, Traced)), None)
        return one.line(f"{function.__name__}({', '.join(map(repr, arguments))})") if one else function(*arguments)

    return either


def smaller(one: Any, other: Any) -> Any:
    """The smaller one, as the text of a comparison, which takes half as long as a call of `min`."""
    first = next((each for each in (one, other) if isinstance(each, Traced)), None)
    return first.line(f"{one!r} if {one!r} < {other!r} else {other!r}") if first else min(one, other)


def compiled(
    names: Sequence[str], formulas: Callable[[Mapping[str, Any]], Sequence[Any]]
) -> Callable[..., list[float]]:
    """The formulas as one function of the numbers of these names: a line for what is used more than once."""
    lines = dict[str, str]()
    found = list(formulas({name: Traced(f"n_{name}", lines) for name in names}))
    uses = Counter(used for text in (*lines, repr(found)) for used in _LINE.findall(text))
    inside, body = dict[str, str](), list[str]()
    for text, name in lines.items():
        whole = _LINE.sub(lambda line: inside.get(line[0], line[0]), text)
        if uses[name] == 1:
            inside[name] = f"({whole})"
        else:
            body.append(f"{name} = {whole}")
    result = _LINE.sub(lambda line: inside.get(line[0], line[0]), repr(found))
    text = "\n    ".join([f"def all_of({', '.join(f'n_{name}' for name in names)}):", *body, f"return {result}"])
    there: dict[str, Any] = {"sqrt": sqrt, "min": min, "max": max}
    exec(text, there)  # noqa: S102, printed here from the operations of numbers
    made: Callable[..., list[float]] = there["all_of"]
    return made
