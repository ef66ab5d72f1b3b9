"""What an `accumulates` line says, bit for bit in exact arithmetic, and data that loses the most by it."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from tilegen.ir.hardware.instructions import Instruction, Summation, arch_number

# Bits of a significand with the one before the point, and the exponent of the least normal number.
SIGNIFICAND = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "tf32": 11, "e4m3": 4, "e5m2": 3}
LEAST = {"f64": -1022, "f32": -126, "f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}
# Two significands of a type of one byte, whose product is next below 2.
BELOW_TWO = {"e4m3": (1.125, 1.75), "e5m2": (1.25, 1.5)}


def summation_on(instruction: Instruction, arch: str) -> Summation | None:
    """How it adds up on an architecture; None where it adds nothing, or exactly."""
    known = [each for each in instruction.summations if arch_number(arch) >= arch_number(each.arch)]
    return known[-1] if known else None


def exponent(x: Fraction, dtype: str) -> int:
    """That of a number in its type; zero has the least of f32, whatever its type."""
    if not x:
        return LEAST["f32"]
    return max(magnitude(x), LEAST[dtype])


def magnitude(x: Fraction) -> int:
    """The exponent e with 2^e <= |x| < 2^(e + 1)."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def brought_into(x: Fraction, dtype: str, truncated: bool, kept: int | None = None) -> Fraction:
    """The number of the type, or of so many fraction bits, next to x towards 0, or nearest to it with ties to even."""
    if not x:
        return x
    fraction = SIGNIFICAND[dtype] - 1 if kept is None else kept
    unit = Fraction(2) ** (max(magnitude(x), LEAST[dtype]) - fraction)
    return (int(x / unit) if truncated else round(x / unit)) * unit


def add_up(
    summation: Summation, start: float, left: Sequence[float], right: Sequence[float], factor: str, result: str
) -> float:
    """The sum of `start` and the products of `left` and `right`, which are numbers of the type `factor`."""
    total = Fraction(start)
    for at in range(0, len(left), summation.terms):
        pairs = [
            (Fraction(float(x)), Fraction(float(y)))
            for x, y in zip(left[at : at + summation.terms], right[at : at + summation.terms], strict=True)
        ]
        terms = [total, *(x * y for x, y in pairs)]
        if summation.bits is not None:
            exponents = [exponent(total, result), *(exponent(x, factor) + exponent(y, factor) for x, y in pairs)]
            unit = Fraction(2) ** (max(exponents) - summation.bits)
            terms = [int(term / unit) * unit for term in terms]
        total = brought_into(sum(terms, Fraction()), result, summation.truncated, summation.kept)
    return float(total)


def factor_type(instruction: Instruction) -> str:
    """The type whose exponents and significands the factors have."""
    return instruction.format_of(instruction.operands[0].operand.name)


def worst_factors(summation: Summation, factor: str, result: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors of `count` terms: a product of 1, and others that the declared addition loses all of.

    Truncated: each product is just below 2^-F, and is cut off; one is cut off to as much as the truncation of the sum
    takes away again. Rounded: the others of an addition are half a unit in the last place together. Of types of one
    byte, which have no factors so small, the first product is 2^13.
    """
    assert count % summation.terms == 0
    if not summation.truncated:
        left = np.full(count, 2.0 ** -(SIGNIFICAND[result] // 2))
        right = np.full(count, 2.0 ** -(SIGNIFICAND[result] - SIGNIFICAND[result] // 2) / summation.terms)
    elif factor in BELOW_TWO:
        assert summation.bits is not None
        one, other = BELOW_TWO[factor]
        exponent_of_both = 13 - summation.bits - 1
        right = np.full(count, other * 2.0 ** (exponent_of_both // 2))
        left = np.full(count, one * 2.0 ** (exponent_of_both - exponent_of_both // 2))
        assert summation.kept == summation.bits  # nothing is left for the second truncation
        left[0], right[0] = 2.0**6, 2.0**7
        return left, right
    else:
        assert summation.bits is not None
        largest = 2 - 2.0 ** (1 - SIGNIFICAND[factor])
        half = (summation.bits + 2) // 2
        left = np.full(count, largest * 2.0**-half)
        right = np.full(count, largest * 2.0 ** (half - summation.bits - 2))
        right[summation.terms - 1 :: summation.terms] *= 2.0 ** (summation.bits - SIGNIFICAND[result] + 1)
    left[0] = right[0] = 1.0
    return left, right


def scattered(random: np.random.Generator, shape: Iterable[int], dtype: str) -> np.ndarray:
    """Numbers of many exponents and both signs that the type has; some are zero, of f16 some subnormal."""
    numbers = random.standard_normal(tuple(shape)) * 2.0 ** random.integers(-9, 7, tuple(shape))
    if dtype == "f16":
        numbers *= np.where(random.random(numbers.shape) < 0.1, 2.0**-14, 1.0)
    numbers *= random.random(numbers.shape) < 0.95
    return rounded(numbers, dtype)


def rounded(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers that the type has."""
    exponents = np.maximum(np.frexp(numbers)[1] - 1, LEAST[dtype])
    unit = 2.0 ** (exponents - SIGNIFICAND[dtype] + 1)
    return np.rint(numbers / unit) * unit
