"""Attention within each sequence of a batch: tiles begin where sequences do, and keys of these alone are read."""

from dataclasses import replace

import numpy as np
import pytest

import tilegen
from tests.support.reader.readback import difference
from tests.support.written import tree_from
from tilegen.backends.devices import opencl
from tilegen.backends.text import emit
from tilegen.ir.affine import var
from tilegen.lowering import lower
from tilegen.proof import prove

# Sequence b has the tokens start[b] to start[b + 1] - 1. Scores are computed twice, and not stored.
KERNEL = """
kernel sequences(
    Q: f32[N, H, D], K: f32[N, H, D], V: f32[N, H, D], start: i32[B + 1], D: int = 8, scale: float = 0.25
) -> O: f32[N, H, D] where rising(start, N):
    var S: f32[H, N, N], R: f32[H, N, N], m: f32[B, H, N], l: f32[B, H, N], P: f32[B, H, N, D]
    S[h, i, j] = sum[d](Q[i, h, d] * K[j, h, d])
    m[b, h, i] = max[j in start[b]..start[b + 1]](S[h, i, j])
    R[h, i, j] = sum[d](Q[i, h, d] * K[j, h, d])
    P[b, h, i, d] = sum[j in start[b]..start[b + 1]](exp(scale * (R[h, i, j] - m[b, h, i])) * V[j, h, d])
    l[b, h, i] = sum[j in start[b]..start[b + 1]](exp(scale * (R[h, i, j] - m[b, h, i])))
    O[i, h, d] = P[b, h, i, d] / l[b, h, i] for i in start[b]..start[b + 1]

schedule threads for sequences(T=8):
    anchor(O) -> s
    order(O.b, s, O.h, O.i, O.d)
    order(P.b, P.s, P.h, P.i, P.j, P.d)
    order(l.b, l.s, l.h, l.i, l.j)
    order(m.b, m.s, m.h, m.i, m.j)
    fuse(m.b, P.b, l.b, O.b) -> b
    fuse(m.s, P.s, l.s, s) -> s
    fuse(m.h, P.h, l.h, O.h) -> h
    fuse(m.i, P.i, l.i, O.i) -> row
    fuse(P.j, l.j) -> j
    compute_at(S, at=m.j)
    compute_at(R, at=j)
    shift(row, s) -> i
    tile(i, T) -> bi, t
    order(b, s, bi, h, t)
    cache_register(S, at=m.j)
    cache_register(R, at=j)
    bind(t, thread.x)
    deal(b, s, bi, h, group=1)
    cache_register(m, at=h)
    cache_register(l, at=h)
    cache_register(P, at=h)
    unroll(S.d)
    unroll(R.d)
    unroll(P.d)

schedule tiles extends threads(TJ=4):
    before bind(t):
        tile(m.j, TJ) -> mo, mi
        tile(j, TJ) -> jo, ji
        order(mo, t, mi)
        order(jo, t, ji)
    before unroll(S.d):
        cache_shared(K, at=mo, vector=4) -> Km
        cache_shared(K, at=jo, vector=4) -> Kj
        cache_shared(V, at=jo, vector=4)
"""


@pytest.mark.parametrize("name", ["threads", "tiles"])
def test_it_is_proved_and_read_back(name):
    tree = tree_from(KERNEL, name)
    launches = lower(tree)
    assert [ends is not None for ends in launches[0].ends] == [False, True, True, False]
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    for language in ("cuda", "opencl") if name == "tiles" else ():
        assert difference(emit(launches, language), launches, language) is None


def test_threads_of_a_block_go_through_the_same_tiles():
    tree = tree_from(KERNEL, "threads")
    (launch,) = lower(tree)
    *around, rows, columns = launch.ends
    own = replace(rows, end=replace(rows.end, more=rows.end.more - var("t")))
    faulty = replace(launch, ends=(*around, own, columns))
    assert "different tiles" in prove(tree.kernel, (faulty,)).violation.violation.sentence


def test_keys_are_those_of_the_sequence():
    text = emit(lower(tree_from(KERNEL, "tiles")))
    assert "for (int jo = start[b] / 4; jo < (start[b + 1] + 3) / 4; ++jo) {" in text
    assert "const Tiles tiles = {1, (start[b + 1] - s + 7) / 8, H, 1};" in text


@pytest.mark.skipif(opencl.unavailable_reason() is not None, reason="there is no OpenCL platform")
@pytest.mark.parametrize("name", ["threads", "tiles"])
def test_any_sequences_do(name):
    program, rng = tilegen.load(KERNEL).schedule(name).compile("cpu"), np.random.default_rng(1)
    for starts in ([0, 21], [0, 0, 5, 5, 16, 21], [0, 8, 16, 24], [0, 1, 2, 3]):
        q, k, v = rng.random((3, starts[-1], 2, 8), np.float32)
        wanted = []
        for a, b in zip(starts, starts[1:], strict=False):
            scores = np.exp(0.25 * np.einsum("ihd,jhd->hij", q[a:b], k[a:b]))
            wanted.append(np.einsum("hij,jhd->ihd", scores / scores.sum(axis=2, keepdims=True), v[a:b]))
        assert np.allclose(program(q, k, v, np.array(starts, np.int32)), np.concatenate(wanted), rtol=1e-4)
