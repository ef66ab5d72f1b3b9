"""What the doctor finds on machines that are not this one, and what it says mends them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tilegen import installation
from tilegen.backends.compiler import fatbin, nvrtc, toolkit
from tilegen.backends.devices import opencl
from tilegen.backends.system import gpus
from tilegen.backends.system.store import Store
from tilegen.installation import install_extra
from tilegen.lab import doctor

ABSENT = gpus.Missing("no GPU was found (there is no NVIDIA driver)")
HEADER = "#define CUDART_VERSION  {}\n"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of a driver, a compiler, headers, packages; each may be missing."""

    def use(*, driver=None, compiler=None, headers=None, packages=(), gpu=ABSENT):
        (tmp_path / "cuda_runtime_api.h").write_text(HEADER.format(headers))
        monkeypatch.setattr(gpus, "driver_version", lambda: driver)
        monkeypatch.setattr(gpus, "install_extra", "pip install '.[{}]'".format)
        monkeypatch.setattr(installation, "_pip", "pip {}".format)
        monkeypatch.setattr(gpus, "missing", lambda: gpu)
        monkeypatch.setattr(gpus, "names", lambda: ("NVIDIA H200 (sm_90, 139 GiB)",) * 2)
        monkeypatch.setattr(nvrtc, "unavailable_reason", lambda: None if compiler else "the compiler is not installed")
        monkeypatch.setattr(nvrtc, "version", lambda: compiler)
        monkeypatch.setattr(toolkit, "header_folder", lambda: tmp_path if headers else None)
        monkeypatch.setattr(toolkit, "nvdisasm", lambda: Path("/somewhere/nvdisasm") if compiler else None)
        monkeypatch.setattr(doctor, "distributions", lambda: [Package(name) for name in packages])
        monkeypatch.setattr(doctor, "version", version_among(packages))
        monkeypatch.setattr(fatbin, "library_missing", lambda: None if compiler else "nvFatbin is not installed")
        monkeypatch.setattr(Store, "reason_not_used", lambda self: "")
        monkeypatch.setattr(opencl, "unavailable_reason", lambda: "no OpenCL platform was found")
        return {each.name: each for each in doctor.examine()}

    return use


class Package:
    def __init__(self, name):
        self.name = name


def version_among(packages):
    def version(name):
        if name in (*packages, "islpy"):
            return "14.2"
        raise doctor.PackageNotFoundError(name)

    return version


def test_a_machine_without_anything_is_told_each_command(machine):
    found = machine()
    assert {name for name, each in found.items() if each.state == "ok"} == {"Python", "the judge", "cache"}
    for name in ("NVRTC", "CUDA headers", "nvdisasm", "nvFatbin"):
        assert (found[name].state, found[name].way_out) == ("missing", "pip install '.[compiler]'")
    assert found["cupy"].way_out is None  # there is no driver that it could run on
    assert found["GPU"].state == "missing"
    assert found["OpenCL"].way_out == opencl.way_out()
    assert found["torch"].way_out == "pip install torch"
    assert found["pages"].found == "jinja2, matplotlib, plotly are not installed"
    assert found["pages"].way_out == install_extra("report")


def test_with_a_driver_the_extra_is_of_its_version(machine):
    for driver, extra in (((12, 4), "cuda12"), ((13, 1), "cuda13"), ((14, 0), "cuda13"), ((11, 8), "compiler")):
        found = machine(driver=driver)
        assert found["NVRTC"].way_out == found["cupy"].way_out == f"pip install '.[{extra}]'"


def test_a_whole_machine_lacks_nothing(machine):
    packages = ["cupy-cuda13x", "nvidia-ml-py", "torch", "jinja2", "matplotlib", "plotly", "pebble", "optuna", "scipy"]
    packages += ["distributed", "nbclient", "ipykernel"]
    found = machine(driver=(13, 0), compiler=(13, 5), headers=13050, packages=packages, gpu=None)
    found.pop("OpenCL")
    assert all(each.state == "ok" and each.way_out is None for each in found.values())
    assert found["GPU"].found == "NVIDIA H200 (sm_90, 139 GiB); NVIDIA H200 (sm_90, 139 GiB)"
    assert found["cupy"].found == "cupy-cuda13x 14.2"
    assert found["CUDA headers"].found.startswith("CUDA 13.5, ")


def test_a_driver_that_is_too_old_is_broken_and_not_absent(machine):
    found = machine(driver=(12, 8), gpu=gpus.Missing("the NVIDIA driver is too old: ...", "install a newer driver"))
    assert (found["GPU"].state, found["GPU"].way_out) == ("broken", "install a newer driver")


def test_headers_of_another_version_than_the_compiler(machine):
    found = machine(compiler=(12, 9), headers=13020)["CUDA headers"]
    assert (found.state, found.way_out) == (
        "broken",
        "pip uninstall nvidia-cuda-runtime, then pip install 'nvidia-cuda-runtime-cu12>=12.9,<13'",
    )
    assert found.found.startswith("of CUDA 13, and NVRTC is of CUDA 12: ")
    found = machine(compiler=(13, 5), headers=12090)["CUDA headers"]
    assert found.way_out == "pip install 'nvidia-cuda-runtime>=13,<14'"


def test_a_compiler_that_is_newer_than_the_driver(machine):
    found = machine(driver=(12, 8), compiler=(13, 5), headers=13050)["NVRTC"]
    assert found.state == "broken"
    assert found.found == "CUDA 13.5, and the driver runs CUDA 12.8, which loads no code of it"
    assert found.way_out.endswith("then pip install '.[cuda12]'")
    assert machine(driver=(13, 0), compiler=(12, 9), headers=12090)["NVRTC"].state == "ok"


def test_a_cache_that_is_not_used_says_why(machine, monkeypatch):
    monkeypatch.setenv("TILEGEN_CACHE_BYTES", "0")
    row = {each.name: each for each in doctor.examine()}["cache"]
    assert (row.state, row.found) == ("missing", "TILEGEN_CACHE_BYTES is 0")


def test_two_packages_of_cupy_are_in_each_others_way(machine):
    found = machine(packages=("cupy-cuda13x", "cupy-cuda12x"))["cupy"]
    assert (found.state, found.way_out) == ("broken", "pip uninstall cupy-cuda12x")


def test_the_command_prints_rows_and_each_way_out_once(machine, cli):
    machine()
    lines = cli(["doctor"]).out.splitlines()
    assert lines[1].split()[:2] == ["ok", "Python"]
    assert "for NVRTC, CUDA headers, nvdisasm, nvFatbin: pip install '.[compiler]'" in lines
    found = json.loads(cli(["doctor", "--json", "-"]).out)["found"]
    assert [each["name"] for each in found] == [name for name, *_ in doctor._PROBES]


def test_what_nothing_works_without_ends_with_5(machine, monkeypatch, cli):
    machine()

    def broken(*_, **__):
        raise ImportError("libisl.so: cannot open shared object file\nmore of it")

    monkeypatch.setattr(doctor, "apply", broken)
    out = " ".join(cli(["doctor"], 5).out.split())
    assert "broken the judge" in out
    assert "libisl.so: cannot open shared object file (for everything)" in out
    assert "more of it" not in out


def test_a_part_that_is_not_installed_is_told_by_every_command():
    code = "import sys; sys.modules['islpy'] = None; from tilegen.cli import run; sys.exit(run(['doctor']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith("error: a part of tilegen does not load: ")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.gpu
def test_it_finds_the_gpu():
    found = {each.name: each for each in doctor.examine()}
    assert found["GPU"].state == found["NVIDIA driver"].state == found["cupy"].state == "ok"
    assert "sm_" in found["GPU"].found
