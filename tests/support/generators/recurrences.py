"""Random recurrences: along one loop or two, up or down; of neighbours, of sums over what is there, or in a circle."""

from __future__ import annotations

import re

from tests.support.generators.prefixes import scan_recipe
from tests.support.generators.steps import random_step
from tilegen.ir.reductions.linear import running_form
from tilegen.ir.walk import loop_names


def recurrence_kernel(pick) -> str:
    """A recurrence, which now and then is an intermediate tensor that the output reads."""
    text = _recurrence(pick)
    if pick([True, True, True, False]):
        return text
    place = re.findall(r"^    out\[(.*?)\] =", text, re.MULTILINE)[0]
    shape = text.partition("-> out: ")[2].partition(":\n")[0]
    head, _, body = text.replace("out[", "s[").partition(":\n")
    behind = pick(["", f" + (s[{place.replace('i', 'i - 1')}] else 1)"])
    return f"{head}:\n    var s: {shape}\n{body}    out[{place}] = x[{place}] - s[{place}]{behind}\n"


def _recurrence(pick) -> str:
    """One equation, or two that read each other; now and then what is made of itself, which is refused."""
    words = pick([["i"], ["i", "j"], ["j", "i"], ["j", "i"]])
    size = {"i": "N", "j": "M"}
    place, shape = ", ".join(words), ", ".join(size[w] for w in words)
    up = pick([True, True, False])
    first, compare = ("- 1", "<") if up else ("+ 1", ">")
    circular = pick([False] * 9 + [True])
    near = _at(words, i=f"i {'+ 1' if circular and up else '- 1' if circular else first}")
    head = f"kernel random(x: i32[{shape}], w: i32[N, N]) -> out: i32[{shape}]:\n"
    beside = pick(["", f" - (out[{_at(words, i=f'i {first}', j='j + 1')}] else 2)"]) if "j" in words else ""
    wrong = f" + (out[{near}] else 1)" if circular else ""
    if pick([True, True, False]):
        factor = pick(["2 * ", "", "x[{}] * "]).replace("{}", place)
        own = f"(out[{_at(words, i=f'i {first}')}] else {pick([0, 0, 1])})"
        choice = f"x[{place}] if i == 0 else {factor}out[{_at(words, i='i - 1')}]"
        chosen = up and not wrong and not beside and pick([False, False, True])
        value = choice if chosen else f"{factor}{own} + x[{place}]"
        return head + f"    out[{place}] = {value}{beside}{wrong}{pick(['', '', ' for i < 5' if up else ''])}\n"
    term = f"w[i, k] * out[{_at(words, i='k')}]"
    sums = f"{pick(['sum', 'sum', 'max'])}[k {compare} i]({term})"
    if pick([True, False]):
        return head + f"    out[{place}] = x[{place}] + {sums}{beside}{wrong}\n"
    between = f"    t[{place}] = {sums}\n    out[{place}] = t[{place}] - x[{place}]{beside}{wrong}\n"
    if pick([False] * 5 + [True]):
        between = "".join(reversed(between.splitlines(keepends=True)))
    return head + f"    var t: i32[{shape}]\n" + between


def _at(words, **instead) -> str:
    return ", ".join(instead.get(word, word) for word in words)


def recurrence_recipe(pick, tree, tiles):
    """Loops of rows outside, as blocks and threads, tiles of all loops, copies of what is read, and any steps.

    Of one that is linear, what is made of running reductions."""
    equation, *others = tree.kernel.equations
    if not others and running_form(equation) and pick([True, True, False]):
        tree = yield from scan_recipe(pick, tree, tiles)
        return
    names = loop_names(tree)
    rows = [name for name in names if name.rpartition(".")[2] == "j"]
    if len(rows) > 1:
        tree = yield f"fuse({', '.join(rows)}) -> j"
        rows = ["j"] if "j" in loop_names(tree) else rows
    if rows and pick([True, True, False]):
        tree = yield f"order({rows[0]}, ...)"
        tree = yield f"order({rows[0]}, i)"
    for number, row in enumerate(rows):
        tree = yield f"tile({row}, {pick(tiles)}) -> b{number}, w{number}"
    if "k" in loop_names(tree) and pick([True, False]):
        tree = yield f"tile(k, {pick(tiles)}) -> c, l"
        sums = next(e.target for e in tree.kernel.equations if e.reduce)
        if pick([True, False]):
            tree = yield f"rfactor({sums}, {pick(['c', 'l'])}, at={pick(['i', 'i', *rows])}) -> part"
    names = loop_names(tree)
    inner = [t.name for t in tree.kernel.tensors if t.role == "intermediate"]
    if inner and pick([True, False]):
        tree = yield f"compute_at({pick(inner)}, at={pick(names)})"
    for _ in range(pick([0, 1, 2])):
        tree = yield f"cache_{pick(['register', 'shared'])}({pick([b.name for b in tree.buffers])}, at={pick(names)})"
    for name, kind in (("b0", "block.x"), ("w0", "thread.x"), ("w1", "thread.x"), ("l", "thread.y")):
        if name in names and pick([True] * 5 + [False]):
            tree = yield f"bind({name}, {kind})"
    for number in range(pick([1, 1, 2, 4])):
        tree = yield random_step(pick, tree, number)


def is_recurrence(kernel) -> bool:
    """True for a kernel that is made of itself."""
    return any(equation.carried for equation in kernel.equations)
