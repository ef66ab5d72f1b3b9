"""Names for the loops that a step makes."""

from __future__ import annotations


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
