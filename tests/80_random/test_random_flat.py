"""Random schedules of kernels with dimensions seen as one: judged, proved, simulated, and run beside the kernel."""

import random

import pytest

from tests.support.cover import first
from tests.support.generators.case import one_case
from tests.support.generators.flat import flat_text


@pytest.mark.parametrize("seed", first(range(100), 4, long=30))
def test_what_is_accepted_is_right(seed):
    draw = random.Random(seed)
    one_case(lambda options: draw.choice([*options]), seed, text=flat_text)
