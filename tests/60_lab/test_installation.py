"""The command that installs an extra works from where tilegen was installed: a checkout, a wheel, an index."""

import json
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tilegen import installation
from tilegen.backends.compiler import toolkit
from tilegen.backends.devices import opencl
from tilegen.backends.system import gpus
from tilegen.installation import install, install_extra

METADATA = """\
Metadata-Version: 2.4
Name: tilegen
Version: 1.0
Requires-Dist: islpy>=2024.2; sys_platform != 'win32'
Requires-Dist: numpy>=1.26
Requires-Dist: not-there[part]<14,>=13; extra == 'report'
Requires-Dist: nor-this; (sys_platform == 'linux') and extra == 'report'
Requires-Dist: numpy; extra == 'report'
Requires-Dist: numpy; extra == 'plots'
"""


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """tilegen as it is known where it was installed from `origin`, for a shell in a folder."""

    def use(origin, folder):
        info = tmp_path / "tilegen-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(METADATA)
        (info / "direct_url.json").write_text(json.dumps(origin))
        real = installation.distribution
        monkeypatch.setattr(
            installation, "distribution", lambda name: PathDistribution(info) if name == "tilegen" else real(name)
        )
        monkeypatch.setattr(installation, "_pip", "pip {}".format)
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)

    return use


def test_a_checkout_and_a_wheel_are_named_from_the_current_folder(installed, tmp_path):
    checkout, elsewhere = tmp_path / "my checkout", tmp_path / "elsewhere"
    for options in ({}, {"editable": True}):
        editable = "-e " if options else ""
        installed({"url": checkout.as_uri(), "dir_info": options}, checkout)
        assert install_extra("report") == f"pip install {editable}'.[report]'"
        installed({"url": checkout.as_uri(), "dir_info": options}, elsewhere)
        assert install_extra("report") == f"pip install {editable}'{checkout}[report]'"
    wheel = tmp_path / "dist" / "tilegen-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    installed({"url": wheel.as_uri(), "archive_info": {}}, tmp_path)
    assert install_extra("report") == "pip install './dist/tilegen-1.0-py3-none-any.whl[report]'"
    assert install_extra("", "--force-reinstall") == f"pip install --force-reinstall ./dist/{wheel.name}"


@pytest.mark.parametrize("origin", [{}, {"url": "file:///gone/tilegen-1.0-py3-none-any.whl", "archive_info": {}}])
def test_from_an_index_or_a_wheel_that_is_gone_the_missing_packages_are_named(installed, tmp_path, origin, monkeypatch):
    installed(origin, tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    assert install_extra("report") == "pip install 'not-there[part]<14,>=13' nor-this"
    assert install_extra("plots") == "pip install numpy"  # it is there, and does not do
    assert install_extra() == "pip install 'islpy>=2024.2' 'numpy>=1.26'"
    monkeypatch.setattr(sys, "platform", "win32")
    assert install_extra("report") == "pip install 'not-there[part]<14,>=13'"
    assert install_extra() == "pip install 'numpy>=1.26'"


def test_pip_is_that_of_this_python(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert install("torch") == "uv pip install --python ./bin/python torch"
    monkeypatch.setattr(installation, "find_spec", lambda name: object())
    assert install("torch") == "./bin/python -m pip install torch"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").touch(mode=0o755)
    assert install("torch") == "./bin/pip install torch"
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert install("torch") == "pip install torch"


def test_nothing_is_advised_that_no_package_of_the_system_has(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert gpus.install_command() is None
    assert opencl.way_out() is None
    assert toolkit.way_to_a_compiler() == "NVIDIA has no compiler for macOS; on Linux it needs no GPU"


COMMANDS = (
    "check gemm:tiled",
    "compare gemm:tiled",
    "explain gemm:tiled",
    "emit gemm:tiled -o g.cu",
    "prove gemm:tiled",
)
WITHOUT = """\
import sys
for name in ("pyopencl", "cuda", "cupy", "torch", "pynvml"):
    sys.modules[name] = None
from tilegen.cli import run
codes = [run(words.split()) for words in sys.argv[1:]]
sys.exit(any(codes))
"""


def test_without_opencl_and_cuda_all_commands_do_what_they_can(tmp_path):
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\n{WITHOUT}", *COMMANDS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right, all" in done.stdout
    assert "on the interpreter" in done.stdout
    assert (tmp_path / "g.cu").read_text().count("__syncthreads") == 2
