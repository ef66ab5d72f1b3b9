"""Which kernels are one matrix product, with what a library can do behind it: bias, activation, residual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import Any

import numpy as np

from tilegen.interpreter.byte_floats import BYTE_FORMATS, bytes_to_float32
from tilegen.interpreter.rounding import operation
from tilegen.ir.affine import Affine
from tilegen.ir.defined import defines_all
from tilegen.ir.in_place import memory_of
from tilegen.ir.instructions import ROUNDINGS
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, Cast, Const, Equation, Expr, Gather, Index, Kernel, Load, Op, Scalar
from tilegen.ir.walk import loads, rewrite, substitute, walk

# The loop names that index the factors and the result of a product.
Words = tuple[list[str], list[str], list[str]]


@dataclass(frozen=True)
class Addend:
    """A tensor that is added to a product: for each dimension of the product, its own that runs along it, or None."""

    name: str
    axes: tuple[int | None, ...]


@dataclass(frozen=True)
class MatrixProduct:
    """`c = activation(sum[k](a * b) + bias) + residual`, the residual before the activation if it is `inside`.

    The axes say of each tensor which of its dimensions are batch, row and column; the columns of the product are
    what `c` stores faster. `operands` is the type of a and b, or "tf32" where they are f32 rounded to that;
    `sums` the type of the sum, `result` that of c. `activation` is a key of ACTIVATIONS.
    """

    a: str
    b: str
    c: str
    a_axes: tuple[int, ...]
    b_axes: tuple[int, ...]
    c_axes: tuple[int, ...]
    operands: str
    sums: str
    result: str
    bias: Addend | None = None
    activation: str = ""
    residual: Addend | None = None
    inside: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that it reads."""
        return (self.a, self.b, *(each.name for each in (self.bias, self.residual) if each))

    @property
    def batch(self) -> int:
        """How many of the product's dimensions are batches."""
        return len(self.c_axes) - 2


def _erf(xp: Any, x: Any) -> Any:
    """erf within 1.5e-7 (Abramowitz and Stegun 7.1.26): numpy and cupy alone have none."""
    t = 1 / (1 + 0.3275911 * abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return xp.sign(x) * (1 - series * xp.exp(-x * x))


# What a library applies to a product; a kernel's own text of it is recognised by its values.
ACTIVATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "": lambda xp, x: x,
    "relu": lambda xp, x: (x + abs(x)) / 2,  # torch's maximum takes no number
    "gelu": lambda xp, x: 0.5 * x * (1 + _erf(xp, x * sqrt(0.5))),
    "gelu by tanh": lambda xp, x: 0.5 * x * (1 + xp.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
}
# Types of the factors -> types of the kernel's sums for which the library's product is a fair comparison.
SUMS: Mapping[str, tuple[str, ...]] = {
    "f64": ("f64",),
    "f32": ("f32",),
    "tf32": ("f32",),
    "bf16": ("f32", "bf16"),
    "f16": ("f32", "f16"),
    "e4m3": ("f32",),
    "i8": ("i32",),
}
# No activation is steeper.
SLOPE = 1.13


def as_product(kernel: Kernel) -> MatrixProduct | None:
    """How the kernel is one matrix product, batched or not; None where it is anything else."""
    match _inline_roundings(kernel):
        case (total,):
            last = None
        case (total, last) if last.reduce is None and kernel.tensor(total.target).role == "intermediate":
            pass
        case _:
            return None
    words = _words_of_product(kernel, total)
    if words is None:
        return None
    if last is None:
        return _product(kernel, total, words, total.target)
    renamed = _rename_to_product(kernel, last, total.target, words[2])
    if renamed is None or sorted(renamed[last.target]) != sorted(words[2]):
        return None
    found = _product(kernel, total, (words[0], words[1], renamed[last.target]), last.target)
    return found and _with_epilogue(found, last, total.target, renamed)


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


# -- the product


def operands(equation: Equation) -> tuple[tuple[Load, str], tuple[Load, str]] | None:
    """The two factors of a sum of products, with the types whose values they have; None for another equation."""
    if equation.reduce != "sum" or equation.conditions:
        return None
    match without_casts(equation.value):
        case Op("*", (left, right)):
            first, second = _operand(left), _operand(right)
            return (first, second) if first and second else None
        case _:
            return None


def _operand(expr: Expr) -> tuple[Load, str] | None:
    """A factor with its type, which is "tf32" where it is rounded to that, in whatever direction."""
    match without_casts(expr):
        case Load() as load:
            return load, load.dtype
        case Op(name, (Load() as load,)) if name in ROUNDINGS:
            return load, ROUNDINGS[name]
        case _:
            return None


def without_casts(expr: Expr) -> Expr:
    """The expression below all casts around it."""
    return without_casts(expr.arg) if isinstance(expr, Cast) else expr


def _words_of_product(kernel: Kernel, equation: Equation) -> Words | None:
    """The loop names that index the factors and the target of a plain sum of products; None for another equation."""
    factors = operands(equation)
    if factors is None or len(equation.reduced) != 1 or any(load.fallback for load, _ in factors):
        return None
    a, b, c = (loop_names(index) for index in (*(load.index for load, _ in factors), equation.index))
    if a is None or b is None or c is None:
        return None
    names = (*(load.buffer for load, _ in factors), equation.target)
    return (a, b, c) if _same_extents(kernel, zip(names, (a, b, c), strict=True)) else None


def _same_extents(kernel: Kernel, indexed: Iterable[tuple[str, list[str]]]) -> bool:
    """True if each loop, by its name, runs over the whole of every dimension that it indexes."""
    extents: dict[str, set[Affine]] = {}
    for name, words in indexed:
        for word, extent in zip(words, kernel.tensor(name).shape, strict=True):
            extents.setdefault(word, set()).add(extent)
    return all(len(found) == 1 for found in extents.values())


def loop_names(index: tuple[Affine, ...]) -> list[str] | None:
    """The loop names of an index that is nothing but different loop names."""
    words = [str(i) for i in index if len(i.terms) == 1 and i.const == 0 and str(i).replace(".", "").isidentifier()]
    return words if len(words) == len(index) == len(set(words)) else None


def _product(kernel: Kernel, equation: Equation, words: Words, target: str) -> MatrixProduct | None:
    """The product of `equation`, whose result is stored in `target`; the last of `words` index that."""
    factors = operands(equation)
    assert factors is not None
    (first, first_type), (second, second_type) = factors
    k, (a, b, c) = equation.reduced[0].name, words
    own = [w for w in c if w in a and w not in b], [w for w in c if w in b and w not in a]
    if first_type != second_type or [len(each) for each in own] != [1, 1]:
        return None
    names, row, column = (first.buffer, second.buffer), own[0][0], own[1][0]
    # The columns are what the result stores faster.
    stored = [c[dimension] for dimension in kernel.tensor(target).order]
    if stored.index(row) > stored.index(column):
        a, b, names, row, column = b, a, names[::-1], column, row
    batch = [w for w in c if w not in (row, column)]
    if sorted(a) != sorted([*batch, row, k]) or sorted(b) != sorted([*batch, column, k]):
        return None
    places = ([*batch, row, k], [*batch, k, column], [*batch, row, column])
    axes = [tuple(each.index(w) for w in wanted) for each, wanted in zip((a, b, c), places, strict=True)]
    types = (first_type, kernel.tensor(equation.target).dtype, kernel.tensor(target).dtype)
    return MatrixProduct(*names, target, axes[0], axes[1], axes[2], *types)


# -- what follows it


def _rename_to_product(kernel: Kernel, last: Equation, sums: str, words: list[str]) -> dict[str, list[str]] | None:
    """The names of the product's loops that index each tensor in `last`; None if one is indexed otherwise."""
    found: dict[str, list[str]] = {}
    for name, index in ((last.target, last.index), *((load.buffer, load.index) for load in loads(last.value))):
        own = loop_names(index)
        if own is None or found.setdefault(name, own) != own:
            return None
    if sums not in found or last.conditions or any(load.fallback for load in loads(last.value)):
        return None
    names = dict(zip(found[sums], words, strict=True))
    if any(word not in names for each in found.values() for word in each):
        return None
    renamed = {name: [names[word] for word in each] for name, each in found.items()}
    return renamed if _same_extents(kernel, renamed.items()) else None


def _with_epilogue(
    found: MatrixProduct, last: Equation, sums: str, words: Mapping[str, list[str]]
) -> MatrixProduct | None:
    """`found` with what `last` adds and applies to its sums; None if that is nothing that a library has."""
    whole = [words[found.c][axis] for axis in found.c_axes]
    added = [
        Addend(name, tuple(each.index(word) if word in each else None for word in whole))
        for name, each in words.items()
        if name not in (sums, found.c)
    ]
    rows, full = ([a for a in added if (None in a.axes) == part] for part in (True, False))
    if len(rows) > 1 or len(full) > 1 or any(memory_of(a.name) == found.c for a in added):
        return None
    bias, residual = next(iter(rows), None), next(iter(full), None)
    names = (sums, bias.name if bias else None, residual.name if residual else None)
    for activation in ACTIVATIONS:
        for inside in (False, True) if residual and activation else (False,):
            if has_values(last.value, names, activation, inside):
                return replace(found, bias=bias, activation=activation, residual=residual, inside=inside)
    return None


def has_values(value: Expr, names: tuple[str, str | None, str | None], activation: str, inside: bool) -> bool:
    """True if `value` is `activation(sums + bias) + residual` at every one of many points, up to rounding."""
    nodes = [node for node in walk(value) if isinstance(node, Expr)]
    if any(isinstance(n, Gather | Index | Scalar) or n.dtype not in (*FLOATS, "bool") for n in nodes):
        return False
    rng = np.random.default_rng(0)
    points = {name: 3 * rng.standard_normal(200) for name in names if name}
    total, bias, residual = (points[name] if name else np.zeros(200) for name in names)
    with np.errstate(all="ignore"):
        wanted = apply(np, activation, inside, total, bias, residual)
        return bool((abs(values_at(value, points) - wanted) <= 1e-5 * (1 + abs(wanted))).all())


def values_at(expr: Expr, points: Mapping[str, Any]) -> Any:
    """The values of an expression at points of the tensors that it loads, without roundings."""
    match expr:
        case Load(buffer):
            return points[buffer]
        case Const(value):
            return np.float64(value)
        case Cast(arg):
            return values_at(arg, points)
        case Op(name, args, dtype):
            pairs = [(values_at(arg, points), np.zeros(())) for arg in args]
            return operation(name, pairs, "f64" if dtype in FLOATS else dtype)[0]
        case _:
            raise TypeError(expr)


def apply(xp: Any, activation: str, inside: bool, sums: Any, bias: Any, residual: Any) -> Any:
    """`activation(sums + bias) + residual`, or with the residual inside."""
    if inside:
        return ACTIVATIONS[activation](xp, sums + bias + residual)
    return ACTIVATIONS[activation](xp, sums + bias) + residual


# -- is a result right?


def view(array: Any, addend: Addend) -> Any:
    """The addend, of any library, in the product's dimensions; 1 where it has none."""
    own = [axis for axis in addend.axes if axis is not None]
    moved = array.permute(own) if hasattr(array, "permute") else array.transpose(own)
    return moved[tuple(None if axis is None else slice(None) for axis in addend.axes)]


def product_difference(
    found: MatrixProduct,
    xp: Any,
    arrays: Mapping[str, Any],
    result: Any,
    dtypes: Mapping[str, str],
    *,
    rounded: bool = False,
) -> float:
    """How far a result is from the product in f32 or f64, as a share of what rounding can explain.

    Args:
        result: in the product's dimensions: batch, row, column.
        dtypes: the type of each array by name.
        rounded: the result may have been rounded to the type of the factors.
    """
    numbers = {each: as_numbers(xp, arrays[each], dtypes[each]) for each in found.inputs}
    a, b = numbers[found.a].transpose(found.a_axes), numbers[found.b].transpose(found.b_axes)
    sums = xp.matmul(a, b)
    if found.result not in FLOATS:
        # Sums of integers are exact: what is off by one is off by more than rounding explains.
        return 2 * float(abs(as_numbers(xp, result, found.result) - sums.astype("int64").astype("int32")).max())
    bias, residual = (view(numbers[each.name], each) if each else 0 for each in (found.bias, found.residual))
    wanted = apply(xp, found.activation, found.inside, sums, bias, residual)
    # Each factor is off by less than an epsilon where it has been rounded, in whatever direction; of products of bytes
    # tensor cores keep 13 fraction bits beside the largest.
    terms = 2 * epsilon("tf32") if found.operands == "tf32" else 2 * 2.0**-13 if found.operands in BYTE_FLOATS else 0.0
    allowed = (2 * a.shape[-1] * epsilon(found.sums) + terms) * xp.matmul(abs(a), abs(b)) * SLOPE
    allowed += (
        4 * epsilon(found.operands if rounded else found.result) * (abs(sums) + abs(bias) + abs(residual)) + 1e-30
    )
    return float((abs(as_numbers(xp, result, found.result) - wanted) / allowed).max())


def epsilon(dtype: str) -> float:
    """The distance from 1 to the next number of a floating-point type."""
    if dtype in BYTE_FLOATS:
        return float(2.0 ** -BYTE_FORMATS[dtype].fraction)
    return {"f64": 2.0**-52, "f32": 2.0**-23, "tf32": 2.0**-10, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype]


def as_numbers(xp: Any, array: Any, dtype: str) -> Any:
    """An array of numpy or cupy in f32, f64 or, of integers, in f64, in which sums of their products are exact."""
    if dtype == "bf16":
        return (array.view("uint16").astype("uint32") << 16).view("float32")
    if dtype in BYTE_FLOATS:
        return bytes_to_float32(array.view("uint8"), dtype, xp)
    return array.astype("float32" if dtype in ("f16", "f32") else "float64")
