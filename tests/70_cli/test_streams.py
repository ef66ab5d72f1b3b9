"""Standard input and output that are closed, full or of another encoding; and what others have written."""

import ctypes
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilegen.cli import run
from tilegen.errors import SourceError, visible
from tilegen.frontend.files import MOST_BYTES
from tilegen.lab.records.records import RunRecord, line_of

OWN = "kernel own(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n\nschedule s for own(T=8):\n    blocks(i, T) -> b, t\n"
EVIL = "\x1b[31m\x1b]0;title\x07\x08\x9b5m\u202e[/b]$"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.tg").write_text(OWN)
    return tmp_path


@pytest.mark.parametrize(
    "words", ["show own.tg", "check own.tg --device interpreter", "list --json -", "--help", "cat gemm"]
)
def test_standard_output_that_is_full(words, monkeypatch, capsys) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        assert run(words.split()) == 2
    assert capsys.readouterr().err == "error: cannot write to standard output: No space left on device\n"


def test_standard_error_that_is_full(monkeypatch, capsys) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", full)
        assert run(["show", "none.tg"]) == 2
        assert run(["list", "own.tg"]) == 0
    assert "kernel own" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("show own.tg >&-", 2, "error: cannot write to standard output: Bad file descriptor\n"),
        ("show - <&-", 2, "error: cannot read standard input: Bad file descriptor\n"),
        ("emit own.tg -o own.cu <&- >&- 2>&-", 0, ""),
    ],
)
def test_a_stream_that_is_closed(words, code, says) -> None:
    text = f"{sys.executable} -m tilegen {words}"
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, says)
    assert ".cu" not in words or Path("own.cu").read_text().startswith("// kernel own")


@pytest.mark.parametrize("file", ["records /dev/zero", "records -", "replay /dev/zero", "show -", "show /dev/zero"])
def test_what_does_not_end_is_not_read_to_its_end(file, monkeypatch, capsys) -> None:
    with open("/dev/zero") as zeros:
        monkeypatch.setattr(sys, "stdin", zeros)
        assert run(file.split()) in (1, 2)
    assert re.search(f"more than {MOST_BYTES} characters|the text has 10485", capsys.readouterr().err)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16", "cp1252"])
def test_output_of_any_encoding(encoding, monkeypatch) -> None:
    Path("own.tg").write_text(f"# \u00e9\u20ac\n{OWN}")
    for words in ("cat own.tg", "check own.tg --device interpreter", "list own.tg", "show none"):
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", out)
        assert run(words.split()) == (2 if "none" in words else 0)
        out.flush()
        assert out.buffer.getvalue().decode(encoding)
    assert run(["cat", "own.tg", "--", "\u00e9"]) == 2  # click's own error
    out.flush()
    assert "unexpected extra argument" in out.buffer.getvalue().decode(encoding)


def test_a_name_that_is_not_utf_8(capsys) -> None:
    name = os.fsdecode(b"o\xffn.tg")
    Path(name).write_text(OWN)
    page, code = os.fsdecode(b"p\xff.html"), os.fsdecode(b"c\xff.cu")
    for words in (["check", name, "--device", "interpreter"], ["emit", name, "--lines", "-o", code], ["prove", name]):
        assert run(words) == 0
    assert Path(code).read_text().startswith("// kernel own")
    assert run(["report", name, "-o", page, "--no-compile"]) == 0
    assert "o\ufffdn.tg" in Path(page).read_text()


def test_records_and_names_act_on_no_terminal(capsys) -> None:
    record = RunRecord(EVIL, "own", "refused", {"N": 8}, error=EVIL, doubts=(EVIL,), command=EVIL)
    Path("r.jsonl").write_text(line_of(record) + "\n")
    name = f"{EVIL.replace('/', '')}.tg"
    Path(name).write_text(OWN)
    Path("none\n.tg").write_text(OWN + "x")
    commands = (["records", "r.jsonl"], ["check", name, "--device", "interpreter"], ["show", f"{name}:none"], [EVIL])
    for words in (*commands, ["list", f"--{EVIL}"], ["show", EVIL], ["show", "none\n.tg"], ["compare", name, "own.tg"]):
        run(words)
        shown = capsys.readouterr()
        assert visible(shown.out + shown.err) == shown.out + shown.err, words
        assert "[/b]$" in shown.out + shown.err or words[0] != "records"


@pytest.mark.parametrize("sign", [*EVIL[:2], "\x00", "\x0c", "\r", "\u202e", "\udcff"])
def test_a_comment_has_no_such_signs(sign) -> None:
    """What is not refused goes on: into lists, the texts of kernels, and pages."""
    from tilegen import load

    if sign in "[":
        load(f"# {sign}\n{OWN}")
        return
    with pytest.raises(SourceError, match=f"the character U\\+{ord(sign):04X} cannot stand here") as raised:
        load(f"# a comment {sign} of two parts\n{OWN}")
    assert visible(raised.value.render()) == raised.value.render()


def test_a_text_of_anybody_is_a_comment() -> None:
    from tilegen.backends.text.lines import comment_lines

    assert comment_lines("a\\\n#if 0 ??/\nb\x1b") == ["// a\\.", "// #if 0 ??/.", "// b\u241b"]


def test_a_failing_disk_keeps_what_was_there(folder, monkeypatch, cli) -> None:
    assert run(["list", "own.tg", "--json", "list.json"]) == 0
    before = Path("list.json").read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert "cannot write list.json: No space left on device" in cli(["list", "own.tg", "--json", "list.json"], 2).err
    assert Path("list.json").read_bytes() == before
    assert {path.name for path in folder.iterdir()} == {"own.tg", "list.json"}


def test_each_command_replaces_its_own_output(capsys) -> None:
    rows = [RunRecord(name, "own", "measured", {"N": 8}, text=OWN, samples=(1.0, 2.0), unit="GB/s") for name in "ab"]
    Path("r.jsonl").write_text("".join(line_of(each) + "\n" for each in rows))
    for words in (
        ["emit", "own.tg", "-o", "own.cu"],
        ["emit", "own.tg", "--target", "opencl", "-o", "own.cl"],
        ["list", "own.tg", "--json", "list.json"],
        ["explain", "own.tg", "--no-compile", "--json", "explain.json"],
        ["plot", "r.jsonl", "-o", "bars.svg"],
        ["records", "r.jsonl", "--t4", "t4.json"],
        ["records", "r.jsonl", "--t4-metadata", "metadata.json"],
        ["report", "own.tg", "--no-compile", "-o", "page.html"],
        ["show", "own.tg", "--json", "show.json"],
    ):
        path = Path(words[-1])
        assert [run(words), run(words)] == [0, 0], words
        assert path.stat().st_size
    assert run(["show", "own.tg", "--json", "list.json"]) == 2
    assert json.loads(Path("list.json").read_text())[0]["schema"] == "tilegen.list/1"
    assert run(["emit", "own.tg", "-o", "/dev/null"]) == 0


def test_a_link_is_written_through(folder) -> None:
    Path("real.cu").write_text("")
    Path("link.cu").symlink_to("real.cu")
    assert run(["emit", "own.tg", "-o", "link.cu"]) == 0
    assert Path("link.cu").is_symlink()
    assert Path("real.cu").read_text().startswith("// kernel own")


def obey_modes() -> None:
    """Takes from root what lets it write everywhere, once the next program begins."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability)  # PR_CAPBSET_DROP


# command -> what is said of it
CLOSED = {
    "emit gemm:tiled -o closed/a.cu": "cannot write closed/a.cu: that is not permitted",
    "emit gemm:tiled -o hidden/a/a.cu": "cannot write hidden/a/a.cu: Permission denied",
    "export gemm:tiled -o closed": "cannot write into closed: it is not yours to write into",
    "export gemm:tiled -o closed/new": "/closed: it is not yours to write into",
    "export gemm:tiled -o hidden/a/b": "cannot write into hidden/a/b: Permission denied",
    "show hidden/a.tg": "cannot read hidden/a.tg: Permission denied",
    "records hidden/a.jsonl": "cannot read hidden/a.jsonl: Permission denied",
    "tune gemm --device cpu --resume closed/r.jsonl": "cannot write closed/r.jsonl: that is not permitted",
}


def test_a_folder_of_others() -> None:
    for name, mode in (("closed", 0o555), ("hidden", 0o600)):
        Path(name).mkdir()
        Path(name).chmod(mode)
    script = f"from tilegen.cli import run; print(*(run(words.split()) for words in {[*CLOSED]!r}))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=obey_modes)
    assert done.stdout.split() == ["2"] * len(CLOSED)
    for said, line in zip(CLOSED.values(), done.stderr.splitlines(), strict=True):
        assert said in line
