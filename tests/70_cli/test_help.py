"""`tilegen help`: the list of steps, one step with its example, and the way out of a typing error."""

import pytest

from tilegen.frontend.stock import standard_steps
from tilegen.primitives import registry

TILE = """\
tile(i, 128) -> bi, ti

Cut a loop into tiles of `size` iterations; or, with `parts`, into that many tiles.

kernel:
    kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
        C[i] = A[i] + B[i]
before:
    for i < N
      C[i] = A[i] + B[i]
steps:
    tile(i, 4) -> io, ii
after:
    for io < (N + 3)/4
      for ii < 4
        C[io*4 + ii] = A[io*4 + ii] + B[io*4 + ii]  if io*4 + ii < N
"""
COARSEN = """\
stands for:
    tile(loop, parts=factor) -> inner, outer
    order(..., inner)
    unroll(inner)
"""


def help_output(cli, *words: str) -> str:
    return cli(["help", *words]).out


def test_help_of_a_step_is_its_docstring(cli) -> None:
    assert help_output(cli, "tile").startswith(TILE)


def test_help_of_a_composite_step_shows_its_comment_and_its_steps(cli) -> None:
    text = help_output(cli, "coarsen")
    assert text.startswith("coarsen(loop, factor) -> outer, inner\n\nGive each thread `factor` iterations")
    assert text.endswith(COARSEN)


def test_help_of_an_instruction_shows_its_layout_and_its_function(cli) -> None:
    text = help_output(cli, "mma_m8n8k4_f64")
    assert "C[i, j] in lane i * 4 + j / 2, register j % 2" in text
    assert "  lane      0      1\n     0    0,0    0,1\n     1    0,2    0,3\n" in text
    assert text.endswith('        : "d"(A[0]), "d"(B[0]));\n}\n')


def test_help_of_an_instruction_shows_the_rows_in_shared_memory(cli) -> None:
    text = help_output(cli, "ldmatrix_a_trans_bf16")
    assert "S[i, k] in shared at lane k % 8 + i / 8 * 8 + k / 8 * 16, element i % 8" in text
    assert "S: bf16[16, 16], in shared, by element of the 16 bytes whose address a lane gives\n  lane      0 " in text
    assert "\n     1    0,1    1,1    2,1 " in text


def test_help_of_a_command_is_that_command_s_own(cli) -> None:
    text = help_output(cli, "emit")
    assert text.startswith("Usage: tilegen emit [OPTIONS] FILE\n")
    assert "--target" in text


def test_help_lists_each_step_once_on_a_short_line(cli) -> None:
    lines = help_output(cli).splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted([*registry(), *standard_steps()])
    assert max(map(len, lines)) <= 120


def test_every_step_of_the_list_is_explained(cli) -> None:
    for word in [*registry(), *standard_steps()]:
        assert help_output(cli, word).strip(), word


@pytest.mark.parametrize(
    ("word", "way_out"),
    [
        ("tiel", "did you mean 'tile'?"),
        ("split", "did you mean 'tile'?\n  note: it is written tile(i, 128) -> bi, ti"),  # its name in other languages
        ("coarsn", "did you mean 'coarsen'?"),
        ("chekc", "did you mean 'check'?"),
        ("qqqq", "tilegen help lists the steps, tilegen --help the commands"),
    ],
)
def test_an_unknown_word_ends_with_a_way_out(word: str, way_out: str, cli) -> None:
    assert cli(["help", word], 2).err == f"error: there is no step and no command '{word}'\n  note: {way_out}\n"
