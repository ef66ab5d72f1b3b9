"""Texts with mistakes that nobody thought of: whatever is written, only an error of the user's comes out."""

from __future__ import annotations

import pytest

from tests.support.cover import first
from tests.support.generators.mutated_texts import chunk_of


@pytest.mark.parametrize("chunk", first(range(6)))
def test_only_errors_of_the_user_come_out(chunk):
    counts, failures = chunk_of(("test", range(50 * chunk, 50 * chunk + 50)))
    assert not failures, failures[0]
    assert sum(counts.values()) == 50
