"""Random steps for a reduction whose result is updated atomically."""

from __future__ import annotations

from tests.support.generators.steps import gpu_recipe
from tilegen.ir.walk import find_loop


def atomics_recipe(pick, tree, tiles):
    """A reduction by several blocks or threads, each of which adds its terms, or their sum, to the result."""
    equation, *others = tree.kernel.equations
    names, reduced = [r.name for r in equation.loops], [r.name for r in equation.reduced]
    if others or not reduced or equation.best:
        tree = yield from gpu_recipe(pick, tree, tiles)
        return
    target, term = equation.target, pick(reduced)
    tree = yield f"tile({term}, {pick(['2', '3', '4', 'parts=2', 'parts=4'])}) -> kp, ki"
    parted = pick([True, True, False])
    if parted:
        tree = yield f"rfactor({target}, kp) -> part"
    for word in pick([["reassociate", "atomic"]] * 6 + [["atomic", "reassociate"], ["atomic"]]):
        tree = yield f"{word}({target})"
    inner = [n for n in ("ki", *reduced) if find_loop(tree, n)]
    tree = yield f"order({', '.join(['kp', *names, *inner])})"
    if parted:
        theirs = [n for n in (f"{target}.{name}" for name in ("kp", *names)) if find_loop(tree, n)]
        if len(theirs) == len(names) + 1:
            tree = yield f"order({', '.join(theirs)})"
            for mine, other in zip(("kp", *names), theirs, strict=True):
                if pick([True] * 9 + [False]):
                    tree = yield f"fuse({mine}, {other}) -> {mine}"
    tree = yield f"tile({names[-1]}, {pick(tiles)}) -> b, t"
    if pick([True, False]):
        tree = yield f"order(kp, {', '.join([*names[:-1], 'b', 't'])})"
    kinds = pick([("block.z", "block.x", "thread.x"), ("thread.x", "block.y", "thread.y"), ("thread.y",) * 3])
    for name, kind in zip(("kp", "b", "t"), kinds, strict=True):
        if pick([True] * 5 + [False]):
            tree = yield f"bind({name}, {kind})"
    if pick([True, False, False]):
        tree = yield f"tile(t, {pick([2, 4])}) -> t, v"
        tree = yield f"rename(v, of={target}) -> u"
        tree = yield f"vectorize({pick(['u', 'u', 'v'])})"
    for name in ("part", target):
        if pick([True, True, True, False] if name == "part" else [False] * 5 + [True]):
            tree = yield f"{pick(['cache_register'] * 3 + ['cache_shared'])}({name}, at={pick(['b', 't', 'kp'])})"
