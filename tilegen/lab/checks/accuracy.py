"""How far a matrix product is from the exact one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.interpreter.byte_floats import bytes_to_float32
from tilegen.ir.nodes import BYTE_FLOATS, FLOATS, Kernel
from tilegen.lab.checks.product import as_product

_ROWS = 1024  # computed at a time


@dataclass(frozen=True)
class Accuracy:
    """The root of the mean square and the largest of an element's errors.

    The unit of an element is 2^-24 of the sum of the magnitudes of its terms: what one rounding in f32 may cost.
    """

    rms: float
    largest: float


def describe_errors(measured: Mapping[str, Accuracy]) -> Iterator[str]:
    """A line for each of the names, after one that says in what the errors are measured; nothing for none."""
    if measured:
        yield "errors, in units of 2^-24 of the sum of the magnitudes of an element's terms:"
    for name, each in measured.items():
        yield f"{name}: rms {each.rms:.3f}, largest {each.largest:.2f}"


def has_accuracy(kernel: Kernel) -> bool:
    """True for a product of floats with nothing after it."""
    found = as_product(kernel)
    return found is not None and found.result in FLOATS


def accuracy(kernel: Kernel, xp: Any, arrays: Mapping[str, Any], result: Any) -> Accuracy:
    """The errors of a plain product, against one in f64 of the factors as they are.

    Args:
        arrays: of numpy or cupy, the factors by their names.
        result: of the kernel's output, in its dimensions.
    """
    found = as_product(kernel)
    assert found
    a, b = (as_numbers(xp, arrays[name], kernel.tensor(name).dtype) for name in (found.a, found.b))
    a, b = a.transpose(found.a_axes), b.transpose(found.b_axes).astype("float64")
    result, size, total, largest = result.transpose(found.c_axes), 0, 0.0, 0.0
    for start in range(0, a.shape[-2], _ROWS):
        rows = a[..., start : start + _ROWS, :].astype("float64")
        off = as_numbers(xp, result[..., start : start + _ROWS, :], found.result) - xp.matmul(rows, b)
        terms = xp.matmul(abs(rows), abs(b))
        errors = abs(off) / xp.where(terms > 0, terms, 1) * 2.0**24
        size, total = size + errors.size, total + float((errors * errors).sum())
        largest = max(largest, float(errors.max()))
    return Accuracy((total / size) ** 0.5, largest)


def as_numbers(xp: Any, array: Any, dtype: str) -> Any:
    """An array of numpy or cupy in f32, or in f64 where that may have more digits."""
    if dtype == "bf16":
        return (array.view("uint16").astype("uint32") << 16).view("float32")
    if dtype in BYTE_FLOATS:
        return bytes_to_float32(array.view("uint8"), dtype, xp)
    return array.astype("float32" if dtype in ("f16", "f32") else "float64")
