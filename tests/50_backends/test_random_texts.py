"""Random schedules of random kernels, lowered, printed and run: the text computes the kernel, exactly."""

from __future__ import annotations

import random

import pytest

from tests.support.generators.texts import one_case


@pytest.mark.pocl
@pytest.mark.parametrize("number", range(12))
def test_random_texts_compute_the_kernel(number):
    from tilegen.backends.devices.opencl import OpenclEngine

    one_case(random.Random(f"text/{number}").choice, number, OpenclEngine())
