"""Attention within each sequence of a batch: tiles begin where sequences do, and keys of these alone are read."""

from dataclasses import replace

import numpy as np
import pytest

import tilegen
from tests.support.reader.readback import difference
from tilegen.backends.text import emit
from tilegen.ir.affine import var
from tilegen.lowering import lower
from tilegen.proof import prove


def scheduled(name):
    tiles = {"TJ": 4} if name == "tiles" else {}
    return tilegen.load("sequences").kernel("sequences", D=8, scale=0.25).schedule(name, T=8, **tiles)


@pytest.mark.parametrize("name", ["threads", "tiles"])
def test_it_is_proved_and_read_back(name):
    tree = scheduled(name).tree
    launches = lower(tree)
    assert [ends is not None for ends in launches[0].ends] == [False, True, True, False]
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    for language in ("cuda", "opencl") if name == "tiles" else ():
        assert difference(emit(launches, language), launches, language) is None


def test_threads_of_a_block_go_through_the_same_tiles():
    tree = scheduled("threads").tree
    (launch,) = lower(tree)
    *around, rows, columns = launch.ends
    own = replace(rows, end=replace(rows.end, more=rows.end.more - var("t")))
    faulty = replace(launch, ends=(*around, own, columns))
    assert "different tiles" in prove(tree.kernel, (faulty,)).violation.violation.sentence


def test_keys_are_those_of_the_sequence():
    text = emit(lower(scheduled("tiles").tree))
    assert "for (int jo = start[b] / 4, jo_end = (start[b + 1] + 3) / 4; jo < jo_end; ++jo) {" in text
    assert "const Tiles tiles = {1, (start[b + 1] - s + 7) / 8, H, 1};" in text


@pytest.mark.pocl
@pytest.mark.parametrize("name", ["threads", "tiles"])
def test_any_sequences_do(name):
    program, rng = scheduled(name).compile("cpu"), np.random.default_rng(1)
    for starts in ([0, 21], [0, 0, 5, 5, 16, 21], [0, 8, 16, 24], [0, 1, 2, 3]):
        q, k, v = rng.random((3, starts[-1], 2, 8), np.float32)
        wanted = []
        for a, b in zip(starts, starts[1:], strict=False):
            scores = np.exp(0.25 * np.einsum("ihd,jhd->hij", q[a:b], k[a:b]))
            wanted.append(np.einsum("hij,jhd->ihd", scores / scores.sum(axis=2, keepdims=True), v[a:b]))
        assert np.allclose(program(q, k, v, np.array(starts, np.int32)), np.concatenate(wanted), rtol=1e-4)
