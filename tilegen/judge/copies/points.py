"""Points of questions about copies in words."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.judge.copies.storage import Storage, Touch
from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, example
from tilegen.poly.verdict import Words


def words_at(storage: Storage, question: Rows, one: Touch, two: Touch, names: Mapping[str, str]) -> Words:
    """The least point of a question about two accesses, the loops of the second renamed by `names`."""
    original = storage.program.original
    loops = [*one.placed.leaf.names, *(names.get(n, n) for n in two.placed.leaf.names)]
    found = example(question, [*original.kernel.sizes, *loops])
    assert found is not None
    second = {f"{n}'": found[names[n]] for n in two.placed.leaf.names if n in names}
    return Words(original, found | second, frozenset(two.placed.leaf.names) - names.keys())


def element_words(words: Words, tensor: str, index: tuple[Form, ...]) -> str:
    """`A[3, 0]`: the element at the point."""
    values = [f.const + sum(factor * words.point.get(n, 0) for n, factor in f.terms) for f in index]
    return f"{tensor}[{', '.join(map(str, values))}]"
