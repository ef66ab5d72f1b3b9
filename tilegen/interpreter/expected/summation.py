"""Bounds for sums that an instruction adds up, from the way that it declares.

In one addition, n terms and the accumulator s are cut off, towards 0, at 2^(E - F), where E is the largest exponent
among them and F the declared fraction bits. The sum of what is left is exact, and is brought into the type of the
accumulator, or to the fraction bits that are kept of it: with the unit roundoff v if it is rounded, 2 v if it is
truncated. The models are those of Fasi et al.,
Numerical Behavior of NVIDIA Tensor Cores (PeerJ Computer Science 7:e330), Xie et al., MMA-Sim (arXiv 2511.10909), and
Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores (arXiv 2512.07004).

Cutting off never enlarges a number. So with T the sum of the magnitudes of all terms, |s| <= T and 2^E <= T, and one
addition is off by less than

    (n + 1) 2^-F T + v T,

and a sum of K terms in B additions by less than x T with x = (K + B) 2^-F + B v; where rounding may enlarge s, by
x / (1 - x) T, as gamma_n in Higham's book. Zeros that fill up an addition lose nothing. This is the bound of Blanchard
et al., Mixed Precision Block Fused Multiply-Add (SIAM Journal on Scientific Computing 42, C124), with the loss of the
alignment in place of roundings between the terms.

The exponent of a number is that of its type: a subnormal number has that of the least normal one, so each factor
counts in T as no less than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilegen.interpreter.dtypes import Array
from tilegen.interpreter.expected.rounding import gamma, least_normal, unit
from tilegen.ir.comparison.tolerance import PerformedSum
from tilegen.ir.hardware.instructions import Instruction, Summation
from tilegen.ir.nodes import Equation, Expr, Op


@dataclass(frozen=True)
class SumBound:
    """How far a sum by instructions may be off: `share` of its terms' magnitudes, no factor less than `least`."""

    share: float
    least: float

    def magnitude(self, value: Array, error: Array) -> Array:
        """What an uncertain factor counts."""
        result: Array = np.maximum(np.abs(value) + error, self.least)
        return result


def sum_bound(
    nests: Sequence[PerformedSum], equation: Equation, count: int, sizes: Mapping[str, int]
) -> SumBound | None:
    """The bound of a sum of `count` terms on every architecture that the instructions speak of; None without any.

    What is added beside the instructions adds its own gamma_n.
    """
    own, dtype = [nest for nest in nests if nest.target == equation.target], equation.value.dtype
    if not own:
        return None
    lost = sum(_worst_loss(nest, count, sizes, dtype) for nest in own) + count * 2.0**-53
    share = lost / (1 - lost) if lost < 1 else float("inf")
    plain = 0.0 if all(nest.alone for nest in own) else float(gamma(count, dtype))
    return SumBound(share + plain + share * plain, max(_least_factor(nest.instruction) for nest in own))


def _worst_loss(nest: PerformedSum, count: int, sizes: Mapping[str, int], dtype: str) -> float:
    terms = nest.terms * prod(extent.evaluate(sizes) for extent in nest.runs)
    # A part of the sum has terms of its own, and the parts' magnitudes add up to that of the sum.
    return max(_loss(each, min(count, terms), terms // each.terms, dtype) for each in nest.instruction.summations)


def _loss(summation: Summation, count: int, additions: int, dtype: str) -> float:
    """What `count` terms in `additions` additions lose, to first order."""
    cut = 0.0 if summation.bits is None else 2.0**-summation.bits
    rounding = unit(dtype) if summation.kept is None else 2.0 ** (-summation.kept - 1)
    return (count + additions) * cut + additions * rounding * (2 if summation.truncated else 1)


def _least_factor(instruction: Instruction) -> float:
    return max(least_normal(t.dtype) for t in instruction.meaning.tensors if t.role == "input")


def factors_of(value: Expr) -> tuple[Expr, ...]:
    """What is multiplied to a term of a sum."""
    return value.args if isinstance(value, Op) and value.name == "*" else (value,)
