"""Random inputs for a kernel, made by numpy or cupy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from tilegen.backends.calls.arrays import empty, shape_of
from tilegen.backends.calls.scalars import stored_scalar
from tilegen.interpreter.dtypes import from_values
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import FLOATS, Const, Gather, Index, Kernel, Load, Op, Scalar, Tensor
from tilegen.ir.walk import gathers, loads, walk

# Operations that map small integers to integers without rounding.
_EXACT = {
    "+", "-", "*", "neg", "min", "max", "abs", "select", "fma", "floor", "ceil", "round", "tf32", "tf32_rz", "//", "%",
    "power_of_two", "<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "&", "|", "^", "<<", ">>", "~",
}  # fmt: skip
# Operations that are defined for arguments above 0, or up to 1, only.
_NARROW = {"log", "log1p", "log2", "sqrt", "rsqrt", "pow", "asin", "acos"}
# kind of floating-point inputs -> how they are drawn
DRAWS: Mapping[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape, dtype="float32"),
    "small": lambda rng, shape: rng.standard_normal(shape, dtype="float32") / 1024,
    "narrow": lambda rng, shape: rng.random(shape, dtype="float32") * 0.7 + 0.25,
    "above 1": lambda rng, shape: rng.random(shape, dtype="float32") * 0.7 + 1.25,
    # Sums of many terms in 16 bits have a bound if most terms are 0.
    "sparse": lambda rng, shape: rng.standard_normal(shape, dtype="float32") * (rng.random(shape) < 1 / 16),
    "sparser": lambda rng, shape: rng.standard_normal(shape, dtype="float32") * (rng.random(shape) < 1 / 256),
    "sparsest": lambda rng, shape: rng.standard_normal(shape, dtype="float32") * (rng.random(shape) < 1 / 4096),
}
_SPARSE = ("sparse", "sparser", "sparsest")
# (largest magnitude, share of elements that are not 0), from rich to sparse
INTEGER_RANGES = ((4, 1.0), (2, 1.0), (1, 1.0), (1, 1 / 4), (1, 1 / 16), (1, 1 / 64), (1, 1 / 1024))


def maps_integers_to_integers(kernel: Kernel) -> bool:
    """True if integer inputs give integers in every operation: then results are compared to the bit."""
    for node in walk(kernel.equations):
        if isinstance(node, Op) and node.name not in _EXACT:
            return False
        if isinstance(node, Const) and float(node.value) != int_or_infinity(node.value):
            return False
    return True


def int_or_infinity(value: float) -> float:
    """`value` rounded to an integer; infinities stay what they are."""
    return value if value in (float("inf"), float("-inf")) else float(int(value))


def integers(
    xp: Any, kernel: Kernel, sizes: Mapping[str, int], magnitude: int, share: float, seed: int
) -> dict[str, Any]:
    """Inputs of integers from -magnitude to magnitude, of which `share` may differ from 0; no scalar is 0.

    What is used as an index lies in its dimension, or one place outside of it.
    """
    rng = xp.random.default_rng(seed)
    arrays, extents = {}, _indexed_extents(kernel, sizes)
    for tensor in _inputs(kernel):
        low = 0 if tensor.dtype in ("u8", "bool") else -magnitude
        shape = shape_of(tensor, sizes)
        values = rng.integers(low, magnitude + 1, shape) * (rng.random(shape) < share)
        if tensor.name in extents:
            values = rng.integers(low and -1, _index_end(tensor, extents), shape)
        if tensor.name in kernel.different:
            values = _different(xp, rng, low and -1, tensor, extents, shape)
        if tensor.name in dict(kernel.rising):
            values = _rising(xp, rng, dict(kernel.rising)[tensor.name].evaluate(sizes), shape[0])
        arrays[memory_of(tensor.name)] = array_of(xp, tensor, _avoid_zero_divisors(kernel, tensor, values))
    draws = np.random.default_rng(seed)
    for scalar in kernel.scalars:
        # A factor of 1 would hide a missing multiplication.
        value = draws.integers(min(2, magnitude), magnitude + 1) * _sign(scalar, draws)
        arrays[scalar.name] = stored_scalar(scalar, value)
    return arrays


def draw_kinds(kernel: Kernel) -> tuple[str, ...]:
    """The kinds of floating-point inputs to try a kernel with, the likeliest first: keys of DRAWS."""
    narrow = any(isinstance(n, Op) and n.name in _NARROW and _varies(n) for n in walk(kernel.equations))
    dense = ("narrow", "above 1", "normal", "small") if narrow else ("normal", "small", "narrow", "above 1")
    return dense + (_SPARSE if any(equation.reduce == "sum" for equation in kernel.equations) else ())


def _varies(op: Op) -> bool:
    """True if an argument is not made of constants alone, as that of sqrt(0.5) is."""
    return any(isinstance(n, Load | Gather | Scalar | Index) for n in walk(op.args))


def random(
    xp: Any, kernel: Kernel, sizes: Mapping[str, int], seed: int, draw: str = "", *, usual: bool = False
) -> dict[str, Any]:
    """Inputs of normal numbers, or between 0.25 and 0.95 where the kernel has a logarithm or a root.

    Integers lie between -100 and 100, those of scalars besides 0, those of divisors too. What is used as an index lies
    in its dimension, or one place outside of it; of rows some are empty, and one is long.

    Args:
        draw: another kind of floating-point numbers, a key of DRAWS.
        usual: indices inside of their dimension alone, as libraries take them, and rows of any length up to twice
            the mean.
    """
    rng = xp.random.default_rng(seed)
    drawn = DRAWS[draw or draw_kinds(kernel)[0]]
    arrays, extents = {}, _indexed_extents(kernel, sizes)
    for tensor in _inputs(kernel):
        shape = shape_of(tensor, sizes)
        if tensor.dtype not in FLOATS:
            low = 0 if tensor.dtype in ("u8", "bool") else -100
            values = _avoid_zero_divisors(
                kernel, tensor, rng.integers(low, 2 if tensor.dtype == "bool" else 101, shape)
            )
            if tensor.name in extents:
                end = _index_end(tensor, extents) - usual
                values = rng.integers(0 if usual else low and -1, max(end, 1), shape)
            values = (
                _different(xp, rng, low and -1, tensor, extents, shape) if tensor.name in kernel.different else values
            )
            if tensor.name in dict(kernel.rising):
                draw_rows = _rows_about_a_mean if usual else _rising
                values = draw_rows(xp, rng, dict(kernel.rising)[tensor.name].evaluate(sizes), shape[0])
        else:
            values = drawn(rng, shape)
        arrays[memory_of(tensor.name)] = array_of(xp, tensor, values)
    host = np.random.default_rng(seed)
    for scalar in kernel.scalars:
        whole = scalar.dtype not in FLOATS
        drawn = DRAWS["normal"] if draw in _SPARSE else drawn  # a scalar of 0 would hide all that it multiplies
        value = int(host.integers(1, 101)) * _sign(scalar, host) if whole else float(drawn(host, (1,))[0])
        arrays[scalar.name] = stored_scalar(scalar, value)
    return arrays


def _indexed_extents(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """For each input that is used as an index, or compared with one, the least extent of the dimensions that it
    indexes, or of what it is compared with."""
    found: dict[str, int] = {}
    for gather in gathers(kernel.equations):
        for place, extent in zip(gather.index, kernel.tensor(gather.buffer).shape, strict=True):
            length = extent.evaluate(sizes)
            found |= {load.buffer: min(length, found.get(load.buffer, length)) for load in loads(place)}
    for equation in kernel.equations:
        ends = {r.name: r.extent.evaluate(dict(sizes)) for r in (*equation.loops, *equation.reduced)}
        for node in walk(equation.value):
            match node:
                case Op("==" | "<" | ">=", (Index(index), place)) | Op("==", (place, Index(index))):
                    last = interval_of(index, ends)
                    found |= {load.buffer: last[1] + 1 for load in loads(place) if last and load.buffer not in found}
                case _:
                    pass
    return found


def _index_end(tensor: Tensor, extents: Mapping[str, int]) -> int:
    """The end of the range that an index is drawn from: one place of it is outside, if the type allows."""
    return min(extents[tensor.name] + 1, {"i8": 2**7, "u8": 2**8}.get(tensor.dtype, 2**31 - 1))


def _different(xp: Any, rng: Any, low: int, tensor: Tensor, extents: dict[str, int], shape: tuple[int, ...]) -> Any:
    """Different numbers in any order: as many as there are elements, of the range that they are indices of."""
    count = prod(shape)
    span = max(count, _index_end(tensor, extents) - low if tensor.name in extents else 0)
    return (xp.argsort(rng.random(span))[:count] + low).reshape(shape)


def _rising(xp: Any, rng: Any, end: int, count: int) -> Any:
    """`count` numbers from 0 to `end`, one in three the one before it: rows of which some are empty and one is long."""
    inner, low = count - 2, (count - 2) // 2
    ends = xp.concatenate((rng.integers(0, end // 4 + 1, low), rng.integers(end - end // 4, end + 1, inner - low)))
    values = xp.concatenate((xp.zeros(1, "int64"), xp.sort(ends), xp.full(1, end, "int64")))
    equal = values[1:-1:3]
    equal[...] = values[: 3 * len(equal) : 3]
    return values


def _rows_about_a_mean(xp: Any, rng: Any, end: int, count: int) -> Any:
    """`count` numbers from 0 to `end`, as the ends of rows whose lengths are alike likely up to twice the mean."""
    sums = xp.cumsum(rng.random(count - 1))
    return xp.concatenate((xp.zeros(1, "int64"), xp.rint(sums * (end / sums[-1])).astype("int64")))


def _sign(scalar: Scalar, rng: np.random.Generator) -> int:
    return 1 if scalar.dtype == "u8" else int(rng.choice([-1, 1]))


def _avoid_zero_divisors(kernel: Kernel, tensor: Tensor, values: Any) -> Any:
    """Integers for `tensor`, with 1 for 0 where the kernel divides by them: x // 0 is 0, which tests little."""
    quotients = [n for n in walk(kernel.equations) if isinstance(n, Op) and n.name in ("//", "%")]
    divides = any(isinstance(n, Load) and n.buffer == tensor.name for q in quotients for n in walk(q.args[1]))
    return values + (values == 0) if divides else values


def array_of(xp: Any, tensor: Tensor, values: Any) -> Any:
    """`values` in the tensor's dtype and storage order."""
    array = empty(xp, tensor, values.shape)
    array[...] = from_values(values, tensor.dtype, xp)
    return array


def _inputs(kernel: Kernel) -> list[Tensor]:
    return [t for t in kernel.tensors if t.role == "input"]
