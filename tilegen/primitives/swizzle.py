"""swizzle(A.shared, 4)"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from tilegen.errors import StepError
from tilegen.ir.facts.row_digits import count_rows
from tilegen.ir.nodes import DTYPE_BYTES, Buffer, Tree
from tilegen.ir.parts.swizzle import Swizzle as Layout
from tilegen.ir.parts.swizzle import power_of_two
from tilegen.primitives import BufferName, primitive
from tilegen.primitives.rewriting.tree import need_shared

_BANKS = 128  # bytes of one word of each


@primitive("memory")
class Swizzle:
    """Let the units of each row of a shared buffer change places, so that a column meets more banks, without a pad.

    Unit u of row r lies at place u ^ (r / rows % count); rows are counted over all dimensions but the fastest. `unit`
    elements stay together: a vector of 4 needs units of 4 or more. By default, `count` units are 128 bytes, one word
    of each bank; or what divides a row. By default, `rows` are as many as lie in 128 bytes, which share no bank.

    kernel:
        kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
            Y[j, i] = X[i, j]
    before:
        shared X.shared: f32[32, 32]  copy of X, in bj
    steps:
        tile(i, 32) -> bi, ti
        tile(j, 32) -> bj, tj
        order(bi, bj, ti, tj)
        cache_shared(X, at=bj)
        swizzle(X.shared, 1)
    after:
        shared X.shared: f32[32, 32] swizzle 32 x 1  copy of X, in bj
    """

    buffer: BufferName
    unit: int
    count: int | None = None
    rows: int | None = None

    def apply(self, tree: Tree) -> Tree:
        buffer = need_shared(tree, self.buffer, "swizzle takes", "swizzled")
        swizzled = replace(buffer, swizzle=self._layout(buffer))
        return replace(tree, buffers=tuple(swizzled if b is buffer else b for b in tree.buffers))

    def _layout(self, buffer: Buffer) -> Layout:
        for word, number in {"unit": self.unit, "count": self.count, "rows": self.rows}.items():
            if number is not None and not power_of_two(number):
                way = "places are exchanged by an exclusive or: 1, 2, 4, 8, ..."
                raise StepError(f"a {word} of {number} is no power of two", notes=(way,))
        if count_rows(buffer) == 1:
            notes = ("its elements lie side by side: neighbours meet different banks",)
            raise StepError(f"'{buffer.name}' has one row, and a swizzle needs several rows", notes=notes)
        length = buffer.shape[buffer.order[-1]].const
        most = gcd(length, max(_BANKS // DTYPE_BYTES[buffer.dtype], self.unit)) // self.unit
        beside = max(1, _BANKS // (length * DTYPE_BYTES[buffer.dtype]))
        rows = (beside if power_of_two(beside) else 1) if self.rows is None else self.rows
        layout = Layout(self.unit, most if self.count is None else self.count, rows)
        if layout.count < 2 or not layout.permutes(length):
            whole = f"{layout.count} units of {self.unit}" if layout.count > 1 else f"two units of {self.unit} or more"
            way = f"pad({buffer.name}, {self.unit}) takes rows of any length"
            message = f"a row of '{buffer.name}' has {length} elements, which {whole} do not divide"
            raise StepError(message, notes=(way,))
        return layout
