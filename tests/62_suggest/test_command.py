"""The command suggest and the method of the same name."""

from tilegen import api
from tilegen.cli import run

KERNEL = """def half(x) = 0.5 * x
kernel halves(X: f32[M, N], by: int = 2) -> Y: f32[M, N]:
    Y[i, j] = half(X[i, j]) / f32(by)
"""


def test_a_suggestion_is_a_file_of_its_own(tmp_path, capsys):
    (tmp_path / "own.tg").write_text(KERNEL)
    out = tmp_path / "mine.tg"
    assert run(["suggest", f"{tmp_path}/own.tg", "--machine", "h100", "--size", "M=64", "-o", str(out)]) == 0
    assert "kernel halves and schedule suggested" in capsys.readouterr().out
    file = api.load(out)
    assert file.text.startswith("def half(x)")
    assert len(file.schedule("suggested").stages) > 3
    assert run(["suggest", f"{tmp_path}/own.tg", "-o", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_what_people_have_written_is_told(capsys):
    assert run(["suggest", "transpose"]) == 0
    told = capsys.readouterr()
    assert "schedule suggested for transpose" in told.out
    assert "somebody has written schedules for transpose: naive, tiled" in told.err


def test_sizes_and_attributes(capsys):
    file = api.from_text(KERNEL)
    assert "# with by = 4\n" in file.kernel(by=4).suggest("h100", M=8, N=8).text
    assert "for M=8, N=8" in file.kernel().suggest("h100", M=8, N=8).text
    assert run(["suggest", "transpose", "--size", "Q=3"]) == 2
    assert "has no size 'Q'" in capsys.readouterr().err
