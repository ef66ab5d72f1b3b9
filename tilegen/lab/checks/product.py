"""Which kernels are one matrix product, batched or not, in any storage order, with roundings before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.ir.affine import Affine
from tilegen.ir.facts.defined import defines_all
from tilegen.ir.hardware.instructions import ROUNDINGS
from tilegen.ir.nodes import Cast, Equation, Expr, Kernel, Load, Op
from tilegen.ir.walk import rewrite, substitute


@dataclass(frozen=True)
class MatrixProduct:
    """`c = sum[k](a * b)`; `result` is the type of c.

    The axes say of each tensor which of its dimensions are batch, row and column: the rows are those of a.
    """

    a: str
    b: str
    a_axes: tuple[int, ...]
    b_axes: tuple[int, ...]
    c_axes: tuple[int, ...]
    result: str


def as_product(kernel: Kernel) -> MatrixProduct | None:
    """How the kernel is one matrix product; None where it is anything else."""
    match _inline_roundings(kernel):
        case (total,):
            return _product(kernel, total, total)
        case (total, last) if (
            last.reduce is None and not last.conditions and defines_all(last, kernel.tensor(last.target))
        ):
            stored = _without_casts(last.value)
            copies = isinstance(stored, Load) and stored.buffer == total.target and stored.fallback is None
            return _product(kernel, total, last) if copies else None
        case _:
            return None


def _inline_roundings(kernel: Kernel) -> tuple[Equation, ...]:
    """The equations, with roundings like P[i, k] = tf32(A[i, k]) in the place of the tensors that they define."""
    made: dict[str, Equation] = {}
    left = []
    for equation in kernel.equations:
        target, value = kernel.tensor(equation.target), equation.value
        whole = equation.reduce is None and defines_all(equation, target) and target.role == "intermediate"
        if whole and isinstance(value, Op) and value.name in ROUNDINGS and isinstance(value.args[0], Load):
            made[target.name] = equation
        else:
            left.append(equation)

    def inline(value: object) -> object:
        if not isinstance(value, Load) or value.buffer not in made or value.fallback:
            return value
        equation = made[value.buffer]
        return substitute(equation.value, dict(zip(map(str, equation.index), value.index, strict=True)))

    return rewrite(tuple(left), inline)


def _operands(equation: Equation) -> tuple[tuple[Load, str], tuple[Load, str]] | None:
    """The two factors of a sum of products, with the types whose values they have; None for another equation."""
    if equation.reduce != "sum" or equation.conditions:
        return None
    match _without_casts(equation.value):
        case Op("*", (left, right)):
            first, second = _operand(left), _operand(right)
            return (first, second) if first and second else None
        case _:
            return None


def _operand(expr: Expr) -> tuple[Load, str] | None:
    """A factor with its type, which is "tf32" where it is rounded to that, in whatever direction."""
    match _without_casts(expr):
        case Load() as load:
            return load, load.dtype
        case Op(name, (Load() as load,)) if name in ROUNDINGS:
            return load, ROUNDINGS[name]
        case _:
            return None


def _without_casts(expr: Expr) -> Expr:
    """The expression below all casts around it."""
    return _without_casts(expr.arg) if isinstance(expr, Cast) else expr


def _product(kernel: Kernel, total: Equation, last: Equation) -> MatrixProduct | None:
    """The product of the sum `total`, which `last` stores: that itself, or an equation that copies it."""
    factors = _operands(total)
    if factors is None or len(total.reduced) != 1 or any(load.fallback for load, _ in factors):
        return None
    (first, first_type), (second, second_type) = factors
    a, b, c = (_loop_names(index) for index in (first.index, second.index, total.index))
    if a is None or b is None or c is None or first_type != second_type:
        return None
    if not _same_extents(kernel, zip((first.buffer, second.buffer, total.target), (a, b, c), strict=True)):
        return None
    if last is not total:
        stored = _without_casts(last.value)
        assert isinstance(stored, Load)
        read, written = _loop_names(stored.index), _loop_names(last.index)
        if read is None or written is None or kernel.tensor(total.target).role != "intermediate":
            return None
        names = dict(zip(read, c, strict=True))
        c = [names[word] for word in written]
    return _with_axes(total.reduced[0].name, (first.buffer, second.buffer), (a, b, c), kernel.tensor(last.target).dtype)


def _with_axes(
    k: str, names: tuple[str, str], words: tuple[list[str], list[str], list[str]], result: str
) -> MatrixProduct | None:
    a, b, c = words
    rows, columns = [w for w in c if w in a and w not in b], [w for w in c if w in b and w not in a]
    if len(rows) != 1 or len(columns) != 1:
        return None
    batch = [w for w in c if w not in (*rows, *columns)]
    places = ([*batch, *rows, k], [*batch, k, *columns], [*batch, *rows, *columns])
    if sorted(a) != sorted(places[0]) or sorted(b) != sorted(places[1]):
        return None
    axes = [tuple(each.index(w) for w in wanted) for each, wanted in zip(words, places, strict=True)]
    return MatrixProduct(*names, axes[0], axes[1], axes[2], result)


def _same_extents(kernel: Kernel, indexed: Iterable[tuple[str, list[str]]]) -> bool:
    """True if each loop, by its name, runs over the whole of every dimension that it indexes."""
    extents: dict[str, set[Affine]] = {}
    for name, words in indexed:
        for word, extent in zip(words, kernel.tensor(name).shape, strict=True):
            extents.setdefault(word, set()).add(extent)
    return all(len(found) == 1 for found in extents.values())


def _loop_names(index: tuple[Affine, ...]) -> list[str] | None:
    """The loop names of an index that is nothing but different loop names."""
    words = [str(i) for i in index if len(i.terms) == 1 and i.const == 0 and str(i).replace(".", "").isidentifier()]
    return words if len(words) == len(index) == len(set(words)) else None
