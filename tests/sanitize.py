"""Every stock schedule and random ones under NVIDIA's compute-sanitizer. Needs a GPU and the CUDA toolkit.

python tests/sanitize.py --random 100     all four tools, a line each
python tests/sanitize.py --run            one run of everything, without a tool
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ODD = {"A": 3, "M": 131, "N": 133, "K": 37, "B": 2, "C": 3, "H": 19, "W": 37, "F": 5, "D": 19}


def run_stock() -> None:
    """Each stock schedule at odd sizes, where accesses are scalar, and at sizes that vectors take."""
    from stock import cases, scheduled

    from tilegen.backends.devices import engine, program
    from tilegen.lab.check import cases as trials
    from tilegen.lab.check import check

    for name, schedule in cases():
        tree = scheduled(name, schedule).tree
        odd = {size: ODD[size] for size in tree.kernel.sizes}
        even = {size: (value + 7) // 8 * 8 for size, value in odd.items()}
        check(program(tree, engine("cuda")), trials(tree.kernel, [odd, even]))
        print(f"{name}.{schedule}: ok", flush=True)


def run_random(wanted: int, seed: int = 5) -> None:
    """Random accepted schedules with threads, run on the GPU and compared exactly."""
    from random_case import one_case

    from tilegen.backends.devices import engine
    from tilegen.ir.walk import loops

    found = number = 0
    while found < wanted:
        case = one_case(random.Random(f"{seed}/{number}").choice, number)
        number += 1
        threaded = any(loop.kind.startswith("thread") for loop in loops(case.scheduled.tree.body))
        if threaded and "over a limit" not in case.counts:
            again = one_case(random.Random(f"{seed}/{number - 1}").choice, number - 1, engine=engine("cuda"))
            found += again.counts["on a device"]
            print(f"random {seed}/{number - 1}: ok", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--tools", default=",".join(TOOLS), help="which of the four")
    chosen = parser.parse_args()
    if chosen.run:
        run_stock()
        run_random(chosen.random)
        return 0
    failed = 0
    for tool in chosen.tools.split(","):
        again = [sys.executable, __file__, "--run", "--random", str(chosen.random)]
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *again]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        programs = sum(line.endswith(": ok") for line in lines)
        summary = next((line for line in reversed(lines) if "SUMMARY" in line), done.stderr[-300:])
        print(f"{tool}: {programs} schedules, {summary.strip('= ')}", flush=True)
        if done.returncode:
            failed += 1
            print("\n".join(lines[-60:]), done.stderr[-2000:])
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
