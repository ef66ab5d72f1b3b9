"""What of schedules sizes reach: several rounds of each loop, tiles that are whole and ones that a border cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import lcm, prod

from tilegen.ir.affine import Affine, Div, const, factors_of, names_of_atom, var
from tilegen.ir.nodes import Condition, Kernel, Loop, Tree
from tilegen.ir.printing.shown import size_words
from tilegen.ir.walk import loops
from tilegen.poly import Facts

Sizes = Mapping[str, int]
# Of tiles: whole ones alone; parts of one, of even lengths, which vectors take; whole ones and a part of one.
WAYS = ("whole", "vectors", "border")
_NEAR = 32  # at most so far beside a multiple of its tile a size is looked for: tiles of a stencil begin there
_MANY = 1000  # choices of sizes beyond which few of them are large at a time
_TILE = 512  # elements of a tile that all sizes have whole while another one is looked at
_SET = 2**22  # points that a set of sizes counts for beside its own: each takes time


@dataclass(frozen=True)
class Part:
    """A loop that has to run `rounds` times, its last iteration being a whole `tile` or not; None if it has none."""

    loop: Loop
    tile: Div | None

    @cached_property
    def names(self) -> frozenset[str]:
        """The sizes that decide how often the loop runs; of a product of sizes the first one."""
        return frozenset(name for each in self.loop.extent.symbols() for name in factors_of(each)[0].names())

    @property
    def rounds(self) -> int:
        """Of a pipelined loop one more than it has buffers: each is filled again."""
        return max(2, self.loop.stages + 1)

    @cached_property
    def conditions(self) -> Mapping[str, tuple[Condition, ...]]:
        """What sizes have to meet to reach it in each way."""
        once, several = Condition(self.loop.extent - 1), Condition(self.loop.extent - self.rounds)
        if self.tile is None:
            return {"whole": (several,), "vectors": (once,), "border": (several,)}
        last = self.tile.arg % self.tile.by - (self.tile.by - 1)
        cut = Condition(-last - 1)
        return {"whole": (several, Condition(last, equal=True)), "vectors": (once, cut), "border": (several, cut)}

    def reached(self, way: str, sizes: Sizes) -> bool:
        """True if they meet that."""
        return all(condition.holds(sizes) for condition in self.conditions[way])


def parts_of(trees: Iterable[Tree]) -> tuple[Part, ...]:
    """The parts of the trees, one of those that sizes cannot tell apart."""
    found: dict[object, Part] = {}
    for loop in (each for tree in trees for each in loops(tree.body) if not each.extent.is_const):
        for tile in tuple(_tiles(loop.extent)) or (None,):
            part = Part(loop, tile)
            found.setdefault((loop.extent, part.rounds, tile), part)
    return tuple(found.values())


def ways_of(trees: Iterable[Tree]) -> tuple[str, ...]:
    """The ways that matter: without vectors two."""
    kinds = {loop.kind for tree in trees for loop in loops(tree.body)}
    return tuple(way for way in WAYS if way != "vectors" or kinds & {"vector", "bulk", "matrix"})


def missed(
    kernel: Kernel, parts: Iterable[Part], sets: Sequence[Sizes], given: Sizes
) -> list[tuple[Part, str, dict[str, int]]]:
    """Each part that none of the sets reaches, though some sizes do: with the way, and the least of those."""
    facts, known = Facts(kernel), {name: const(value) for name, value in given.items()}
    fixed = [Condition(var(name) - value, equal=True) for name, value in given.items()]
    found = []
    for way in ("whole", "border"):
        for part in parts:
            if not any(part.reached(way, each) for each in sets):
                wanted = [each._replace(value=each.value.substitute(known)) for each in part.conditions[way]]
                least = facts.least_sizes((*wanted, *fixed))
                found += [(part, way, {name: least[name] for name in kernel.sizes})] if least else []
    return found


def missed_notes(trees: Sequence[Tree], sets: Sequence[Sizes], given: Sizes) -> list[str]:
    """A note for each loop that runs less often in the sets than it may, with sizes at which it runs so often."""
    kernel, notes = trees[0].kernel, dict[tuple[str, str], str]()
    if set(kernel.sizes) <= given.keys():
        return []
    for part, way, least in missed(kernel, parts_of(trees), sets, given):
        last = "" if part.tile is None else ", the last one whole" if way == "whole" else ", the last one at a border"
        what = f"at none of the sizes does {part.loop.name} have {part.rounds} iterations{last}"
        notes.setdefault((part.loop.name, way), f"{what}; --size {size_words(least)} reaches that")
    return list(notes.values())


@dataclass(frozen=True)
class Search:
    """Looks for sets of sizes that reach the parts of schedules of a kernel.

    `settle` makes sizes meet what the kernel asks of them, {} if it cannot; `points` counts what they cost, None if
    that is too much.
    """

    kernel: Kernel
    parts: Sequence[Part]
    given: Sizes
    settle: Callable[[Sizes], dict[str, int]]
    points: Callable[[Sizes], int | None]

    def sets(self, ways: Iterable[str]) -> Iterator[dict[str, int]]:
        """Sets that reach, together, all that can be reached: first those that reach most for their points."""
        for way in ways:
            left = list(self.parts)
            while chosen := self._best(way, left):
                yield chosen
                left = [part for part in left if not part.reached(way, chosen)]

    def _best(self, way: str, left: Sequence[Part]) -> dict[str, int]:
        """The next set; nothing if none reaches one of those that are left."""
        for small in (True, False) if way != "vectors" else (True,):
            best: dict[str, int] = {}
            most = 0.0
            for wanted in self._choices(way, left, small):
                sizes = self._moved(way, left, self.settle({**wanted, **self.given}))
                points = self.points(sizes) if sizes else None
                if points is not None and (gain := self._count(way, left, sizes) / (points + _SET)) > most:
                    best, most = sizes, gain
            if best:
                return best
        return {}

    def _choices(self, way: str, left: Sequence[Part], small: bool) -> Iterator[dict[str, int]]:
        """Sizes that may reach something that is left, the others small, or 1."""
        values = []
        for position, name in enumerate(self.kernel.sizes):
            base, *more = self._values(way, left, name, position)
            values.append([base if small else 1, *(more if name not in self.given else ())])
        few = prod(map(len, values)) <= _MANY
        for chosen in product(*values):
            if few or sum(value != each[0] for value, each in zip(chosen, values, strict=True)) <= 2:
                yield dict(zip(self.kernel.sizes, chosen, strict=True))

    def _values(self, way: str, left: Sequence[Part], name: str, position: int) -> list[int]:
        """A small value of a size, and each that reaches one more of its parts, different for each position."""
        tiles = self._tiles(name)
        steps = {(_elements(part.loop.extent, name), part.rounds) for part in left if name in part.names}
        if way == "whole":
            wanted = sorted({length * rounds for length, rounds in steps})
            return [_whole(most, tiles) for most in (min(_TILE, tiles[-1]), *wanted)]
        if way == "vectors":
            return [max(4, tiles[0] // 2)]
        wanted = sorted({length * (rounds - 1) for length, rounds in steps})
        return [(most + max(2, tiles[0] // 2) + 2 * position) | 1 for most in (0, *wanted)]

    def _tiles(self, name: str) -> list[int]:
        """The lengths of the tiles of a size, in elements, in order."""
        tiles = [part.tile for part in self.parts if part.tile and name in part.names]
        return sorted({_elements(Affine(((tile, 1),)), name) for tile in tiles} - {0, 1}) or [1]

    def _moved(self, way: str, left: Sequence[Part], sizes: dict[str, int]) -> dict[str, int]:
        """`sizes`, moved a little, one after the other, to where they reach most."""
        step = {"whole": 1, "vectors": 8, "border": 2}[way]
        for name in self.kernel.sizes:
            about = [part for part in left if name in part.names]
            if name in self.given or not sizes or self._count(way, about, sizes) == len(about):
                continue
            far = min(_NEAR, self._tiles(name)[0] // 2) if way == "whole" else 2 * step
            near = [sizes[name] + side * by for by in range(0, far + 1, step) for side in (1, -1)]
            taken = {value for other, value in sizes.items() if other != name} if way == "border" else set()
            tried = [self.settle(sizes | {name: value}) for value in near if value > 0 and value not in taken]
            tried = [sizes, *(each for each in tried if each)]
            sizes = max(tried, key=lambda each: self._count(way, about, each))
        return sizes

    def _count(self, way: str, parts: Iterable[Part], sizes: Sizes) -> int:
        return sum(part.reached(way, sizes) for part in parts)


def _tiles(value: Affine) -> Iterator[Div]:
    """The divisions in the value, outermost first."""
    for atom, _ in value.terms:
        if isinstance(atom, Div):
            yield atom
            yield from _tiles(atom.arg)


def _whole(most: int, tiles: Sequence[int]) -> int:
    """At least `most`, and a multiple of all tiles that are no longer."""
    unit = lcm(*(tile for tile in tiles if tile <= most))
    return max(4, -(-most // unit) * unit)


def _elements(value: Affine, name: str) -> int:
    """How many elements of a size make `value` one more: 512 of N for ((N + 15)/16 + 31)/32; 0 if it has none."""
    for atom, times in value.terms:
        if isinstance(atom, str) and name in names_of_atom(atom):
            return 1 if abs(times) == 1 else 0
        if isinstance(atom, Div) and name in atom.arg.names():
            inner = next(abs(t) for each, t in atom.arg.terms if name in names_of_atom(each))
            return -(-atom.by // inner) * (_elements(atom.arg, name) or 1)
    return 0
