"""The version for sizes that all tiles divide: no tests, and wrong anywhere else."""

import re
from dataclasses import replace

import pytest

from tests.support.simulator.threads import faults
from tilegen.api import load
from tilegen.backends.text import emit
from tilegen.errors import UsageError
from tilegen.lowering import lower
from tilegen.proof import prove

SIZES = {"TM": 16, "TN": 32, "TK": 4, "WI": 1, "WJ": 1}


def tree_of(name, **parameters):
    return load("gemm").schedule(name, **parameters).tree


def test_it_needs_whole_tiles_and_has_no_tests_for_others():
    tree = tree_of("across", **SIZES)
    (launch,) = lower(tree, whole=True)
    assert [str(c) for c in launch.requires] == ["N%32 == 0", "M%16 == 0", "K%4 == 0"]
    text = emit((launch,), "cuda")
    assert not re.search(r"<=? [MN]\b", text)
    assert "else" not in text[text.index("gemm(") :]
    assert "K / TK" in text
    assert "TK - 1)" not in text


def test_it_is_proved_and_computes_the_kernel():
    tree = tree_of("across", **SIZES)
    launches = lower(tree, whole=True)
    assert prove(tree.kernel, launches).verdict == "proved"
    assert faults(launches, tree, {"M": 16, "N": 32, "K": 12}) is None


def test_without_what_it_needs_it_is_refused():
    tree = tree_of("tiled", TS=8)
    (launch,) = lower(tree, whole=True)
    assert prove(tree.kernel, (launch,)).verdict == "proved"
    assert prove(tree.kernel, (replace(launch, requires=()),)).verdict.startswith("refused")


def test_where_nothing_is_cut_it_is_the_plain_version():
    tree = load("kernel twice(A: f32[N]) -> B: f32[N]:\n    B[i] = 2 * A[i]\n").kernel().schedule().tree
    assert lower(tree, whole=True)[0].requires == ()


COPY = """\
kernel copied(x: u8[N], s: int = 1) -> y: u8[N]:
    y[i] = x[i] + s

schedule s for copied:
    tile(i, 16) -> b, v
    tile(b, 4) -> bb, t
    bind(bb, block.x)
    bind(t, thread.x)
    vectorize(v)

schedule parts for copied:
    tile(i, parts=4) -> b, v
    bind(b, block.x)
"""


@pytest.mark.parametrize("size", [17, 16, 65])
def test_fixed_sizes_that_are_no_whole_tiles_are_refused(size: int) -> None:
    with pytest.raises(UsageError, match=rf"needs .*\(\(N \+ 15\)/16\) % 4 == 0.*, and N = {size}"):
        load(COPY).schedule("s", {"N": size, "s": 2}).source(whole=True)


def test_fixed_sizes_that_are_whole_tiles_are_not() -> None:
    text = load(COPY).schedule("s", {"N": 128, "s": 2}).source(whole=True)
    assert "if (" not in text
    assert "if (" not in load(COPY).schedule("parts", {"N": 20}).source(whole=True)  # needs a fixed size


@pytest.mark.parametrize(("size", "full"), [(17, False), (63, False), (64, True), (81, True)])
def test_a_text_for_whole_tiles_stands_only_where_there_is_one(size: int, full: bool) -> None:
    scheduled = load(COPY.replace("    vectorize(v)\n", "")).schedule("s", {"N": size})
    (launch,) = lower(scheduled.tree)
    text = emit([launch])
    assert ("else" in text) == (full and size % 64 != 0), text
    assert faults((launch,), scheduled.tree, {}) is None


PARTS = """\
kernel parts(x: f32[M, K]) -> y: f32[M, K/32] where K % 32 == 0:
    y[i, b] = max[k < 32](x[i, b*32 + k])

schedule s for parts:
    tile(i, 8) -> bi, ti
    order(bi, ti, b)
    bind(bi, block.x)
    bind(ti, thread.x)
"""


def test_a_size_that_a_tensor_rounds_down_has_no_rest() -> None:
    tree = load(PARTS).schedule("s").tree
    launches = lower(tree, whole=True)
    assert [str(c) for c in launches[0].requires] == ["M%8 == 0"]
    assert prove(tree.kernel, launches).verdict == "proved"
    assert faults(launches, tree, {"M": 16, "K": 64}) is None
