"""A schedule that is being written: each step is applied, and judged, as soon as it stands there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from re import findall
from textwrap import wrap

from tilegen.errors import Source, TilegenError
from tilegen.frontend.parse import parse
from tilegen.frontend.stock import standard_steps, stock_instructions
from tilegen.ir.nodes import Kernel, Loop, Tree
from tilegen.ir.walk import find_loop, loops
from tilegen.primitives.calling.composite import expand, names_in
from tilegen.schedule import Derivation, start

_WIDTH = 116


@dataclass(frozen=True)
class Number:
    """A parameter of the head: its value, and the other values that `tune` may try."""

    value: int
    candidates: tuple[int, ...] = ()

    def text(self, name: str) -> str:
        among = f" in {{{', '.join(map(str, sorted({self.value, *self.candidates})))}}}" if self.candidates else ""
        return f"{name}={self.value}{among}"


@dataclass(frozen=True)
class Draft:
    """The steps so far, with the tree that they make; a value: what is refused leaves the draft before it as it was.

    Attributes:
        lines: comments and steps, in their order.
        numbers: the parameters of the head.
        facts: what its `where` says.
    """

    core: Derivation
    lines: tuple[str, ...] = ()
    numbers: Mapping[str, Number] = field(default_factory=dict)
    facts: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree:
        return self.core.tree

    def loop(self, name: str) -> Loop | None:
        return find_loop(self.tree, name)

    def names(self, *wanted: str) -> list[str]:
        """`fresh` names for several loops or buffers that are made at once: no two are the same."""
        found = list[str]()
        for word in wanted:
            found.append(self.fresh(word, beside=found))
        return found

    def fresh(self, wanted: str, instead_of: Sequence[str] = (), beside: Sequence[str] = ()) -> str:
        """`wanted` as the name of a loop or a buffer, or with a number after it where that is taken.

        Args:
            instead_of: names that the next step takes away.
            beside: names that it gives to others.
        """
        taken = ({*self._taken(), *self.numbers} - set(instead_of)) | set(beside)
        word = wanted.replace(".", "_")
        return next(name for n in range(1, 1000) if (name := word if n == 1 else f"{word}{n}") not in taken)

    def _taken(self) -> set[str]:
        """What is called by a name, or was before a step, parameters left out."""
        return {*names_in(self.tree), *(loop.name for stage in self.core.stages for loop in loops(stage.tree.body))}

    def say(self, comment: str) -> Draft:
        """With a comment above the next step."""
        lines = [f"    # {line}" for line in wrap(comment, _WIDTH - 6, break_on_hyphens=False)]
        return replace(self, lines=(*self.lines, *lines))

    def number(self, wanted: str, value: int, candidates: Iterable[int] = ()) -> tuple[Draft, str]:
        """With a parameter in the head, and its name; one that is there serves where it has this value."""
        new = Number(value, tuple(candidates))
        names = (wanted if n == 1 else f"{wanted}{n}" for n in range(1, 1000))
        taken = {word.rpartition(".")[2] for word in self._taken()}
        name = next(name for name in names if name not in taken and self.numbers.get(name, new) == new)
        return replace(self, numbers={**self.numbers, name: new}), name

    def where(self, *facts: str) -> Draft:
        return replace(self, facts=(*self.facts, *(fact for fact in facts if fact not in self.facts)))

    def steps(self, *texts: str) -> Draft:
        """With these steps. Raises TilegenError where one cannot be built or is refused."""
        if not texts:
            return self
        used = _used(texts, self.numbers)
        lines = "".join(f"    {text}\n" for text in texts)
        head = ", ".join(f"{name}={number.value}" for name, number in used.items())
        text = f"schedule suggested for {self.core.kernel.name}({head}):\n{lines}"
        calls = parse(Source("<suggestion>", text)).schedules[0].steps
        values, core = {name: number.value for name, number in self.numbers.items()}, self.core
        for call in calls:
            core = core.then(expand(call, standard_steps(), names_in(core.tree), values))
        return replace(self, core=core, lines=(*self.lines, *(f"    {text}" for text in texts)))

    def maybe(self, *texts: str, why: str = "") -> Draft:
        """With these steps and the comment, or this draft where one is refused."""
        try:
            return (self.say(why) if why else self).steps(*texts)
        except TilegenError:
            return self

    def first(self, *ways: Sequence[str]) -> Draft:
        """With the first of these sequences of steps that is accepted. Raises the error of the last."""
        for way in ways[:-1]:
            try:
                return self.steps(*way)
            except TilegenError:
                continue
        return self.steps(*ways[-1])

    @property
    def parameters(self) -> dict[str, Number]:
        """Those of the numbers that steps speak of: what the head has."""
        return _used(self.lines, self.numbers)

    def text(self, name: str, comment: str = "") -> str:
        """The schedule as a text."""
        used = self.parameters
        above = "".join(f"# {line}\n" for line in wrap(comment, _WIDTH - 2, break_on_hyphens=False))
        begin = f"schedule {name} for {self.core.kernel.name}("
        heads = [f"{number.text(name)}," for name, number in used.items()]
        head = begin + _joined(heads, len(begin)).rstrip(",") + ")"
        facts = f"\n        where {_joined([f'{fact},' for fact in self.facts], 14).rstrip(',')}" if self.facts else ""
        steps = any(not line.lstrip().startswith("#") for line in self.lines)
        body = "\n".join((*self.lines, *(() if steps else ("    pass",))))
        return f"{above}{head}{facts}:\n{body}\n"


def _joined(parts: Sequence[str], column: int) -> str:
    """The parts on as few lines as are wide enough, each of which begins in this column."""
    text, used = "", column
    for part in parts:
        if used + len(part) > _WIDTH:
            text, used = f"{text.rstrip()}\n{' ' * column}", column
        text, used = f"{text}{part} ", used + len(part) + 1
    return text.rstrip()


def _used(lines: Iterable[str], numbers: Mapping[str, Number]) -> dict[str, Number]:
    """Those of the parameters that steps speak of."""
    words = {word for line in lines for word in findall(r"\w+", line.partition("#")[0])}
    return {name: number for name, number in numbers.items() if name in words}


def begin(kernel: Kernel) -> Draft:
    """The kernel as written."""
    return Draft(start(kernel, lambda: stock_instructions()))
