"""Faults put into the stock schedules, and the net that catches each first. Prints a table fault x net.

All:      python tests/85_mutants/mutants.py
Some:     python tests/85_mutants/mutants.py --each 2 --jobs 2       at most two of each kind in each schedule
By text:  python tests/85_mutants/mutants.py --levels text            the printed text, read back
Running:  python tests/85_mutants/mutants.py --levels ran             the text again, by what compiles and runs it
Which:    python tests/85_mutants/mutants.py --show                  says what got through, or counted as no fault

A mutant is equivalent, and not counted, if it is proven to be the kernel all the same, and besides, at
every size around the tiles, the simulation of the lowered program thread by thread on symbolic values finds each
output made of the same terms, with no two threads colliding, and the enumeration of the tree finds the
same instances. Such are: an order of independent statements; a test that others imply; a barrier moved past
what touches no memory that it guards; a larger pad without vectors.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import cache
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "20_poly"))
sys.path.insert(0, str(Path(__file__).parent))

import launch_faults
import text_faults
import tree_faults
from nets import AFTER, BEFORE, EQUIVALENT, Base, boundary_sizes, caught_launches, caught_tree
from stock import cases, modules, scheduled

from tilegen.errors import TilegenError
from tilegen.lowering import lower
from tilegen.proof import prove

# Tiles as small as the steps allow, so that sizes around them are quickly enumerated.
SMALL = {
    "T": 4, "TS": 4, "TI": 4, "TJ": 2, "TD": 2, "TM": 8, "TN": 8, "TK": 4, "WM": 2, "WN": 2, "W": 2, "WPT": 2,
    "TSM": 4, "TSN": 4, "TSK": 4, "WPTN": 2, "ROWS": 2, "TY": 2, "TX": 4, "WF": 2,
}  # fmt: skip
# Warps have lanes in fixed numbers; these are the fewest. A patch of a warp fills the tile that it is in.
WHOLE = {name: tile for name, tile in SMALL.items() if name not in ("TX", "TY")}
TILES = (SMALL, WHOLE, {"TM": 32, "TN": 128, "TK": 4}, {"TM": 32, "TN": 128, "TK": 32}, {})


@cache
def base(position):
    """Stock schedule number `position` with small tiles; as it is where small tiles do not fit its steps."""
    name, schedule = cases()[position]
    tree = small(name, schedule)
    return Base(f"{name}.{schedule}", tree, boundary_sizes(tree))


def small(name, schedule):
    """The tree with the first tiles with which it can be applied and is proved."""
    stock = next(s for s in modules()[name].schedules if s.name == schedule)
    for tiles in TILES:
        values = tuple((p.name, tiles[p.name]) for p in stock.parameters if p.name in tiles)
        try:
            tree = scheduled(name, schedule, (), values).tree
            versions = [lower(tree, vector=vector) for vector in (True, False)]
        except TilegenError:
            continue
        if all(prove(tree.kernel, launches, tree.reassociated).verdict == "proved" for launches in versions):
            return tree
    raise AssertionError(f"{name}.{schedule} is proved with no tiles")


def mutants(base, each):
    """(level, fault, number, mutant) of every kind; at most `each` of a kind, spread over its places."""
    for fault, make in tree_faults.FAULTS.items():
        yield from _sampled("tree", fault, [t for t in make(base.tree) if t != base.tree], each)
    launches = lower(base.tree)
    for fault, make in launch_faults.FAULTS.items():
        made = [(*launches[:n], m, *launches[n + 1 :]) for n, launch in enumerate(launches) for m in make(launch)]
        yield from _sampled("lowered", fault, [m for m in made if m != launches], each)


def _sampled(level, fault, made, each):
    step = max(1, -(-len(made) // each))
    for number in range(0, len(made), step):
        yield level, fault, number, made[number]


def of_base(job):
    """[(base, level, fault, number, net)] of one base."""
    position, each, levels = job
    right = base(position)
    catch = {"tree": caught_tree, "lowered": caught_launches}
    found = [
        (right.name, level, fault, number, catch[level](right, mutant))
        for level, fault, number, mutant in mutants(right, each)
        if level in levels
    ]
    if "text" in levels:
        found += [(right.name, "text", *result) for result in text_faults.results(right, each)]
    if "ran" in levels:
        found += [(right.name, "ran", *result) for result in text_faults.ran(right)]
    return found


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=3, help="mutants of one kind in one schedule, at most")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--levels", default="tree,lowered,text")
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    jobs = [(n, chosen.each, chosen.levels.split(",")) for n in range(len(cases()))]
    results = []
    with get_context("spawn").Pool(chosen.jobs) as pool:
        for found in pool.imap(of_base, jobs, chunksize=1):
            results += found
            print(f"{found[0][0]}: {figures(found)}", file=sys.stderr, flush=True)
    print(table(results))
    for result in results:
        if result[-1] is None or chosen.show and result[-1] not in BEFORE:
            print(*result)
    total, caught, before, equivalent = figures(results)
    print(f"{total} mutants, {caught} caught, {before} of them before anything runs ({before / total:.1%}); ", end="")
    print(f"{equivalent} more are equivalent")
    return 0 if caught == total else 1


if __name__ == "__main__":
    raise SystemExit(main())
