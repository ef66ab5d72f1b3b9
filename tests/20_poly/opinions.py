"""The judge's verdicts against enumeration, counted: false "legal" must not be, false "illegal" are printed.

    python tests/20_poly/opinions.py --cases 50000 --seed 1 --jobs 8

Trees come from random kernels: after each step of a recipe, after steps that are built and not filtered, and
with a fault put in (tests/85_mutants/tree_faults.py), so that all kinds of judgement are asked for. An
illegal verdict counts as false if enumeration finds nothing wrong at the witness's sizes and at eight others.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "85_mutants"))

import tree_faults
from enumeration import verdict
from random_atomics import atomics_recipe
from random_case import NO_LOWERING, composites, other_sizes, witness_sizes
from random_programs import holds, points, random_kernel
from random_steps import gpu_recipe, lanes_recipe, random_step, warp_recipe
from structure import structure

from tilegen.errors import Source, TilegenError
from tilegen.frontend import build, parse
from tilegen.ir.nodes import tree_of
from tilegen.ir.verify import verify
from tilegen.poly import judge
from tilegen.primitives._call import bind
from tilegen.schedule import expand

LEGAL, ILLEGAL = "legal", "illegal"


def trees(pick):
    """(text, tree): a kernel, then what steps and faults make of it."""
    text = random_kernel(pick).text
    tree = tree_of(build(parse(Source("random.tg", text)).kernels["random"]))
    chosen = pick([gpu_recipe] * 4 + [warp_recipe] * 2 + [lanes_recipe, atomics_recipe])
    recipe = chosen(pick, tree, [pick([4, 8]), 8] if chosen is warp_recipe else [pick([2, 3, 4]), pick([2, 4])])
    step, steps = next(recipe), []
    for number in range(30):
        for wanted in (step, random_step(pick, tree, 100 + number)) if pick([True, False]) else (step,):
            after = _built(tree, wanted)
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


def _built(tree, text):
    calls = parse(Source("step.tg", f"schedule s for random():\n    {text}\n")).schedules[0].steps
    try:
        for call in expand(calls[0], composites()):
            tree = bind(call).apply(tree)
    except TilegenError:
        return None
    return tree


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
    if violation.sentence.startswith("unproved") or any(words in violation.sentence for words in NO_LOWERING):
        return None
    if structure(tree):
        return ILLEGAL, ILLEGAL, None
    own = witness_sizes(tree.kernel, violation.witness)
    tried = [own, *sizes] if own and holds(tree.kernel, own) else sizes
    wrong = any(verdict(tree, s) for s in tried)
    return ILLEGAL, ILLEGAL if wrong else LEGAL, f"{violation.sentence}: {violation.witness}"


def chunk_of(job):
    """(counts, lines to print) of so many verdicts of one seed."""
    seed, wanted = job
    counts, lines, number = Counter(), [], 0
    while counts["verdicts"] < wanted:
        number += 1
        for text, tree in trees(random.Random(f"{seed}/{number}").choice):
            try:
                found = opinion(tree)
            except Exception:
                lines += [f"crash, {seed}/{number}:\n{text}\n{traceback.format_exc()}"]
                counts["crashes"] += 1
                continue
            if found is None:
                counts["not compared"] += 1
                continue
            mine, other, details = found
            counts["verdicts"] += 1
            counts[mine] += 1
            if mine != other:
                counts[f"false {mine}"] += 1
                lines += [f"false {mine}, {seed}/{number}:\n{text}\n{details}\n"]
    return counts, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    part = min(500, -(-chosen.cases // chosen.jobs))
    jobs = [(f"{chosen.seed}.{n}", part) for n in range(-(-chosen.cases // part))]
    total, begun = Counter(), time.time()
    with get_context("spawn").Pool(chosen.jobs) as pool:
        for counts, lines in pool.imap_unordered(chunk_of, jobs):
            total += counts
            for line in lines:
                print(line, flush=True)
    print(", ".join(f"{what} {count}" for what, count in sorted(total.items())))
    print(f"{total['verdicts'] / (time.time() - begun) * 60 / chosen.jobs:.0f} verdicts a minute and process")
    return 1 if total["false legal"] or total["crashes"] or total["false illegal"] > total["verdicts"] / 100 else 0


if __name__ == "__main__":
    raise SystemExit(main())
