"""Blocks that hand on a value: the blocks of a simulation run one after another, and draw numbers in their order."""

from __future__ import annotations

from tests.support.enumeration.machine import Wrong
from tilegen.ir.nodes import Access


class BlockThread:
    """A thread of a block that is an iteration of a loop."""

    def iterations(self, loop, count):
        """All of them, or the one of the number that the block has drawn."""
        if loop.kind != "handed":
            return range(count)
        if not hasattr(self.shared, "drawn"):
            drawn = self.home.seen.get("drawn", 0)
            self.shared.drawn, self.home.seen["drawn"] = drawn, drawn + 1
            self.home.seen["added", drawn] = []
        if self.shared.drawn >= count:
            raise Wrong("more blocks than iterations")
        return range(self.shared.drawn, self.shared.drawn + 1)

    def look_back(self, node):
        """Takes its start and what the blocks of smaller numbers have added, and tells what this block adds."""
        target, mine = Access(node.buffer, ()), self.home.seen["added", self.shared.drawn]
        free = node.buffer.removesuffix(".reg") in self.home.reordered and not node.factor
        new = self.home.terms.bag if free else self.home.terms.of
        value = self._read(target)
        for before in range(self.shared.drawn):
            (added,) = set(self.home.seen["added", before])  # all threads of a block add the same
            value = new(node.reduce, value, added)
        own = self._value(node.value)
        mine.append(self.home.terms.of("step", self._value(node.factor), own) if node.factor else own)
        self._write(target, value)
