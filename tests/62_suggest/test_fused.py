"""Fused operators, as models have them: a rule takes each part, and the suggestion is proved and right."""

from pathlib import Path

import pytest

from tilegen import api
from tilegen.backends.devices.devices import engine, program
from tilegen.lab.checks.check import cases, check
from tilegen.lab.checks.sizes import GPU_LIMITS, INTERPRETER_LIMITS, power_sizes, sizes_to_check
from tilegen.lab.predict.machine import stock_machine
from tilegen.suggest import suggest

FILE = api.load(Path(__file__).with_name("fused.tg"))
COVER = {"smooth_entropy", "conv1d_glu", "rms_rotary"}


LISTED = [pytest.param(name, marks=[pytest.mark.nightly] * (name not in COVER)) for name in FILE.kernels]


@pytest.mark.pocl
@pytest.mark.parametrize("name", LISTED)
def test_suggestions_compute_fused_operators(name):
    kernel = FILE.kernel(name).ir
    text = suggest(kernel, power_sizes(kernel, {}, GPU_LIMITS), stock_machine("h100"))
    assert "No rule" not in text
    scheduled = api.from_text(f"{FILE.kernel_alone(name)}\n{text}", cache=False).kernel(name).schedule("suggested")
    assert scheduled.prove().verdict == "proved"
    tried = cases(scheduled.kernel, sizes_to_check([scheduled.tree], {}, INTERPRETER_LIMITS))
    check(program(scheduled.tree, engine("cpu")), tried)
