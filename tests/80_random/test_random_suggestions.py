"""Suggestions for random kernels: found in time, accepted, proved, and right; `-m long` takes more of them."""

import random

import pytest

from tests.support.generators.suggestions import suggestion_case


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(6, 120, 6))])
def test_suggestions_compute_random_kernels(first):
    for number in range(first, first + 6):
        suggestion_case(random.Random(f"suggestions/{number}").choice, number)
