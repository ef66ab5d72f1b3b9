"""The dimensions of a buffer by the index words of the kernel's text, and storage orders given by them."""

from __future__ import annotations

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.nodes import Buffer, Load, Tree
from tilegen.ir.walk import walk


def dimension_words(tree: Tree, buffer: Buffer) -> list[str]:
    """A word for each dimension: the index that stands there in the kernel's text, else its number."""
    root = buffer
    while root.role == "copy" and root.copy_of and any(b.name == root.copy_of for b in tree.buffers):
        root = tree.buffer(root.copy_of)
    name = root.name if root.role != "copy" else root.copy_of
    for equation in (*tree.kernel.written.equations, *tree.kernel.equations):
        words = {r.name: r.index for r in (*equation.loops, *equation.reduced)}
        accesses = [equation.index] if equation.target == name else []
        accesses += [v.index for v in walk(equation.value) if isinstance(v, Load) and v.buffer == name]
        for index in accesses:
            found = [words.get(str(i), str(d)) for d, i in enumerate(index)]
            if len(set(found)) == len(found) == len(buffer.shape):
                return found
    return [str(d) for d in range(len(buffer.shape))]


def storage_order(buffer: Buffer, words: list[str], layout: tuple[str, ...] | None) -> tuple[int, ...]:
    """`layout` as dimension numbers, slowest first; the buffer's own order where there is no layout."""
    if layout is None:
        return buffer.order
    numbers = [str(d) for d in range(len(words))]
    dims: list[int] = []
    for word in layout:
        if word not in words and word not in numbers:
            notes = did_you_mean(word, words) or (f"its dimensions are {', '.join(words)}",)
            raise StepError(f"'{buffer.name}' has no dimension '{word}'", notes=notes)
        dims += [words.index(word) if word in words else int(word)]
    if sorted(dims) != list(range(len(words))):
        raise StepError(f"layout names each dimension of '{buffer.name}' once: {', '.join(words)}")
    return tuple(dims)
