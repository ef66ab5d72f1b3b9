"""The judge against enumeration, on random kernels and random steps that no judge has filtered."""

from __future__ import annotations

import os
import random
import re

import pytest

from tests.support.enumeration.runs import verdict
from tests.support.generators.programs import random_kernel
from tests.support.generators.steps import random_step
from tilegen.errors import Source, TilegenError
from tilegen.frontend import build, parse
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.primitives.calling.call import bind

CASES = int(os.environ.get("TILEGEN_CASES", "60"))
# Refusals about memory and vectors have no counterpart in a sequential run.
UNSEEN = ("structure", "vector", "form")


def _trees(seed):
    """A kernel's tree, then trees after random steps, built but never judged."""
    chance = random.Random(seed)
    kernel = random_kernel(chance.choice)
    module = parse(Source("random.tg", kernel.text))
    tree = tree_of(build(next(iter(module.kernels.values()))))
    yield kernel.sizes, tree, "as written"
    steps = []
    for number in range(chance.choice([2, 4, 6])):
        text = random_step(chance.choice, tree, number)
        schedule = f"schedule s for random():\n    {text}\n"
        try:
            call = parse(Source("step.tg", schedule)).schedules[0].steps[0]
            tree = bind(call).apply(tree)
        except TilegenError:
            continue
        steps += [text]
        yield kernel.sizes, tree, kernel.text + "\n".join(steps)


def _opinion(tree, names, tries):
    for values in tries:
        sizes = {n: values[k % len(values)] for k, n in enumerate(names)}
        wrong = verdict(tree, sizes)
        if wrong:
            return wrong, sizes
    return None, {}


@pytest.mark.parametrize("seed", range(CASES))
def test_judge_and_enumeration_agree(seed):
    for names, tree, text in _trees(seed):
        violation = judge(tree)
        tries = [(1, 2), (3, 2), (5, 3), (4, 5)]
        if violation is None:
            assert _opinion(tree, names, tries) == (None, {}), text
            continue
        if violation.code in UNSEEN:
            return
        assert violation.code != "unproved", text
        assert violation.witness is not None, (violation, text)
        shown = dict(re.findall(r"(\w+)=(\d+)", violation.witness.rpartition("(")[2]))
        assert set(names) <= set(shown), (violation, text)
        at = tuple(int(shown[n]) for n in names)
        assert _opinion(tree, names, [at]) != (None, {}), f"{violation}\n{text}"
        return
