"""Random steps for statements that run side by side: roles of the threads of a block, or of the blocks of a launch."""

from __future__ import annotations

from tests.support.generators.steps import cache_shared, gpu_recipe
from tilegen.ir.walk import find_loop, loop_names


def roles_recipe(pick, tree, tiles):
    """Some of the statements as roles, what is left after them, and now and then copies before or after."""
    equations = tree.kernel.equations
    if len(equations) < 2:
        tree = yield from gpu_recipe(pick, tree, tiles)
        return
    size, cut = pick(tiles), []
    for n, equation in enumerate(equations):
        loop, mine = equation.loops[-1].name, pick([size, size, size, *tiles])
        if len(equation.loops) > 1:
            tree = yield f"order({loop}, {', '.join(r.name for r in equation.loops[:-1])})"
        tree = yield f"tile({loop}, {mine}) -> b{n}, s{n}"
        cut += [n] if find_loop(tree, f"s{n}") else []
    if len(cut) < 2:
        return
    first = pick([0] * 4 + [1]) if len(cut) > 2 else 0
    chosen = cut[first : first + pick([2, 2, 3])]
    roles = roles_of_threads if pick([True, True, False]) else roles_of_blocks
    tree = yield from roles(pick, tree, cut, chosen)
    for equation in equations:
        if pick([True, False, False]):
            at = pick(loop_names(tree))
            tree = yield f"{pick(['cache_register', 'cache_shared'])}({equation.target}, at={at})"


def roles_of_threads(pick, tree, cut, chosen):
    """One launch: the tiles of what is chosen side by side, each with threads of its own."""
    blocks = [f"b{n}" for n in cut]
    tree = yield f"fuse({', '.join(blocks)}) -> b"
    if find_loop(tree, "b") is None:
        return tree
    if pick([True, True, False]):
        tree = yield f"bind(b, {pick(['block.x', 'block.x', 'block.y'])})"
    inner = [e.target for e in tree.kernel.equations if tree.buffer(e.target).role == "intermediate"]
    for name in inner:
        if pick([True, True, True, False]):
            tree = yield f"{pick(['cache_shared'] * 5 + ['cache_register'])}({name}, at=b)"
    for name in [b.name for b in tree.buffers if b.role == "input"]:
        if pick([True, False, False]):
            tree = yield cache_shared(pick, tree, name, "b")
    kind = pick(["thread.x"] * 4 + ["thread.y"])
    early = pick([False, False, True])
    for n in chosen if early else ():
        tree = yield f"bind(s{n}, {kind})"
    tree = yield _roles(pick, [f"s{n}" for n in chosen], "r", ["", "", ", align=2", ", align=4", ", align=32"])
    for name in ["r", *(f"s{n}" for n in cut)]:
        loop = find_loop(tree, name)
        if loop is not None and loop.kind == "serial" and pick([True] * 9 + [False]):
            tree = yield f"bind({name}, {kind})"
    return tree


def roles_of_blocks(pick, tree, cut, chosen):
    """The tiles of what is chosen as blocks of one launch."""
    tree = yield _roles(pick, [f"b{n}" for n in chosen], "r", [""])
    for name in ["r", *(f"b{n}" for n in cut)]:
        if find_loop(tree, name) is not None and pick([True] * 9 + [False]):
            tree = yield f"bind({name}, block.x)"
    for name in [b.name for b in tree.buffers if b.role == "input"]:
        if find_loop(tree, "r") and pick([True, False, False]):
            tree = yield cache_shared(pick, tree, name, "r")
    for n in cut:
        if find_loop(tree, f"s{n}") is not None and pick([True] * 5 + [False]):
            tree = yield f"bind(s{n}, thread.x)"
    return tree


def _roles(pick, names, new, aligns):
    return f"roles({', '.join(names)}{pick(aligns)}) -> {new}"
