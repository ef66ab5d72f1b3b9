"""Random kernels on integers, as texts; every choice comes from one `pick` function.

`pick(options)` returns one of them: hypothesis draws in the tests, `random.Random` in a long run, so a
case is told by its seed and can shrink. Inputs lie in -3..3, and no kernel here leaves 32 bits then.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.generators.prefixes import prefix_kernel
from tests.support.generators.ranges import ranges_kernel
from tests.support.generators.recurrences import recurrence_kernel
from tests.support.generators.updates import with_scalars, with_updates

INDICES = "ijkl"
SIZES = "NMPQ"


@dataclass(frozen=True)
class RandomKernel:
    text: str
    sizes: tuple[str, ...]


def random_kernel(pick) -> RandomKernel:
    """A kernel of one to three statements, of rank 1 to 4: half of them of a well-known shape."""
    family = pick(
        [_general] * 5
        + [_product] * 3
        + [_window, _chain, _sides, _nearest_rows, _rows, _permutation]
        + [prefix_kernel]
    )
    text = with_scalars(pick, with_updates(pick, family(pick)))
    head, _, body = text.partition(":\n")
    return RandomKernel(text, tuple(s for s in SIZES + "K" if f" {s}" in head or f"[{s}" in head or f"*{s}" in head))


def any_text(pick) -> str:
    """The text of a kernel, which tilegen may have to refuse."""
    return pick([lambda pick: random_kernel(pick).text] * 6 + [ranges_kernel] * 2 + [recurrence_kernel])(pick)


def random_sizes(pick, kernel, tiles) -> dict[str, int]:
    """Sizes around the tiles (1, T-1, T, T+1, 2T-1) and primes, such that the kernel's facts hold.

    Args:
        kernel: the ir.Kernel that was built from the text.
    """
    around = [1, 2, 3, 5, 7, 11]
    for tile in tiles:
        around += [max(1, tile - 1), tile, tile + 1, 2 * tile - 1]
    for attempt in range(40):
        options = around if attempt < 20 else [4, 8, 12, 6]
        sizes = {size: pick(options) for size in kernel.sizes}
        if holds(kernel, sizes) and points(kernel, sizes) < (1500 if attempt < 20 else 10**5):
            return sizes
    return {size: 4 for size in kernel.sizes}


def holds(kernel, sizes) -> bool:
    """True if the sizes satisfy what the kernel assumes."""
    values = [(c.value.evaluate(sizes), c.equal) for c in kernel.assumptions]
    return all(value == 0 if equal else value >= 0 for value, equal in values)


def points(kernel, sizes) -> int:
    """The points of all equations together."""
    total = 0
    for equation in kernel.equations:
        count = 1
        for r in (*equation.loops, *equation.reduced):
            count *= max(1, r.extent.evaluate(sizes))
        total += count
    return total


def _storage(pick, rank) -> str:
    if rank == 2:
        return pick([""] * 4 + [" col_major"])
    if rank == 3:
        return pick([""] * 5 + [" order(1, 2, 0)"])
    return ""


# -- known shapes


def _product(pick) -> str:
    """A matrix product: transposed, batched, triangular, column-major, with any reduction."""
    a = pick(["A[i, k]", "A[i, k]", "A[k, i]"])
    b = pick(["B[k, j]", "B[k, j]", "B[j, k]"])
    square = pick([False, False, True])
    cols = "M" if square else "N"
    shape = {"i": "M", "j": cols, "k": "K"}
    batch = pick([False, False, False, True])
    if batch:
        a, b = a.replace("[", "[l, "), pick([b, b.replace("[", "[l, ")])
        shape["l"] = "P"
    dims = {x[0]: ", ".join(shape[w] for w in x[2:-1].split(", ")) for x in (a, b)}
    order = pick([["i", "j"], ["i", "j"], ["j", "i"]])
    target = (["l"] if batch else []) + order
    reduction = pick(["sum"] * 5 + ["max", "min", "argmax", "argmin"])
    combine = pick(["*", "*", "+", "-"])
    span, condition = "k", ""
    if square:
        shape["k"] = pick(["K", "M"])
        if shape["k"] == "M":
            dims = {name: text.replace("K", "M") for name, text in dims.items()}
            span = pick(["k <= i", "k in i..M", "k"])
        condition = pick(["", " for j <= i", " for i <= j", " for j <= i and i + j >= 2", " for i <= j + 1 and j <= i"])
    words = [shape[w] for w in target]
    facts = pick([""] * 5 + ["K % 4 == 0", "M % 2 == 0", "K >= 3"])
    if facts and facts[0] not in dims["A"] + dims["B"]:
        facts = ""
    where = f" where {facts}" if facts else ""
    inputs = ", ".join(f"{n}: i32[{d}]{_storage(pick, d.count(',') + 1)}" for n, d in dims.items())
    out = f"out: i32[{', '.join(words)}]{_storage(pick, len(words))}"
    line = f"    out[{', '.join(target)}] = {reduction}[{span}]({a} {combine} {b}){condition}"
    return f"kernel random({inputs}) -> {out}{where}:\n{line}\n"


def _window(pick) -> str:
    """A convolution in one or two dimensions: strides, dilations, channels, zero padding, two reduced indices."""
    stride, dilation, pad = pick([1, 1, 2]), pick([1, 1, 2]), pick([0, 0, 1])
    taps = pick([2, 3])
    place = f"{stride}*x + {dilation}*r - {pad}"
    reach = dilation * (taps - 1)
    width = f"{stride}*N + {max(0, reach - 2 * pad)}"
    if pick([True, False]):  # one dimension
        channels = pick([True, False])
        read = f"X[c, {place}]" if channels else f"X[{place}]"
        read = f"({read} else 0)" if pad else read
        red, kern, kdim, xdim = ("c, r", "F[f, c, r]", f"P, M, {taps}", f"M, {width}")
        if not channels:
            red, kern, kdim, xdim = ("r", "F[f, r]", f"P, {taps}", width)
        return (
            f"kernel random(X: i32[{xdim}], F: i32[{kdim}]) -> out: i32[P, N]:\n"
            f"    out[f, x] = sum[{red}]({read} * {kern})\n"
        )
    read = f"X[y + s, {place}]"
    read = f"({read} else 0)" if pad else read
    return (
        f"kernel random(X: i32[M + 1, {width}], F: i32[2, {taps}]) -> out: i32[M, N]:\n"
        f"    out[y, x] = {pick(['sum', 'sum', 'max'])}[s, r]({read} * F[s, r])\n"
    )


def _chain(pick) -> str:
    """Element by element, in two or three statements that can be fused."""
    point, shape = pick([("i", "N"), ("i", "N"), ("i, j", "N, M")])
    lines = [f"    t0[{point}] = X0[{point}] {pick('+-*')} X1[{point}]"]
    names = ["t0"]
    if pick([True, False]):
        lines += [f"    t1[{point}] = {pick([f'abs(X0[{point}])', f'min(X1[{point}], t0[{point}])'])}"]
        names += ["t1"]
    lines += [f"    out[{point}] = {' + '.join(f'{n}[{point}]' for n in names)} * X0[{point}]"]
    declared = ", ".join(f"{n}: i32[{shape}]" for n in names)
    fact = pick(["", "", "", " where N % 4 == 0"])
    return (
        f"kernel random(X0: i32[{shape}], X1: i32[{shape}]) -> out: i32[{shape}]{fact}:\n"
        f"    var {declared}\n" + "\n".join(lines) + "\n"
    )


def _sides(pick) -> str:
    """Two or three statements that need nothing of each other, and one that needs them all."""
    values = ["X0[i] * X1[i]", "X0[i] - 2", "sum[k](Y[i, k])", "max[k](Y[i, k] + X1[i])", "(X1[i + 1] else 0)"]
    lines = [f"    t{n}[i] = {pick(values)}" for n in range(pick([2, 2, 3]))]
    names = [f"t{n}" for n in range(len(lines))]
    lines += [f"    out[i] = {pick(['+', '-']).join(f'{n}[i]' for n in names)} + X0[i] + X1[i] + Y[i, 0]"]
    return (
        "kernel random(X0: i32[N], X1: i32[N], Y: i32[N, M]) -> out: i32[N]:\n"
        f"    var {', '.join(f'{n}: i32[N]' for n in names)}\n" + "\n".join(lines) + "\n"
    )


def _nearest_rows(pick) -> str:
    """A distance for each pair, and the nearest or farthest of each row."""
    pick_of = pick(["argmin", "argmax", "min", "max"])
    return (
        "kernel random(A: i32[N, P], B: i32[M, P]) -> out: i32[N]:\n    var t0: i32[N, M]\n"
        f"    t0[i, j] = sum[k]({pick(['abs(A[i, k] - B[j, k])', 'A[i, k] * B[j, k]'])})\n"
        f"    out[i] = {pick_of}[j](t0[i, j])\n"
    )


def _rows(pick) -> str:
    """Each row against one number that is reduced from it, as in softmax."""
    first = pick(["sum[j](X[i, j])", "max[j](X[i, j])", "min[j](X[i, j] * Y[j])"])
    second = pick(["X[i, j] - t0[i]", "select(X[i, j] > t0[i], X[i, j], Y[j])", "(X[i, j - 1] else 0) + t0[i]"])
    return (
        f"kernel random(X: i32[N, M], Y: i32[M]) -> out: i32[N, M]:\n    var t0: i32[N]\n    t0[i] = {first}\n"
        f"    out[i, j] = {second} + Y[j]\n"
    )


def _permutation(pick) -> str:
    """Axes in another order, by index or by storage."""
    rank = pick([2, 2, 3, 4])
    source = list(INDICES[:rank])
    target = pick([source[::-1], source[1:] + source[:1], source])
    size = dict(zip(INDICES, SIZES, strict=True))
    shape = ", ".join(size[w] for w in source)
    other = ", ".join(size[w] for w in target)
    return (
        f"kernel random(X: i32[{shape}]{_storage(pick, rank)}) -> out: i32[{other}]{_storage(pick, rank)}:\n"
        f"    out[{', '.join(target)}] = X[{', '.join(source)}]\n"
    )


# -- any shape


def _general(pick) -> str:
    """One to three statements over the same loops, with affine reads of inputs and of each other."""
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
        value = _reduction(pick, loops, size_of, inputs, made, number)
        lines += [f"    {target}[{point}] = {value}{_condition(pick, loops, size_of, count)}"]
        made += [target]
    head = ", ".join(f"{name}: {kind}" for name, kind in inputs.items())
    if len(made) > 1:
        lines = [f"    var {', '.join(f'{name}: i32[{shape}]' for name in made[:-1])}", *lines]
    where = pick([""] * 6 + [f" where {size_of[loops[0]]} >= 2", f" where {size_of[loops[-1]]} % 2 == 0"])
    return f"kernel random({head}) -> out: i32[{shape}]{_storage(pick, rank)}{where}:\n" + "\n".join(lines) + "\n"


def _condition(pick, loops, size_of, count) -> str:
    if count > 1 or len(loops) < 2 or size_of[loops[0]] != size_of[loops[1]]:
        return ""
    i, j = loops[:2]
    return pick(["", "", f" for {j} <= {i}", f" for {i} <= {j} and {i} + {j} >= 1"])


def _reduction(pick, loops, size_of, inputs, made, number) -> str:
    value = _value(pick, loops, size_of, inputs, made)
    reduction = pick(["", "", "", "sum", "sum", "max", "min", "argmax", "argmin", "two"])
    if not reduction:
        return value
    last = loops[-1]
    if reduction == "two":
        inputs.setdefault(f"R{number}", f"i32[2, {size_of[last]}, 3]")
        return f"sum[r, s](({value}) * R{number}[r, {last}, s])"
    extent = pick(["2", "3", "5"])
    inputs.setdefault(f"R{number}", f"i32[{extent}, {size_of[last]}]")
    return f"{reduction}[r](({value}) * R{number}[r, {last}])"


def _value(pick, loops, size_of, inputs, made) -> str:
    text, big = _read(pick, loops, size_of, inputs, made)
    for _ in range(pick([0, 1, 1, 2])):
        term, large = _read(pick, loops, size_of, inputs, made)
        options = [f"{text} + {term}", f"{text} - {term}", f"min({text}, {term})", f"max({text}, {term})"]
        if not big and not large:
            options += [f"({text}) * {term}"] * 2
        text, big = pick(options), big or large
    return text


def _read(pick, loops, size_of, inputs, made) -> tuple[str, bool]:
    """(text, whether its values may be large)."""
    if made and pick([True, False]):
        return f"{pick(made)}[{', '.join(loops)}]", True
    used = [i for i in loops if pick([True, True, False])] or loops[:1]
    if pick([True, False, False]):
        used = used[::-1]
    name = f"X{len(inputs)}"
    index, shape, outside = [], [], False
    for loop in used:
        stride, offset = pick([1, 1, 1, 2]), pick([0, 0, 0, 1, 2, -1])
        index += [f"{stride}*{loop} + {offset}" if offset >= 0 else f"{stride}*{loop} - 1"]
        shape += [f"{stride}*{size_of[loop]} + {max(offset, 0)}"]
        outside = outside or offset < 0
    inputs[name] = f"i32[{', '.join(shape)}]{_storage(pick, len(shape))}"
    read = f"{name}[{', '.join(index)}]"
    return (f"({read} else 0)" if outside else read), False
