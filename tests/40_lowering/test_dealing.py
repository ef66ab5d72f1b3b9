"""Tiles that are dealt to blocks: the law by which each is computed once, the text, the proof, and runs on PoCL."""

import re
from dataclasses import replace
from importlib.resources import files
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
from tilegen.cli.looks.explain_printing import rounds_line
from tilegen.errors import TilegenError
from tilegen.ir.affine import var
from tilegen.ir.walk import rewrite
from tilegen.lab.checks.check import cases, check
from tilegen.lab.checks.sizes import sizes_to_check
from tilegen.lowering import lower
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.program import For, Let, nodes, with_lists
from tilegen.lowering.launch.timelines import Barrier
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


def test_what_threads_of_a_tile_exchange_in_global_memory_meets_no_other_tile(tmp_path):
    """It is written by one thread and read by another, with a barrier between; the next tile has other elements."""
    steps = ["tile(T.i, 8) -> i, a", "tile(T.j, 8) -> j, b", "tile(C.i, 8) -> ci, c", "tile(C.j, 8) -> cj, d"]
    steps += ["order(i, j, a, b)", "order(ci, cj, c, d)", "fuse(i, ci) -> bi", "fuse(j, cj) -> bj", "deal(bi, bj)"]
    steps += ["bind(a, thread.y)", "bind(b, thread.x)", "bind(c, thread.x)", "bind(d, thread.y)"]
    lines = [
        "kernel twice(A: f32[M, N]) -> T: f32[M, N], C: f32[M, N]:",
        "T[i, j] = 2.0 * A[i, j]",
        "C[i, j] = T[i, j]",
    ]
    text = "\n    ".join(lines) + "\n\n" + "\n    ".join(["schedule dealt for twice:", *steps]) + "\n"
    scheduled = write(tmp_path, text).schedule("dealt")
    (launch,) = lower(scheduled.tree)
    assert prove(scheduled.tree.kernel, (launch,)).verdict == "proved"
    (barrier,) = (node for node in nodes(launch.body) if isinstance(node, Barrier))

    def without(body):
        return tuple(with_lists(node, without) for node in body if node != barrier)

    found = prove(scheduled.tree.kernel, (replace(launch, body=without(launch.body)),))
    assert found.verdict.startswith("refused")


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


def functions_of(path):
    """The functions of a file of C, evaluated as Python: sums, products, quotients of positive integers, choices."""
    text = files("tilegen.backends.text").joinpath(path).read_text()
    found = {}
    for name, inside in re.findall(r"^\w.*?(\w+)\(Tiles all(?:, int tile)?\)\n\{\n(.*?)^\}", text, re.M | re.S):
        lines = re.sub(r"const int ", "", inside).replace("/", "//").replace(";", "")
        lines = re.sub(r"= (.*) \? (.*) : (.*)", r"= \2 if \1 else \3", lines)
        found[name] = "def f(all, tile=0):\n" + lines
    return {name: exec(text, space := {}) or space["f"] for name, text in found.items()}


@pytest.mark.parametrize("path", ["tiles.cuh", "tiles.cl"])
def test_the_text_has_the_law(path):
    law = functions_of(path)
    assert law.keys() == {"count_tiles", "matrix_of_tile", "row_of_tile", "column_of_tile"}
    for group, matrices, rows, columns in product((1, 2, 3, 8), (1, 3), range(1, 11), range(1, 6)):
        tiles = SimpleNamespace(matrices=matrices, rows=rows, columns=columns, group=group)
        assert law["count_tiles"](tiles) == matrices * rows * columns
        for tile in range(matrices * rows * columns):
            found = tuple(law[f"{what}_of_tile"](tiles, tile) for what in ("matrix", "row", "column"))
            assert found == place_of_tile(tile, (matrices, rows, columns), group)


def change_tiles(body, change):
    """`body` with `change` of each loop over tiles, which gives the nodes in its place."""
    return tuple(
        new
        for node in body
        for new in (
            change(node)
            if getattr(node, "kind", "") == "tiles"
            else [with_lists(node, lambda inner: change_tiles(inner, change))]
        )
    )


def first_alone(change):
    """`change` of the first loop over tiles, which is the consumers' where there are roles."""
    met = []
    return lambda node: [node] if met or met.append(node) else change(node)


FAULTS = {
    "a tile never": lambda n: replace(
        n, grid=(Product((n.grid[0].factors[0] - 1, *n.grid[0].factors[1:])), *n.grid[1:])
    ),
    "rows for columns": lambda n: replace(n, coordinates=(n.coordinates[1], n.coordinates[0], *n.coordinates[2:])),
    "no loop": lambda n: replace(n, body=change_tiles(n.body, lambda node: node.body)),
    "a loop without its role": lambda n: replace(n, body=change_tiles(n.body, first_alone(lambda node: node.body))),
    "each tile twice": lambda n: replace(n, body=change_tiles(n.body, lambda node: [node, node])),
    "one role comes by twice": lambda n: replace(n, body=change_tiles(n.body, first_alone(lambda node: [node, node]))),
    "a tile in a tile": lambda n: replace(n, body=change_tiles(n.body, lambda node: [replace(node, body=(node,))])),
    "in two halves": lambda n: replace(
        n,
        body=change_tiles(n.body, lambda node: [replace(node, body=node.body[:1]), replace(node, body=node.body[1:])]),
    ),
    "some of it ahead": lambda n: replace(
        n, body=change_tiles(n.body, lambda node: [*node.body[:1], replace(node, body=node.body[1:])])
    ),
    "a tile outside of it": lambda n: replace(n, body=(Let("x", var(n.coordinates[0][0])), *n.body)),
    "none dealt": lambda n: replace(n, dealt=0),
    "more tiles than names": lambda n: replace(n, grid=(Product((*n.grid[0].factors, var("M"))), *n.grid[1:])),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["plain", "ring"])
def test_faults_are_refused(tmp_path, name, fault):
    tree = scheduled(tmp_path, NETS[name])
    launches = tuple(FAULTS[fault](launch) for launch in lower(tree))
    assert prove(tree.kernel, launches).verdict.startswith("refused")


def test_a_ring_runs_as_often_in_all_tiles(tmp_path):
    def longer(node):
        return replace(node, extent=node.extent + var("bi")) if isinstance(node, For) and node.name == "ko" else node

    tree = scheduled(tmp_path, RING)
    (launch,) = lower(tree)
    found = prove(tree.kernel, (replace(launch, body=rewrite(launch.body, longer)),)).violation
    assert found is not None
    assert found.violation.sentence == "how often 'ko' runs is not the same in all tiles"


def test_the_end_of_a_tile_is_waited_for(tmp_path):
    """What the next tile overwrites has a barrier after it, and without that the proof and two blocks find a race."""
    tree = scheduled(tmp_path, STAGED)
    (launch,) = lower(tree)
    assert prove(tree.kernel, (launch,)).verdict == "proved"
    wrong = replace(launch, body=change_tiles(launch.body, lambda node: [replace(node, body=node.body[:-1])]))
    assert isinstance(launch.nodes[0].body[-1], Barrier)
    assert prove(tree.kernel, (wrong,)).verdict == "refused: races"
    assert faults((launch,), tree, {"M": 40, "N": 40}) is None
    assert faults((wrong,), tree, {"M": 40, "N": 40}) == "race"


STAGED = """
kernel turn(X: f32[M, N]) -> Y: f32[N, M]:
    Y[j, i] = X[i, j]

schedule dealt for turn():
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    order(bi, bj, tj, ti)
    bind(tj, thread.y)
    bind(ti, thread.x)
    deal(bi, bj)
    cache_shared(X, at=bj)
"""


@pytest.mark.pocl
def test_a_check_has_blocks_go_on_from_tile_to_tile(tmp_path, monkeypatch):
    """On a device that runs all blocks at once, too."""
    runs = []
    program = write(tmp_path, GEMM).schedule("dealt").compile("cpu")
    launcher = type(program.engine).launcher
    monkeypatch.setattr(type(program.engine), "launcher", lambda *given: (runs.append(given[2]), launcher(*given))[1])
    tried = cases(program.kernel, sizes_to_check([program.tree], {}))
    assert check(program, tried)
    assert {run.dealt for run in runs if run.grid[0] > 2} == {-(-run.grid[0] // 2) for run in runs if run.grid[0] > 2}
    assert any(run.grid[0] > run.dealt > 1 for run in runs)
