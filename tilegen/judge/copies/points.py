"""Points of questions about copies in words."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.judge.copies.storage import Storage, Touch
from tilegen.poly.rows import Rows
from tilegen.poly.system import Form, example
from tilegen.poly.verdict import Refused, Words


def words_at(storage: Storage, question: Rows, one: Touch, two: Touch, names: Mapping[str, str]) -> Words:
    """The least point of a question about two accesses, the loops of the second renamed by `names`."""
    original = storage.program.original
    loops = [*one.placed.leaf.names, *(names.get(n, n) for n in two.placed.leaf.names)]
    found = example(question, [*original.kernel.symbols, *loops])
    assert found is not None
    second = {f"{n}'": found[names[n]] for n in two.placed.leaf.names if n in names}
    return Words(original, found | second, frozenset(two.placed.leaf.names) - names.keys())


def element_words(words: Words, tensor: str, index: tuple[Form, ...]) -> str:
    """`A[3, 0]`: the element at the point."""
    values = [f.const + sum(factor * words.point.get(n, 0) for n, factor in f.terms) for f in index]
    return f"{tensor}[{', '.join(map(str, values))}]"


def other_element_error(
    storage: Storage, question: Rows, reader: Touch, stray: Touch, names: Mapping[str, str], held: tuple[Form, ...]
) -> Refused:
    """The place that is read holds another element, `held`."""
    words = words_at(storage, question, reader, stray, names)
    wanted, found = (element_words(words, storage.tensor, element) for element in (reader.element.forms, held))
    needed, given = reader.element.fallback, stray.element.fallback
    if needed is not None and given is not None and needed != given:
        wanted, found = f"{wanted} else {needed.value}", f"{found} else {given.value}"
    return Refused(
        f"'{reader.use.buffer}' holds another element than the one that is read from it",
        f"{words.instance(reader.placed.leaf)} reads {words.element(reader.use)} for {wanted}, and it holds "
        f"{found}{words.sizes}",
    )


def no_element_error(
    storage: Storage, question: Rows, reader: Touch, stray: Touch, names: Mapping[str, str]
) -> Refused:
    """The place that is read holds what a copy left that ran where it has no element."""
    words = words_at(storage, question, reader, stray, names)
    return Refused(
        f"'{stray.placed.leaf.stmt.name}' is copied where it has no element, over what is read from "
        f"'{reader.use.buffer}'",
        f"{words.instance(stray.placed.leaf, True)} writes {words.element(stray.use, True)}, and "
        f"{words.instance(reader.placed.leaf)} reads {words.element(reader.use)} for "
        f"{element_words(words, storage.tensor, reader.element.forms)}{words.sizes}",
    )
