"""Random kernels and random schedules for them, as texts; every choice comes from one `pick` function.

`pick(options)` returns one of them: hypothesis draws in the tests, `random.Random` in a long run, so a
case is told by its seed and can shrink.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS
from tilegen.ir.walk import loop_names

INDICES = "ijkl"
SIZES = "NMPQ"


@dataclass(frozen=True)
class RandomKernel:
    text: str
    sizes: tuple[str, ...]


def random_kernel(pick) -> RandomKernel:
    """A kernel of one to three statements on integers, of rank 1 to 4."""
    rank = pick([1, 1, 2, 2, 2, 3, 4])
    loops = list(INDICES[:rank])
    size_of = {index: pick(list(SIZES[: max(1, rank - 1)])) for index in loops}
    count = pick([1, 1, 1, 2, 3])
    inputs: dict[str, str] = {}
    lines: list[str] = []
    made: list[str] = []
    shape = ", ".join(size_of[i] for i in loops)
    point = ", ".join(loops)
    for number in range(count):
        target = "out" if number == count - 1 else f"t{number}"
        value = _value(pick, loops, size_of, inputs, made)
        reduction = pick(["", "", "sum", "sum", "max", "min"])
        if reduction:
            extent = pick(["2", "3", "5"])
            inputs.setdefault(f"R{number}", f"i32[{extent}, {size_of[loops[-1]]}]")
            value = f"{reduction}[r](({value}) * R{number}[r, {loops[-1]}])"
        condition = ""
        if rank >= 2 and count == 1 and size_of[loops[0]] == size_of[loops[1]]:
            condition = pick(["", "", f" for {loops[1]} <= {loops[0]}"])
        lines += [f"    {target}[{point}] = {value}{condition}"]
        made += [target]
    head = ", ".join(f"{name}: {kind}" for name, kind in inputs.items())
    declared = ", ".join(f"{name}: i32[{shape}]" for name in made[:-1])
    if declared:
        lines = [f"    var {declared}", *lines]
    text = f"kernel random({head}) -> out: i32[{shape}]:\n" + "\n".join(lines) + "\n"
    return RandomKernel(text, tuple(dict.fromkeys(size_of.values())))


def _value(pick, loops, size_of, inputs, made) -> str:
    terms = [_read(pick, loops, size_of, inputs, made) for _ in range(pick([1, 2, 2, 3]))]
    text = terms[0]
    for term in terms[1:]:
        text = pick([f"{text} + {term}", f"{text} - {term}", f"min({text}, {term})", f"{text} * {term}"])
    return text


def _read(pick, loops, size_of, inputs, made) -> str:
    if made and pick([True, False]):
        return f"{pick(made)}[{', '.join(loops)}]"
    used = [i for i in loops if pick([True, True, False])] or loops[:1]
    if pick([True, False]):
        used = used[::-1]
    name = f"X{len(inputs)}"
    index, shape, outside = [], [], False
    for loop in used:
        stride, offset = pick([1, 1, 1, 2]), pick([0, 0, 1, 2, -1])
        index += [f"{stride}*{loop} + {offset}" if offset >= 0 else f"{stride}*{loop} - 1"]
        shape += [f"{stride}*{size_of[loop]} + {max(offset, 0)}"]
        outside = outside or offset < 0
    inputs[name] = f"i32[{', '.join(shape)}]"
    read = f"{name}[{', '.join(index)}]"
    return f"({read} else 0)" if outside else read


def random_sizes(pick, kernel: RandomKernel) -> dict[str, int]:
    """Sizes around the tiles: one, just below, at and above a tile, twice one, primes."""
    return {size: pick([1, 2, 3, 4, 5, 7, 8, 9, 11]) for size in kernel.sizes}


def random_step(pick, tree, number: int) -> str:
    """One step, well formed or not, legal or not, on the loops and buffers that there are."""
    names = loop_names(tree)
    buffers = [b.name for b in tree.buffers]
    loop = pick(names)
    a, b = f"a{number}", f"b{number}"
    word = pick(
        ["tile", "tile", "tile", "parts", "order", "order", "bind", "bind", "unroll", "vectorize", "fuse"]
        + ["cache_shared", "cache_shared", "cache_register", "cache_register", "pad", "cache_global", "reassociate"]
    )
    match word:
        case "tile":
            return f"tile({loop}, {pick([1, 2, 3, 4, 5, 8])}) -> {a}, {b}"
        case "parts":
            return f"tile({loop}, parts={pick([1, 2, 4])}) -> {a}, {b}"
        case "order":
            some = _some(pick, names, 2, 5)
            return f"order({', '.join(some)})" if pick([True, True, False]) else f"order(..., {loop})"
        case "bind":
            return f"bind({loop}, {pick([*BLOCK_KINDS[:2], *THREAD_KINDS[:2]])})"
        case "fuse":
            return f"fuse({', '.join(_some(pick, names, 2, 2))}) -> {a}"
        case "cache_shared":
            vector = pick(["", "", ", vector=2"])
            return f"cache_shared({pick(buffers)}, at={loop}{vector})"
        case "cache_register":
            return f"cache_register({pick(buffers)}, at={loop})"
        case "pad":
            return f"pad({pick(buffers)}, {pick([1, 2])})"
        case "cache_global":
            return f"cache_global({pick(buffers)}, layout=[{pick(['0', '1, 0', '0, 1', '2, 0, 1'])}])"
        case "reassociate":
            return "reassociate(out)"
        case _:
            return f"{word}({loop})"


def _some(pick, items, least, most):
    rest = list(items)
    chosen = []
    for _ in range(min(len(rest), pick(list(range(least, most + 1))))):
        item = pick(rest)
        rest.remove(item)
        chosen += [item]
    return chosen
