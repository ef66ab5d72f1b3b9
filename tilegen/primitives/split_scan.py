"""split_scan(y, 32) -> total, local, ahead"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.ir.parts.derived import Regrouped
from tilegen.ir.reductions.linear import LINEAR
from tilegen.ir.walk import loop_names
from tilegen.primitives import BufferName, NewName, primitive
from tilegen.primitives.equations.prefix import Prefix, prefix_of
from tilegen.primitives.equations.regroup import fresh_names, need_nest, with_equations
from tilegen.primitives.equations.tiles import Tiles
from tilegen.primitives.rewriting.tree import need_fresh


@primitive("arithmetic")
class SplitScan:
    """Make a running reduction of tiles: prefixes inside of each, totals of the tiles, and prefixes of these.

    kernel:
        kernel sums(x: f32[N]) -> y: f32[N]:
            y[i] = sum[k <= i](x[k])
    before:
        for i < N
          y[i] = 0
          for k < N
            y[i] += x[k]  if k <= i
    steps:
        split_scan(y, 4) -> total, part, ahead
    after:
        for total.io < (N + 3)/4
          total[total.io] = 0
          for total.ki < 4
            total[total.io] += x[total.io*4 + total.ki]  if total.io*4 + total.ki < N
        for part.io < (N + 3)/4
          for part.ii < 4
            part[part.io, part.ii] = 0
            for part.ki < 4
              part[part.io, part.ii] += x[part.io*4 + part.ki]  if part.ki <= part.ii and part.io*4 + part.ki < N
        for ahead.io < (N + 3)/4
          ahead[ahead.io] = 0
          for ahead.ko < (N + 3)/4
            ahead[ahead.io] += total[ahead.ko]  if ahead.ko < ahead.io
        for y.io < (N + 3)/4
          for y.ii < 4
            y[y.io*4 + y.ii] = ahead[y.io] + part[y.io, y.ii]  if y.io*4 + y.ii < N

    `part` and `ahead` are running reductions again, to be made by scan, by split_scan once more, or as they stand
    where tiles are few; scan(part, along=total) reads the prefixes while the total runs. All of it can go in one
    launch, tile by tile, or in several. Terms are combined in another order than the kernel's text has, as by rfactor.

    A linear recurrence, y[i] = a[i] * (y[i - 1] else 0) + b[i], has two names more, -> total, part, ahead, factor,
    factors: the product of a tile's factors, and those up to each place of it, a running product. Then y is
    factors * ahead + part. Its terms keep their order.
    """

    prefix: BufferName
    size: int
    total: NewName
    local: NewName
    ahead: NewName
    factor: NewName | None = None
    factors: NewName | None = None

    def apply(self, tree: Tree) -> Tree:
        prefix = prefix_of(tree, self.prefix)
        old = need_nest(tree, self.prefix, "split_scan")
        if self.size < 2:
            raise StepError(f"a tile has at least two elements, not {self.size}")
        pairs = prefix.equation.reduce == LINEAR
        names = (self.total, self.local, self.ahead, *(name for name in (self.factor, self.factors) if name))
        if len(names) != (5 if pairs else 3):
            raise self._wrong_count(prefix, pairs)
        need_fresh(tree, names, gone=loop_names(replace(tree, body=(old,))))
        tiles = Tiles(prefix, self.size, fresh_names(tree, self.prefix, old).taken)
        made = [tiles.reduced(self.total, tiles.frame(self.total))]
        made += [tiles.reduced(self.local, tiles.frame(self.local), tiles.inside(self.local))]
        if self.factor and self.factors:
            made += [tiles.reduced(self.factor, tiles.frame(self.factor), factors=True)]
            made += [tiles.reduced(self.factors, tiles.frame(self.factors), tiles.inside(self.factors), factors=True)]
        ahead = tiles.ahead(self.ahead, made[0][0], self.factor)
        new, point = tiles.combined(self.ahead, self.local, self.factors)
        derived = Regrouped(self.prefix, point, tuple((equation.target, term) for equation, term in made))
        added = (*(equation for equation, _ in made), ahead)
        allowed = [e.target for e in added] if self.prefix in tree.reassociated else ()
        return with_equations(tree, "split_scan", derived, {self.prefix: (*added, new)}, allowed)

    def _wrong_count(self, prefix: Prefix, pairs: bool) -> StepError:
        kind, count = ("a linear recurrence", 5) if pairs else (f"a {prefix.equation.reduce}", 3)
        more = ", factor, factors: the last two are the products of a tile's factors, and of those up to each place"
        notes = (f"-> total, local, ahead{more if pairs else ''}",)
        return StepError(f"'{self.prefix}' is {kind}, and split_scan makes {count} tensors of it", notes=notes)
