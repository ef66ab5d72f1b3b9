"""How steps derive a kernel from another: what the judge needs to know to find the one in the other."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.affine import Affine
from tilegen.ir.parts.index_range import Range


@dataclass(frozen=True)
class Split:
    """The reduction of `target` in parts: the tensor `parts` has the result of each, `target` combines these.

    `point` says which term each one is: the instance of the undivided statement, one entry for each of its
    loops, affine in the loops of the equation of `parts`.
    """

    target: str
    parts: str
    point: tuple[Affine, ...]


@dataclass(frozen=True)
class ComputedAt:
    """The values of `target` computed anew in each iteration of some loops, which it has more dimensions for.

    With no such loops they are computed once, in another storage order or in more iterations than it has elements.
    `point` says which value each one is: the instance of the undivided statement, one entry for each loop of
    its left side, affine in the loops of the new equation. One value may be there several times.
    """

    target: str
    point: tuple[Affine, ...]


@dataclass(frozen=True)
class RoundedUp:
    """The range `loop` of the reduction of `target` is as long as the tiles of `by` that hold it."""

    target: str
    loop: str
    by: int


@dataclass(frozen=True)
class Limited:
    """The kernel is for the sizes alone at which `extent` is at most `most`."""

    extent: Affine
    most: int


@dataclass(frozen=True)
class Anchored:
    """The reduction of `target`, of terms from a row's start on, has a `loop` over all places where that may be."""

    target: str
    loop: str


@dataclass(frozen=True)
class Ranked:
    """The list that `target` counts stores its hits at the rank that the tensor `names[0]` has.

    Of a list over two loops that is the sum of two, which `names` has, too: the hits before it in
    the same iteration of the outer loop, and those in earlier ones.
    """

    target: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Regrouped:
    """The reduction `target`, over a part of a range at each point, made of results that other tensors have.

    `point` is the instance of the undivided left side, one entry for each of its loops, affine in the loops of the new
    equation. `terms` names the tensors that reduce terms of the kernel, each with the terms that these are: an entry
    for each loop that the undivided equation reduces, affine in the loops of its own.
    """

    target: str
    point: tuple[Affine, ...]
    terms: tuple[tuple[str, tuple[Affine, ...]], ...]


@dataclass(frozen=True)
class BestOfTiles:
    """The ranking `target` looks for the best elements of a row in the tiles of `by` whose own best come first.

    `names` are the tensors that it makes: the best of each tile, those that come first, their tiles, the elements of
    these, and the value of each of the best elements.
    """

    target: str
    by: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Flattened:
    """Adjoining dimensions of `extents` are one, as long as all of them together.

    `tensors` names those that have them, each with the first of these dimensions. `loops` has, for the target of each
    equation that goes along them, the loop that does, and those that it stands for.
    """

    extents: tuple[Affine, ...]
    tensors: tuple[tuple[str, int], ...]
    loops: tuple[tuple[str, str, tuple[Range, ...]], ...]


@dataclass(frozen=True)
class Windowed:
    """The kernel reads an input by the tensor `view` of its windows."""

    view: str


Derived = Split | ComputedAt | RoundedUp | Limited | Regrouped | Ranked | Anchored | BestOfTiles | Flattened | Windowed
