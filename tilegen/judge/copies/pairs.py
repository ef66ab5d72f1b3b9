"""Two accesses to what stands for one tensor: rows for an instance of each, and a point in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilegen.judge.copies.storage import Storage, Touch
from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, example
from tilegen.poly.verdict import Words


def distinct(touches: Iterable[Touch]) -> list[Touch]:
    """One of each (leaf, index): a reduction reads where it writes, and a value may read a place twice."""
    found: dict[object, Touch] = {}
    for t in touches:
        found.setdefault((t.placed, t.use.buffer, t.use.index, t.use.writes, t.wanted), t)
    return list(found.values())


def pair(
    storage: Storage, one: Touch, two: Touch, shared: frozenset[str]
) -> tuple[Rows, Mapping[str, str], tuple[Form, ...]]:
    """Rows for an instance of each, the names of the second one, and its index in these names."""
    names = two.placed.leaf.primed(shared)
    rows = storage.program.original.pair(one.placed.leaf, two.placed.leaf, shared)
    return rows, names, tuple(f.renamed(names) for f in two.use.forms)


def point_words(storage: Storage, question: Rows, one: Touch, two: Touch, shared: frozenset[str]) -> Words:
    names = two.placed.leaf.primed(shared)
    sizes = storage.program.kernel.sizes
    order = [*sizes, *one.placed.leaf.names, *(names.get(n, n) for n in two.placed.leaf.names)]
    found = example(question, order)
    assert found is not None
    return Words(storage.program.original, found, shared)


def named(words: Words, tensor: str, index: tuple[Form, ...]) -> str:
    values = []
    for f in index:
        values += [f.const + sum(factor * words.point.get(n, 0) for n, factor in f.terms)]
    return f"{tensor}[{', '.join(map(str, values))}]"
