"""Copies of intermediate tensors that are defined in part, or read beyond their ends."""

from __future__ import annotations

import pytest

from tests.support.enumeration.runs import verdict
from tilegen import load
from tilegen.errors import IllegalStep

TEXT = """
kernel ends(X: i32[N]) -> out: i32[N]:
    var t: i32[N]
    t[i] = X[i] * 2{written}
    out[i] = (t[i - 1] else -2) + X[i]{read}

schedule copied for ends():
    tile(out.i, 8) -> b, k
    bind(b, block.x)
    bind(k, thread.x)
    cache_shared(t, at=b)
"""


def test_what_is_beyond_the_ends_needs_no_value():
    tree = load(TEXT.format(written="", read="")).schedule("copied").tree
    assert all(verdict(tree, {"N": n}) is None for n in (1, 2, 7, 8, 9, 17))


def test_what_has_no_value_is_not_copied():
    with pytest.raises(IllegalStep) as error:
        load(TEXT.format(written=" for i < 5", read=" for i < 5")).schedule("copied")
    assert error.value.witness == "the copy t.shared at b=0, t.shared.i=6 reads t[5] (N=6)"
