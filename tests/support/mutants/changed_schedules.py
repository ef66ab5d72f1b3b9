"""Steps left out, doubled, or in the place of their neighbour: the judge and the proof agree.

The schedules are the stock ones, and those of shapes.tg, which have what no stock schedule has.

All:      python -m tests.support.mutants.changed_schedules --jobs 16
Some:     python -m tests.support.mutants.changed_schedules --cases 10 --schedules gemm,softmax.warps    (ten of each)
One:      python -m tests.support.mutants.changed_schedules --schedules row_sum.warps --only "row_sum.warps: out 9"
Smaller:  python -m tests.support.mutants.changed_schedules --small    (smallest tiles)
Going on: python -m tests.support.mutants.changed_schedules --log changed.jsonl --seconds 1800    (and again)

A step is a line of the schedule, and each of the primitive steps that such a line stands for. Of each mutant one of
these has to come: a step is refused, with its place in the text; or the tree is beyond a limit of the GPU; or it is
lowered and emitted, and its versions, with vectors and without, are proved. What the proof leaves open is counted and
shown, as is what the judge leaves open. All else is a fault of tilegen's, and shown.
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import TimeoutError as PoolTimeout
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

from tests.support.mutants.small import tiles
from tests.support.stock import cases, label, modules, schedule_stock
from tests.support.workers import TookTooLong, within
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep, LimitError, Source, TilegenError
from tilegen.frontend import build, parse
from tilegen.frontend.stock import stock_instructions
from tilegen.lowering import lower
from tilegen.proof import prove
from tilegen.schedule import apply

REFUSED, JUDGED, LIMIT, PROVED = "a step refuses", "the judge refuses", "a limit", "proved"
OPEN, UNPROVED = "the judge leaves open", "unproved"
APART, RAW, LONG, MUTE = "the proof refuses", "an exception", "too long", "no place or way out"
FINE = (REFUSED, JUDGED, LIMIT, PROVED)
FAULTS = (APART, RAW, LONG, MUTE)
KINDS = ("out", "twice", "swapped")
SECONDS = 120  # of CPU time, for one mutant


@dataclass(frozen=True)
class Mutant:
    """A schedule with one of its steps changed: the stages before that, and the calls that follow."""

    name: str
    kind: str
    before: int
    calls: tuple


@cache
def shapes():
    return parse(Source("shapes.tg", Path(__file__).with_name("shapes.tg").read_text()))


@cache
def bases():
    """(file, schedule) of the schedules that are changed."""
    return [*cases(), *(("shapes", label(s, "shapes")) for s in shapes().schedules)]


@cache
def base(position, small):
    """Schedule number `position`, a stock one with its own tiles or with small ones."""
    name, schedule = bases()[position]
    if name == "shapes":
        found = next(s for s in shapes().schedules if label(s, "shapes") == schedule)
        defines = {d.word: d for module in modules().values() for d in module.defines}
        return apply(build(shapes().kernels[found.kernel]), found, {}, defines, stock_instructions)
    return schedule_stock(name, schedule, *tiles(name, schedule)) if small else schedule_stock(name, schedule)


def mutants(position, small):
    """Those of one schedule, each sequence of steps once."""
    found = {}
    right = base(position, small)
    calls = [stage.step for stage in right.stages[1:]]
    for level, starts in (("", _lines(calls)), ("step ", [*range(len(calls) + 1)])):
        groups = [calls[a:b] for a, b in zip(starts, starts[1:], strict=False)]
        for n, group in enumerate(groups):
            rest = [c for g in groups[n + 1 :] for c in g]
            made = {"out": rest, "twice": [*group, *group, *rest]}
            if n + 1 < len(groups):
                made["swapped"] = [*groups[n + 1], *group, *rest[len(groups[n + 1]) :]]
            for kind, after in made.items():
                key = starts[n], tuple((c.word, c.arguments, c.keywords, c.results) for c in after)
                name = f"{'.'.join(bases()[position])}: {level}{kind} {n + 1}"
                found.setdefault(key, Mutant(name, kind, starts[n], tuple(after)))
    return list(found.values())


def _lines(calls):
    """Where the steps of each line of the schedule begin, and where the last ends."""
    return [n for n, call in enumerate(calls) if n == 0 or call.span != calls[n - 1].span] + [len(calls)]


def outcome(position, mutant, small=False):
    """(what came of the mutant, what is to be said of it)."""
    right = base(position, small)
    try:
        with within(SECONDS):
            proofs = _proofs(right, mutant)
    except TilegenError as error:
        return _classify(error)
    except TookTooLong:
        return LONG, f"{SECONDS} s"
    except Exception:
        return RAW, traceback.format_exc(limit=-4)
    wrong = next((p.violation for p in proofs if p.violation), None)
    if wrong:
        return APART, f"{wrong.name}: {wrong.violation.sentence}: {wrong.violation.witness}"
    left = [p.verdict for p in proofs if p.verdict != "proved"]
    return (UNPROVED, left[0]) if left else (PROVED, "")


def _proofs(right, mutant):
    """Those of both versions, of which texts are printed in both languages."""
    changed = replace(right, stages=right.stages[: mutant.before + 1]).then(mutant.calls)
    versions = [lower(changed.tree, vector=vector) for vector in (True, False)]
    proofs = [prove(changed.tree.kernel, launches, changed.tree.reassociated) for launches in versions]
    for launches in versions:
        emit(launches)
    for vector in (True, False):
        emit(lower(changed.tree, vector=vector, instructions=False), "opencl")
    return proofs


def _classify(error):
    """A refusal has its place in the text, and if it is the judge's what shows it."""
    said = str(error)
    if isinstance(error, LimitError):
        return LIMIT, said
    if error.span is None:
        return MUTE, said
    if not isinstance(error, IllegalStep):
        return REFUSED, said
    if ": unproved: " in f": {said}":
        return OPEN, said
    return (JUDGED, said) if error.witness or error.notes else (MUTE, said)


def of_schedule(job):
    """[(name, kind, outcome, what is said)] of at most `most` mutants of one schedule, spread over its steps."""
    position, most, small, only = job
    made = [m for m in mutants(position, small) if only in m.name]
    step = max(1, -(-len(made) // most)) if most else 1
    return [(mutant.name, mutant.kind, *outcome(position, mutant, small)) for mutant in made[::step]]


def table(results):
    """Markdown: a row for each kind of change, a column for each outcome."""
    counts = Counter((kind, what) for _, kind, what, _ in results)
    columns = [c for c in (*FINE, OPEN, UNPROVED, *FAULTS) if any(w == c for _, w in counts)]
    lines = [f"| step | mutants | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for kind in KINDS:
        row = [counts[kind, c] for c in columns]
        lines += [f"| {kind} | {sum(row)} | {' | '.join(map(str, row))} |"]
    every = [sum(counts[k, c] for k in KINDS) for c in columns]
    return "\n".join([*lines, f"| all | {sum(every)} | {' | '.join(map(str, every))} |"])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=0, help="mutants of one schedule, at most; 0 for all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--schedules", default="", help="schedules, or files of them")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="", help="what the name of a mutant contains")
    parser.add_argument("--show", default="", help="an outcome whose mutants are shown, too")
    parser.add_argument("--log", type=Path, help="where results are kept; what is there is not done again")
    parser.add_argument("--seconds", type=float, default=1e6, help="what is not done by then is left")
    return parser.parse_args()


def run(todo, known, chosen):
    """Does the jobs, by the name of their schedules, and adds their results to `known` and to the log."""
    end = monotonic() + chosen.seconds
    with get_context("spawn").Pool(chosen.jobs) as pool, open(chosen.log or os.devnull, "a") as log:
        done = pool.imap_unordered(_named, todo.items())
        for _ in todo:
            try:
                name, found = done.next(max(0, end - monotonic()))
            except PoolTimeout:
                break
            known[name] = found
            print(json.dumps([name, found]), file=log, flush=True)
            for each, _, what, said in found:
                if what not in FINE or what == chosen.show:
                    print(f"{each}: {what}: {said}", flush=True)
        pool.terminate()


def _named(item):
    name, job = item
    return name, of_schedule(job)


def main() -> int:
    chosen = arguments()
    named = set(chosen.schedules.split(",")) - {""}
    wanted = {
        ".".join(case): (n, chosen.cases, chosen.small, chosen.only)
        for n, case in enumerate(bases())
        if not named or named & {case[0], ".".join(case)}
    }
    lines = chosen.log.read_text().splitlines() if chosen.log and chosen.log.exists() else ()
    known = dict(map(json.loads, lines))
    run({name: job for name, job in wanted.items() if name not in known}, known, chosen)
    results = [one for name in wanted for one in known.get(name, ())]
    print(table(results))
    print(f"{len(wanted.keys() & known.keys())} of {len(wanted)} schedules")
    return 1 if any(what in FAULTS for _, _, what, _ in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
