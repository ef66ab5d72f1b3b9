"""Differences of trees, word by word: nothing is lost, and what has only been indented is no difference."""

import pytest

from tests.support.stock import schedule_stock
from tilegen.ir.printing.show import show
from tilegen.report.differences import DifferentLine, differences


def shown(before: str, after: str) -> list[str]:
    marks = {"same": "{}", "new": "[+{}+]", "gone": "[-{}-]"}
    return ["".join(marks[mark].format(text) for mark, text in line.parts) for line in differences(before, after)]


def test_words_are_compared_within_a_line() -> None:
    assert shown("for i < M\n  C[i] = 0", "for bi < M\n  C[bi] = 0") == [
        "for [-i-][+bi+] < M",
        "C[[-i-][+bi+]] = 0",
    ]


def test_a_loop_around_lines_is_the_only_new_one() -> None:
    assert shown("C[i] = 0\nD[i] = 1", "for i < M\n  C[i] = 0\n  D[i] = 1") == ["[+for i < M+]", "C[i] = 0", "D[i] = 1"]


def test_what_has_nothing_in_common_is_gone_and_new() -> None:
    assert shown("for i < M", "C.reg[ti, tj] = 0") == ["[+C.reg[ti, tj] = 0+]", "[-for i < M-]"]


CASES = [("gemm", "tiled"), ("gemm", "warps"), ("softmax", "blocks")]


def side(lines: list[DifferentLine], mark: str) -> list[str]:
    """The lines of one of the two trees."""
    kept = [line for line in lines if line.mark in ("same", mark)]
    return ["".join(text for each, text in line.parts if each in ("same", mark)) for line in kept]


@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_both_trees_can_be_read_from_a_difference(name: str, schedule: str) -> None:
    trees = [show(stage.tree) for stage in schedule_stock(name, schedule).stages]
    for before, after in zip(trees, trees[1:], strict=False):
        lines = differences(before, after)
        assert side(lines, "new") == [line.strip() for line in after.splitlines()]
        assert side(lines, "gone") == [line.strip() for line in before.splitlines()]
