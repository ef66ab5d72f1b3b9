"""Faults put into the stock schedules, and the net that catches each first. Prints a table fault x net.

All:       python -m tests.support.mutants.mutants --jobs 16
Some:      python -m tests.support.mutants.mutants --each 2 --only gemm,softmax.warps   two of each kind, at most
By text:   python -m tests.support.mutants.mutants --levels text          the printed text, read back
Running:   python -m tests.support.mutants.mutants --levels ran           the text again, by what compiles and runs it
Which:     python -m tests.support.mutants.mutants --show                 says what got through, or counted as no fault
In pieces: python -m tests.support.mutants.mutants --log F --seconds 500  again and again, until nothing is left to do

A log has a line for each kind of fault in each schedule, with what came of its mutants. What is in it is not done
again, so that a run goes on where one was cut off; several are summed by `cat a b > c` and `--log c --sum`.

A mutant is equivalent, and not counted, if it is proven to be the kernel all the same, and besides, at
every size around the tiles, the simulation of the lowered program thread by thread on symbolic values finds each
output made of the same terms, with no two threads colliding, and the enumeration of the tree finds the
same instances. Such are: an order of independent statements; a test that others imply; a barrier moved past
what touches no memory that it guards; a larger pad without vectors.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic

from tests.support.mutants import launch_faults, text_faults, tree_faults
from tests.support.mutants.nets import (
    AFTER,
    BEFORE,
    EQUIVALENT,
    Base,
    boundary_sizes,
    caught_launches,
    caught_tree,
    is_admitted,
    rotate_sizes,
)
from tests.support.mutants.small import FEW, small
from tests.support.stock import cases
from tests.support.workers import run_jobs as in_processes
from tilegen.lowering import lower

LEVELS = ("tree", "lowered", "text")
TASK_SECONDS = 3600  # what takes longer is killed, and left undone
LONG = ("matching_dot", "conv", "gemm", "total", "layer_norm")


@cache
def base(position):
    """Stock schedule number `position` with small tiles."""
    name, schedule = cases()[position]
    tree = small(name, schedule)
    few = FEW.get(f"{name}.{schedule}", FEW.get(name))
    sizes = rotate_sizes(tree, few) if few else boundary_sizes(tree)
    assert any(is_admitted(lower(tree), at) for at in sizes), f"no size for the vectors of {name}.{schedule}"
    return Base(f"{name}.{schedule}", tree, sizes)


def mutants(base, level, fault, each):
    """[(number, mutant)] of a kind of fault; at most `each`, spread over its places."""
    if level == "tree":
        return _sample([t for t in tree_faults.FAULTS[fault](base.tree) if t != base.tree], each)
    launches = lower(base.tree)
    faulty = [(n, m) for n, launch in enumerate(launches) for m in launch_faults.FAULTS[fault](launch)]
    made = [(*launches[:n], m, *launches[n + 1 :]) for n, m in faulty]
    return _sample([m for m in made if m != launches], each)


def _sample(made, each):
    step = max(1, -(-len(made) // each))
    return [(number, made[number]) for number in range(0, len(made), step)]


@dataclass(frozen=True)
class Task:
    """A kind of fault in a stock schedule, at most `each` of its mutants; on texts all kinds are one task."""

    position: int
    level: str
    fault: str
    each: int

    @property
    def key(self):
        return ".".join(cases()[self.position]), self.level, self.fault, self.each


def tasks(positions, levels, each):
    """The longest first."""
    kinds = {"tree": tree_faults.FAULTS, "lowered": launch_faults.FAULTS}
    found = [Task(n, level, fault, each) for n in positions for level in levels for fault in kinds.get(level, ("all",))]
    return sorted(found, key=lambda t: not ".".join(cases()[t.position]).startswith(LONG))


def run_task(task):
    """(task, [(base, level, fault, number, net)], seconds)."""
    since, right = monotonic(), base(task.position)
    match task.level:
        case "text":
            found = text_faults.results(right, task.each)
        case "ran":
            found = text_faults.ran(right)
        case _:
            caught = caught_tree if task.level == "tree" else caught_launches
            made = mutants(right, task.level, task.fault, task.each)
            found = [(task.fault, number, caught(right, mutant)) for number, mutant in made]
    return task, [(right.name, task.level, *one) for one in found], monotonic() - since


def of_base(position, each, levels=LEVELS):
    """[(base, level, fault, number, net)] of one base."""
    return [one for task in tasks([position], levels, each) for one in run_task(task)[1]]


def table(results):
    """Markdown: a row for each fault, a column for each net that caught one."""
    counts = Counter((fault, net) for _, _, fault, _, net in results if net != EQUIVALENT)
    nets = [net for net in (*BEFORE, *AFTER, None) if any(n == net for _, n in counts)]
    lines = [f"| fault | mutants | {' | '.join(net or 'nothing' for net in nets)} |"]
    lines += ["|---" * (len(nets) + 2) + "|"]
    for fault in dict.fromkeys(f for _, _, f, _, _ in results):
        row = [counts[fault, net] for net in nets]
        lines += [f"| {fault} | {sum(row)} | {' | '.join(str(c or '') for c in row)} |"]
    every = [sum(counts[f, net] for f, n in counts if n == net) for net in nets]
    lines += [f"| all | {sum(every)} | {' | '.join(map(str, every))} |"]
    return "\n".join(lines)


def figures(results):
    """(mutants, caught, caught before anything runs, equivalent ones)."""
    nets = [net for *_, net in results]
    real = [net for net in nets if net != EQUIVALENT]
    return len(real), sum(n is not None for n in real), sum(n in BEFORE for n in real), len(nets) - len(real)


def read_log(log):
    """{key of a task: its results} of a log; a line that was cut off is none."""
    found = {}
    for line in log.read_text().splitlines() if log and log.exists() else ():
        with suppress(json.JSONDecodeError):
            key, results = json.loads(line)
            found[tuple(key)] = [tuple(r) for r in results]
    return found


def run(todo, known, chosen):
    """Does the tasks and adds their results to `known` and to the log; says when a schedule is through."""
    left, took = Counter(task.position for task in todo), Counter()
    end = monotonic() + chosen.seconds
    with open(chosen.log or os.devnull, "a") as log:
        for task, result, trouble in in_processes(run_task, todo, chosen.jobs, seconds=TASK_SECONDS, end=end):
            if trouble:
                print(f"{'.'.join(map(str, task.key))}: {trouble}", flush=True)
                continue
            _, found, seconds = result
            known[task.key] = found
            log.write(json.dumps([task.key, found]) + "\n")
            log.flush()
            left[task.position] -= 1
            took[task.position] += seconds
            if not left[task.position]:
                name = task.key[0]
                of = [r for key, results in known.items() for r in results if key[0] == name]
                print(f"{name}: {summarise(of)}, {took[task.position]:.0f} s", flush=True)


def summarise(results):
    total, caught, before, equivalent = figures(results)
    return f"{total} mutants, {caught} caught, {before} of them before anything runs; {equivalent} more are equivalent"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=3, help="mutants of one kind in one schedule, at most")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--only", default="", help="schedules, or files of them")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--log", type=Path, help="where results are kept; what is there is not done again")
    parser.add_argument("--seconds", type=float, default=1e6, help="what is not done by then is left")
    parser.add_argument("--sum", action="store_true", help="only tell what the log has")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    named = set(chosen.only.split(",")) - {""}
    positions = [n for n, case in enumerate(cases()) if not named or named & {case[0], ".".join(case)}]
    known = read_log(chosen.log)
    wanted = tasks(positions, chosen.levels.split(","), chosen.each)
    if not chosen.sum:
        run([task for task in wanted if task.key not in known], known, chosen)
    results = [one for task in wanted for one in known.get(task.key, ())]
    print(table(results))
    for result in results:
        if result[-1] is None or chosen.show and result[-1] not in BEFORE:
            print(*result)
    total, caught, before, _ = figures(results)
    whole = {task.position for task in wanted} - {task.position for task in wanted if task.key not in known}
    print(f"{len(whole)} of {len(positions)} schedules: {summarise(results)}; {before / max(1, total):.2%} before")
    return 0 if caught == total and len(whole) == len(positions) else 1


if __name__ == "__main__":
    raise SystemExit(main())
