"""Stock schedules and random accepted ones under Oclgrind: no race, no value without a beginning, no stray access.

A long run:  python -m tests.support.devices.oclgrind --cases 200 --seed 1 --jobs 4
Some:        python -m tests.support.devices.oclgrind --cases 0 --own gemm,softmax.warps

It is so many random schedules, every stock schedule with small tiles, and each with its own, in each of its versions. A
right answer on PoCL is no evidence against races; Oclgrind looks at each access of each thread.
"""

from __future__ import annotations

import argparse
import random
import sys
from multiprocessing.pool import ThreadPool
from time import monotonic

from tests.support.devices.on_simulator import Job, run_all
from tests.support.devices.own_tiles import SLOW, TOO_SLOW, own_jobs, work
from tests.support.generators.case import one_case
from tests.support.mutants.small import small
from tests.support.stock import cases, schedule_stock
from tilegen.ir.walk import loops
from tilegen.lowering import lower

SHOWN = 12  # lines of a report: the others tell of other threads
BARRIER = r"^ *barrier\(.*\n"


def stock_jobs():
    """The stock schedules that small tiles make small; the others run with their own tiles alone."""
    for name, schedule in cases():
        tree = small(name, schedule)
        sizes = _sizes(tree)
        steps = sum(work(lower(tree), each) for each in sizes)
        if steps < TOO_SLOW and tree != schedule_stock(name, schedule).tree:
            yield Job(f"{name}.{schedule}", tree, sizes, optimised=steps > SLOW)


def _sizes(tree):
    """One choice of odd sizes, one of even ones, which vectors take; of a convolution, which has many, small ones."""
    names = tree.kernel.sizes
    choices = ((5, 2), (8, 0)) if len(names) < 5 else ((3, 2), (4, 0))
    return tuple({name: size + step * (n % 2) for n, name in enumerate(names)} for size, step in choices)


def random_jobs(seed, wanted):
    """Random cases with threads, at their own sizes, until there are so many."""
    found, number = [], 0
    while len(found) < wanted:
        case = one_case(random.Random(f"{seed}/{number}").choice, number)
        number += 1
        if case.scheduled is None:  # the kernel is refused as written
            continue
        tree = case.scheduled.tree
        if any(loop.kind.startswith("thread") for loop in loops(tree.body)) and "over a limit" not in case.counts:
            found += [Job(f"random {seed}/{number - 1}", tree, (case.sizes,))]
    return found


def bad(outcomes):
    return [f"{o.label}: {o.refused or o.report or 'wrong result'}" for o in outcomes if o != type(o)(o.label)]


def control_jobs():
    """Kernels whose first barrier is gone: each has a race, which must be reported."""
    for job in stock_jobs():
        if job.label.startswith("gemm.") and job.label != "gemm.naive" or job.label.startswith("transpose.tiled"):
            yield Job(job.label, job.tree, job.sizes[1:], (BARRIER, "", 0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--own", default="", help="stock schedules, or files of them, that alone run, with own tiles")
    chosen = parser.parse_args()
    named = set(chosen.own.split(",")) - {""}
    failed = 0
    if not named:
        failed += count_reports("random schedules", random_jobs(chosen.seed, chosen.cases), chosen.jobs)
        failed += count_reports("stock schedules, small tiles", stock_jobs(), chosen.jobs)
    wanted = [(file, name) for file, name in cases() if not named or named & {file, f"{file}.{name}"}]
    own = [job for case in wanted for job in own_jobs(*case)]
    own.sort(key=lambda job: not job.optimised)  # the longest first
    failed += count_reports("stock schedules, own tiles", own, chosen.jobs)
    controls = run_all(control_jobs())
    told = sum("race" in o.report for o in controls)
    print(f"{len(controls)} with a barrier removed: {told} reported")
    return 1 if failed or told < len(controls) else 0


def count_reports(kind, jobs, processes):
    """How many jobs have a report; prints each, and the counts."""
    jobs, since, failed = list(jobs), monotonic(), 0
    with ThreadPool(processes) as pool:
        for number, outcomes in enumerate(pool.imap_unordered(run_all, [[job] for job in jobs]), 1):
            for line in bad(outcomes):
                failed += 1
                print("\n".join(line.splitlines()[:SHOWN]), flush=True)
            print(
                f"{number} of {len(jobs)}, {monotonic() - since:.0f} s: {outcomes[0].label}",
                file=sys.stderr,
                flush=True,
            )
    schedules = {job.label.partition(",")[0] for job in jobs}
    print(f"{kind}: {len(schedules)} in {len(jobs)} runs, {failed} reported, {monotonic() - since:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
