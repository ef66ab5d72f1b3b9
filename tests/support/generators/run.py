"""Random schedules of random kernels: whatever the judge accepts computes the kernel, exactly.

A long run:  python -m tests.support.generators.run --cases 100000 --seed 1 --jobs 8 --pocl-share 5
One case:    python -m tests.support.generators.run --seed 1 --case 4711
Products:    python -m tests.support.generators.run --family tensors --cases 1000 --seed 1
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import traceback
from collections import Counter
from functools import partial

from tests.support.generators.case import one_case
from tests.support.generators.lane_reductions import reduction_case
from tests.support.generators.recurrences import recurrence_kernel
from tests.support.generators.suggestions import suggestion_case
from tests.support.generators.tensors import tensor_case
from tests.support.workers import run_jobs, within
from tilegen.backends.devices.opencl import unavailable_reason

CASE_SECONDS, JOB_SECONDS = 60, 600  # a case has an alarm; what does not even hear that is killed


FAMILIES = {"any": one_case, "tensors": tensor_case, "reductions": reduction_case, "suggestions": suggestion_case}
FAMILIES["recurrences"] = partial(one_case, text=recurrence_kernel)


def chunk_of(job):
    """(counts, failures, needless refusals, steps) of the cases `numbers` of one seed; PoCL runs `share` of them."""
    chosen, numbers, share, family = job
    gc.set_threshold(50_000, 20, 20)  # a case makes many small values and no circles of them
    counts, failures, careful, words = Counter(), [], [], Counter()
    for number in numbers:
        rng = random.Random(f"{chosen}/{number}")
        try:
            with within(CASE_SECONDS):
                case = FAMILIES[family](rng.choice, number, engine=_pocl() if rng.random() < share else None)
            counts += case.counts
            words += case.words
            careful += [f"case {number} of seed {chosen}\n{text}" for text in case.careful]
        except Exception:  # whatever it is, it is a bug, and the other cases go on
            failures += [f"case {number} of seed {chosen}\n{traceback.format_exc()}"]
    return counts, failures, careful, words


def one_by_one(job):
    """The cases of a job as jobs of their own, to find the one that ends its process."""
    chosen, numbers, share, family = job
    return [(chosen, [number], share, family) for number in numbers] if len(numbers) > 1 else []


def table(words):
    """Markdown: how often each step was accepted, refused, or could not be."""
    lines = ["| step | accepted | refused | ill-formed |", "|---|---|---|---|"]
    for word in sorted({word for word, _ in words}):
        found = (words[word, what] for what in ("accepted", "refused", "ill-formed"))
        lines += [f"| {word} | {' | '.join(map(str, found))} |"]
    return "\n".join(lines)


def _pocl():
    from tilegen.backends.devices.devices import engine

    return engine("cpu")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="begin with this one: those before it have run")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--case", type=int, help="this one alone, on PoCL too")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pocl-share", type=float, default=5, help="percent of the cases that PoCL runs")
    parser.add_argument("--family", choices=FAMILIES, default="any", help="tensors: products by tensor cores")
    parser.add_argument("--show", action="store_true", help="print the refusals that enumeration finds needless, too")
    chosen = parser.parse_args()
    reason = unavailable_reason() if chosen.pocl_share else None
    if reason:
        print(f"no case runs on PoCL: {reason}")
    share = 0.0 if reason else chosen.pocl_share / 100
    if chosen.case is not None:
        jobs = [(chosen.seed, [chosen.case], float(share > 0), chosen.family)]
    else:
        starts = range(chosen.first, chosen.cases, 50)
        jobs = [(chosen.seed, range(a, min(a + 50, chosen.cases)), share, chosen.family) for a in starts]
    total, words, failed, begun = Counter(), Counter(), 0, time.time()
    runs = run_jobs(chunk_of, jobs, chosen.jobs, seconds=JOB_SECONDS, split=one_by_one)
    for n, (job, result, trouble) in enumerate(runs):
        lost = [f"case {job[1][0]} of seed {job[0]}\n{trouble}"]
        counts, failures, careful, drawn = result or (Counter(), lost, [], Counter())
        total += counts
        words += drawn
        failed += len(failures)
        for text in (*failures, *(careful if chosen.show else ())):
            print(text, flush=True)
        if n % 20 == 19:
            print(dict(sorted(total.items())), f"failed: {failed}", flush=True)
    print(table(words))
    print(", ".join(f"{what} {count}" for what, count in sorted(total.items())) + f", failed {failed}")
    cases = sum(len(numbers) for _, numbers, _, _ in jobs)
    print(f"{cases / (time.time() - begun) / chosen.jobs:.1f} cases a second and process")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
