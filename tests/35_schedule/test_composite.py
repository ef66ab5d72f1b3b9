"""Composite steps: what they make for themselves is their own in each use, and nobody else's."""

import pytest

import tilegen
from tilegen.errors import SourceError
from tilegen.ir.printing.show import show
from tilegen.ir.walk import loops

MATRIX = "kernel twice(A: f32[M, N]) -> B: f32[M, N]:\n    B[i, j] = 2 * A[i, j]\n\n"
THREE = """\
define three(loop) -> outer, last:
    tile(loop, 4) -> outer, inner
    tile(inner, 2) -> inner, last
    unroll(last)

"""


def names(text, name="s"):
    return [loop.name for loop in loops(tilegen.load(text).schedule(name).tree.body)]


def test_a_name_of_its_own_is_another_one_in_each_use():
    steps = "    three(i) -> io, il\n    three(j) -> jo, jl\n"
    assert names(f"{MATRIX}{THREE}schedule s for twice:\n{steps}") == ["io", "inner", "il", "jo", "inner_2", "jl"]


def test_from_python_too():
    steps = tilegen.load(MATRIX + THREE).kernel().schedule()
    steps = steps.three("i", into=("io", "il")).three("j", into=("jo", "jl"))
    assert [loop.name for loop in loops(steps.tree.body)] == ["io", "inner", "il", "jo", "inner_2", "jl"]
    assert "for inner_2 < 2" in show(steps.tree)


@pytest.mark.parametrize("first", ["tile(j, 8) -> inner, r", "three(j) -> inner, r"])
def test_it_leaves_names_of_the_schedule_alone(first):
    """Also the ones that come later."""
    for steps in ([first, "three(i) -> io, il"], ["three(i) -> io, il", first]):
        text = f"{MATRIX}{THREE}schedule s for twice:\n" + "".join(f"    {step}\n" for step in steps)
        found = names(text)
        assert found[found.index("io") + 1].startswith("inner_")
        assert "inner" in found


def test_an_argument_may_have_the_name():
    text = f"{MATRIX}{THREE}schedule s for twice:\n    tile(i, 64) -> inner, r\n    three(inner) -> io, il\n"
    assert names(text)[:3] == ["io", "inner_2", "il"]


def test_composites_inside_of_composites():
    nested = THREE + "define six(a, b) -> ao, al, bo, bl:\n    three(a) -> ao, al\n    three(b) -> bo, bl\n\n"
    steps = "    six(i, j) -> io, il, jo, jl\n"
    assert names(f"{MATRIX}{nested}schedule s for twice:\n{steps}") == ["io", "inner", "il", "jo", "inner_2", "jl"]
    again = nested + "define hidden(a) -> o:\n    three(a) -> o, inner\n    unroll(inner)\n\n"
    steps = "    hidden(i) -> io\n    hidden(j) -> jo\n"
    assert names(f"{MATRIX}{again}schedule s for twice:\n{steps}") == [
        "io", "inner_2", "inner", "jo", "inner_4", "inner_3",
    ]  # fmt: skip


def test_a_copy_of_an_argument_is_its_copy():
    padded = "define padded(tensor, at):\n    cache_shared(tensor, at=at)\n    pad(tensor.shared, 1)\n\n"
    steps = "    tile(j, 32) -> jo, ji\n    bind(ji, thread.x)\n    padded(A, jo)\n"
    text = f"{MATRIX}{padded}schedule s for twice:\n{steps}"
    assert tilegen.load(text).schedule("s").tree.buffer("A.shared").pad == 1


def test_a_result_that_is_called_like_a_level():
    """`block.x` is a level of threads, whatever `block` stands for."""
    own = "define placed(loop) -> block, thread:\n    tile(loop, 8) -> block, thread\n    bind(block, block.x)\n\n"
    found = tilegen.load(f"{MATRIX}{own}schedule s for twice:\n    placed(i) -> a, b\n").schedule("s").tree
    assert (found.body[0].name, found.body[0].kind) == ("a", "block.x")


@pytest.mark.parametrize(
    "text",
    [
        "define again(a):\n    again(a)\n\nschedule s for twice:\n    again(i)\n",
        "define one(a):\n    two(a)\n\ndefine two(a):\n    one(a)\n\nschedule s for twice:\n    one(i)\n",
        "define d0(a):\n    unroll(a)\n\n"
        + "".join(f"define d{n + 1}(a):\n    d{n}(a)\n    d{n}(a)\n\n" for n in range(40))
        + "schedule s for twice:\n    d40(i)\n",
    ],
)
def test_a_definition_without_an_end(text):
    with pytest.raises(SourceError, match="defined by itself|more than 1000 steps"):
        names(MATRIX + text)
