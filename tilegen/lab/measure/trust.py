"""When a time is known well enough, and why it is not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from tilegen.backends.system.nvml import POWER
from tilegen.lab.records.records import Conditions

KNOWN = 0.01  # a median is known when it lies within this share of its value
_CONFIDENCE = 0.95
_RARE = 0.02  # the share of readings up to which a reason for a lower clock is none


def median_error(samples: Sequence[float]) -> float | None:
    """How far off the median may be, as a share of it, at 95 % confidence; None by fewer than six samples.

    That is computed from the ranks of the samples alone, whatever their distribution: the median of all that might be
    sampled lies between the k-th of n from below and the k-th from above but for 2 * P(fewer than k of n coins show
    heads).
    """
    ordered, n = sorted(samples), len(samples)
    outside, k = 0.0, 0
    while (outside := outside + 2 * comb(n, k) / 2**n) <= 1 - _CONFIDENCE:
        k += 1
    if k == 0:
        return None
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return max(middle - ordered[k - 1], ordered[n - k] - middle) / middle


def is_known(samples: Sequence[float]) -> bool:
    """True if the median of the samples is known to within 1 %."""
    error = median_error(samples)
    return error is not None and error <= KNOWN


def doubts_of_samples(samples: Sequence[float]) -> tuple[str, ...]:
    """Why the median of these samples is not to be trusted; empty where nothing speaks against it."""
    if not samples or is_known(samples):
        return ()
    error = median_error(samples)
    counted = f"{len(samples)} samples"
    if error is None:
        return (f"{counted} are too few for a median that is known to within {KNOWN:.0%}",)
    return (f"the median is known to within {error:.1%} only, by {counted}",)


def doubts_of_conditions(conditions: Conditions | None, steady: float) -> tuple[str, ...]:
    """Why no time taken under these conditions is to be trusted.

    Args:
        steady: seconds of a sample; at the power limit short samples depend on what ran before, long ones do not.
    """
    if conditions is None:
        return ()
    found = [
        f"the GPU was throttled ({reason}) at {share:.0%} of {conditions.readings} readings"
        for reason, share in conditions.throttled.items()
        if share > _RARE and reason != POWER
    ]
    at_limit = conditions.throttled.get(POWER, 0.0)
    if at_limit > _RARE and not steady:
        found += [
            f"the GPU was at its power limit at {at_limit:.0%} of {conditions.readings} readings, where a time depends "
            f"on what ran before: --steady 0.35 times each alone"
        ]
    if conditions.others:
        count = "another process" if conditions.others == 1 else f"{conditions.others} other processes"
        found += [f"{count} had a context on the GPU"]
    return tuple(found)
