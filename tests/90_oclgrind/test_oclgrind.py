"""Stock schedules and random accepted ones under Oclgrind: no race, no value without a beginning, no stray access.

A long run:  python tests/90_oclgrind/test_oclgrind.py --cases 200 --seed 1 --jobs 4

It is every stock schedule with its own tiles, at sizes up to 64, and so many random schedules. A right
answer on PoCL is no evidence against races; Oclgrind looks at each access of each thread.
"""

from __future__ import annotations

import argparse
import random
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "85_mutants"))

from on_simulator import Job, run_all
from random_case import one_case
from stock import cases, scheduled

from tilegen.backends import opencl
from tilegen.ir.walk import loops
from tilegen.lowering import lower

TEST_SEED, TEST_CASES = 90, 30
needs_oclgrind = pytest.mark.skipif(opencl.missing(opencl.SIMULATOR) is not None, reason="Oclgrind is not installed")
SHOWN = 12  # lines of a report: the others tell of other threads
BARRIER = r"^ *barrier\(.*\n"


def stock_jobs(small):
    """The stock schedules; with `small`, with tiles of a few elements, so that sizes can be small."""
    if small:
        from mutants import small as tree_of
    for name, schedule in cases():
        tree = tree_of(name, schedule) if small else scheduled(name, schedule).tree
        yield Job(f"{name}.{schedule}", tree, _sizes(tree, 5 if small else 33, 8 if small else 64))


def _sizes(tree, odd, even):
    """One choice of odd sizes, one of even ones, which vectors take; kernels of many sizes get smaller ones."""
    names = tree.kernel.sizes
    if len(names) > 4:
        odd, even = min(odd, 5), min(even, 8)
    steps = [{name: size + step * (n % 2) for n, name in enumerate(names)} for size, step in ((odd, 2), (even, 0))]
    return tuple(steps)


def random_jobs(seed, wanted):
    """Random cases with threads, at their own sizes, until there are so many."""
    found, number = [], 0
    while len(found) < wanted:
        case = one_case(random.Random(f"{seed}/{number}").choice, number)
        tree = case.scheduled.tree
        if any(loop.kind.startswith("thread") for loop in loops(tree.body)) and "over a limit" not in case.counts:
            found += [Job(f"random {seed}/{number}", tree, (case.sizes,))]
        number += 1
    return found


def bad(outcomes):
    return [f"{o.label}: {o.refused or o.report or 'wrong result'}" for o in outcomes if o != type(o)(o.label)]


@needs_oclgrind
def test_stock_schedules_are_clean():
    assert bad(run_all(stock_jobs(small=True))) == []


@needs_oclgrind
def test_random_schedules_are_clean():
    assert bad(run_all(random_jobs(TEST_SEED, TEST_CASES))) == []


def control_jobs():
    """Kernels whose first barrier is gone: each has a race, which must be reported."""
    for job in stock_jobs(small=True):
        if job.label.startswith("gemm.") and job.label != "gemm.naive" or job.label.startswith("transpose.tiled"):
            yield Job(job.label, job.tree, job.sizes[1:], (BARRIER, "", 0))


@needs_oclgrind
def test_a_missing_barrier_is_reported():
    """The control: every barrier matters to Oclgrind, too."""
    outcomes = run_all(control_jobs())
    assert len(outcomes) >= 6
    assert all("race" in o.report for o in outcomes), [o.label for o in outcomes if "race" not in o.report]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="the stock schedules with small tiles alone")
    chosen = parser.parse_args()
    jobs = [*random_jobs(chosen.seed, chosen.cases), *stock_jobs(small=True)]
    jobs += [] if chosen.small else stock_jobs(small=False)  # the longest at the end
    clean, failed = 0, 0
    with ThreadPool(chosen.jobs) as pool:
        for outcomes in pool.imap_unordered(run_all, [jobs[n : n + 4] for n in range(0, len(jobs), 4)]):
            for line in bad(outcomes):
                failed += 1
                print("\n".join(line.splitlines()[:SHOWN]), flush=True)
            clean += len(outcomes) - len(bad(outcomes))
            print(f"{clean + failed} of {len(jobs)}, up to {outcomes[-1].label}", file=sys.stderr, flush=True)
    controls = run_all(control_jobs())
    told = sum("race" in o.report for o in controls)
    barriers = sum(str(lower(job.tree)).count("Barrier(") > 0 for job in jobs)
    print(f"{len(jobs)} schedules under Oclgrind, {barriers} of them with barriers: {clean} clean, {failed} reported")
    print(f"{len(controls)} with a barrier removed: {told} reported")
    return 1 if failed or told < len(controls) else 0


if __name__ == "__main__":
    raise SystemExit(main())
