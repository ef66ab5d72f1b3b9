"""Suggestions for random kernels: found in time, accepted, proved, and right; `-m long` takes more of them."""

import random

import pytest

from tests.support.cover import first
from tests.support.generators.suggestions import suggested_family, suggestion_case
from tilegen.backends.devices.devices import engine


@pytest.mark.parametrize("first", first(range(0, 120, 6), long=6))
def test_suggestions_compute_random_kernels(first):
    for number in range(first, first + 6):
        suggestion_case(random.Random(f"suggestions/{number}").choice, number)


@pytest.mark.pocl
@pytest.mark.parametrize("numbers", [range(11, 15), pytest.param(range(15, 40), marks=pytest.mark.nightly)])
def test_families_compute_random_kernels(numbers):
    found = [suggested_family(random.Random(f"families/{number}").choice, engine("cpu")) for number in numbers]
    assert any(found)
