"""The programs in examples/ end with a plain sentence where something is missing, and never in a traceback."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
WITH_TORCH = ("rows", "convolutions", "gemm_shapes", "epilogues")

# torch as it is on a machine without a GPU, as far as the programs look before they stop.
TORCH = """\
class cuda:
    @staticmethod
    def is_available():
        return False
"""


def run_example(name: str, *words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """The program with `folder` before all other places that modules come from."""
    code = f"import runpy, sys; sys.path[:0] = {[str(folder), str(EXAMPLES)]!r}; sys.argv[0] = {name!r}; "
    code += f"runpy.run_path({str(EXAMPLES / f'{name}.py')!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", WITH_TORCH)
def test_without_a_gpu_it_says_so(name, tmp_path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)
    for part in ("nn/__init__.py", "nn/functional.py"):
        (tmp_path / "torch" / part).parent.mkdir(exist_ok=True)
        (tmp_path / "torch" / part).touch()
    done = run_example(name, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "torch finds no GPU: tilegen doctor says what is missing\n"


@pytest.mark.long
def test_a_sweep_draws_the_same_shapes_for_a_seed_and_a_fit_takes_its_times(tmp_path) -> None:
    code = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import sweep; c = sweep.chooser_of('f32'); "
    code += "found = [list(sweep.draw('f32', 7, 20, c)) for _ in range(2)]; assert found[0] == found[1]; "
    code += "assert all(s['M'] * s['N'] * s['K'] >= 1e8 for s in found[0]); import json; "
    code += "own = {m.schedule: m for m in reversed(c.candidates)}; "
    code += "lines = [(own[n], s, slow) for s in found[0] for slow, n in ((1, 'across'), (9, 'whole_rows'))]; "
    code += "times = [(m.name, s, slow * m.microseconds(s)) for m, s, slow in lines]; "
    code += "print(*[json.dumps(dict(kind='f32', sizes=s, member=m, us=us)) for m, s, us in times], sep='\\n')"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (tmp_path / "times.jsonl").write_text(made.stdout)
    done = run_example("fit", str(tmp_path / "times.jsonl"), "--to", str(tmp_path / "h.json"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "h.json").read_text())["families"].values()
    assert set(found) > {"*", "across *", "whole_rows *"}
    assert set(found) > {"*", "across", "whole_rows(TM=128, TN=128)"}
    # A member with few times has the coefficients of its schedule.
    known = {name: {key: value for key, value in each.items() if key != "formula"} for name, each in found.items()}
    assert known["across(TM=64, TN=64, TK=16, WI=2)"] == known["across *"]
    (off,) = re.findall(r"40 times, off by (\d+) %", done.stdout)
    assert int(off) < 10


@pytest.mark.parametrize("word", ["--help", "many", "0"])
def test_the_times_of_code_generation_explain_their_argument(word, tmp_path) -> None:
    done = run_example("codegen_time", word, folder=tmp_path)
    assert done.returncode == 1
    assert "python examples/codegen_time.py [processes]" in done.stderr
    assert "Traceback" not in done.stderr
