"""The meaning of texts that the nets hold tilegen against: as the stock kernels' numpy, and told by hand."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest
from test_examples import ROOT, inputs_of, kernel_of

from tests.support.meaning.kernels import Erroneous, is_admitted, meaning
from tests.support.meaning.numpy_references import CASES
from tilegen.interpreter.dtypes import to_values

SMALL = [
    (case, sizes)
    for case in CASES
    for sizes in case.sizes
    if prod(sizes.values()) < 400
    if "list[" not in (ROOT / f"{case.file}.tg").read_text()  # test_random_lists.py has the meaning of lists
]
FIVE = np.array([1, 2, 3, 4, 5])


@pytest.mark.parametrize(("case", "sizes"), SMALL, ids=str)
def test_stock_kernels_mean_what_numpy_says(case, sizes):
    text = Path(ROOT / f"{case.file}.tg").read_text()
    kernel = kernel_of(case)
    dtypes = {one.name: one.dtype for one in (*kernel.tensors, *kernel.scalars)}
    arrays = {n: to_values(a, dtypes[n]) for n, a in inputs_of(kernel, case, sizes).items()}
    assert is_admitted(text, sizes, case.kernel, case.attributes)
    got = meaning(text, sizes, arrays, name=case.kernel, attributes=case.attributes)
    for name, right in case.expected(arrays).items():
        right = np.asarray(right, dtype=float)
        found = np.full(right.shape, np.nan)
        for place, value in got[name].items():
            found[place] = value
        scale = max(1.0, float(np.nanmax(np.abs(right))))
        np.testing.assert_allclose(found, right, rtol=0, atol=30 * case.tolerance * scale)


def line(body, arrays=(("x", FIVE),), sizes=None, out="y: i32[N]", extra=""):
    """The elements of y for one equation, as a dictionary from places (of one dimension) to values."""
    head = ", ".join(f"{name}: i32[{', '.join('NM'[: a.ndim])}]" for name, a in arrays)
    text = f"kernel random({head}) -> {out}:\n{extra}    {body}\n"
    found = meaning(text, {"N": 5, **(sizes or {})}, dict(arrays))["y"]
    return {place[0] if len(place) == 1 else place: value for place, value in found.items()}


@pytest.mark.parametrize(
    "right",
    [
        "sum[r in -1..2](x[i + r] else 0)",
        "sum[-1 <= r < 2](x[i + r] else 0)",
        "sum[r > -2, r <= 1](x[i + r] else 0)",
        "sum[-1 <= r and r < 2](x[i + r] else 0)",
        "sum[r](x[i + r] else 0) for -1 <= r and r <= 1",
        "sum[j in i - 1..i + 2](x[j] else 0)",
    ],
)
def test_ranges_begin_below_zero(right):
    assert line(f"y[i] = {right}") == {0: 3, 1: 6, 2: 9, 3: 12, 4: 9}


def test_ranges_begin_at_zero_where_nothing_says_else():
    assert line("y[i] = sum[r < 2](x[i + r] else 0)") == {0: 3, 1: 5, 2: 7, 3: 9, 4: 5}
    assert line("y[i] = sum[k <= i](x[k])") == {0: 1, 1: 3, 2: 6, 3: 10, 4: 15}
    assert line("y[i] = argmax[j in 2..N](0 - x[j])") == dict.fromkeys(range(5), 2)


def test_a_bound_in_the_brackets_is_the_range():
    assert line("y[i] = sum[k < 2](x[k])") == dict.fromkeys(range(5), 3)
    with pytest.raises(Erroneous, match="outside"):
        line("y[i] = sum[k < 7](x[k])")
    assert line("y[i] = sum[k](x[k]) for k < 7") == dict.fromkeys(range(5), 15)


def test_the_place_of_the_best_of_two():
    assert line("y[i] = argmax[j, k](x[j] * x[k] % 7 + 0*i)") == dict.fromkeys(range(5), 7)
    assert line("y[i] = argmin[r in -1..2, k](x[k] * (x[i + r] else 9))") == {0: 5, 1: 0, 2: 0, 3: 0, 4: 0}


def test_bits_and_fallbacks():
    got = line("y[i] = ~x[i] & 6 | x[i] << 30 ^ 1")
    assert got == {0: 2**30 + 7, 1: -(2**31) + 5, 2: -(2**30) + 5, 3: 3, 4: 2**30 + 3}
    assert line("y[i] = (x[i] << 30 + x[i]) >> x[i]") == {0: -(2**30), 1: 0, 2: 0, 3: 1, 4: 1}
    assert line("y[i] = x[clamp(i - 1, 0, N - 1)] + x[(i - 1) % N] * (x[x[i]] else 0)") == {
        0: 11,
        1: 4,
        2: 10,
        3: 18,
        4: 4,
    }
    assert line("y[i] = x[i - 1] else x[i + 3] else 7 * x[i]") == {0: 4, 1: 1, 2: 2, 3: 3, 4: 4}


def test_elements_without_a_value_are_left():
    assert line("y[i] = x[i] for i >= 1 and i < 3") == {1: 2, 2: 3}
    assert line("y[2*i + j] = x[i] for i < 2, j < 2".replace(",", " and")) == {0: 1, 1: 1, 2: 2, 3: 2}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("y[i] = x[i + 1]", "outside"),
        ("y[i + 1] = x[i]", "outside"),
        ("y[i/2] = x[i]", "two values"),
        ("y[i % 3] = x[i]", "two values"),
        ("t[i] = x[i] for i < 4\n    y[i] = t[i]", "undefined"),
        ("t[i] = x[i] for i > 0\n    y[i] = sum[r in -1..1](t[i + r] else 0)", "undefined"),
    ],
)
def test_what_has_no_meaning(body, kind):
    with pytest.raises(Erroneous) as error:
        line(body, extra="    var t: i32[N]\n" if "t[" in body else "")
    assert error.value.kind == kind


def test_what_has_one_by_a_condition():
    assert line("t[i] = x[i] for i < 4\n    y[i] = t[i] for i < 4", extra="    var t: i32[N]\n").keys() == {0, 1, 2, 3}
    assert line("y[i] = x[i - 1] if i > 0 else x[0]") == {0: 1, 1: 1, 2: 2, 3: 3, 4: 4}
    assert line("y[i] = x[i + 1] else x[i] else 7") == {0: 2, 1: 3, 2: 4, 3: 5, 4: 5}


def test_integers_wrap_as_their_types_do():
    assert line("y[i] = x[i] * 1000000000") == {
        0: 10**9,
        1: 2 * 10**9,
        2: 3 * 10**9 - 2**32,
        3: -294967296,
        4: 705032704,
    }
    assert line("y[i] = i32(u8(0 - x[i])) // 2") == {0: 127, 1: 127, 2: 126, 3: 126, 4: 125}


def test_facts_admit_sizes():
    text = "kernel random(x: i32[N - 2]) -> y: i32[N] where N % 2 == 0:\n    y[i] = x[i] for i < N - 2\n"
    assert [n for n in range(1, 8) if is_admitted(text, {"N": n})] == [4, 6]
