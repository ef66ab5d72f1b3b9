"""Commands with mistakes that nobody thought of: they end with an exit code of the README, and a word on why.

A long run:  python -m tests.support.generators.mutated_commands --cases 3000 --seed 1
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import traceback
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.generators.mutated_texts import mutate
from tests.support.workers import within
from tilegen.cli import run

SCALED = """\
kernel scaled(A: f32[N, N], by: int = 2) -> B: f32[N, N]:
    B[i, j] = by * A[i, j]

schedule s for scaled(TS=16 in {16, 32}):
    tile(i, TS) -> bi, ti
    bind(bi, block.x)
    bind(ti, thread.x)

schedule racy for scaled:
    bind(i, thread.x)
"""
SHRUNK = """\
kernel shrunk(X: f32[W], F: f32[R], stride: int = 1) -> Y: f32[(W - R)/stride + 1]:
    Y[x] = sum[r](X[x*stride + r] * F[r])

schedule s for shrunk(T=4):
    tile(x, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""
COMMANDS = ["show", "emit", "prove", "explain", "check", "asm", "list", "cat", "new"]
FILES = [
    "scaled.tg",
    "shrunk.tg",
    "mutated.tg",
    "folder",
    "bytes.tg",
    "gemm",
    "none",
    "scaled.tg:s",
    "scaled.tg:s,racy",
    "gemm:",
    "-:s",
    ":",
    "",
    "-",
    "a\0",
    "\u00e9",
    "scaled.tg/",
]
NAMES = ["N", "W", "R", "T", "TS", "stride", "by", "self", "name", "", "N N", "1N", "\u00e9"]
VALUES = [
    "0",
    "1",
    "2",
    "7",
    "16",
    "33",
    "-1",
    "2147483648",
    str(2**63 - 1),
    "9" * 20,
    "1.5",
    "x",
    "",
    "1e3",
    "0x10",
    "+4",
]
CHOICES = {
    "--from": ["scaled.tg:s", "scaled.tg", "mutated.tg", "gemm:none", "-", ""],
    "--schedule": ["s", "racy", "s,racy", ",", "", "none", "s,s"],
    "--kernel": ["scaled", "shrunk", "", "none"],
    "--json": ["-", "out.json", "folder", "no/out", "", "a\0"],
    "-o": ["-", "out.cu", "folder", "no/out", ""],
    "--device": ["cpu", "gpu", "cuda", "interpreter", "auto", ""],
    "--target": ["cuda", "opencl", "x"],
    "--arch": ["sm_90", "sm_1", "x", ""],
}
FLAGS = [
    "--no-compile",
    "--last",
    "--steps",
    "--scalar",
    "--whole",
    "--wide",
    "--unproved",
    "--any-value",
    "--force",
    "--ptx",
    "--",
    "--size",
    "-h",
]


def words_of(rng: random.Random) -> list[str]:
    """A command that is nearly right."""
    near = rng.random() < 0.7
    words = [rng.choice(COMMANDS) if rng.random() < 0.97 else rng.choice(["", "none"])]
    words += [rng.choice(FILES[:3] if near else FILES)]
    words += ["--no-compile"] if words[0] == "explain" else []
    for _ in range(rng.randint(0, 4)):
        match rng.choice(["pairs", "pairs", "choice", "choice", "flag"]):
            case "pairs":
                pairs = [rng.choice(NAMES) + rng.choice("===:") + rng.choice(VALUES) for _ in range(rng.randint(1, 2))]
                words += [rng.choice(["--size", "--set", "--fix"]), *pairs]
            case "choice":
                option = rng.choice(list(CHOICES))
                words += [option, rng.choice(CHOICES[option])]
            case "flag":
                words += [rng.choice(FLAGS)]
    if rng.random() < 0.1:
        rng.shuffle(words)
    return words


def outcome(number: int, seed: int) -> int:
    """The exit code of one case, in a folder of its own."""
    rng = random.Random(f"command/{seed}/{number}")
    with TemporaryDirectory() as folder, chdir(folder):
        Path("scaled.tg").write_text(SCALED)
        Path("shrunk.tg").write_text(SHRUNK)
        Path("mutated.tg").write_bytes(mutate(rng.choice).encode("utf-8", "surrogatepass"))
        Path("bytes.tg").write_bytes(b"\xff\x00")
        Path("folder").mkdir()
        out, err = io.StringIO(), io.StringIO()
        was, sys.stdin = sys.stdin, io.StringIO(rng.choice(["", SCALED, "\0"]))
        words = words_of(rng)
        try:
            with redirect_stdout(out), redirect_stderr(err), within(60):
                code = run(words)
        except BaseException as error:
            raise AssertionError(f"case {number} of seed {seed}: {words}") from error
        finally:
            sys.stdin = was
    assert code in range(7), (words, code)
    assert code == 0 or (out.getvalue() + err.getvalue()).strip(), (words, code)
    assert "Traceback" not in err.getvalue(), words
    return code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    codes: Counter[int] = Counter()
    failed = 0
    for number in range(given.cases):
        try:
            codes[outcome(number, given.seed)] += 1
        except AssertionError:
            failed += 1
            traceback.print_exc()
    print(f"{given.cases} commands, exit codes {dict(sorted(codes.items()))}, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
