"""Random running reductions: their kernels, and steps that make one pass of them, tiles, and lanes that combine."""

from __future__ import annotations

from tests.support.generators.steps import gpu_recipe
from tilegen.ir.reductions.linear import running_form
from tilegen.ir.walk import leaves, loads, loops

# Products of many small integers would leave 32 bits.
WORDS = ["sum"] * 3 + ["max", "min"]


def prefix_kernel(pick) -> str:
    """Up to an index, before it, or from the end; along any axis; of some terms, or of several at each place."""
    compare, word = pick(["<=", "<=", "<", ">=", ">"]), pick(WORDS)
    one_more = pick([False] * 4 + [True])
    along, more, other = f"N{' + 1' * one_more}", pick([False] * 4 + [True]), pick(["", "i", "i", "i, l"])
    inner = pick([f"k {compare} j"] * 3 + [f"k {compare} j, k > 1", f"k {compare} j, k % 2 == 0"])
    words = [w for w in other.split(", ") if w]
    place = pick(range(len(words) + 1))
    size = {"i": "M", "l": "P", "j": along, "k": "N", "r": "Q"}
    left, right = ([*words[:place], w, *words[place:]] for w in ("j", "k"))
    right += ["r"] if more else []
    term = pick(["x[{}]", "x[{}]", "x[{}] * x[{}]", "(x[{}] if x[{}] > 0 else 1)"])
    term = term.replace("{}", ", ".join(right))
    after = pick(["", "", "", " for j < 7", " for j > 0"])
    return (
        f"kernel random(x: i32[{', '.join(size[w] for w in right)}]) -> out: i32[{', '.join(size[w] for w in left)}]:\n"
        f"    out[{', '.join(left)}] = {word}[{inner}{', r' * more}]({term}){after}\n"
    )


def runs_along(text: str) -> bool:
    """True for the text of such a kernel."""
    return any(f"[k {compare} j" in text for compare in ("<", "<=", ">", ">="))


def scan_recipe(pick, tree, tiles):
    """One pass, or tiles in one or two levels; then launches joined, their rows as threads, and lanes along them."""
    equation, *others = tree.kernel.equations
    if others or not (equation.reduce or running_form(equation)) or equation.best:
        tree = yield from gpu_recipe(pick, tree, tiles)
        return
    if pick([True] * 4 + [False]):
        tree = yield f"reassociate({equation.target})"
    tree = yield from _scanned(pick, tree, equation.target, 0)
    if pick([True, True, False]):
        tree = yield from _joined(tree)
    for number in range(len(tree.body)):
        tree = yield from _placed(pick, tree, number, tiles)


def _scanned(pick, tree, name, depth):
    """The prefixes of `name`."""
    total, local, ahead = (f"{word}{depth}" for word in ("total", "local", "ahead"))
    if depth < 2 and pick([True, True, False]):
        linear = any(e.target == name and (e.carried or e.reduce == "linear") for e in tree.kernel.equations)
        more = f", factor{depth}, factors{depth}" if linear else ""
        tree = yield f"split_scan({name}, {pick([2, 3, 4, 8])}) -> {total}, {local}, {ahead}{more}"
    if not any(b.name == total for b in tree.buffers):
        tree = yield f"scan({name}) -> run{depth}"
        return tree
    if pick([True, False, False]):
        tree = yield from _computed_again(pick, tree)
    how = pick([f", along={total})"] * 4 + [f") -> own{depth}", ""])
    if how:
        tree = yield f"scan({local}{how}"
        if any(b.name == f"factors{depth}" for b in tree.buffers):
            tree = yield f"scan(factors{depth}{how.replace('total', 'factor').replace('own', 'some')}"
    tree = yield from _scanned(pick, tree, ahead, depth + 1)
    return tree


def _computed_again(pick, tree):
    """Something that steps made, in the outermost loop around what reads it that has a part of constant size."""
    before, made = tree, [tensor.name for tensor in tree.kernel.tensors if tensor.role == "intermediate"]
    name = pick(made) if made else None
    around = [p for p, stmt in leaves(tree.body) if any(load.buffer == name for load in loads(stmt.value))]
    for loop in pick(around) if around else ():
        if tree is before:
            tree = yield f"compute_at({name}, at={loop.name})"
    return tree


def _joined(tree):
    """Neighbouring launches in one, as far as their loops go."""
    names = [launch.name for launch in tree.body]
    tree = yield f"fuse({', '.join(names)}) -> rows"
    return tree


def _placed(pick, tree, number, tiles):
    """Rows of a launch as blocks and threads, accumulators in registers, a loop inside as lanes."""
    if number >= len(tree.body):
        return tree
    outer = tree.body[number].name
    inside = [loop.name for loop in loops(tree.body[number]) if loop.name != outer]
    updated = [s.target.buffer for _, s in leaves((tree.body[number],)) if s.reduce]
    lane = pick([*inside, outer])
    tree = yield f"tile({lane}, {pick([2, 4])}) -> c{number}, l{number}"
    if lane != outer and pick([True, False]):
        tree = yield f"tile({outer}, {pick(tiles)}) -> b{number}, w{number}"
    if number >= len(tree.body):  # a step in between has joined launches
        return tree
    around = [loop.name for loop in loops(tree.body[number])]
    for name in dict.fromkeys(updated):
        if pick([True] * 4 + [False]):
            tree = yield f"cache_register({name}, at={pick(around[:3])})"
    for name, kind in ((f"b{number}", "block.x"), (f"w{number}", "thread.y"), (f"l{number}", "thread.x")):
        if name in around and pick([True] * 4 + [False]):
            tree = yield f"bind({name}, {kind})"
    return tree
