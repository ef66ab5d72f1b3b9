"""Words of TVM, Halide, Exo, loopy, TileLang and others lead to the step that is meant, or to what takes its place."""

import pytest

import tilegen
from tilegen.errors import SourceError
from tilegen.frontend.stock import standard_steps
from tilegen.primitives import registry
from tilegen.primitives.calling import words as _words

KNOWN = [*registry(), *standard_steps()]
WORDS = [word for words in (*_words._ELSEWHERE.values(), *_words._DERIVED.values()) for word in words.split()]
TEXT = "kernel own(A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n\nschedule s for own:\n    {}(i, 8) -> a, b\n"


def test_a_word_stands_for_one_step_and_for_none_of_ours() -> None:
    assert len(WORDS) == len(set(WORDS))
    assert not set(WORDS) & set(KNOWN)
    assert set(_words._ELSEWHERE) <= set(KNOWN)


@pytest.mark.parametrize(
    ("word", "notes"),
    [
        ("split", ["did you mean 'tile'?", "it is written tile(i, 128) -> bi, ti"]),
        ("reorder", ["did you mean 'order'?", "it is written order(bi, bj, "]),
        ("parallel", ["did you mean 'bind'?", "it is written bind(bi, block.y)"]),
        ("stage", ["did you mean 'cache_shared'?"]),
        ("cache_read", ["did you mean 'cache_shared'?"]),
        ("compute_inline", ["did you mean 'compute_at'?"]),
        ("use_swizzle", ["did you mean 'grouped_blocks'?"]),
        ("coarsn", ["did you mean 'coarsen'?"]),
        ("barrier", ["barriers and waits stand where dependences need them; no step writes them"]),
        ("fission", ["each tensor has a nest of its own"]),
    ],
)
def test_what_is_said_of_a_word(word, notes) -> None:
    with pytest.raises(SourceError) as caught:
        tilegen.load(TEXT.format(word)).schedule("s")
    assert caught.value.message == f"there is no step '{word}'"
    for note, said in zip(notes, caught.value.notes, strict=False):
        assert said.startswith(note)
    with pytest.raises(AttributeError, match=notes[0].replace("?", r"\?")):
        getattr(tilegen.load(TEXT.format(word)).kernel().schedule(), word)


@pytest.mark.parametrize("word", WORDS)
def test_each_word_leads_somewhere(word) -> None:
    first, *_ = _words.suggest_step(f"T.{word.title()}", KNOWN)
    assert "did you mean" in first or first in _words._DERIVED


def test_dots_may_be_a_word_from_python() -> None:
    kernel = tilegen.load("gemm").kernel()
    assert kernel.schedule().order("k", "...").tree == kernel.schedule().order("k", ...).tree
