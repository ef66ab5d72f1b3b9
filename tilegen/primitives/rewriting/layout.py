"""The dimensions of a buffer by the index words of the kernel's text, and storage orders given by them."""

from __future__ import annotations

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Buffer, Load, Tree
from tilegen.ir.walk import walk


def dimension_words(tree: Tree, buffer: Buffer) -> list[str]:
    """A word for each dimension: the index that stands there in the kernel's text, else its number."""
    root, copies = buffer, []
    while root.role == "copy" and root.copy_of and any(b.name == root.copy_of for b in tree.buffers):
        copies.append(root)
        root = tree.buffer(root.copy_of)
    words = _root_words(tree, root)
    for copy in reversed(copies):
        if copy.joined:
            words = ["_".join(words[d] for d in group) for group in copy.joined]
        if copy.panels:
            words = words_with_panels(words)
    return words


def words_with_panels(words: list[str]) -> list[str]:
    """The words of a copy's dimensions with one in front for that which counts panels."""
    return ["panel" if "p" in words else "p", *words]


def _root_words(tree: Tree, root: Buffer) -> list[str]:
    name = root.name if root.windows else memory_of(root.name if root.role != "copy" else root.copy_of or "")
    equations = (*tree.kernel.written_kernel.equations, *tree.kernel.equations)
    accesses = [(e, e.index) for e in equations if e.target == name]
    accesses += [
        (e, v.index)
        for e in equations
        for v in walk(e.value)
        if isinstance(v, Load) and (v.buffer if root.windows else memory_of(v.buffer)) == name
    ]
    for equation, index in accesses:
        words = {r.name: r.index for r in (*equation.loops, *equation.reduced)}
        found = [words.get(str(i), str(d)) for d, i in enumerate(index)]
        if len(set(found)) == len(found) == len(root.shape):
            return found
    return [str(d) for d in range(len(root.shape))]


def storage_order(buffer: Buffer, words: list[str], layout: tuple[str, ...] | None) -> tuple[int, ...]:
    """The dimension numbers, slowest first: the buffer's own order where there is no layout.

    A layout names all dimensions, or two at least that take the places of one another.
    """
    dims = [_dimension(buffer, words, word) for word in layout or ()]
    if layout is not None and (len(set(dims)) < len(dims) or len(dims) < min(2, len(words))):
        listed = ", ".join(words)
        raise StepError(f"layout names each dimension of '{buffer.name}' once, or those that change places: {listed}")
    there = iter(dims)
    return tuple(next(there) if dim in dims else dim for dim in buffer.order)


def group_dimensions(
    buffer: Buffer, words: list[str], layout: tuple[str | tuple[str, ...], ...]
) -> list[tuple[int, ...]]:
    """The dimensions of `buffer` in groups, as `layout` joins them: [[c, r, s], f]."""
    groups = [(part,) if isinstance(part, str) else part for part in layout]
    order = storage_order(buffer, words, tuple(word for group in groups for word in group))
    if all(isinstance(part, str) for part in layout):
        return [(dim,) for dim in order]
    if sum(map(len, groups)) < len(order):
        raise StepError(f"a layout that joins dimensions names each one of '{buffer.name}': {', '.join(words)}")
    found: list[tuple[int, ...]] = []
    for group in groups:
        found.append(order[: len(group)])
        order = order[len(group) :]
        for dim in found[-1][1:]:
            if not buffer.shape[dim].is_const:
                size = buffer.shape[dim]
                raise StepError(
                    f"'{words[dim]}' cannot be joined to the dimensions before it, since its size is {size}",
                    notes=("all but the first of joined dimensions have constant sizes; a size can be fixed",),
                )
    return found


def join_index(values: tuple[Affine, ...], shape: tuple[Affine, ...]) -> Affine:
    """The place of the point `values` in the dimension that joins dimensions of the extents `shape`."""
    place = values[0]
    for value, extent in zip(values[1:], shape[1:], strict=True):
        place = place * extent.const + value
    return place


def _dimension(buffer: Buffer, words: list[str], word: str) -> int:
    if word in words:
        return words.index(word)
    if word not in map(str, range(len(words))):
        notes = did_you_mean(word, words, "its dimensions are")
        raise StepError(f"'{buffer.name}' has no dimension '{word}'", notes=notes)
    return int(word)
