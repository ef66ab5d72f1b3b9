"""Random schedules of random kernels: whatever the judge accepts computes the kernel, exactly.

A long run: python tests/80_random/test_random_programs.py --cases 100000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))

from random_programs import random_kernel, random_sizes, random_step

from tilegen.errors import IllegalStep, Source, SourceError, StepError
from tilegen.frontend import build, parse
from tilegen.interpreter import reference, run
from tilegen.schedule import Scheduled, start


def arrays_for(kernel, sizes, number):
    rng = np.random.default_rng(number)
    shapes = {t.name: tuple(e.evaluate(sizes) for e in t.shape) for t in kernel.tensors if t.role == "input"}
    return {name: rng.integers(-3, 4, shape).astype(np.int32) for name, shape in shapes.items()}


def one_case(pick, number: int = 0) -> Counter[str]:
    """Builds a kernel, tries steps on it, and runs every tree that is accepted. Counts what happened."""
    counts: Counter[str] = Counter()
    drawn = random_kernel(pick)
    kernel = build(parse(Source("random.tg", drawn.text)).kernels["random"])
    scheduled: Scheduled = start(kernel)
    sizes = random_sizes(pick, drawn)
    arrays = arrays_for(kernel, sizes, number)
    expected = reference(kernel, sizes, arrays)["out"]
    steps: list[str] = []
    for n in range(pick([2, 4, 6, 9])):
        text = random_step(pick, scheduled.tree, n)
        module = parse(Source("step.tg", f"{drawn.text}\nschedule s for random():\n    {text}\n"))
        try:
            after = scheduled.then(module.schedules[0].steps)
        except (StepError, SourceError):
            counts["ill-formed"] += 1
            continue
        except IllegalStep:
            counts["refused"] += 1
            continue
        counts["accepted"] += 1
        steps += [text]
        scheduled = after
        result = run(scheduled.tree, sizes, arrays)["out"]
        wrong = expected.written & (result != expected.value)
        assert not wrong.any(), f"{drawn.text}\nsteps: {steps}\nsizes: {sizes}\nfirst wrong: {np.argwhere(wrong)[0]}"
    counts["cases"] += 1
    return counts


@seed(20261121)
@settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_accepted_schedules_compute_the_kernel(data):
    one_case(lambda options: data.draw(st.sampled_from(options)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    total: Counter[str] = Counter()
    for number in range(chosen.cases):
        rng = random.Random(f"{chosen.seed}/{number}")
        try:
            total += one_case(rng.choice, number)
        except Exception:
            print(f"case {number} of seed {chosen.seed}")
            raise
        if (number + 1) % 500 == 0:
            print(dict(total), flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
