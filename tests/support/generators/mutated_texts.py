"""Texts with mistakes that nobody thought of: whatever is written, only an error of the user's comes out.

A long run:  python -m tests.support.generators.mutated_texts --cases 20000 --seed 1 --jobs 8
One case:    python -m tests.support.generators.mutated_texts --seed 1 --case 4711
"""

from __future__ import annotations

import argparse
import random
import re
import time
import traceback
from collections import Counter
from functools import cache
from pathlib import Path

from tests.support.generators.programs import any_text
from tests.support.workers import run_jobs, within
from tilegen import load
from tilegen.errors import SourceError, TilegenError
from tilegen.ir.printing.show import show

ROOT = Path(__file__).parents[3]
CASE_SECONDS, JOB_SECONDS = 60, 900
TOKENS = re.compile(r"\d+(?:\.(?!\.)\d*)?|\w+|->|\.\.\.?|\*\*|[<>=!]=|//|\n +|\n|[ \t]+|#[^\n]*|.")
WORDS = [
    "0", "1", "-1", "2", "2147483648", "4294967296", "99999999999999999999", "1e400", "0.5", "1.", ".5", "..", "...",
    "i", "j", "k", "N", "M", "int", "f32", "i64", "u8", "bool", "bf16", "for", "if", "else", "and", "or", "not", "in",
    "sum", "max", "argmax", "prod", "select", "inf", "pi", "var", "kernel", "schedule", "define", "def", "where", "->",
    "+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "(", ")", "[", "]", ",", ":", "=", "{", "}", "\n    ",
    "\n", " ", "\t", "#", "\\", "\u2212", "\x00", "col_major", "order(1, 0)", "block.x", "thread.x", "out", "X", "pass",
]  # fmt: skip


@cache
def stock():
    """The texts of the repository: kernels, schedules, and those that are refused."""
    folders = ("schedules/*.tg", "examples/*.tg", "tests/errors/frontend/*.tg", "tests/errors/steps/*.tg")
    return [path.read_text() for folder in folders for path in sorted(ROOT.glob(folder))]


def mutate(pick) -> str:
    """A text of the repository, or a random kernel, with some tokens or lines changed."""
    text = pick([lambda: pick(stock())] * 3 + [lambda: any_text(pick)])()
    for _ in range(pick([1, 1, 1, 2, 3])):
        text = pick([_alike] * 6 + [_number] * 3 + [_line] * 2 + [_token] * 2 + [_letter])(pick, text)
    return text


def _alike(pick, text):
    """A word or an operator in the place of another one of the text: most of these are well formed."""
    kind = pick([r"\b[A-Za-z_]\w*\b"] * 3 + [r"[-+*/%]+(?!>)", r"[<>=!]=|[<>]", r"\d+"])
    found = list(re.finditer(kind, text))
    if not found:
        return text
    match = pick(found)
    other = pick([other.group() for other in found])
    return text[: match.start()] + other + text[match.end() :]


def _token(pick, text):
    tokens = TOKENS.findall(text)
    at = pick(range(len(tokens) or 1))
    other = pick([pick(WORDS), pick(tokens or [""])])
    match pick(["delete", "double", "swap", "replace", "replace", "insert"]):
        case "delete":
            tokens[at : at + 1] = []
        case "double":
            tokens[at:at] = tokens[at : at + 1]
        case "swap":
            tokens[at : at + 2] = tokens[at : at + 2][::-1]
        case "replace":
            tokens[at : at + 1] = [other]
        case "insert":
            tokens[at:at] = [other]
    return "".join(tokens)


def _line(pick, text):
    lines = text.split("\n")
    at, other = pick(range(len(lines))), pick(range(len(lines)))
    match pick(["delete", "double", "swap", "move", "cut"]):
        case "delete":
            lines[at : at + 1] = []
        case "double":
            lines[at:at] = lines[at : at + 1]
        case "swap":
            lines[at], lines[other] = lines[other], lines[at]
        case "move":
            lines[other:other] = [lines.pop(at)]
        case "cut":
            lines = lines[: at + 1]
    return "\n".join(lines)


def _number(pick, text):
    """Another number in the place of one."""
    found = list(re.finditer(r"\d+", text))
    if not found:
        return text
    match = pick(found)
    number = pick(
        ["0", "1", "3", "-1", "1024", "65536", "2147483647", "2147483648", "9" * 19, "9" * 40, "9" * 41, "1.5"]
    )
    return text[: match.start()] + number + text[match.end() :]


def _letter(pick, text):
    at = pick(range(len(text) + 1))
    return text[:at] + pick(["", pick("()[]{}.,:=+-*/<>%#_ \n\té0aN")]) + text[at + pick([0, 1]) :]


def outcome(pick, text) -> str:
    """What comes of a text: how far it gets, or the class of the error. Raises what is no error of the user's."""
    try:
        file = load(text if "\n" in text else f"{text}\n")
    except TilegenError as error:
        return _describe(error, "load")
    found = "loaded"
    for name in file.kernels:
        try:
            show(file.kernel(name).schedule().tree)
            found = "a kernel"
        except TilegenError as error:
            found = _describe(error, "kernel")
    if file.schedules:
        schedule = pick(list(file.schedules))
        try:
            scheduled = file.kernel(schedule.kernel).schedule(schedule.name)
            show(scheduled.tree)
            found = "a schedule"
            if pick([False, False, True]):
                scheduled.source(pick(["cuda", "opencl"]))
                found = "a text"
        except TilegenError as error:
            found = _describe(error, "schedule")
    return found


def _describe(error, where) -> str:
    """The class of the error, which is shown as it would be to the user."""
    shown = error.render()
    assert error.message, "an error without a message"
    assert "Traceback" not in shown
    if isinstance(error, SourceError):
        assert error.span is not None, f"an error in the text without a place: {shown}"
    return f"{where}: {type(error).__name__}"


def chunk_of(job):
    """(counts, failures) of the cases `numbers` of one seed."""
    seed, numbers = job
    counts, failures = Counter(), []
    for number in numbers:
        pick = random.Random(f"mutated/{seed}/{number}").choice
        text = mutate(pick)
        try:
            with within(CASE_SECONDS):
                counts[outcome(pick, text)] += 1
        except Exception:  # a bug, whatever it is
            failures += [f"case {number} of seed {seed}\n{text}\n{traceback.format_exc()}"]
    return counts, failures


def one_by_one(job):
    seed, numbers = job
    return [(seed, [number]) for number in numbers] if len(numbers) > 1 else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    numbers = [chosen.case] if chosen.case is not None else range(chosen.cases)
    jobs = [(chosen.seed, numbers[a : a + 50]) for a in range(0, len(numbers), 50)]
    total, failed, begun = Counter(), 0, time.time()
    for job, result, trouble in run_jobs(chunk_of, jobs, chosen.jobs, seconds=JOB_SECONDS, split=one_by_one):
        counts, failures = result or (Counter(), [f"case {job[1][0]} of seed {job[0]}\n{trouble}"])
        total += counts
        failed += len(failures)
        for text in failures:
            print(text, flush=True)
    print(", ".join(f"{what} {count}" for what, count in sorted(total.items())) + f", failed {failed}")
    print(f"{len(numbers) / (time.time() - begun) / chosen.jobs:.1f} cases a second and process")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
