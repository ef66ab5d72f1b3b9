"""The text of schedules and composite steps, and texts that must never break the parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegen.errors import Source, SourceError
from tilegen.frontend import Module, build, parse
from tilegen.ir.steps import Arithmetic, Dots, Items, Keyword, Number, Parameter, Word

ROOT = Path(__file__).parents[2]
KERNEL = "kernel f(A: f32[N]) -> B: f32[N]:\n    B[i] = "


def parse_text(text: str) -> Module:
    return parse(Source("test.tg", text))


def test_the_schedule_of_the_design() -> None:
    module = parse_text((ROOT / "examples" / "gemm.tg").read_text())
    (schedule,) = module.schedules
    assert (schedule.name, schedule.kernel) == ("registers", "gemm")
    assert [p.name for p in schedule.parameters] == ["TM", "TN", "TK", "WM", "WN"]
    assert schedule.doc == "Shared tiles of A and B, an 8x8 patch of C in the registers of each thread."
    assert len(schedule.steps) == 17
    step = schedule.steps[11]
    assert step.word == "cache_shared"
    assert step.arguments == (Word("A"),)
    assert step.keywords == (
        Keyword("at", Word("ko")),
        Keyword("layout", Items((Word("k"), Word("i")))),
        Keyword("vector", Number(4)),
    )
    assert step.text == "cache_shared(A, at=ko, layout=[k, i], vector=4)"
    assert step.span is not None
    assert step.span.source.line(step.span.line).strip() == step.text
    assert (step.span.column, step.span.width) == (5, len(step.text))


def test_every_form_of_an_argument() -> None:
    text = """
    # Two lines
    # of explanation.
schedule s for g(T=8 in {8, 16}, U=-1):
    step(A.shared, block.x, ..., [k, [i]], T*(U + 2)/4 - 1, flag, at=ko) -> a, b  # a comment
    step(
        x,  # one
        y,
    )
    pass
""".replace("    #", "#")
    (schedule,) = parse_text(text).schedules
    assert schedule.doc == "Two lines\nof explanation."
    assert schedule.parameters == (Parameter("T", 8, (8, 16)), Parameter("U", -1))
    first, second = schedule.steps
    assert first.arguments[:4] == (Word("A.shared"), Word("block.x"), Dots(), Items((Word("k"), Items((Word("i"),)))))
    product = Arithmetic("*", Word("T"), Arithmetic("+", Word("U"), Number(2)))
    assert first.arguments[4] == Arithmetic("-", Arithmetic("/", product, Number(4)), Number(1))
    assert first.results == (Word("a"), Word("b"))
    assert first.text.endswith("-> a, b")
    assert second.text == "step( x, y, )"


def test_words_of_steps_are_no_keywords() -> None:
    (schedule,) = parse_text("schedule tile for order:\n    sum(kernel, schedule, where=var) -> tile\n").schedules
    assert schedule.steps[0].arguments == (Word("kernel"), Word("schedule"))


def test_define() -> None:
    (define,) = parse_text("# Strided.\ndefine cut(loop, by) -> a, b:\n    tile(loop, by) -> a, b\n").defines
    assert (define.word, define.parameters, define.results, define.doc) == (
        "cut",
        ("loop", "by"),
        ("a", "b"),
        "Strided.",
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "schedule s for g:\n    pass"])
def test_texts_with_little_in_them(text: str) -> None:
    assert parse_text(text).kernels == {}


@pytest.mark.parametrize(
    "text",
    [KERNEL.replace("\n", "\r\n") + "A[i]\r\n", "\ufeff" + KERNEL + "A[i]", KERNEL.replace("    ", "\t") + "A[i]"],
    ids=["carriage returns", "byte order mark", "tab"],
)
def test_how_editors_save_texts(text: str) -> None:
    kernel = build(parse_text(text).kernels["f"])
    assert kernel.span is not None
    assert kernel.span.column == 8


HOSTILE = {
    "nul": "\0",
    "deep brackets": KERNEL + "(" * 500 + "A[i]" + ")" * 500,
    "open brackets": "[" * 100_000,
    "long sum": KERNEL + "+".join(["A[i]"] * 3000),
    "many signs": KERNEL + "-" * 3000 + "A[i]",
    "many choices": KERNEL + "1 if i > 0 else " * 3000 + "2",
    "many comparisons": KERNEL + "A[i] for 0" + " <= i" * 5000,
    "digits": KERNEL + "1" * 5000,
    "exponent": KERNEL + "1e999",
    "powers": KERNEL + "9**16**16**16**16",
    "a megabyte": "# comment\n" * 100_000,
    "functions of functions": "def f(x) = x*x*x\n" + KERNEL + "f(" * 20 + "A[i]" + ")" * 20,
    "surrogate": KERNEL + "\ud800",
    "steps": "schedule s for f:\n    tile(i, " + "+".join("1" * 5000) + ")",
}


def build_all(text: str) -> None:
    for kernel in parse_text(text).kernels.values():
        build(kernel)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_get_an_error(name: str) -> None:
    with pytest.raises(SourceError) as caught:
        build_all(HOSTILE[name])
    assert caught.value.span is not None
    assert len(caught.value.render()) < 600
