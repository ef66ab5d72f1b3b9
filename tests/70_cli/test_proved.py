"""What is called proved is the CUDA program, wherever the kernel runs; what keeps it from being, all commands say."""

import json
import re

import pytest

import tilegen
from tests.support.mutants.launch_faults import barrier_dropped
from tilegen.backends.calls.text_versions import TextVersion, TextVersions
from tilegen.backends.devices.devices import engine, program
from tilegen.backends.system.record import Record
from tilegen.cli import run
from tilegen.errors import ProofError
from tilegen.lab.checks.check import cases, check

# What the CPU can run and no GPU can: consumers that are no whole warp, and too many registers.
REFUSED = {
    "in registers": """
kernel a(x: f32[N]) -> y: f32[N]:
    y[i] = x[i] * 2
schedule s for a:
    tile(i, 17000) -> b, v
    bind(b, block.x)
    cache_register(x, at=b)
""",
}


@pytest.mark.parametrize("says", REFUSED)
def test_check_and_compare_report_what_emit_does(says, tmp_path, capsys, cli) -> None:
    (file := tmp_path / "a.tg").write_text(REFUSED[says])
    code = run(["emit", str(file)])
    error = capsys.readouterr().err
    assert says in error
    for device in ("auto", "interpreter"):
        assert cli(["check", str(file), "--device", device], code).err == f"s: {error}"
        out = cli(["compare", str(file), "--device", device], code).out
        assert error.splitlines()[0] in out
        assert "proved: " not in out  # of what nothing was


@pytest.mark.parametrize("device", ["auto", "interpreter"])
def test_a_fault_of_the_cuda_program_alone_is_found_where_another_one_runs(device) -> None:
    tree = tilegen.load("hgemm").kernel("hgemm").schedule("shared").tree
    tried = cases(tree.kernel, [{"M": 8, "N": 8, "K": 8}])
    right = program(tree, engine(device))
    assert right.verdict == "proved"
    assert check(right, tried)

    class Faulty(TextVersions):
        def launches(self, version: TextVersion):
            return tuple(next(iter(barrier_dropped(each))) for each in super().launches(version))

    right.cuda = Faulty(tree, "cuda", Record())
    assert right.verdict == "refused: races"
    with pytest.raises(ProofError, match="no barrier stands between"):
        check(right, tried)


def test_what_is_trusted_can_be_read(cli) -> None:
    (words,) = re.findall(r"tilegen (help \w+) says what is trusted", cli(["prove", "gemm", "--schedule", "tiled"]).out)
    assert "the printer (backends/text)" in cli(words.split()).out.replace("`", "")


def test_what_is_proved_stands_below_the_table(capsys, cli) -> None:
    few = ["--size", "M=8", "N=8", "K=8", "--device", "interpreter"]
    assert run(["check", "hgemm", "--kernel", "hgemm", "--schedule", "naive,fragments", *few]) == 0
    assert "proved: the CUDA programs (fragments: needs sm_80 or later); the trees ran." in capsys.readouterr().out
    found = json.loads(cli(["check", "hgemm", "--kernel", "hgemm", "--schedule", "fragments", *few, "--json", "-"]).out)
    assert found["proved"] == {"programs": ["cuda"], "ran": "trees"}
    assert found["needs"] == {"fragments": "needs sm_80 or later"}
    for word in ("compare", "ladder"):
        assert run([word, "vector_add:plain", "--machine", "t4", "--device", "interpreter"]) == 0
        assert "proved: the CUDA programs; the trees ran." in capsys.readouterr().out
