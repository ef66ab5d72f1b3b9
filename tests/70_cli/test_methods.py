"""Steps as methods of Python: the stub for editors and type checkers, dir(), help(), texts, what a prompt shows."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilegen
from tests.support.cover import each_stock_schedule
from tilegen.errors import UsageError
from tilegen.frontend.stock import standard_steps
from tilegen.primitives import registry
from tilegen.primitives.calling.signature import (
    signature_of_primitive,
    stub,
)

ROOT = Path(__file__).parents[2]
TEXT = "kernel twice(A: f32[N]) -> B: f32[N]:\n    B[i] = 2 * A[i]\n"
OWN = f"""{TEXT}
# Cut it twice.
define cut(loop) -> a, b, c:
    tile(loop, 8) -> a, b
    tile(b, 4) -> b, c
"""

USER = """\
import tilegen

s = tilegen.load("gemm").kernel().schedule().tile("i", 32, into=("bi", "ti")).order("bi", "...", "ti")
s = s.blocks("j", 64, into=["b", "t"]).cache_register("C", at="b", into="kept").order(..., "k")
text: str = s.source("cuda") + s.to_text()
s.tlie("i", 32)
s.tile("i", "32", into=("a", "b"))
s.tile("i", 32, into="a")
s.cache_register("C")
"""
MISTAKES = [
    (6, '"Scheduled" has no attribute "tlie"'),
    (7, 'incompatible type "str"; expected "int | None"'),
    (8, 'incompatible type "str"; expected "tuple[str, str] | list[str]"'),
    (9, 'Missing positional argument "at"'),
]


@pytest.fixture
def plain():
    return tilegen.load(TEXT).kernel().schedule()


def test_the_package_says_that_it_has_types() -> None:
    assert (ROOT / "tilegen" / "py.typed").exists()


@pytest.mark.long
def test_a_type_checker_knows_the_steps(tmp_path) -> None:
    """With the types that a build writes, which take the place of the module without them here."""
    pytest.importorskip("mypy")
    file, types = tmp_path / "mine.py", tmp_path / "_methods.pyi"
    file.write_text(USER)
    types.write_text(stub(standard_steps()))
    module = ROOT / "tilegen/primitives/calling/methods.py"
    words = ["--strict", "--follow-imports=silent", "--cache-dir", str(ROOT / ".mypy_cache/steps")]
    for source in (module, module.with_suffix(".pyi")):
        words += ["--shadow-file", str(source), str(types)]
    command = [sys.executable, "-m", "mypy", *words, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    found = re.findall(r"mine\.py:(\d+): error: (.*)", done.stdout)
    assert len(found) == len(MISTAKES), done.stdout + done.stderr
    for (line, message), (place, words) in zip(found, MISTAKES, strict=True):
        assert int(line) == place
        assert words in message


def test_no_step_is_hidden_by_an_attribute() -> None:
    own = {name for name in vars(tilegen.Scheduled) if not name.startswith("_")}
    assert not own & {*registry(), *standard_steps()}


def test_dir_lists_what_is_there(plain) -> None:
    assert {"File", "Kernel", "Scheduled", "TilegenError", "load", "__version__"} <= set(dir(tilegen))
    assert {*registry(), *standard_steps(), "compile", "source", "to_text"} <= set(dir(plain))
    assert "cut" in dir(tilegen.load(OWN).kernel().schedule())


def test_help_of_a_method_is_that_of_the_step(plain) -> None:
    assert inspect.signature(plain.tile) == signature_of_primitive("tile")
    assert str(inspect.signature(plain.order)) == "(*loops: str | ellipsis)"
    assert plain.tile.__doc__.startswith("tile(i, 128) -> bi, ti\n\nCut a loop into tiles")
    assert plain.blocks.__doc__.endswith(
        "stands for:\n    tile(loop, size) -> block, thread\n    bind(block, block.x)\n    bind(thread, thread.x)"
    )
    own = tilegen.load(OWN).kernel().schedule()
    assert str(inspect.signature(own.cut)) == "(loop: str | int, *, into: tuple[str, str, str] | list[str])"
    assert own.cut("i", into=("x", "y", "z")).core.stages[-1].step.text == "cut(i) -> x, y, z"


@pytest.mark.parametrize("word", registry())
def test_every_signature_takes_what_the_step_takes(word) -> None:
    names = set(signature_of_primitive(word).parameters)
    assert names - {"into"} <= set(registry()[word].__dataclass_fields__)


def test_dots_are_an_ellipsis_or_three_points() -> None:
    start = tilegen.load("gemm").kernel().schedule()
    assert start.order("...", "i").tree == start.order(..., "i").tree
    assert start.order("...", "i").tree.body[0].name == "j"


# -- texts


@each_stock_schedule
def test_the_text_of_a_schedule_gives_the_same_tree(name, schedule) -> None:
    kernel, _, short = schedule.rpartition(".")
    file = tilegen.load(name)
    scheduled = file.kernel(kernel).schedule(short) if kernel else file.schedule(short)
    again = tilegen.load(scheduled.to_text())
    assert [s.name for s in again.schedules if s.span and s.span.source is again.source] == [short]
    assert again.kernel(scheduled.kernel.name).schedule(short).tree == scheduled.tree


def test_the_text_of_steps_given_from_python(plain) -> None:
    scheduled = plain.blocks("i", 128, into=("b", "t"))
    text = scheduled.to_text()
    assert text == (
        "kernel twice(A: f32[N]) -> B: f32[N]:\n    B[i] = 2 * A[i]\n\nschedule unscheduled for twice:\n"
        "    tile(i, 128) -> b, t\n    bind(b, block.x)\n    bind(t, thread.x)\n"
    )
    assert tilegen.load(text).schedule("unscheduled").tree == scheduled.tree


def test_the_text_says_which_values_the_kernel_was_given() -> None:
    scheduled = tilegen.load("gemm").schedule("tiled", {"K": 64})
    text = scheduled.to_text()
    assert text.startswith("# with K = 64\n")
    assert tilegen.load(text).schedule("tiled", {"K": 64}).tree == scheduled.tree


# -- what a prompt shows


def test_everything_has_a_short_repr(plain) -> None:
    file = tilegen.load("gemm")
    tiled = file.schedule("tiled", TS=8)
    assert repr(tilegen.load(TEXT)) == "<File <text>: kernels twice; schedules none>"
    assert repr(file.kernel(K=64)) == "<Kernel gemm of <stock gemm>, K=64>"
    assert repr(tiled) == "<Scheduled gemm by tiled(TS=8), 12 steps>"
    assert repr(plain) == "<Scheduled twice by unscheduled(), 0 steps>"
    assert repr(tiled.tree) == "<Tree of gemm: 1 launch, 6 buffers>"
    assert repr(tiled.core) == "<Derivation of gemm by tiled, 12 steps>"
    assert repr(tiled.stages[:2]) == "(<Stage as written>, <Stage tile(i, TS) -> bi, ti>)"
    assert tiled._repr_html_() == tiled.tree._repr_html_()
    assert tiled._repr_html_().startswith("<pre")
    assert "for bi &lt; (M + 7)/8" in tiled._repr_html_()


def test_what_is_proved_and_explained_is_a_table() -> None:
    tiled = tilegen.load("gemm").schedule("tiled", TS=8)
    proof = tiled.prove()
    assert repr(proof) == "<Proof: proved>"
    assert re.search(r"^races +\d+ +[\d.]+  proved$", str(proof), re.M)
    found = tiled.explain(compiled=False, last=True, M=512, N=512, K=512)
    assert repr(found) == "<Explanation: gemm, schedule tiled  M=512 K=512 N=512  for H200>"
    assert repr(found.steps[0]).startswith("<unroll(ki): 1 launch, ")
    lines = str(found).splitlines()
    assert lines[1].split()[:2] == ["step", "grid"]
    assert lines[2].split()[:4] == ["unroll(ki)", "4096", "x", "64"]
    assert found._repr_html_().startswith("<table><caption>gemm, schedule tiled")
    with pytest.raises(UsageError, match="has no size 'Q'"):
        tiled.explain(Q=3)


def test_schedules_are_compared_and_climbed() -> None:
    file = tilegen.load(TEXT)
    plain = file.kernel().schedule()
    blocks = plain.blocks("i", 32, into=("b", "t"))
    found = plain.compare(blocks, blocks, device="interpreter", N=64)
    assert [row.name for row in found.rows] == ["unscheduled", "unscheduled 2", "unscheduled 3"]
    assert repr(found) == "<Comparison: twice  N=64  on the interpreter>"
    assert "times on the CPU say nothing of a GPU" in str(found)
    rungs = blocks.ladder(device="interpreter", N=64)
    assert [line.split("  ")[0] for line in str(rungs).splitlines()[2:4]] == ["as written", "blocks(i, 32) -> b, t"]
    assert "<td" in rungs._repr_html_()
    with pytest.raises(UsageError, match="'gemm' and 'twice' are two kernels"):
        plain.compare(tilegen.load("gemm").schedule("tiled"))
