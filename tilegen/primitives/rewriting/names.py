"""Names for the loops and copies that a step makes."""

from __future__ import annotations

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives.rewriting.tree import need_fresh


def word_of(name: str) -> str:
    """The last word of a dotted name."""
    return name.rsplit(".", 1)[-1]


class Names:
    """Names `of.word` that nothing else has."""

    def __init__(self, taken: set[str], of: str) -> None:
        self.taken, self.prefix = taken, of

    def of(self, word: str) -> str:
        """A name for `word`, taken from now on."""
        name = base = f"{self.prefix}.{word_of(word)}"
        number = 1
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        return name


def name_of_copy(tree: Tree, buffer: str, suffix: str, given: str | None) -> str:
    """The name of a new copy, the given one or the usual one. StepError if there is something of that name."""
    if given is not None:
        need_fresh(tree, (given,))
        return given
    name = f"{buffer}.{suffix}"
    if any(b.name == name for b in tree.buffers):
        notes = ("after '->' a second copy gets a name of its own",)
        raise StepError(f"there is a buffer '{name}' already", notes=notes)
    return name
