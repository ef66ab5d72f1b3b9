"""The judge's verdicts against enumeration, counted: false "legal" must not be, false "illegal" are printed.

    python -m tests.support.enumeration.opinions --cases 50000 --seed 1 --jobs 8

Random kernels count as written, against the meaning of their texts. Trees come from them: after each step of a recipe,
after steps that are built and not filtered, and with a fault put in (mutants/tree_faults.py), so that all
kinds of judgement are asked for. An illegal verdict counts as false if enumeration finds nothing wrong at the
witness's sizes and at eight others.
"""

from __future__ import annotations

import argparse
import random
import time
import traceback
from collections import Counter

from tests.support.enumeration.runs import verdict
from tests.support.enumeration.structure import structure
from tests.support.generators.atomics import atomics_recipe
from tests.support.generators.case import other_sizes, witness_sizes
from tests.support.generators.meaning import build_kernel, check_refusal, error_at, small_sizes
from tests.support.generators.programs import any_text, holds, points
from tests.support.generators.steps import gpu_recipe, lanes_recipe, random_step, warp_recipe
from tests.support.mutants import tree_faults
from tests.support.workers import run_jobs, within
from tests.support.written import stepped
from tilegen.errors import TilegenError
from tilegen.ir.verify import verify
from tilegen.ir.written import tree_of
from tilegen.judge import judge

LEGAL, ILLEGAL = "legal", "illegal"
CASE_SECONDS, JOB_SECONDS = 120, 900


def opinion_of_kernel(text, kernel, refusal):
    """As `opinion`, of a kernel as written: by the check of its equations, and by the meaning of its text."""
    if refusal is not None and refusal.witness is None:
        return None
    if refusal is not None:
        kind, sizes = check_refusal(text, refusal)
        return ILLEGAL, ILLEGAL if kind else LEGAL, f"{refusal.render()}\nat {sizes}"
    sizes = [s for s in small_sizes(text) if points(kernel, s) < 300]
    wrong = next((f"{error} at {s}" for s in sizes if (error := error_at(text, s))), None)
    return LEGAL, ILLEGAL if wrong else LEGAL, wrong


def trees(pick, text, kernel):
    """(text, tree): a kernel, then what steps and faults make of it."""
    tree = tree_of(kernel)
    chosen = pick([gpu_recipe] * 4 + [warp_recipe] * 2 + [lanes_recipe, atomics_recipe])
    recipe = chosen(pick, tree, [pick([4, 8]), 8] if chosen is warp_recipe else [pick([2, 3, 4]), pick([2, 4])])
    step, steps = next(recipe), []
    for number in range(30):
        for wanted in (step, random_step(pick, tree, 100 + number)) if pick([True, False]) else (step,):
            after = _apply_step(tree, wanted)
            if after is None:
                continue
            yield f"{text}{steps}\n{wanted}", after
            if judge(after) is None:
                tree, steps = after, [*steps, wanted]
                fault = pick(list(tree_faults.FAULTS))
                if made := list(tree_faults.FAULTS[fault](tree)):
                    yield f"{text}{steps}\nfault: {fault}", pick(made)
        try:
            step = recipe.send(tree)
        except StopIteration:
            return


def _apply_step(tree, text):
    try:
        return next(stepped(tree, text))
    except TilegenError:
        return None


def opinion(tree):
    """(judge's, enumeration's, details): each LEGAL or ILLEGAL; None where there is no verdict to compare."""
    try:
        verify(tree)
    except (AssertionError, KeyError):
        return None
    violation = judge(tree)
    sizes = [s for s in other_sizes(tree.kernel) if points(tree.kernel, s) < 300]
    if violation is None:
        wrong = next((f"{w} at {s}" for s in sizes if (w := verdict(tree, s))), None)
        return LEGAL, ILLEGAL if wrong else LEGAL, wrong
    if violation.code in ("unproved", "form"):
        return None
    if structure(tree):
        return ILLEGAL, ILLEGAL, None
    own = witness_sizes(tree.kernel, violation.witness)
    tried = [own, *sizes] if own and holds(tree.kernel, own) else sizes
    wrong = any(verdict(tree, s) for s in tried)
    return ILLEGAL, ILLEGAL if wrong else LEGAL, f"{violation.sentence}: {violation.witness}"


def opinions(pick):
    """(text, opinion) of a kernel, and of the trees that are made of it."""
    text = any_text(pick)
    kernel, refusal = build_kernel(text)
    yield f"{text}as written", opinion_of_kernel(text, kernel, refusal)
    for where, tree in trees(pick, text, kernel) if kernel else ():
        yield where, opinion(tree)


def chunk_of(job):
    """(counts, lines to print) of so many verdicts of one seed."""
    seed, wanted = job
    counts, lines, number = Counter(), [], 0
    while counts["verdicts"] < wanted:
        number += 1
        text = "a kernel"
        try:
            with within(CASE_SECONDS):
                for text, found in opinions(random.Random(f"{seed}/{number}").choice):
                    lines += count_opinion(counts, f"{seed}/{number}:\n{text}", found)
        except Exception:
            lines += [f"crash, {seed}/{number}, after\n{text}\n{traceback.format_exc()}"]
            counts["crashes"] += 1
    return counts, lines


def count_opinion(counts, where, found):
    """The lines to print of an opinion, which is counted."""
    if found is None:
        counts["not compared"] += 1
        return []
    mine, other, details = found
    counts["verdicts"] += 1
    counts[mine] += 1
    counts["kernels"] += where.endswith("as written")
    if mine == other:
        return []
    counts[f"false {mine}"] += 1
    return [f"false {mine}, {where}\n{details}\n"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    part = min(200, -(-chosen.cases // chosen.jobs))
    jobs = [(f"{chosen.seed}.{n}", part) for n in range(-(-chosen.cases // part))]
    total, begun = Counter(), time.time()
    for job, result, trouble in run_jobs(chunk_of, jobs, chosen.jobs, seconds=JOB_SECONDS):
        counts, lines = result or (Counter(crashes=1), [f"crash of the job {job}: {trouble}"])
        total += counts
        for line in lines:
            print(line, flush=True)
    print(", ".join(f"{what} {count}" for what, count in sorted(total.items())))
    print(f"{total['verdicts'] / (time.time() - begun) * 60 / chosen.jobs:.0f} verdicts a minute and process")
    return 1 if total["false legal"] or total["crashes"] or total["false illegal"] > total["verdicts"] / 100 else 0


if __name__ == "__main__":
    raise SystemExit(main())
