"""Commands with mistakes that nobody thought of: they end with an exit code of the README, and a word on why.

Names, files, records and streams are odd, too; whatever happens, no file that was there is lost, and nothing acts on a
terminal.

A long run:  python -m tests.support.generators.mutated_commands --cases 3000 --seed 1
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import traceback
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.generators.mutated_texts import mutate
from tests.support.workers import within
from tilegen.cli import load_commands, run
from tilegen.errors import visible
from tilegen.lab.records.records import RunRecord, to_dict

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
MACHINE = (Path(__file__).parents[3] / "tilegen/lab/predict/machines/a100.toml").read_text(encoding="utf-8")
ODD = ["[v1].tg", "[b]x.tg", "$x$_1.tg", "_a b.tg", "\x1b[31m.tg", "a\n.tg", "\udcff.tg", "a\\.tg", "a'\".tg"]
COMMANDS = ["show", "emit", "prove", "explain", "check", "asm", "list", "cat", "new", "compare"]
READERS = ["records", "plot", "show"]  # of what has been measured
MEASURED = ["run.jsonl", "rows.json", "ladder.json"]
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
    *ODD,
    *MEASURED,
    "machine.toml",
    "old.cu",
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
    "--json": ["-", "out.json", "folder", "no/out", "", "a\0", "scaled.tg", "run.jsonl", "old.cu", *ODD],
    "-o": ["-", "out.cu", "folder", "no/out", "", "scaled.tg", "run.jsonl", "rows.json", "old.cu", *ODD],
    "--t4": ["-", "t4.json", "run.jsonl", "scaled.tg"],
    "--machine": ["machine.toml", "h200", "scaled.tg", "folder"],
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


def _options(command: str) -> set[str]:
    """The options of a command; none of what is none."""
    found = load_commands().commands.get(command)
    return {option for parameter in found.params for option in parameter.opts} if found else set()


def words_of(rng: random.Random) -> list[str]:
    """A command that is nearly right."""
    near, reads = rng.random() < 0.7, rng.random() < 0.2
    words = [rng.choice(READERS if reads else COMMANDS) if rng.random() < 0.97 else rng.choice(["", "none"])]
    one = ["scaled.tg:s", "shrunk.tg", "mutated.tg", *(f"{name}:s" for name in ODD[:4])]
    words += [rng.choice(MEASURED if reads and near else one if near else FILES)]
    words += ["scaled.tg:s", "--device", "interpreter"] if words[0] == "compare" else []
    words += ["--from", "scaled.tg:s"] if words[0] == "new" and near else []
    words += ["--no-compile"] if words[0] == "explain" else []
    words += ["-o", "bars.svg"] if words[0] == "plot" else []
    for _ in range(rng.randint(0, 4 - 3 * reads)):
        match rng.choice(["pairs", "pairs", "choice", "choice", "flag"]):
            case "pairs":
                pairs = [rng.choice(NAMES) + rng.choice("===:") + rng.choice(VALUES) for _ in range(rng.randint(1, 2))]
                pairs = [rng.choice(["N=7", "N=33", "TS=16"])] if near and rng.random() < 0.7 else pairs
                several = ["--size", "--set", "--fix"]
                known = _options(words[0]) & set(several)
                words += [rng.choice(sorted(known) if known and rng.random() < 0.8 else several), *pairs]
            case "choice":
                known = _options(words[0]) & CHOICES.keys()
                option = rng.choice(sorted(known) if known and rng.random() < 0.8 else list(CHOICES))
                words += [option, rng.choice(CHOICES[option])]
            case "flag":
                known = _options(words[0]) & set(FLAGS)
                words += [rng.choice(sorted(known) if known and rng.random() < 0.8 else FLAGS)]
    if rng.random() < 0.1:
        rng.shuffle(words)
    return words


def measured_text(rng: random.Random, name: str) -> str:
    """What a command has measured, mostly with a value of another kind, a control character, or an end too soon."""
    given = {"text": SCALED, "schedule": "s", "samples": (1.0, 2.0), "unit": "GB/s"}
    record = to_dict(RunRecord("s", "scaled", "measured", {"N": 8}, **given))
    time = {"median": 1.0, "p20": 1.0, "p80": 2.0, "samples": 3}
    rung = {"step": "tile(i, 8)", "same": False, "error": None, "untimed": None, "time": time, "launches": None}
    ladder = {"kernel": "scaled", "schedule": "s", "sizes": {"N": 8}, "device": "x", "on_gpu": True}
    value = {
        "run.jsonl": [record, record],
        "rows.json": {"schema": "tilegen.compare/1", "rows": [record, {**record, "name": "other"}]},
        "ladder.json": {**ladder, "rungs": [rung, {**rung}], "rival": None, "rival_time": None},
    }[name]
    for _ in range(rng.choice([0, 1, 1, 2])):
        _change(rng, value)
    lines = value if isinstance(value, list) else [value]
    text = "".join(json.dumps(line, indent=None if name == "run.jsonl" else 2) + "\n" for line in lines)
    return text.replace('"endless"', "1e999")[: rng.choice([len(text)] * 5 + [len(text) - 1, len(text) // 2])]


def _change(rng: random.Random, value) -> None:
    """Puts another value at a place somewhere in a JSON value."""
    found = list(value.items() if isinstance(value, dict) else enumerate(value))
    key, part = rng.choice(found) if found else (0, None)
    if isinstance(part, dict | list) and part and rng.random() < 0.8:
        _change(rng, part)
    elif found:
        deep = part
        for _ in range(100):
            deep = [deep]
        others = [
            None,
            -1,
            0,
            1e-320,
            1e300,
            2**70,
            float("nan"),
            "endless",
            "\x1b[31m\x07$_",
            "[/b]",
            "\ud800",
            [],
            {},
        ]
        value[key] = rng.choice([*others, True, deep])


def stream_of(rng: random.Random):
    """Standard output or error: mostly one that takes everything."""
    kind = rng.choice(["text"] * 6 + ["ascii", "latin-1", "full"])
    if kind == "text":
        return io.StringIO()
    if kind == "full":
        return open("/dev/full", "w")  # noqa: SIM115
    return io.TextIOWrapper(io.BytesIO(), encoding=kind)


def said(stream) -> str | None:
    """What has been written; None where the stream takes nothing."""
    if isinstance(stream, io.StringIO):
        return stream.getvalue()
    if not hasattr(stream.buffer, "getvalue"):
        stream.close()
        return None
    stream.flush()
    return stream.buffer.getvalue().decode(stream.encoding)


def outcome(number: int, seed: int) -> int:
    """The exit code of one case, in a folder of its own."""
    rng = random.Random(f"command/{seed}/{number}")
    with TemporaryDirectory() as folder, chdir(folder):
        files = {"scaled.tg": SCALED, "shrunk.tg": SHRUNK, "old.cu": "// kernel scaled, schedule s\n"}
        files |= dict.fromkeys(ODD, SCALED) | {name: measured_text(rng, name) for name in MEASURED}
        other = rng.choice([("1", "nan"), ("2", "-1"), ("3", "1e999"), ("x", "x")])
        files |= {"machine.toml": MACHINE.replace(*other, 1)}
        for name, text in files.items():
            Path(name).write_text(text, encoding="utf-8")
        Path("mutated.tg").write_bytes(mutate(rng.choice).encode("utf-8", "surrogatepass"))
        Path("bytes.tg").write_bytes(b"\xff\x00")
        Path("folder").mkdir()
        before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
        out, err = stream_of(rng), stream_of(rng)
        was, sys.stdin = sys.stdin, io.StringIO(rng.choice(["", SCALED, "\0", files["run.jsonl"]]))
        words = words_of(rng)
        try:
            with redirect_stdout(out), redirect_stderr(err), within(300):
                code = run(words)
        except BaseException as error:
            raise AssertionError(f"case {number} of seed {seed}: {words}") from error
        finally:
            sys.stdin = was
        lost = [path for path, data in before.items() if not path.exists() or path.read_bytes() != data]
        kept = lost == [Path("old.cu")] and Path("old.cu").read_text().startswith("// kernel ")
        assert not lost or kept or "--force" in words, (words, lost)
        assert not list(Path().glob("*.part")), words
    shown = [text for text in map(said, (out, err)) if text is not None]
    assert code in range(7), (words, code)
    assert code == 0 or len(shown) < 2 or "".join(shown).strip(), (words, code)
    assert "Traceback" not in "".join(shown), words
    assert visible("".join(shown)) == "".join(shown), words
    named = words[1:2] and not words[1].startswith("-") and words[1] not in words[2:]
    compared = words[0] == "compare" and named and not {"--json", "-h", "--help"} & {*words}
    if code == 0 and compared and len(shown) == 2 and out.encoding is None:
        assert visible(words[1].replace("\n", "")) in shown[0].replace("\n", ""), words
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
