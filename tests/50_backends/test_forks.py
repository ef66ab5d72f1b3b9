"""A process that is forked from one that has run kernels says that it cannot; one that is spawned can."""

import os
import subprocess
import sys

import pytest

SCRIPT = """\
import multiprocessing, sys
import tilegen
from tilegen.backends.devices.devices import engine

DEVICE = sys.argv[1]
SCHEDULED = tilegen.load("vector_add").schedule("plain")

def compiled():
    add, ones = SCHEDULED.compile(DEVICE), engine(DEVICE).xp.ones(5, "float32")
    return add, ones, add.prepare(ones, ones)

def attempt(call):
    try:
        return str(call().tolist())
    except tilegen.errors.DeviceError as error:
        return error.message

def spawned():
    add, ones, prepared = compiled()
    print(attempt(lambda: add(ones, ones)), attempt(prepared))

def forked():
    for call in (lambda: add(ones, ones), prepared, lambda: SCHEDULED.compile(DEVICE)(ones, ones)):
        print(attempt(call))

if __name__ == "__main__":
    add, ones, prepared = compiled()
    print(attempt(lambda: add(ones, ones)), attempt(prepared), flush=True)
    for how, what in (("fork", forked), ("spawn", spawned)):
        process = multiprocessing.get_context(how).Process(target=what)
        process.start()
        process.join(120)
        assert process.exitcode == 0, (how, process.exitcode)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.parametrize(
    ("device", "used"),
    [
        pytest.param("cpu", "PoCL", marks=pytest.mark.pocl),
        pytest.param("cuda", "a GPU", marks=pytest.mark.gpu),
        ("interpreter", None),
    ],
)
def test_a_forked_process_says_that_it_cannot_and_a_spawned_one_runs(device, used, tmp_path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py", device], cwd=tmp_path, capture_output=True, text=True)
    twos = str([2.0] * 5)
    said = f"{used} was in use when this process was forked, and cannot be used in it" if used else twos
    assert done.stdout.splitlines() == [f"{twos} {twos}", said, said, said, f"{twos} {twos}"], done.stderr
