"""The command replay: what records are of is run again from the records alone, and what differs is told."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tilegen.cli import run
from tilegen.errors import DeviceError
from tilegen.lab.measure.replay import choose, find_pair, find_surroundings, require_device
from tilegen.lab.records.records import Conditions, Device, Readings, RunRecord, line_of, read_records
from tilegen.version import __version__

ERRORS = Path(__file__).parents[1] / "errors" / "replay"
TEXT = """\
kernel sums(A: f32[M, N]) -> S: f32[M]:
    S[i] = sum[j](A[i, j])

schedule rows for sums(T=8 in {8, 16}):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""
RACY = TEXT + "    tile(j, 4) -> o, r\n    bind(r, thread.y)\n"
SIZES = {"M": 16, "N": 8}


def record(name: str = "rows", **changes) -> RunRecord:
    own = {"text": TEXT, "schedule": "rows", "parameters": {"T": 8}, **changes}
    return RunRecord(name, "sums", own.pop("outcome", "unmeasured"), own.pop("sizes", SIZES), **own)


def measured(*samples: float, name: str = "rows", **changes) -> RunRecord:
    return record(name, outcome="measured", samples=samples, **changes)


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*records: RunRecord, name: str = "f.jsonl") -> str:
        (tmp_path / name).write_text("".join(f"{line_of(each)}\n" for each in records))
        return name

    return write


def test_a_record_is_run_again_without_the_file_that_it_came_from(written, tmp_path, capsys, cli) -> None:
    (tmp_path / "mine.tg").write_text(TEXT)
    size = "--size M=16 N=8"
    assert run(shlex.split(f"compare mine.tg --set T=8,16 {size} --device interpreter --json f.json")) == 0
    (tmp_path / "mine.tg").unlink()
    capsys.readouterr()
    out = cli("replay f.json --device interpreter --json g.json").out
    assert out.count("│ nothing") == 2
    then, now = (read_records((tmp_path / name).read_text(), name) for name in ("f.json", "g.json"))
    assert [each.name for each in now] == ["rows T=8", "rows T=16"]
    for one, two in zip(then, now, strict=True):
        apart = {"command", "date"}
        assert {k: v for k, v in vars(one).items() if k not in apart} == {
            k: v for k, v in vars(two).items() if k not in apart
        }
    assert json.loads((tmp_path / "g.json").read_text())["schema"] == "tilegen.replay/1"
    assert run(shlex.split("replay g.json --device interpreter --name 'rows T=8' --json -")) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["rows T=8"]


@pytest.mark.pocl
def test_times_stand_beside_those_of_the_record(written, tmp_path, cli) -> None:
    """They took hours and are a hundred thousandth now; and what was a GPU is a CPU."""
    gpu = Device("NVIDIA H200", True, "sm_90", {"python": "2.7"})
    file = written(measured(*[1e6] * 9, device=gpu, registers=255))
    out = cli(["replay", file, "--device", "cpu", "--json", "g.json"]).out
    assert "1e+06" in out
    assert "100.0% faster" in out
    assert "device: NVIDIA H200 then, PoCL" in out
    assert "times on two devices are no repetition of each other" in out
    (found,) = json.loads((tmp_path / "g.json").read_text())["differences"]
    assert found["apart"]
    assert found["ratio"] < 1e-3
    assert any(line.startswith("python: 2.7 then") for line in found["surroundings"])


def test_records_of_several_sizes_and_kernels_have_tables_of_their_own(written, cli) -> None:
    other = record("other", text=TEXT.replace("sum[", "max["))
    file = written(record(), record(sizes={"M": 3, "N": 5}), other)
    out = cli(["replay", file, "--device", "interpreter"]).out
    assert [out.count(f"sums  {sizes}") for sizes in ("M=16 N=8", "M=3 N=5")] == [2, 1]


def test_a_schedule_that_is_refused_now_is_a_difference(written, cli) -> None:
    racy = measured(1.0, name="racy", text=RACY.replace("rows", "racy"), schedule="racy")
    out = cli(["replay", written(record(), racy), "--device", "interpreter"], 3).out
    assert "outcome: measured then, illegal now" in " ".join(out.replace("│", "").split())
    assert "cannot run at once" in out


def test_predictions_are_made_again(written, tmp_path, cli) -> None:
    (tmp_path / "mine.tg").write_text(TEXT)
    words = "compare mine.tg:rows --machine t4 --size M=4096 N=64 --device interpreter --json f.json"
    cli(words)
    out = cli("replay f.json --device interpreter --json g.json").out
    assert "sums  M=4096 N=64  for one T4, checked on the interpreter" in out
    assert "│ nothing" in out
    (now,) = read_records((tmp_path / "g.json").read_text(), "g.json")
    other = replace(now, notes={**now.notes, "predicted": 2 * now.notes["predicted"]})
    (change,) = find_pair(now, other).changes
    assert change.startswith("predicted: ")
    assert find_pair(now, now).changes == ()


# -- what differs


def test_times_whose_spreads_meet_do_not_differ() -> None:
    then = measured(1.0, 1.1, 1.2, 1.3, 1.4)
    assert find_pair(then, measured(1.3, 1.31, 1.32)).verdict == "within the spread"
    slower = find_pair(then, measured(1.8, 1.8, 1.8))
    assert (slower.apart, slower.verdict, round(slower.ratio or 0, 6)) == (True, "50.0% slower", 1.5)
    assert find_pair(then, measured(0.6)).verdict == "50.0% faster"
    assert find_pair(then, record()).verdict == ""


def test_what_else_is_not_the_same_is_told() -> None:
    then, now = measured(1.0, registers=40, proof="proved"), measured(1.0, registers=48, proof="proved", spills=0)
    assert find_pair(then, now).changes == ("registers: 40 then, 48 now",)


def test_the_surroundings_are_compared() -> None:
    def on(driver: str, clock: float) -> RunRecord:
        conditions = Conditions(9, clock_mhz=Readings(clock, clock, clock))
        return measured(1.0, device=Device("H200", True, "sm_90", {"driver": driver}), conditions=conditions)

    assert list(find_surroundings(on("580", 1980.0), on("580", 1970.0))) == []
    assert list(find_surroundings(on("580", 1980.0), on("590", 1755.0))) == [
        "driver: 580 then, 590 now",
        "clock: 1980 MHz then, 1755 MHz now",
    ]
    told = f"tilegen: 0.0.1 then, {__version__} now"
    assert list(find_surroundings(replace(record(), tilegen="0.0.1"), record())) == [told]


def test_the_fastest_of_many_are_taken_and_the_last_of_one_name() -> None:
    many = [measured(float(n), name=f"row {n}") for n in range(1, 30)]
    assert choose([*many, record("illegal", outcome="illegal")], (), 3) == many[:3]
    assert choose(many, ("row 7",), 3) == [many[6]]
    again = measured(0.1, name="row 1")
    assert choose([*many[:2], again], (), 20) == [again, many[1]]
    library = replace(measured(0.01, name="cuBLAS"), text=None)
    assert choose([library, *many[:2]], (), 20) == many[:2]


# -- mistakes


# name of the golden text -> (the records, the command)
MISTAKES = {
    "no_file": ((), "replay none.jsonl"),
    "folder": ((), "replay ."),
    "no_name": ((record(),), "replay f.jsonl --name row"),
    "library_alone": ((replace(record("cuBLAS"), text=None),), "replay f.jsonl"),
    "refused": ((record(text=RACY),), "replay f.jsonl --device interpreter"),
    "no_kernel": ((record(text=TEXT.replace("sums", "totals")),), "replay f.jsonl"),
    "no_parameter": ((record(parameters={"TS": 8}),), "replay f.jsonl --device interpreter"),
    "edited": ((record(text=TEXT.replace("tile(i", "tile(")),), "replay f.jsonl"),
    "sizes": ((record(sizes={"M": -1, "N": 4}),), "replay f.jsonl --device interpreter"),
    "best": ((record(),), "replay f.jsonl --best 0"),
    "of_own_machine": ((record(notes={"machine": "mine"}),), "replay f.jsonl --device interpreter"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_as_reviewed(name, written, capsys, golden_error) -> None:
    records, words = MISTAKES[name]
    written(*records)
    code = run(shlex.split(words))
    captured = capsys.readouterr()
    assert captured.out == ""
    text = f"$ tilegen {words}\n{captured.err}exit code {code}\n"
    golden_error(text, f"replay/{name}.txt")


def test_every_golden_text_is_of_a_mistake() -> None:
    assert {path.stem for path in ERRORS.iterdir()} == set(MISTAKES)


def test_a_record_of_a_gpu_runs_on_a_cpu_only_if_asked() -> None:
    """Its sizes may take a CPU hours."""
    of_gpu = record(device=Device("NVIDIA H200", True))
    with pytest.raises(DeviceError, match="the records are of NVIDIA H200, and there is no GPU here"):
        require_device(of_gpu, "auto", on_gpu=False)
    require_device(of_gpu, "cpu", on_gpu=False)
    require_device(of_gpu, "auto", on_gpu=True)
    require_device(record(device=Device("PoCL", False)), "auto", on_gpu=False)


@pytest.mark.gpu
def test_a_comparison_on_a_gpu_replays(written, tmp_path, capsys) -> None:
    assert run(shlex.split("compare gemm:tiled --size M=512 N=512 K=512 --json f.json")) == 0
    (one, library) = read_records((tmp_path / "f.json").read_text(), "f.json")
    assert one.conditions.readings > 0
    assert one.device.facts["driver"]
    assert library.text is None
    assert run(shlex.split("replay f.json --json g.json")) == 0
    pairs = json.loads((tmp_path / "g.json").read_text())["differences"]
    assert [each["name"] for each in pairs] == [one.name, library.name]
    assert all(each["ratio"] > 0 for each in pairs)
