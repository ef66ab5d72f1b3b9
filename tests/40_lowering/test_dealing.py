"""Tiles that are dealt to blocks: the law by which each is computed once, the text, the proof, and runs on PoCL."""

import re
from itertools import product
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

import tilegen
from tests.support.bulk_kernels import CASES
from tests.support.reader.overflow import extremes, overflow
from tests.support.reader.readback import difference
from tests.support.simulator.grid import place_of_tile
from tests.support.simulator.threads import faults
from tilegen.backends.text import emit
from tilegen.cli.explain_printing import rounds_line
from tilegen.errors import TilegenError
from tilegen.lowering import lower
from tilegen.proof import prove

GEMM = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule dealt for gemm(TS=8):
    tile(i, TS) -> bi, ti
    tile(j, TS) -> bj, tj
    tile(k, TS) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(ti, thread.y)
    bind(tj, thread.x)
    deal(bi, bj, group=3)
    cache_register(C, at=bj)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko)
"""
BATCHED = """
kernel batched(A: f32[Y, Z, M, N]) -> C: f32[Y, Z, M, N]:
    C[y, z, i, j] = 2 * A[y, z, i, j]

schedule dealt for batched():
    tile(i, 4) -> bi, ti
    tile(j, 8) -> bj, tj
    order(y, z, bi, bj, ti, tj)
    bind(ti, thread.y)
    bind(tj, thread.x)
    deal(y, z, bi, bj, group=2)
"""


def write(tmp_path, text):
    (tmp_path / "k.tg").write_text(text)
    return tilegen.load(str(tmp_path / "k.tg"))


@pytest.mark.parametrize("group", [1, 2, 3, 8])
def test_each_tile_has_one_place_on_the_line(group):
    for matrices, rows, columns in product((1, 3), range(1, 9), range(1, 6)):
        count = matrices * rows * columns
        places = [place_of_tile(n, (matrices, rows, columns), group) for n in range(count)]
        assert sorted(places) == list(product(range(matrices), range(rows), range(columns)))
        assert places[: min(group, rows)] == [(0, row, 0) for row in range(min(group, rows))]  # down the rows first


def test_a_product_runs_in_blocks_that_walk(tmp_path):
    program = write(tmp_path, GEMM).schedule("dealt").compile()
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 1, 1), (70, 33, 50), (100, 130, 17), (8, 64, 8)):
        a, b = (rng.integers(-3, 4, shape).astype("f4") for shape in ((m, k), (k, n)))
        assert (program(a, b) == a @ b).all()


def test_matrices_of_a_batch_stand_behind_one_another(tmp_path):
    program = write(tmp_path, BATCHED).schedule("dealt").compile()
    for shape in ((1, 1, 1, 1), (2, 3, 21, 17), (3, 5, 4, 8)):
        a = np.random.default_rng(0).normal(size=shape).astype("f4")
        assert (program(a) == 2 * a).all()


def test_what_a_tile_leaves_in_shared_memory_is_waited_for(tmp_path):
    """Without the barrier at the end of its last iteration, the next tile would overwrite what is still read."""
    text = GEMM.replace("tile(k, TS) -> ko, ki", "tile(k, 64) -> ko, ki").replace("f32[M, K]", "f32[M, 64]")
    scheduled = write(tmp_path, text.replace("f32[K, N]", "f32[64, N]").replace("sum[k]", "sum[k]")).schedule("dealt")
    (launch,) = lower(scheduled.tree)
    assert prove(scheduled.tree.kernel, (launch,)).verdict == "proved"
    text = emit((launch,))
    assert "before the next" in text
    assert text.count("__syncthreads") == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GEMM.replace("deal(bi, bj, group=3)", "bind(bi, block.x)\n    deal(bj)"), "along which 'bj' is dealt"),
        (GEMM.replace("deal(bi, bj, group=3)", "deal(bi)\n    deal(bj, group=2)"), "in groups of two sizes"),
        (GEMM.replace("deal(bi, bj, group=3)", "deal(bi, bi)"), "named twice"),
        (GEMM.replace("deal(bi, bj, group=3)", "deal(bi, bj, group=0)"), "a group has 1 to 1024 rows"),
    ],
)
def test_what_cannot_be_dealt_is_refused(tmp_path, text, sentence):
    with pytest.raises(TilegenError, match=sentence):
        write(tmp_path, text).schedule("dealt")


def dealt(text):
    """A text of bulk_kernels with a block for several tiles: those of a launch are dealt."""
    text = text.replace("    tile(bj, 2) -> px, bx\n", "").replace("bx, px, ko", "bj, ko").replace("at=px", "at=bj")
    text = text.replace("    bind(bx, block.x)\n", "").replace("    bind(bj, block.x)\n", "")
    return text.replace("    bind(bi, block.y)\n", "    deal(bi, bj, group=2)\n")


RING = dealt(CASES["ring, again"])
CLUSTER = dealt(CASES["cluster"].replace("order(bi, ci, bj", "order(ci, bi, bj"))
CLUSTER = CLUSTER.replace("    bind(ci, block.y)\n", "").replace("    deal(", "    bind(ci, block.y)\n    deal(")
IN_TURN = (
    CASES["turns, stored"].replace("order(bi, w, px", "order(w, bi, px").replace("bind(w, block.z)", "deal(bi, px)")
)
IN_TURN = IN_TURN.replace("    bind(bi, block.y)\n", "    bind(w, block.z)\n")
NETS = {"plain": GEMM, "batched": BATCHED, "ring": RING, "cluster": CLUSTER, "turns": IN_TURN}


@pytest.mark.parametrize("name", NETS)
def test_every_net_knows_tiles(tmp_path, name):
    """The proof, the text read back, its integers at the largest sizes, and the simulation of two blocks."""
    tree = scheduled(tmp_path, NETS[name])
    launches = lower(tree)
    assert launches[0].dealt
    assert prove(tree.kernel, launches).verdict == "proved"
    for language in ("cuda", "opencl") if name in ("plain", "batched") else ("cuda",):
        found = lower(tree, instructions=language == "cuda")
        assert difference(emit(found, language), found, language) is None
    sizes = extremes(launches, Random(0))
    assert sizes is None or overflow(emit(launches), launches, sizes, Random(1)) is None
    small = {size: 9 for size in tree.kernel.sizes} | ({"N": 68, "K": 16} if "K" in tree.kernel.sizes else {})
    assert faults(launches, tree, small) is None


def scheduled(tmp_path, text):
    return write(tmp_path, text).schedule("dealt" if "schedule dealt" in text else "s").tree


@pytest.mark.parametrize(
    ("blocks", "said"),
    [(3152, "3152 in 24 rounds of 132, which run at once: 99.5 % full"), (1, "1 in 1 round of 132, .*: 0.8 % full")],
)
def test_explain_counts_rounds(blocks, said):
    report = SimpleNamespace(blocks=blocks, occupancy=SimpleNamespace(blocks=1))
    assert re.fullmatch(said, rounds_line(report, 132))
