"""Floating-point numbers of one byte: e4m3 and e5m2 as OCP's 8-bit floating point specification has them.

The sign is the highest bit. e4m3 has no infinities, and one NaN of each sign; e5m2 has both, as f16 does. What is
brought into them is rounded to nearest, ties to even, and what is too large, infinities too, becomes the largest number
of its sign: `cvt.rn.satfinite` of PTX. NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

NAN = 0x7F  # the bits of a NaN in both


@dataclass(frozen=True)
class ByteFormat:
    """`fraction` bits after the leading one; the exponent of the least normal number, and the largest number."""

    fraction: int
    least: int
    largest: float


BYTE_FORMATS: Mapping[str, ByteFormat] = {"e4m3": ByteFormat(3, -6, 448.0), "e5m2": ByteFormat(2, -14, 57344.0)}


def to_byte_float(x: float, dtype: str) -> float:
    """The number of the type next to `x`, a float or an integer of 64 bits."""
    if x == 0 or x != x:
        return x
    kind = BYTE_FORMATS[dtype]
    size = min(abs(x), kind.largest)
    unit = math.ldexp(1.0, max(math.frexp(size)[1] - 1, kind.least) - kind.fraction)
    return math.copysign(round(size / unit) * unit, x)


def float_to_bytes(values: Array, dtype: str, xp: Any = np) -> Array:
    """The bits (uint8) of the numbers of the type next to `values`, in an array of `xp`, numpy or cupy.

    `values` are floats, or integers, none of which is near to 2^53 without being too large for the type anyway. The
    conversions of ml_dtypes are by way of f32, and make infinities or NaN of what is too large.
    """
    kind, exact = BYTE_FORMATS[dtype], values.astype(np.float64)
    size = xp.minimum(abs(exact), kind.largest)
    exponent = xp.where(size > 0, xp.maximum(xp.frexp(size)[1] - 1, kind.least), kind.least)
    units = xp.rint(xp.where(xp.isnan(size), 0.0, size) * xp.exp2(kind.fraction - exponent.astype(np.float64)))
    # The leading one counts as one more of the exponent; where rounding makes it a two, as two more.
    bits = units.astype(np.int64) + ((exponent - kind.least) << kind.fraction)
    bits = xp.where(xp.isnan(exact), NAN, bits) + 128 * xp.signbit(exact)
    result: Array = bits.astype(np.uint8)
    return result


def bytes_to_float32(bits: Array, dtype: str, xp: Any = np) -> Array:
    """The values of numbers of the type given by their bits (uint8), in an array of `xp`, numpy or cupy."""
    values: Array = xp.asarray(_VALUES[dtype])[bits]
    return values


# The value of each byte.
_VALUES: Mapping[str, Array] = {
    "e4m3": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32),
    "e5m2": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float32),
}
