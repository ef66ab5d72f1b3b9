"""Every stock schedule and random ones under NVIDIA's compute-sanitizer. Needs a GPU and the CUDA toolkit.

python -m tests.support.devices.sanitize --random 100 --jobs 16     all four tools at the same time
python -m tests.support.devices.sanitize --tools memcheck --seconds 50  one of them, with a limit of its own
python -m tests.support.devices.sanitize --only wgmma --jobs 16     the stock schedules that have this word in a step

Everything is made, compiled and run once without a tool first. Then each tool has its share of the processes; counts
are printed as they grow, so that a run that is cut says how far it came, and a line for each tool at the end.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from signal import SIGKILL
from threading import Thread
from time import monotonic, sleep

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ODD = {"Z": 3, "A": 3, "G": 2, "M": 131, "N": 133, "K": 37, "B": 2, "C": 3, "H": 19, "W": 37, "F": 5, "D": 19, "P": 37}
EVERY = 5  # seconds between two lines of counts
CASES_AT_A_TIME = 64  # numbers of random cases that are tried together
SHOWN = 20  # lines of a report


# -- what is run


def stock_item(case):
    """A stock schedule: its tree, and sizes for each version of its text."""
    from tests.support.stock import shorter, tile
    from tilegen.lowering import lower

    tree = shorter(*case).tree
    whole = lower(tree, whole=True)
    odd = {size: ODD.get(size, ODD["K"]) for size in tree.kernel.sizes}
    even = {size: (value + 7) // 8 * 8 for size, value in odd.items()}
    tiles = {size: tile(size, whole) for size in tree.kernel.sizes}
    more = ({size: found.get(size, odd[size]) for size in odd} for found in rings(case))
    return "stock", ".".join(case), (tree, (odd, even, tiles, *more))


def rings(case):
    """Sizes for which each slot of a ring of tiles is used again, and blocks that run on compute a second tile."""
    from tests.support.stock import fewer, find

    if not has_step("wgmma", case):
        return
    values = {p.name: p.default for p in find(*case).parameters} | dict(fewer(*case))
    stages = values.get("STAGES", 1)
    if "TF" in values:  # boxes of pixels by filters
        boxes = {"B": values["TN"], "H": values["TY"], "W": values["TX"], "G": 1}
        channels = {"C": (stages + 1) * values["TC"], "F": values["TF"]}
        yield {size: n + 1 for size, n in boxes.items()} | {size: n + 16 for size, n in channels.items()}
        return
    if "TY" in values:  # the input layer, with a stride of 2
        yield {"B": 1, "H": 2 * values["TY"] + 1, "W": 2 * values["TX"] + 1, "F": 64 + 16}
        return
    tiles = {"M": values["TM"], "N": values["TN"]}
    # A block of scales has 128 terms, and no parameter.
    ring = {"K": max((stages + 1) * values.get("TK", 128), values.get("KP", 0))}
    products = {"Z": values.get("GZ", 1) + 1} if "batched" in case[1] else {}
    found = {size: n + 16 for size, n in (tiles | ring).items()} | products
    pixels = {"B": 1, "H": 1, "W": found["M"], "F": found["N"], "C": found["K"]}  # of filters of one pixel
    yield found | pixels


def has_step(word, case):
    """True if a step of a stock schedule has the word in it."""
    from tests.support.stock import find

    return any(word in step.text for step in find(*case).steps)


def random_item(number, seed=5):
    """A random case that a GPU can run, each third one by tensor cores; None if it is none."""
    from tests.support.generators.case import one_case
    from tests.support.generators.tensors import tensor_case
    from tilegen.ir.walk import loops

    draw = tensor_case if number % 3 == 2 else one_case
    case = draw(random.Random(f"{seed}/{number}").choice, number)
    if case.scheduled is None:  # the kernel is refused as written
        return None
    threaded = any(loop.kind.startswith(("thread", "matrix")) for loop in loops(case.scheduled.tree.body))
    if not threaded or case.counts["over a limit"] or case.counts["proof refused without need"]:
        return None
    case.expected = replace(case.expected, gap=None)
    return "random", f"{seed}/{number}", case


def run(item):
    """Runs an item on the GPU; raises where a result is wrong."""
    from tests.support.generators.case import on_device
    from tilegen.backends.devices.devices import engine, program
    from tilegen.ir.comparison.tolerance import tolerance_of
    from tilegen.lab.checks.check import cases as trials
    from tilegen.lab.checks.check import check

    kind, _, work = item
    if kind == "random":
        return on_device(work, engine("cuda"))
    tree, sizes = work
    return check(program(tree, engine("cuda")), trials(tree.kernel.called_kernel, sizes, tolerance_of(tree)))


def made_and_run(make, what):
    item = make(what)
    if item:
        run(item)
    return item


def items(wanted, jobs, only=""):
    """Every stock schedule with the word `only` in a step, and so many random ones.

    Each has run once, so that its machine code is in the cache.
    """
    from tests.support.stock import cases

    chosen = [case for case in cases() if has_step(only, case)]
    with get_context("spawn").Pool(jobs) as pool:
        found = pool.map(partial(made_and_run, stock_item), chosen, chunksize=1)
        first, some = 0, []
        while len(some) < wanted:
            numbers = range(first, first + CASES_AT_A_TIME)
            some += [item for item in pool.map(partial(made_and_run, random_item), numbers, chunksize=1) if item]
            first += CASES_AT_A_TIME
    return found + some[:wanted]


# -- under a tool


@dataclass
class Part:
    """A process under a tool: how many of its items have run, and what was said before each was done."""

    tool: str
    process: subprocess.Popen
    done: Counter = field(default_factory=Counter)
    reports: list = field(default_factory=list)  # (label, lines)
    text: list = field(default_factory=list)

    def follow(self):
        said = []
        for line in self.process.stdout:
            self.text.append(line.rstrip())
            if line.startswith(("ok ", "failed ")):
                result, kind, label = line.split()[:3]
                self.done[kind] += result == "ok"
                if said or result == "failed":
                    self.reports.append((label, [*said, line.rstrip()]))
                said = []
            elif line.startswith("=========") and "COMPUTE-SANITIZER" not in line and "SUMMARY" not in line:
                said.append(line.rstrip())
        if self.process.wait() not in (0, -SIGKILL) and not self.reports:
            self.reports.append(("the process itself", self.text[-SHOWN:]))


def start(tool, file):
    command = [
        "compute-sanitizer",
        "--tool",
        tool,
        "--error-exitcode",
        "9",
        sys.executable,
        "-m",
        "tests.support.devices.sanitize",
        "--run",
        str(file),
    ]
    # A process group of its own: a tool and what it runs end together.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)
    part = Part(tool, process)
    thread = Thread(target=part.follow)
    thread.start()
    return part, thread


def counts(tool, parts, total):
    """What a tool has run so far, and how many of it with a report."""
    done = sum((part.done for part in parts), Counter())
    each = ", ".join(f"{done[kind]} of {total[kind]} {kind} schedules" for kind in total)
    return f"{tool}: {each}, {sum(len(part.reports) for part in parts)} with reports"


def run_tools(tools, found, jobs, seconds, folder):
    """Runs the items under each tool, all tools at the same time. True where all have run without a report."""
    total = Counter(kind for kind, _, _ in found)
    shares = max(1, jobs // len(tools))
    running = []
    for number in range(shares):
        (folder / str(number)).write_bytes(pickle.dumps(found[number::shares]))
        running += [start(tool, folder / str(number)) for tool in tools]
    parts = {tool: [part for part, _ in running if part.tool == tool] for tool in tools}
    since = monotonic()
    while any(thread.is_alive() for _, thread in running) and monotonic() - since < seconds:
        sleep(EVERY)
        print(f"{monotonic() - since:.0f} s: {'; '.join(counts(*each, total) for each in parts.items())}", flush=True)
    for part, thread in running:
        if thread.is_alive():
            os.killpg(part.process.pid, SIGKILL)
        thread.join()
    for tool, its in parts.items():
        for label, lines in (report for part in its for report in part.reports):
            print("\n".join([f"{tool}, {label}:", *lines[:SHOWN]]))
        print(counts(tool, its, total))
    complete = all(sum(sum(part.done.values()) for part in its) == len(found) for its in parts.values())
    return complete and not any(part.reports for its in parts.values() for part in its)


def run_file(file):
    """What runs under a tool: the items of a file, a line for each."""
    for item in pickle.loads(file.read_bytes()):
        kind, label, _ = item
        try:
            run(item)
            print(f"ok {kind} {label}", flush=True)
        except Exception as error:  # told, and the others still run
            print(f"failed {kind} {label} {str(error).splitlines()[:1]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--only", default="", metavar="WORD", help="stock schedules with this word in a step")
    parser.add_argument("--tools", default=",".join(TOOLS), help="which of the four")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=150, help="for the tools; what has not run by then does not")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run:
        run_file(chosen.run)
        return 0
    since = monotonic()
    found = items(chosen.random, chosen.jobs, chosen.only)
    tools = chosen.tools.split(",")
    print(f"{len(found)} schedules made and run in {monotonic() - since:.0f} s", flush=True)
    print(
        f"{chosen.seconds:.0f} s for {', '.join(tools)}, {max(1, chosen.jobs // len(tools))} processes each", flush=True
    )
    with tempfile.TemporaryDirectory() as folder:
        return 0 if run_tools(tools, found, chosen.jobs, chosen.seconds, Path(folder)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
