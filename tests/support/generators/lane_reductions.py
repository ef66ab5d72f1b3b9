"""Random reductions of products by instructions: what each lane makes of the elements of its own fragments."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.generators.case import Case, finish, run_recipe
from tests.support.generators.tensors import UNITS, case_of
from tilegen.ir.walk import find_loop


@dataclass(frozen=True)
class Reduction:
    """A kernel by its text; `unit` computes its product, which is reduced along its rows, or its columns."""

    text: str
    unit: object
    along: str  # "i" or "j", the loop of the product
    word: str
    turned: bool = False


def random_reduction(pick) -> Reduction:
    unit = pick([u for u in UNITS if u.total in ("f32", "i32", "f64")])
    around = unit.rounding or ("" if unit.total == unit.factor else unit.total)
    factors = [f"{around}({x})" if around else x for x in ("A[i, k]", "B[k, j]")]
    word, along = pick(["sum", "sum", "max", "min", "argmin", "argmin", "argmax"]), pick("jji")
    kept, reduced = ("y", "x") if along == "i" else ("x", "y")
    value = pick(["t[x, y]", "t[x, y]", "t[x, y] * t[x, y]", f"b[{reduced}] - 2 * t[x, y]"])
    dtype = "i32" if word.startswith("arg") else unit.total
    size = {"x": "M", "y": "N"}
    heads = [f"A: {unit.factor}[M, K]", f"B: {unit.factor}[K, N]"]
    heads += [f"b: {unit.total}[{size[reduced]}]"] if "b[" in value else []
    text = (
        f"kernel random({', '.join(heads)}) -> out: {dtype}[{size[kept]}]:\n    var t: {unit.total}[M, N]\n"
        f"    t[i, j] = sum[k]({' * '.join(factors)})\n    out[{kept}] = {word}[{reduced}]({value})\n"
    )
    return Reduction(text, unit, along, word)


def reduction_recipe(pick, tree, drawn):
    """The product in fragments, and the loop along which it is reduced in digits: one may tell the lanes apart."""
    unit, along = drawn.unit, drawn.along
    m, n, depth = unit.extents
    across = "j" if along == "i" else "i"
    if pick([True] * 19 + [False]):
        tree = yield f"round_up(k, {depth})"
    if drawn.word == "sum" and pick([True] * 9 + [False]):
        tree = yield "reassociate(out)"
    if along == "i":
        tree = yield "order(j, i, k)"
    for one, two in (("i", "x"), ("j", "y"))[:: -1 if along == "i" else 1]:
        tree = yield f"fuse({one}, {two}) -> {one}"
    for axis, extent in (("i", m), ("j", n)):
        tree = yield f"tile({axis}, {extent}) -> b{axis}, e{axis}"
    tree = yield f"tile(k, {depth}) -> ko, ek"
    tree = yield f"order(b{across}, b{along}, ko, ei, ej, ek)"
    tree = yield f"bind(b{across}, block.y)"
    tree = yield f"cache_register(t, at=b{along})"
    tree = yield f"rename(e{along}, of=out) -> s"
    digits, extent = ["s"], {"i": m, "j": n}[along]
    for number in range(pick([0, 1, 1, 1, 2])):
        width = pick([each for each in (2, 2, 4, 8) if each < extent] or [1])
        tree = yield f"tile({digits[-1]}, {width}) -> {digits[-1]}, d{number}"
        digits, extent = [*digits, f"d{number}"], width
    parts = pick([digits[:1], digits[-1:], digits[:2], digits])
    if pick([True] * 5 + [False]):
        tree = yield f"rfactor(out, {parts[0] if len(parts) == 1 else '[' + ', '.join(parts) + ']'}) -> part"
    kept = "part" if any(b.name == "part" for b in tree.buffers) else "out"
    for name in (kept, f"{kept}.best"):
        if any(b.name == name for b in tree.buffers) and pick([True] * 9 + [False]):
            tree = yield f"cache_register({name}, at={pick([f'b{across}', f'b{across}', f'b{along}'])})"
    for name in "AB":
        tree = yield f"cache_register({name}, at=ko)"
    tree = yield f"tensorize(ei, ej, ek, by={unit.name})"
    if find_loop(tree, "d0") and pick([True, False]):
        tree = yield "unroll(d0)"


def reduction_case(pick, number=0, *, engine=None) -> Case:
    """A reduction of a product with random steps, the last tree on `engine` too. Raises Failure where it is wrong."""
    drawn = random_reduction(pick)
    case = case_of(pick, drawn, number)
    run_recipe(pick, case, reduction_recipe(pick, case.scheduled.tree, drawn), often=60)
    finish(case, engine)
    case.counts["cases"] += 1
    held = {b.name for b in case.scheduled.tree.buffers if b.fragment}
    case.counts["with instructions"] += bool(held)
    case.counts["reduced in lanes"] += "part.reg" in held
    return case
