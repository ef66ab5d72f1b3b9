"""How long does it take to make a kernel? From its text and that of a schedule to CUDA text, judge and proof included.

    python examples/codegen_time.py [processes]

Every run starts from a text that holds the kernel and one schedule of it: it is parsed, each step is applied and
judged, the last tree is lowered, proved and printed. Nothing is compiled. Each schedule is made in processes of its
own, five of them unless another number is given, in which another kernel has been made before: that loads the
libraries and builds the grammar. `first` is the first time that this kernel is made there, when nothing is known about
it; `again` are four more times, when the answers of the judge and of the proof are known, and everything else is done
anew. The last line is for reading the whole file, with all of its schedules, and nothing more. All times are CPU
seconds, each a median with the least and the most. For comparison, loopy publishes 0.07 s (naive) to 4.0 s (8 x 8
results a thread) for a GEMM kernel from its own description to text, on another machine.
"""

from __future__ import annotations

import re
import sys
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import process_time

import tilegen

TEXT = (Path(__file__).parents[1] / "schedules" / "gemm.tg").read_text(encoding="utf-8")


def text_with(schedule: str) -> str:
    """The text of the kernel, of one schedule, and of those that it extends."""
    parts = [next(part for part in TEXT.split("\n\n") if "kernel gemm(" in part)]
    while schedule:
        parts.insert(1, next(part for part in TEXT.split("\n\n") if f"schedule {schedule} " in part))
        base = re.search(rf"schedule {schedule} extends (\w+)", parts[1])
        schedule = base[1] if base else ""
    return "\n\n".join(parts)


def emit(text: str, schedule: str) -> str:
    """The CUDA text of a schedule, from its source."""
    return tilegen.load(text, cache=False).schedule(schedule).source("cuda")


def seconds(job: tuple[str, int]) -> list[float]:
    """The times of a schedule's emissions, or of reading the file where none is named; the first one first."""
    schedule, runs = job
    other = tilegen.load("vector_add")
    other.schedule(other.schedules[0].name).source("cuda")
    text = text_with(schedule) if schedule else TEXT
    found = []
    for _ in range(runs):
        start = process_time()
        if schedule:
            emit(text, schedule)
        else:
            tilegen.load(text, cache=False)
        found.append(process_time() - start)
    return found


def main() -> None:
    if not all(word.isdigit() and int(word) for word in sys.argv[1:]):
        sys.exit(__doc__)
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"one GEMM kernel from text to CUDA text, {processes} processes each; loopy publishes 0.07 s to 4.0 s")
    print(f"{'schedule':14} {'lines':>5} {'first s':>8} {'least..most':>14} {'again s':>8} {'least..most':>14}")
    lines = {schedule.name: len(schedule.steps) for schedule in tilegen.load(TEXT).schedules}
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for schedule in (*lines, ""):
            found = [pool.apply(seconds, ((schedule, 5),)) for _ in range(processes)]
            print(f"{schedule or 'reading all':14} {lines.get(schedule) or sum(lines.values()):5}", end="")
            for times in ([first for first, *_ in found], [t for _, *again in found for t in again]):
                print(f" {median(times):8.3f} {min(times):7.3f}..{max(times):.3f}", end="")
            print(flush=True)


if __name__ == "__main__":
    main()
