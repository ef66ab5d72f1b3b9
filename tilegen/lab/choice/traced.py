"""Numbers that write down what is computed from them: a formula of these becomes lines of Python for any sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any


class Traced:
    """A number known later by its name; each operation is one of `lines`, the text and its name, once for all users."""

    def __init__(self, name: str, lines: dict[str, str]) -> None:
        self.name, self.lines = name, lines

    def __repr__(self) -> str:
        return self.name

    def __neg__(self) -> Traced:
        return self.line(f"-{self}")

    def line(self, text: str) -> Traced:
        """What the text computes."""
        return Traced(self.lines.setdefault(text, f"t{len(self.lines)}"), self.lines)


def _operation(sign: str) -> tuple[Callable[[Traced, Any], Traced], Callable[[Traced, Any], Traced]]:
    """An operation by its sign, with the traced number on its left and on its right."""
    return (
        lambda left, right: left.line(f"{left!r} {sign} {right!r}"),
        lambda right, left: right.line(f"{left!r} {sign} {right!r}"),
    )


for _word, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"}.items():
    for _side, _function in zip(("", "r"), _operation(_sign), strict=True):
        setattr(Traced, f"__{_side}{_word}__", _function)


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that takes traced ones, too."""

    def either(*arguments: Any) -> Any:
        one = next((each for each in arguments if isinstance(each, Traced)), None)
        return one.line(f"{function.__name__}({', '.join(map(repr, arguments))})") if one else function(*arguments)

    return either


def compiled(
    names: Sequence[str], formulas: Callable[[Mapping[str, Any]], Sequence[Any]]
) -> Callable[..., list[float]]:
    """The formulas as one function of the numbers of these names."""
    lines = dict[str, str]()
    found = formulas({name: Traced(f"n_{name}", lines) for name in names})
    body = [f"{name} = {text}" for text, name in lines.items()]
    text = "\n    ".join([f"def all_of({', '.join(f'n_{name}' for name in names)}):", *body, f"return {list(found)!r}"])
    there: dict[str, Any] = {"sqrt": sqrt, "min": min, "max": max}
    exec(text, there)  # noqa: S102, printed here from the operations of numbers
    made: Callable[..., list[float]] = there["all_of"]
    return made
