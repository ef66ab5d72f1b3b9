"""Every stock schedule under NVIDIA's compute-sanitizer, at one odd size. Needs a GPU and the CUDA toolkit.

    python tests/sanitize.py            all four tools, a line each
    python tests/sanitize.py --run      one run of every stock schedule, without a tool
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ODD = {"M": 131, "N": 133, "K": 37, "B": 2, "C": 3, "H": 19, "W": 37, "F": 5, "D": 19}


def run_all() -> None:
    """Each stock schedule once, vector versions and scalar ones, checked."""
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


def main() -> int:
    if "--run" in sys.argv:
        run_all()
        return 0
    failed = 0
    for tool in TOOLS:
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, "--run"]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        kernels = sum(line.endswith(": ok") for line in lines)
        summary = next((line for line in reversed(lines) if "SUMMARY" in line), done.stderr[-300:])
        print(f"{tool}: {kernels} schedules, {summary.strip('= ')}", flush=True)
        if done.returncode:
            failed += 1
            print("\n".join(lines[-60:]))
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
