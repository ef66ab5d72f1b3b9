"""The k best of a row by its tiles: what is judged, what is found, and rankings that are none."""

from dataclasses import replace

import numpy as np
import pytest

from tilegen import load
from tilegen.errors import TilegenError
from tilegen.interpreter.run import run
from tilegen.ir.affine import var
from tilegen.ir.nodes import Const, Load
from tilegen.ir.walk import rewrite
from tilegen.ir.written import tree_of
from tilegen.judge import check_derived
from tilegen.poly import Refused

BEHIND = "def behind(x, j, last, place) = x if x < last or x == last and j > place else -inf\n"
LARGEST = f"""{BEHIND}
kernel largest(X: f32[M, N], N: int = 24, K: int = 5) -> best: f32[M, K], at: i32[M, K]:
    at[i, r] = argmax[j](behind(X[i, j], j, (best[i, r - 1] else inf), (at[i, r - 1] else -1)))
    best[i, r] = behind((X[i, at[i, r]] else -inf), at[i, r], (best[i, r - 1] else inf), (at[i, r - 1] else -1))
schedule s for largest():
    split_best(at, 4) -> lead, top, tile, near, value
"""


def tree(text=LARGEST):
    return load(text).schedule("s").tree


ROWS = np.array([
    np.arange(24.0),
    np.arange(24.0)[::-1],
    np.zeros(24),
    [7.0, 1.0] * 12,
    [np.nan] * 20 + [np.inf, 3.0, -np.inf, np.nan],
    [-np.inf] * 24,
    [0.0, -0.0] * 12,
    [1.0, 2.0, 3.0, 4.0] * 6,
], "f4")  # fmt: skip


def test_the_same_elements_are_found_whatever_a_row_has():
    """Equal ones from the first on, infinities, NaN, and rows with fewer numbers than are looked for."""
    found, wanted = (run(each, {"M": len(ROWS)}, {"X": ROWS}) for each in (tree(), tree_of(tree().kernel.origin)))
    for name in ("best", "at"):
        np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x < last or", "x <= last or"),
        ("j > place else", "j >= place else"),
        ("x == last and j", "x == last or j"),
        ("else -inf\n", "else 0\n"),
        ("(best[i, r - 1] else inf), (at[i, r - 1] else -1)))", "(best[i, r - 1] else 9), (at[i, r - 1] else -1)))"),
        ("(best[i, r - 1] else inf), (at[i, r - 1] else -1)))", "(best[i, r - 1] else inf), (at[i, r - 1] else 0)))"),
        ("(best[i, r - 1] else inf), (at[i, r - 1] else -1)))", "(best[i, r - 2] else inf), (at[i, r - 1] else -1)))"),
        ("behind((X[i, at[i, r]] else -inf)", "behind((X[i, at[i, r]] else 0)"),
        ("behind((X[i, at[i, r]] else -inf)", "behind((X[i, at[i, r] + 1] else -inf)"),
        ("-inf), at[i, r],", "-inf), at[i, r] + 1,"),
        ("argmax[j]", "argmin[j]"),
        ("argmax[j](behind(X[i, j], j", "argmax[j](behind(X[i, j] + 1, j"),
        ("argmax[j](behind(X[i, j], j", "argmax[j < 20](behind(X[i, j + r], j"),
        ("split_best(at, 4)", "split_best(at, 5)"),
        ("split_best(at, 4)", "split_best(at, 1)"),
    ],
)
def test_what_is_no_ranking_is_refused(old, new):
    assert old in LARGEST
    with pytest.raises(TilegenError, match="best elements|elements of a row|tiles of"):
        tree(LARGEST.replace(old, new))


FAULTS = {
    "another tile size": lambda k: replace(k, derived=replace(k.derived, by=8)),
    "another name": lambda k: replace(k, derived=replace(k.derived, names=(*k.derived.names[:4], "at"))),
    "the last place of equal ones": lambda k: _value(k, "tile", "max"),
    "the least of each tile": lambda k: _value(k, "lead", "min"),
    "a tile more": lambda k: rewrite(k, lambda v: Const(v.value + 1, v.dtype) if v == Const(6, "i32") else v),
    "the tile before": lambda k: rewrite(
        k, lambda v: replace(v, index=(v.index[0], var("near.i"))) if isinstance(v, Load) and v.buffer == "tile" else v
    ),
}


def _value(kernel, target, reduce):
    return replace(
        kernel, equations=tuple(replace(e, reduce=reduce) if e.target == target else e for e in kernel.equations)
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_what_the_step_makes_is_seen(name):
    kernel = tree().kernel
    check_derived(kernel)
    changed = FAULTS[name](kernel)
    assert changed != kernel
    with pytest.raises(Refused):
        check_derived(changed)
