"""Tensors that are seen as windows of another one, and never stored.

X.windows[n, y, x, r, s, c] = X[n, y*2 + r - 1, x*2 + s - 1, c] else 0
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tilegen.ir.affine import Affine

if TYPE_CHECKING:
    from tilegen.ir.nodes import Const

Digit = tuple[str, Affine]  # a word, and how many values it has


class Moved(NamedTuple):
    """Along a dimension, windows begin at `word * step + low`, and have an element each `inner_step`, at `inner` of
    these; no `inner` where they have one."""

    word: str
    step: int
    inner: str
    inner_step: int
    low: int


@dataclass(frozen=True)
class Windows:
    """An element is that of `tensor` at `index`, or `fallback` where that is outside.

    `digits` has, for each dimension, the words in `index` that its place consists of, the one with the largest weight
    first, each with its extent: n, y and x of p = (n*OY + y)*OX + x. All but that one are below their extents.
    """

    tensor: str
    index: tuple[Affine, ...]
    digits: tuple[tuple[Digit, ...], ...]
    fallback: Const | None

    @property
    def extents(self) -> dict[str, Affine]:
        """How many values each word has."""
        return dict(digit for group in self.digits for digit in group)

    def joined(self, first: int, count: int) -> Windows:
        """With that many dimensions, from `first` on, as one."""
        return self._with(
            first, count, (tuple(digit for group in self.digits[first : first + count] for digit in group),)
        )

    def parted(self, first: int, counts: tuple[int, ...]) -> Windows:
        """With a dimension as several, of so many digits each."""
        digits = iter(self.digits[first])
        return self._with(first, 1, tuple(tuple(next(digits) for _ in range(count)) for count in counts))

    def _with(self, first: int, count: int, new: tuple[tuple[Digit, ...], ...]) -> Windows:
        return replace(self, digits=(*self.digits[:first], *new, *self.digits[first + count :]))

    @property
    def moved(self) -> tuple[Moved, ...]:
        """How the windows move along each dimension of the tensor between the first and the last one."""
        found, order = [], [*self.extents]
        for index in self.index[1:-1]:
            terms = sorted(index.terms, key=lambda term: order.index(str(term[0])))
            (word, step), (inner, inner_step) = (*terms, ("", 0), ("", 0))[:2]
            found.append(Moved(str(word), step, str(inner), inner_step, index.const))
        return tuple(found)
