"""Where two trees differ in more than how their loops run."""

from __future__ import annotations

from operator import attrgetter

from tilegen.ir.nodes import Loop, Node, Tree

header = attrgetter("name", "extent")

Pairs = list[tuple[Node, Node]]


def changed(old: Tree, new: Tree) -> Pairs | None:
    """The nodes of `old` that are others in `new`, each with what is there now; None if the trees have another meaning.

    Of a loop these are its name, its extent and how many nodes are in it, and not its kind, stages and so on: in what
    order an ordinary program runs its instances has nothing to do with these. Where nothing is changed, `new` runs
    what `old` does, and in the same order.
    """
    if old.kernel is not new.kernel or old.reassociated != new.reassociated or len(old.body) != len(new.body):
        return None
    return _changed(old.body, new.body)


def _changed(old: tuple[Node, ...], new: tuple[Node, ...]) -> Pairs:
    found: Pairs = []
    for a, b in zip(old, new, strict=True):
        if a is b:
            continue
        if not isinstance(a, Loop) or not isinstance(b, Loop):
            found += () if a == b else ((a, b),)
        elif header(a) == header(b) and len(a.body) == len(b.body):
            found += _changed(a.body, b.body)
        else:
            found.append((a, b))
    return found
