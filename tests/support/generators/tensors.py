"""Random products by instructions of a warp: kernels as texts, and the steps that a GPU programmer would take."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tests.support.generators.case import Case, finish, run_recipe
from tests.support.generators.programs import points
from tests.support.generators.steps import swizzle
from tilegen.api import load
from tilegen.frontend.stock import stock_instructions
from tilegen.interpreter import reference
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.ir.walk import find_loop, loops, stmts
from tilegen.schedule import start

POINTS = 6000  # of a kernel, at the most


@dataclass(frozen=True)
class Unit:
    """An instruction for products: types of the factors and of the sum, the extents of its three loops.

    `loads` are the instructions that load A and B, plain and from the other storage order. `rounding` is the function
    that the factors go through, if any.
    """

    name: str
    factor: str
    total: str
    extents: tuple[int, int, int]
    loads: tuple[tuple[str, ...], tuple[str, ...]]
    rounding: str = ""


def _loads(kind, trans=True):
    plain = [(f"ldmatrix_{operand}_{kind}",) for operand in "ab"]
    return tuple((*names, names[0].replace(f"_{kind}", f"_trans_{kind}")) if trans else names for names in plain)


UNITS = (
    Unit("mma_m16n8k16_bf16", "bf16", "f32", (16, 8, 16), _loads("bf16")),
    Unit("mma_m16n8k16_f16", "f16", "f32", (16, 8, 16), _loads("f16")),
    Unit("mma_m16n8k16_f16_f16", "f16", "f16", (16, 8, 16), _loads("f16")),
    Unit("mma_m16n8k32_i8", "i8", "i32", (16, 8, 32), _loads("i8", trans=False)),
    Unit("mma_m8n8k4_f64", "f64", "f64", (8, 8, 4), ((), ())),
    Unit("mma_m16n8k8_tf32", "f32", "f32", (16, 8, 8), _loads("tf32", trans=False), rounding="tf32"),
    Unit("mma_m16n8k8_tf32_rz", "f32", "f32", (16, 8, 8), _loads("tf32", trans=False), rounding="tf32_rz"),
)


# By the rounding what times an integer from -3 to 3 gives that integer, rounded so, and another number otherwise.
NEAR_INTEGERS = {"tf32": 1 - 2.0**-13, "tf32_rz": 1 + 5 * 2.0**-13}


@dataclass(frozen=True)
class Product:
    """A kernel by its text, and how `unit` computes it: with rows and columns exchanged if `turned`."""

    text: str
    unit: Unit
    turned: bool
    epilogue: bool

    @property
    def target(self):
        return "t" if self.epilogue else "out"

    @property
    def stores(self):
        """The instructions that store what comes of it."""
        result = re.search(r"-> out: (\w+)", self.text)[1]
        return (f"stmatrix_c_{result}", f"stmatrix_c_trans_{result}") if result in ("bf16", "f16") else ()


def random_product(pick) -> Product:
    """A product in any storage order, with something after it or not."""
    unit = pick(
        [UNITS[0]] * 3 + [UNITS[1]] + [UNITS[2]] * 2 + [UNITS[3]] * 2 + [UNITS[4]] * 2 + [UNITS[5]] * 2 + [UNITS[6]]
    )
    a, b = pick(["A[i, k]", "A[i, k]", "A[k, i]"]), pick(["B[k, j]", "B[k, j]", "B[j, k]"])
    batch = pick([False] * 5 + [True])
    if batch:
        a, b = a.replace("[", "[l, "), pick([b, b.replace("[", "[l, ")])
    size = {"i": "M", "j": "N", "k": "K", "l": "P"}
    heads = [
        f"{x[0]}: {unit.factor}[{', '.join(size[w] for w in x[2:-1].split(', '))}]{_storage(pick, x)}" for x in (a, b)
    ]
    around = unit.rounding or ("" if unit.total == unit.factor else unit.total)
    factors = [f"{around}({x})" if around else x for x in (a, b)]
    value = f"sum[k]({' * '.join(pick([factors, factors, factors[::-1]]))})"
    point, shape = ("l, i, j", "P, M, N") if batch else ("i, j", "M, N")
    turned, epilogue = pick([False, False, True]), pick([False, True])
    if not epilogue:
        text = f"kernel random({', '.join(heads)}) -> out: {unit.total}[{shape}]{_storage(pick, f'x[{point}]')}:\n"
        return Product(f"{text}    out[{point}] = {value}\n", unit, turned, epilogue)
    other = point.replace("l", "m").replace("i", "x").replace("j", "y")
    dtype = pick({"f32": ["f32", "bf16", "f16"], "f16": ["f16", "f32"], "i32": ["i32", "f32"]}.get(unit.total, ["f64"]))
    behind = pick([f"t[{other}]", f"t[{other}] + b[y]", f"max(t[{other}] + b[y], 0)", f"t[{other}] * s[x] + R[x, y]"])
    heads += [f"{n}: {unit.total}[{d}]" for n, d in (("b", "N"), ("s", "M"), ("R", "M, N")) if f" {n}[" in behind]
    head = f"kernel random({', '.join(heads)}) -> out: {dtype}[{shape}]:\n    var t: {unit.total}[{shape}]\n"
    behind = behind.replace(", 0)", ", 0.0)") if unit.total != "i32" else behind
    behind = f"{dtype}({behind})" if dtype != unit.total else behind
    return Product(f"{head}    t[{point}] = {value}\n    out[{other}] = {behind}\n", unit, turned, epilogue)


def _storage(pick, access):
    return pick(["", "", "", " col_major"]) if access.count(",") == 1 else ""


def product_sizes(pick, product):
    """Sizes around the instruction's, small enough to be walked point by point."""
    m, n, k = product.unit.extents
    rows, columns = (n, m) if product.turned else (m, n)
    near = {"M": rows, "N": columns, "K": k}
    sizes = {name: pick([1, 3, e - 1, e, e + 1, e + 5, 2 * e]) for name, e in near.items()}
    return {name: value for name, value in ({**sizes, "P": pick([1, 2])}).items()}


def tensor_recipe(pick, tree, product):
    """Tiles for blocks, warps and fragments, operands in registers or in shared memory, and the instructions."""
    unit = product.unit
    m, n, depth = unit.extents
    axes = {"i": m, "j": n}
    if product.turned:
        axes = {"i": n, "j": m}
    narrow = "i" if product.turned else "j"  # the axis of the instruction's B
    if product.epilogue:
        point = [loop.name for loop in tree.kernel.equations[0].loops]
        for one, two in zip(point, [loop.name for loop in tree.kernel.equations[1].loops], strict=True):
            tree = yield f"fuse({one}, {two}) -> {one}"
    whole = depth * pick([1, 2])
    if pick([True] * 9 + [False]):
        tree = yield f"round_up(k, {whole})"
    for axis, extent in axes.items():
        tree = yield from _tile_axis(pick, tree, axis, extent, axis == narrow)
    tree = yield f"tile(k, {pick([whole] * 9 + [depth, 2 * depth])}) -> ko, ki"
    tree = yield f"tile(ki, {depth}) -> fk, ek"
    first = [name for name in ("l",) if find_loop(tree, name)]
    warps, rest = ["wi", "wj"], pick([["fi", "fj"], ["fj", "fi"]])
    pairs = [name for name in ("ni", "nj") if find_loop(tree, name)]
    inner = pick([["ei", "ej", "ek"], ["ei", "ej", "ek"], ["ek", "ei", "ej"]])
    outer = [*first, *pick([["bi", "bj"], ["bj", "bi"]])]
    tree = yield f"order({', '.join([*outer, 'ko', *warps, 'fk', *rest, *pairs, *inner])})"
    for name, kind in zip(outer, ("block.z", "block.y", "block.x")[-len(outer) :], strict=True):
        tree = yield f"bind({name}, {kind})"
    for name, kind in zip(warps, pick([("thread.z", "thread.y"), ("thread.y", "thread.z")]), strict=True):
        if pick([True] * 5 + [False]):
            tree = yield f"bind({name}, {kind})"
    tree = yield from _place_operands(pick, tree, product, outer[-1])
    order = ("ej", "ei", "ek") if product.turned else ("ei", "ej", "ek")
    if pick([True, False, False]) and len(rest + pairs) > 1:
        tree = yield f"serpentine({', '.join([*rest, *pairs])})"
    tree = yield f"tensorize({', '.join(order)}, by={unit.name})"
    tree = yield from _load_by_instructions(pick, tree, product, order, narrow)
    for step, often in (
        (f"pipeline(ko, {pick([2, 2, 3, 4])})", [True, False]),
        (f"pipeline(fk, 2{pick(['', '', ', across=ko'])})", [True, False, False]),
        ("unroll(fk)", [True, False]),
        ("peel(ko)", [True, False, False]),
    ):
        if pick(often):
            tree = yield step


def _tile_axis(pick, tree, axis, extent, is_narrow):
    """Blocks, warps and fragments along an axis; two fragments side by side along that of the instruction's B."""
    block = extent * pick([1, 2, 2, 4] if is_narrow else [1, 1, 2])
    tree = yield f"tile({axis}, {block}) -> b{axis}, t{axis}"
    warp = min(block, extent * pick([1, 2, 2]))
    tree = yield f"tile(t{axis}, {warp}) -> w{axis}, u{axis}"
    pair = is_narrow and pick([True] * 9 + [False] if warp > extent else [False] * 19 + [True])
    tree = yield f"tile(u{axis}, {extent * (1 + pair)}) -> f{axis}, {'p' if pair else 'e'}{axis}"
    if pair:
        tree = yield f"tile(p{axis}, {extent}) -> n{axis}, e{axis}"
    return tree


def _place_operands(pick, tree, product, block):
    """The sum in registers; the factors in registers, by way of shared memory or not."""
    vector = pick(["", "", ", vector=2"])
    tree = yield f"cache_register({product.target}, at={block}{vector if not product.epilogue else ''})"
    if product.epilogue and pick([True, False]):
        tree = yield f"cache_register(out, at={block}{vector})"
    if pick([True, False]):
        layout = pick(["", "", "", f", layout=[{', '.join(_reversed(tree, 'out'))}]"])
        vector = pick(["", ", vector=8", ", vector=8", ", vector=4", ", vector=2"])
        tree = yield f"cache_shared(out, at={block}{layout}{vector}{pick(['', '', '', ', panel=8'])})"
        for step in (f"pad(out.shared, {pick([8, 8, 4])})", f"swizzle(out.shared, {pick(['8', '8', swizzle(pick)])})"):
            if pick([True, False, False]):
                tree = yield step
    for name in "AB":
        stage = pick(["ko", "ko", "ko", ""])
        if stage:
            layout = pick(["", "", "", f", layout=[{', '.join(_reversed(tree, name))}]"])
            most = 16 // DTYPE_BYTES[product.unit.factor]
            vector = pick(["", f", vector={most}", f", vector={most}", f", vector={most // 2}"])
            tree = yield f"cache_shared({name}, at=ko{layout}{vector}{pick(['', '', '', ', using=[ek]'])})"
            if pick([True, False, False]):
                tree = yield f"pad({name}.shared, {pick([8, 8, 16, 4, 1])})"
            if pick([True, False, False]):
                tree = yield f"swizzle({name}.shared, {pick(['8', '8', '16', swizzle(pick)])})"
        copied = any(b.name == f"{name}.shared" for b in tree.buffers)
        tree = yield f"cache_register({name}{'.shared' if copied else ''}, at={pick(['fk', 'fk', 'wj'])})"
    return tree


def _reversed(tree, name):
    rank = len(tree.buffer(name).shape)
    return [str(d) for d in (*range(rank - 2), rank - 1, rank - 2)]


def _load_by_instructions(pick, tree, product, order, narrow):
    """ldmatrix for each factor, in the form that fits or in the other one."""
    one, two, depth = order
    pair = f"n{narrow}"
    for names, around in zip(product.unit.loads, ((one, depth), (depth, pair, two)), strict=True):
        for name in names if pick([True, True, True, False]) else ():
            tree = yield f"tensorize({', '.join(around)}, by={name})"
    for name in product.stores if pick([True, True, True, False]) else ():
        tree = yield f"tensorize({one}, {pair}, {two}, by={name})"
    return tree


# -- a whole case


class TensorCase(Case):
    """A case whose results are of any type: small integers, which all of them have."""

    def same(self, result, what):
        super().same(to_values(result, self.scheduled.kernel.tensor("out").dtype), what)


def case_of(pick, product, number):
    """A kernel as a case without steps, at random sizes and of random numbers: a product, or what is made of one."""
    kernel = load(product.text).kernel("random").ir
    sizes = product_sizes(pick, product)
    while points(kernel, sizes) > POINTS:
        sizes = product_sizes(pick, product)
    sizes = {size: sizes[size] for size in kernel.sizes}
    rng = np.random.default_rng(number)
    arrays = {}
    for t in kernel.tensors:
        if t.role == "input":
            drawn = rng.integers(-3, 4, [t.shape[d].evaluate(sizes) for d in t.order])
            if t.name in "AB" and product.unit.rounding:
                drawn = drawn * NEAR_INTEGERS[product.unit.rounding]
            arrays[t.name] = from_values(drawn, t.dtype).transpose(np.argsort(t.order))
    case = TensorCase(product.text, start(kernel, stock_instructions), sizes, arrays)
    case.expected = reference(kernel, sizes, arrays)["out"]
    return case


def tensor_case(pick, number=0, *, engine=None) -> Case:
    """A product with random steps, the last tree on `engine` too. Raises Failure where something is wrong."""
    product = random_product(pick)
    case = case_of(pick, product, number)
    run_recipe(pick, case, tensor_recipe(pick, case.scheduled.tree, product), often=60)
    finish(case, engine)
    case.counts["cases"] += 1
    fragments = any(b.fragment for b in case.scheduled.tree.buffers)
    case.counts["with instructions"] += fragments
    performed = {loop.performed.instruction.is_copy for loop in loops(case.scheduled.tree.body) if loop.performed}
    case.counts["with loads or stores by instructions"] += True in performed
    held = {b.name for b in case.scheduled.tree.buffers if b.space == "shared"}
    case.counts["staged"] += "out.shared" in held
    stores = [loop for loop in loops(case.scheduled.tree.body) if loop.performed and loop.performed.instruction.is_copy]
    written = {stmt.target.buffer for loop in stores for stmt in stmts((loop,))}
    case.counts["staged by instructions"] += "out.shared" in written
    return case
