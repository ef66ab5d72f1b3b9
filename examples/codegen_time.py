"""How long does it take to make a kernel? From the text of a schedule to CUDA text, judge and proof included.

    python examples/codegen_time.py [runs]

Every run starts from the text: it is parsed, each step is applied and judged, the last tree is lowered and printed.
Nothing is compiled. A kernel is timed in one process after a first run that does not count, which loads the
libraries. For comparison, loopy publishes 0.07 s (naive) to 4.0 s (8 x 8 results a thread) for a GEMM kernel from
its own description to text, on another machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import tilegen


def emitted(text: str, schedule: str) -> str:
    """The CUDA text of a schedule, from its source."""
    return tilegen.load(text).schedule(schedule).source("cuda")


def seconds(text: str, schedule: str, runs: int) -> list[float]:
    """The times of `runs` emissions after one that does not count."""
    emitted(text, schedule)
    found = []
    for _ in range(runs):
        start = perf_counter()
        emitted(text, schedule)
        found.append(perf_counter() - start)
    return found


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    file = Path(__file__).parents[1] / "schedules" / "gemm.tg"
    text = file.read_text(encoding="utf-8")
    print(f"one GEMM kernel from text to CUDA text, {runs} runs each; loopy publishes 0.07 s to 4.0 s")
    print(f"{'schedule':14} {'lines':>5} {'median s':>9} {'p20..p80':>15} {'most':>7}")
    for schedule in tilegen.load(text).schedules:
        times = sorted(seconds(text, schedule.name, runs))
        low, high = times[len(times) // 5], times[len(times) * 4 // 5]
        lines = len(schedule.steps)
        print(f"{schedule.name:14} {lines:5} {median(times):9.3f} {low:7.3f}..{high:.3f} {times[-1]:7.3f}")


if __name__ == "__main__":
    main()
