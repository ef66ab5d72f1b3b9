"""The kernels of examples/operators: each suggestion is a text that was read, is proved, and computes the kernel."""

from functools import cache
from pathlib import Path

import pytest

from tilegen import api
from tilegen.backends.devices.devices import engine, program
from tilegen.lab.checks.check import cases, check
from tilegen.lab.checks.sizes import GPU_LIMITS, INTERPRETER_LIMITS, power_sizes, sizes_to_check
from tilegen.lab.predict.machine import stock_machine
from tilegen.suggest import suggest

FOLDER = Path(__file__).parents[2] / "examples" / "operators"
FILES = {path.stem: api.load(path) for path in sorted(FOLDER.glob("*.tg"))}
KERNELS = [(stem, name) for stem, file in FILES.items() for name in file.kernels]
# One kernel for each way of each rule; the others are for -m long.
COVER = {
    "relu",
    "depthwise",
    "softmax",
    "rms_norm",
    "argmax_dim",
    "cross_entropy",
    "average_pool1d",
    "matmul",
    "upper",
    "cumsum",
    "masked_select",
    "nonzero",
    "nonzero_in_rows",
}
QUICK = {"activations", "lists", "reductions"}
COVERED = [pytest.param(*each, marks=[] if each[1] in COVER else [pytest.mark.long]) for each in KERNELS]


@cache
def suggestion(stem: str, name: str) -> str:
    kernel = FILES[stem].kernel(name).ir
    return suggest(kernel, power_sizes(kernel, {}, GPU_LIMITS), stock_machine("h100"))


@pytest.mark.parametrize("stem", [pytest.param(s, marks=[pytest.mark.long] * (s not in QUICK)) for s in FILES])
def test_suggestions_are_read(stem, golden):
    golden("\n".join(suggestion(stem, name) for name in FILES[stem].kernels), f"suggest/{stem}.tg")


@pytest.mark.pocl
@pytest.mark.parametrize(("stem", "name"), COVERED)
def test_suggestions_compute_the_kernel(stem, name):
    text = f"{FILES[stem].kernel_alone(name)}\n{suggestion(stem, name)}"
    scheduled = api.from_text(text, cache=False).kernel(name).schedule("suggested")
    assert scheduled.prove().verdict == "proved"
    tried = cases(scheduled.kernel, sizes_to_check([scheduled.tree], {}, INTERPRETER_LIMITS))
    check(program(scheduled.tree, engine("cpu")), tried)
