"""How tilegen's types look in numpy. What it has no type of is kept as bits: bf16 in uint16, e4m3 and e5m2 in uint8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tilegen.errors import ArgumentError
from tilegen.interpreter.byte_floats import bytes_to_float32, float_to_bytes
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, Kernel, Scalar, Tensor

Array = npt.NDArray[Any]

NUMPY: Mapping[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "e4m3": np.dtype(np.uint8),
    "e5m2": np.dtype(np.uint8),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}


def bf16_to_float32(bits: Array) -> Array:
    """The values of bf16 numbers given by their bits (uint16)."""
    values: Array = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    return values


def float_to_bf16(values: Array, xp: Any = np) -> Array:
    """The bits (uint16) of the bf16 numbers nearest to `values`, ties to even; NaN stays NaN.

    `values` are floats, or integers that a float64 has exactly; an array of `xp`, numpy or cupy. The conversion of
    ml_dtypes is by way of f32, so that some of them would be rounded twice.
    """
    with np.errstate(over="ignore"):
        exact = xp.ascontiguousarray(values.astype(np.float64))
        single = exact.astype(np.float32)
    # Towards 0, the last bit set where that is not exact: what is rounded now is rounded once.
    away, inexact = abs(single.astype(np.float64)) > abs(exact), single.astype(np.float64) != exact
    bits = (single.view(np.uint32) - away) | inexact
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    result: Array = xp.where(xp.isnan(single), 0x7FC0, rounded >> 16).astype(np.uint16)
    return result.reshape(values.shape)


def to_values(array: Array, dtype: str) -> Array:
    """An array as stored, or of ml_dtypes -> its values: float64 for floating-point types, int64 for integers."""
    if dtype == "bf16":
        return bf16_to_float32(array).astype(np.float64)
    if dtype in BYTE_FLOATS:
        return bytes_to_float32(array.view(np.uint8), dtype).astype(np.float64)
    return array.astype(np.float64 if dtype in FLOATS else np.int64)


def from_values(values: Array, dtype: str, xp: Any = np) -> Array:
    """Values -> an array as stored, rounded to nearest (floating point) or wrapped (integers).

    `values` are an array of `xp`, numpy or cupy, and so is the result.
    """
    if dtype == "bf16":
        return float_to_bf16(values, xp)
    if dtype in BYTE_FLOATS:
        return float_to_bytes(values, dtype, xp)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(NUMPY[dtype])


def wrap(values: Array, dtype: str) -> Array:
    """Integers of any size (int64) as those of `dtype` that have the same last bits, in int64."""
    if dtype == "i64":
        return values.astype(np.int64)
    return values.astype(np.int64).astype(NUMPY[dtype]).astype(np.int64)


def shape_of(tensor: Tensor | Scalar, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a tensor at the given sizes; a scalar has none."""
    if isinstance(tensor, Scalar):
        return ()
    return tuple(max(0, extent.evaluate(sizes)) for extent in tensor.shape)


def check_arguments(kernel: Kernel, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> None:
    """Raises ArgumentError where sizes are missing, or an input has another shape or type than declared."""
    for size in kernel.sizes:
        if size not in sizes:
            raise ArgumentError(f"the size {size} of '{kernel.name}' is missing")
        if sizes[size] < 1:
            raise ArgumentError(f"the size {size} is {sizes[size]}, and sizes are at least 1")
    inputs: list[Tensor | Scalar] = [t for t in kernel.tensors if t.role == "input"]
    for name in kernel.different:
        if name in arrays and np.unique(arrays[name]).size < arrays[name].size:
            raise ArgumentError(f"'{name}' has equal elements, and '{kernel.name}' is for different ones only")
    for name, end in kernel.rising:
        if name in arrays and arrays[name].ndim == 1:
            _check_rising(name, np.asarray(arrays[name]).astype(object), end.evaluate(sizes), str(end))
    for tensor in (*inputs, *kernel.scalars):
        name = memory_of(tensor.name)
        if name not in arrays:
            raise ArgumentError(f"the input '{name}' of '{kernel.name}' is missing")
        array, shape = arrays[name], shape_of(tensor, sizes)
        if array.shape != shape:
            raise ArgumentError(f"'{name}' has the shape {array.shape}, and {shape} is declared")
        if array.dtype != NUMPY[tensor.dtype]:
            raise ArgumentError(
                f"'{name}' has the type {array.dtype}, and {tensor.dtype} is declared",
                notes=(f"the bits of {tensor.dtype} numbers are given as {NUMPY[tensor.dtype]}",)
                if tensor.dtype in ("bf16", *BYTE_FLOATS)
                else (),
            )


def _check_rising(name: str, values: Array, end: int, word: str) -> None:
    """Raises ArgumentError where the values do not go from 0 to `end` without falling."""
    falls = np.flatnonzero(values[1:] < values[:-1])
    if len(falls):
        at = int(falls[0])
        raise ArgumentError(f"'{name}' falls from {values[at]} to {values[at + 1]} at {at + 1}, and is to rise")
    if values[0] != 0 or values[-1] != end:
        raise ArgumentError(f"'{name}' goes from {values[0]} to {values[-1]}, and is to go from 0 to {word} = {end}")
