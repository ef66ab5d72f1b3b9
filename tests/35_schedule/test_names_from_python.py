"""Names that come from Python or a command follow the lexer's rule: whatever a text refuses is refused there, too."""

import random

import pytest

import tilegen
from tilegen.errors import SourceError, StepError, UsageError
from tilegen.ir.steps import Word, is_name, is_word

TEXT = "kernel twice(A: f32[N]) -> B: f32[N]:\n    B[i] = 2 * A[i]\n"
LETTERS = "abAB_019.  -\n\t\\\"'/*#é;:()"
EVERY_END = [
    "",
    "b c",
    "int",
    "2b",
    "b\n",
    "b\r",
    "b;",
    "b-c",
    "b.c",
    "é",
    "b\\",
    "//",
    "_",
    "a" * 64,
    "a" * 65,
    "ſ",
    "٣",
]


def _as_text(name: str) -> tuple[Word, Word] | None:
    """What a text reads as an argument and as a result of a step, if both are words."""
    try:
        (schedule,) = tilegen.load(f"{TEXT}schedule s for twice:\n    tile({name}, 4) -> t, {name}\n").schedules
    except SourceError:
        return None
    call = schedule.steps[0]
    return (call.arguments[0], call.results[1]) if isinstance(call.arguments[0], Word) else None


def _drawn(seed: int) -> list[str]:
    chosen = random.Random(seed)
    return ["".join(chosen.choices(LETTERS, k=chosen.randint(1, 4))) for _ in range(200)]


def test_a_name_is_what_a_text_reads_as_one() -> None:
    for name in [*EVERY_END, *_drawn(1)]:
        assert is_word(name) == (_as_text(name) == (Word(name), Word(name))), name


@pytest.mark.parametrize("name", [name for name in [*EVERY_END, *_drawn(2)[:30]] if not is_name(name)])
def test_no_other_name_reaches_a_text(name: str) -> None:
    scheduled = tilegen.load(TEXT).kernel().schedule()
    with pytest.raises(StepError, match="has a dot" if is_word(name) else "cannot be a name"):
        scheduled.tile("i", 32, into=(name, "t"))
    if not is_word(name):
        with pytest.raises(StepError, match="is no argument"):
            scheduled.blocks(name, 32, into=("b", "t"))
    if name:
        with pytest.raises(UsageError, match="cannot be a name in C"):
            scheduled.export("never_written", ["sm_90"], name=name)


def test_what_is_accepted_is_read_again() -> None:
    for name in ("_", "s1", "a" * 64, "for", "int", "e5"):
        scheduled = tilegen.load(TEXT).kernel().schedule().tile("i", 32, into=(name, "t")).bind("t", "thread.x")
        assert tilegen.load(scheduled.to_text()).schedule("unscheduled").tree == scheduled.tree


def test_the_name_of_a_file_in_a_directive_is_one_string_of_one_line() -> None:
    scheduled = tilegen.load(TEXT).kernel().schedule().blocks("i", 32, into=("b", "t"))
    text = scheduled.source("cuda", lines='a"b\\c\rd\ne\x0cf\udcff.cu')
    assert '"a\\"b\\\\c d e f .cu"' in text
    text.encode()
