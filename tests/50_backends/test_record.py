"""What one process has found out, the next one need not, if kernel, steps, tilegen and compiler are the same."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tilegen
from tilegen import schedule
from tilegen.backends.calls import text_versions
from tilegen.backends.compiler import nvrtc
from tilegen.backends.system import record
from tilegen.backends.system.store import store
from tilegen.errors import ProofError

TEXT = """
kernel twice(A: f32[N]) -> B: f32[N]:
    B[i] = 2 * A[i]
schedule threads for twice(T=64):
    tile(i, T) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""
WORK = ((schedule, "judge_tree"), (text_versions, "lower"), (text_versions, "prove"), (text_versions, "emit"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A store of the test's own."""
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "100000000")
    return tmp_path / "cache"


@pytest.fixture
def work(monkeypatch):
    """The names of what is called for a kernel and was not record."""
    called = []

    def count(module, name):
        real = getattr(module, name)

        def counted(*arguments, **keywords):
            called.append(name)
            return real(*arguments, **keywords)

        monkeypatch.setattr(module, name, counted)

    for module, name in WORK:
        count(module, name)
    return called


def run(text=TEXT, fix=None, cache=True, **parameters):
    found = tilegen.load(text, cache=cache).schedule("threads", fix, **parameters).compile("cpu")
    return found(np.arange(100, dtype="f4"))


def steps(cache=True, tile=64):
    begun = tilegen.load(TEXT, cache=cache).kernel().schedule()
    return begun.tile("i", tile, into=("b", "t")).bind("b", "block.x").bind("t", "thread.x").compile("cpu")


def done(work, *call, **keywords):
    """What the second of two equal calls had to find out anew, and its result."""
    work.clear()
    result = run(*call, **keywords)
    assert np.array_equal(result, 2 * np.arange(100, dtype="f4"))
    return set(work)


@pytest.mark.pocl
def test_nothing_is_found_out_twice(work):
    assert done(work) == {"judge_tree", "lower", "prove", "emit"}
    assert done(work) == set()


@pytest.mark.pocl
def test_a_change_of_anything_is_found_out_anew(work):
    done(work)
    assert "prove" in done(work, TEXT.replace("2 * A[i]", "A[i] + A[i]"))
    assert "prove" in done(work, TEXT.replace("tile(i, T) -> b, t", "tile(i, T * 2) -> b, t"))
    assert "prove" in done(work, T=32)
    assert "prove" in done(work, fix={"N": 100})
    assert done(work) == done(work, T=32) == done(work, fix={"N": 100}) == set()


@pytest.mark.pocl
def test_tilegen_itself_is_part_of_the_identity(work, monkeypatch):
    done(work)
    monkeypatch.setattr(record, "own_digest", lambda: "another tilegen")
    assert "prove" in done(work)
    assert done(work) == set()
    monkeypatch.setattr(record, "own_digest", lambda: None)
    assert done(work) == done(work) == {"judge_tree", "lower", "prove", "emit"}


def test_the_digest_is_of_all_files_that_decide(monkeypatch):
    first, files = record.own_digest(), dict(record._own_files())
    for name in (
        "judge/order.py",
        "__init__.py",
        "backends/text/bulk.cuh",
        "grammar/tilegen.lark",
        "schedules/std.tg",
        "examples/gemm.tg",
    ):
        changed = {**files, name: files[name] + b" "}
        monkeypatch.setattr(record, "_own_files", lambda changed=changed: iter(changed.items()))
        assert record.own_digest.__wrapped__() != first, name


def test_a_file_changed_since_the_process_began_is_not_what_it_runs(monkeypatch, tmp_path):
    file = tmp_path / "judge.py"
    file.write_text("")
    monkeypatch.setattr(record, "_modules", lambda: [file])
    monkeypatch.setattr(record, "_own_files", lambda: iter({"judge.py": b""}.items()))
    os.utime(file, (record._STARTED - 10,) * 2)
    assert record.own_digest.__wrapped__()
    os.utime(file, (record._STARTED + 10,) * 2)
    assert record.own_digest.__wrapped__() is None


@pytest.mark.pocl
def test_steps_of_python_are_remembered_one_by_one(work):
    ones = np.ones(100, "f4")
    assert (steps()(ones) == 2).all()
    work.clear()
    assert (steps()(ones) == 2).all()
    assert not work
    assert (steps(tile=32)(ones) == 2).all()
    assert set(work) == {"judge_tree", "lower", "prove", "emit"}


@pytest.mark.pocl
def test_nothing_is_taken_or_kept_where_it_is_not_wanted(work):
    assert done(work, cache=False) == {"judge_tree", "lower", "prove", "emit"}
    assert store().contents().entries == 0
    done(work)
    assert done(work, cache=False) == {"judge_tree", "lower", "prove", "emit"}


@pytest.mark.pocl
def test_what_is_unproved_is_never_taken_for_proved(work, monkeypatch):
    found = tilegen.load(TEXT)

    def unproved(*arguments):
        open_ = text_versions.Proof((tilegen.proof.Obligation("bounds", 1, 0.0, unproved="too large"),))
        work.append("prove")
        return open_

    monkeypatch.setattr(text_versions, "prove", unproved)
    ones = np.ones(100, "f4")
    assert (found.schedule("threads").compile("cpu", unproved=True)(ones) == 2).all()
    with pytest.raises(ProofError, match="unproved: bounds: too large"):
        found.schedule("threads").compile("cpu")(ones)
    work.clear()
    assert (found.schedule("threads").compile("cpu", unproved=True)(ones) == 2).all()
    assert "prove" in work


SECOND = """
import json, sys
import numpy as np
import tilegen
from tilegen import schedule
from tilegen.backends.calls import text_versions
from tilegen.backends.compiler import nvrtc

called = []
for module, name in ((schedule, "judge_tree"), (text_versions, "lower"), (text_versions, "prove"),
                     (text_versions, "emit"), (nvrtc, "_compile")):
    def counted(*arguments, real=getattr(module, name), name=name, **keywords):
        called.append(name)
        return real(*arguments, **keywords)
    setattr(module, name, counted)
"""
CALL = """
a = np.arange(70 * 50, dtype="f4").reshape(70, 50) % 7
multiply = tilegen.load("gemm").schedule(sys.argv[1]).compile("cpu")
right = [bool((multiply(x, x.T.copy()) == x @ x.T).all()) for x in (a, np.ones((64, 64), "f4"))]
print(json.dumps([sorted(set(called)), right]))
"""
CALL_ON_GPU = """
import cupy
a = cupy.arange(70 * 50, dtype="f4").reshape(70, 50) % 7
multiply = tilegen.load("gemm").schedule(sys.argv[1]).compile("cuda")
right = [bool((multiply(x, x.T.copy()) == x @ x.T).all()) for x in (a, cupy.ones((64, 64), "f4"))]
print(json.dumps([sorted(set(called)), right]))
"""
COMPILE = """
text = tilegen.load("gemm").schedule("tiled").source("cuda")
called.clear()
print(json.dumps([called, nvrtc.compile_text(text, sys.argv[1]).resources["gemm"].registers]))
"""


def process(code, argument, seed):
    """What another process prints, with other hashes."""
    command = [sys.executable, "-c", SECOND + code, argument]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.pocl
@pytest.mark.parametrize("name", ["tiled", "pipelined"])
def test_a_second_process_judges_lowers_proves_and_prints_nothing(name):
    assert process(CALL, name, "1") == [["emit", "judge_tree", "lower", "prove"], [True, True]]
    assert process(CALL, name, "2") == [[], [True, True]]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["tiled", "across"])
def test_a_second_process_with_a_gpu_compiles_nothing(name):
    assert process(CALL_ON_GPU, name, "1") == [["_compile", "emit", "judge_tree", "lower", "prove"], [True, True]]
    assert process(CALL_ON_GPU, name, "2") == [[], [True, True]]


@pytest.mark.nvrtc
def test_a_second_process_compiles_nothing():
    first, registers = process(COMPILE, "sm_80", "1")
    assert first == ["_compile"]
    assert process(COMPILE, "sm_80", "2") == [[], registers]
    assert process(COMPILE, "sm_90", "2")[0] == ["_compile"]


@pytest.mark.nvrtc
def test_machine_code_is_that_of_the_compiler_and_its_options(monkeypatch):
    text, calls = 'extern "C" __global__ void f(float* a) { a[threadIdx.x] = 1; }', []
    real = nvrtc._compile
    monkeypatch.setattr(nvrtc, "_compile", lambda *arguments: calls.append(arguments) or real(*arguments))
    first = nvrtc.compile_text(text, "sm_90")
    assert nvrtc.compile_text(text, "sm_90") == first
    assert len(calls) == 1
    monkeypatch.setattr(nvrtc, "version", lambda: (99, 0))
    nvrtc.compile_text(text, "sm_90")
    monkeypatch.setattr(nvrtc, "options", lambda: ("--std=c++17",))
    nvrtc.compile_text(text, "sm_90")
    nvrtc.compile_text(text + "\n", "sm_90")
    assert len(calls) == 4
