"""The number of iterations of a loop has a name where the text asks for it often."""

from __future__ import annotations

import re

import pytest

from tests.support.stock import schedule_stock
from tilegen.api import from_text
from tilegen.backends.text import emit
from tilegen.frontend.data import stock_source
from tilegen.lowering import lower


def text_of(name, schedule):
    return emit(lower(schedule_stock(name, schedule).tree))


def test_what_several_lines_ask_for_is_computed_once():
    text = text_of("hgemm", "ping_pong")
    assert "const int ko_count = (K + TK - 1) / TK;" in text
    assert text.count("ko < ko_count;") == 2
    assert text.count("ring.skip(ko_count);") == 2


@pytest.mark.parametrize("schedule", ["tiled", "pipelined"])
def test_what_one_loop_asks_for_stands_there(schedule):
    assert "_count" not in text_of("gemm", schedule)


def test_a_loop_of_the_user_keeps_its_name():
    text = stock_source("schedules", "gemm").text
    scheduled = from_text(re.sub(r"\bbi\b", "ko_count", text)).kernel().schedule("across")
    text = emit(lower(scheduled.tree))
    assert "const int ko_count = blockIdx.y;" in text
    assert "const int ko_count_ = (K + TK - 1) / TK;" in text
