"""What tuning has found is taken up by kernel, device and sizes: by compile() and by compare."""

import json
from pathlib import Path

import numpy as np
import pytest

import tilegen
from tilegen import api
from tilegen.backends.devices.devices import engine
from tilegen.cli import run
from tilegen.errors import ArgumentError, UsageError
from tilegen.lab.records.records import Device, RunRecord, line_of

pytestmark = pytest.mark.pocl

TEXT = """\
kernel scale(A: f32[N], by: int = 2) -> B: f32[N]:
    B[i] = by * A[i]

schedule s for scale(T=8 in {8, 16, 32}):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""


def record(T: int, size: int, milliseconds: float, together: bool = False, **changes: object) -> str:
    told: dict = {
        "name": f"s T={T}",
        "kernel": "scale",
        "outcome": "measured",
        "sizes": {"N": size},
        "text": TEXT,
        "schedule": "s",
        "parameters": {"T": T},
        "constants": {},
        "device": Device(engine("cpu").name, False),
        "samples": (milliseconds,),
        "notes": {"together": together},
    }
    return line_of(RunRecord(**told | changes))


@pytest.fixture
def file(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mine.tg").write_text(TEXT.replace("i]", "j]").replace("(i,", "(j,"))
    lines = [
        json.dumps({"schema": "tilegen.tune/1", "kernel": "scale"}),
        record(8, 64, 3.0),
        record(16, 64, 1.0),
        record(32, 64, 2.0),
        record(8, 4096, 1.0),
        record(32, 4096, 5.0, together=True),
        record(16, 4096, 6.0, together=True),
        record(16, 512, 0.1, device=Device("another device", True)),
        record(16, 512, 0.1, constants={"by": 3}),
        record(8, 512, 0.1, outcome="wrong", samples=()),
    ]
    Path("run.jsonl").write_text("\n".join(lines) + "\n" + '{"torn')
    return "run.jsonl"


def test_compile_takes_the_fastest_at_the_sizes_of_the_call(file) -> None:
    kernel = tilegen.load("mine.tg").kernel()  # whose loops have other names
    program = kernel.compile(file, "cpu")
    assert program.choose(N=64).parameters == {"T": 16}
    assert program.choose(N=4096).parameters == {"T": 32}  # taken in turns, which a lone time does not beat
    assert program.choose(N=300).parameters == {"T": 16}  # 64 is nearer by its ratio
    assert program.choose(N=600).parameters == {"T": 32}
    for size in (64, 4096, 37, 0):
        a = np.arange(size, dtype=np.float32)
        assert (program(a) == 2 * a).all()
        out = np.zeros(size, np.float32)
        program.prepare(a, B=out)()
        assert (out == 2 * a).all()
    assert len(program._programs) == 2


def test_compile_takes_the_records_of_the_constants(file) -> None:
    program = tilegen.load("mine.tg").kernel(by=3).compile(file, "cpu")
    assert program.choose(N=64).constants == {"by": 3}
    with pytest.raises(UsageError, match="no times of the kernel 'scale' with these constants"):
        tilegen.load("mine.tg").kernel(by=4).compile(file, "cpu")


def test_what_is_wrong_with_a_call_is_told_as_by_any_program(file) -> None:
    program = tilegen.load("mine.tg").kernel().compile(file, "cpu")
    with pytest.raises(ArgumentError, match="A has 2 dimensions"):
        program(np.zeros((2, 3), np.float32))
    with pytest.raises(ArgumentError, match="needs the array A"):
        program()


def test_a_file_without_times_is_told(tmp_path, file) -> None:
    kernel = tilegen.load("gemm").kernel()
    with pytest.raises(UsageError, match="no times of the kernel 'gemm'"):
        kernel.compile(file, "cpu")
    with pytest.raises(UsageError, match="cannot read none.jsonl"):
        kernel.compile("none.jsonl", "cpu")
    Path("wrong.jsonl").write_text(record(8, 512, 0.1, outcome="wrong", samples=()) + "\n")
    with pytest.raises(UsageError, match="no time of a schedule"):
        kernel.compile("wrong.jsonl", "cpu")
    Path("other.jsonl").write_text(record(8, 512, 0.1, device=Device("another device", True)) + "\n")
    with pytest.raises(UsageError, match="no times on PoCL") as caught:
        api.load("mine.tg").kernel().compile("other.jsonl", "cpu")
    assert caught.value.notes == ("it has some on another device",)


def test_compare_has_a_row_for_what_was_fastest(file, capsys, cli) -> None:
    words = ["compare", "mine.tg:s", "--device", "cpu", "--tuned", file, "--json", "result.json"]
    assert run([*words, "--size", "N=64"]) == 0
    rows = {row["name"]: row for row in json.loads(Path("result.json").read_text())["rows"]}
    assert list(rows) == ["s", "tuned: s T=16"]
    assert rows["tuned: s T=16"]["parameters"] == {"T": 16}
    assert rows["tuned: s T=16"]["samples"]
    capsys.readouterr()
    assert "run.jsonl has no time at N=65 on PoCL" in cli([*words, "--size", "N=65"], 2).err
