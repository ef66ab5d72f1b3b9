"""Every stock schedule and random ones under NVIDIA's compute-sanitizer. Needs a GPU and the CUDA toolkit.

python tests/sanitize.py --random 100 --jobs 12     all four tools, a line each
python tests/sanitize.py --run                      one run of everything, without a tool
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ODD = {"A": 3, "P": 35, "M": 131, "N": 133, "K": 37, "B": 2, "C": 3, "H": 19, "W": 37, "F": 5, "D": 19}


def run_stock(part: int, of: int) -> None:
    """Each stock schedule at odd sizes, where accesses are scalar, and at sizes that vectors take."""
    from stock import cases, scheduled

    from tilegen.backends.devices import engine, program
    from tilegen.lab.check import cases as trials
    from tilegen.lab.check import check

    for name, schedule in cases()[part::of]:
        tree = scheduled(name, schedule).tree
        odd = {size: ODD[size] for size in tree.kernel.sizes}
        even = {size: (value + 7) // 8 * 8 for size, value in odd.items()}
        check(program(tree, engine("cuda")), trials(tree.kernel, [odd, even]))
        print(f"{name}.{schedule}: ok", flush=True)


def run_random(wanted: int, part: int, of: int, seed: int = 5) -> None:
    """Random accepted schedules with threads, run on the GPU and compared exactly: every `of`th case from `part` on."""
    from random_case import one_case

    from tilegen.backends.devices import engine
    from tilegen.ir.walk import loops

    found, number = 0, part
    while found < wanted:
        case = one_case(random.Random(f"{seed}/{number}").choice, number)
        threaded = any(loop.kind.startswith("thread") for loop in loops(case.scheduled.tree.body))
        if threaded and "over a limit" not in case.counts:
            again = one_case(random.Random(f"{seed}/{number}").choice, number, engine=engine("cuda"))
            found += again.counts["on a device"]
            print(f"random {seed}/{number}: ok", flush=True)
        number += of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--tools", default=",".join(TOOLS), help="which of the four")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, each with its share")
    parser.add_argument("--part", type=int, default=0, help="with --run: the share of this process")
    chosen = parser.parse_args()
    if chosen.run:
        run_stock(chosen.part, chosen.jobs)
        run_random(-(-chosen.random // chosen.jobs), chosen.part, chosen.jobs)
        return 0
    return sum(sanitized(tool, chosen.random, chosen.jobs) for tool in chosen.tools.split(","))


def sanitized(tool: str, wanted: int, jobs: int) -> bool:
    """Runs everything under one tool and prints a line; True where it reports something, or a run fails."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, "--run"]
    command += ["--random", str(wanted), "--jobs", str(jobs)]
    running = [
        subprocess.Popen([*command, "--part", str(part)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for part in range(jobs)
    ]
    texts = [process.communicate()[0].splitlines() for process in running]
    programs = sum(line.endswith(": ok") for lines in texts for line in lines)
    summaries = Counter(line.strip("= ") for lines in texts for line in lines if "SUMMARY" in line)
    print(f"{tool}: {programs} schedules, {'; '.join(f'{n} x {text}' for text, n in summaries.items())}", flush=True)
    for process, lines in zip(running, texts, strict=True):
        if process.returncode:
            print("\n".join(lines[-60:]))
    return any(process.returncode for process in running)


if __name__ == "__main__":
    raise SystemExit(main())
