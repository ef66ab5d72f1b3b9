"""Random products with specialized loops: each is proved, runs right on the simulator, and reads back.

The random programs draw `specialize`, too; their tiles are seldom whole warps, rows of which are copied in bulk.
"""

import random

import pytest

from tests.support.cover import first
from tests.support.mutants.kinds import is_release
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.proof import prove

CASES = 20, 1  # in all, and of these with each change


def text_of(rng):
    """A product of tiles of TI x TJ, of which a thread has WI x WJ elements, with TK terms a stage; some blocks share
    the tiles of one factor."""
    ti, tj, tk = rng.choice([8, 16]), rng.choice([16, 32]), rng.choice([8, 16])
    wi, wj = rng.choice([(1, 1), (2, 1), (4, 1), (2, 2), (1, 2)])
    while ti * tj // (wi * wj) % 32:
        wi, wj = rng.choice([(1, 1), (2, 1)])
    y, x = rng.choice([("thread.y", "thread.x"), ("thread.z", "thread.x"), ("thread.z", "thread.y")])
    turned = rng.choice([True, False])
    again = rng.choice([0, 0, 2, 3])  # so many blocks along x, with several tiles each
    cluster, blocks = rng.choice([("", 1), ("", 1), ("ci", 2), ("ci", 4), ("cj", 2)])
    rows, columns, shared = "bi", "bx" if again else "bj", []
    if cluster:
        outside, axis, buffer = (rows, "y", "B") if cluster == "ci" else (columns, "x", "A")
        shared = [f"tile({outside}, {blocks}) -> {outside}, {cluster}", f"bind({cluster}, block.{axis})"]
        rows, columns = (f"bi, {cluster}", columns) if cluster == "ci" else (rows, f"{columns}, {cluster}")
    outer, of_tile = f"{rows}, {columns}" + ", px" * bool(again), "px" if again else columns.split()[-1]
    stored, read = ("K, M", "k, i") if turned else ("M, K", "i, k")
    steps = [
        f"tile(i, {ti}) -> bi, ti",
        f"tile(j, {tj}) -> bj, tj",
        f"tile(k, {tk}) -> ko, ki",
        f"tile(ti, {wi}) -> ti, wi",
        f"tile(tj, {wj}) -> tj, wj",
        *([f"tile(bj, {again * blocks}) -> px, bx"] if again else []),
        *shared[:1],
        f"order({outer}, ko, ti, tj, ki, wi, wj)",
        "bind(bi, block.y)",
        *(shared[1:] if cluster == "ci" else []),
        f"bind({'bx' if again else 'bj'}, block.x)",
        *(shared[1:] if cluster == "cj" else []),
        f"bind(ti, {y})",
        f"bind(tj, {x})",
        f"cache_register(C, at={of_tile})",
        "cache_shared(A, at=ko)",
        f"cache_shared(B, at=ko{rng.choice(['', ', vector=4'])})",
        *rng.choice([[], ["cache_register(A.shared, at=ki)"]]),
        "bulk(A.shared)",
        "bulk(B.shared)",
        *rng.choice([[], ["unroll(ki)"]]),
        f"pipeline(ko, {rng.choice([2, 3, 4])})",
        "specialize(ko)",
        *([f"multicast({buffer}.shared, {cluster})"] if cluster else []),
    ]
    kernel = f"kernel gemm(A: f32[{stored}], B: f32[K, N]) -> C: f32[M, N]:\n"
    body = f"    C[i, j] = sum[k](A[{read}] * B[k, j])\n\nschedule s for gemm():\n"
    return kernel + body + "".join(f"    {step}\n" for step in steps)


def text_in_turn(rng):
    """The same for two groups of TJ threads that take turns, tile by tile; here, too, some blocks share tiles."""
    ti, tj, tk = rng.choice([8, 16]), rng.choice([32, 64]), rng.choice([8, 16])
    along, other = rng.choice([("bj", "bi"), ("bi", "bj")])  # what tiles are numbered by
    w, blocks = rng.choice(["z", "x"]), rng.choice([1, 1, 2])
    staged = rng.choice(["", "", "cache_shared(C, at=px) -> Cs", "bulk(Cs)"])
    outer, many = ("bx, w, px", True) if blocks > 1 else ("w, px", False)
    cluster = rng.choice([False, False, True])
    steps = [
        f"tile(i, {ti}) -> bi, ti",
        f"tile(j, {tj}) -> bj, tj",
        f"tile(k, {tk}) -> ko, ki",
        *([f"tile({along}, {blocks}) -> {along}, bx"] if many else []),
        f"tile({along}, 2) -> px, w",
        *([f"tile({other}, 2) -> {other}, cz"] if cluster else []),
        f"order({other}, {'cz, ' * cluster}{outer}, ko, ti, ki, tj)",
        f"bind({other}, block.y)",
        *(["bind(cz, block.y)"] if cluster else []),
        *([f"bind(bx, block.{'x' if w == 'z' else 'z'})"] if many else []),
        f"bind(w, block.{w})",
        "bind(tj, thread.x)",
        "cache_register(C, at=px)",
        "cache_shared(A, at=ko)",
        f"cache_shared(B, at=ko{rng.choice(['', ', vector=4'])})",
        *rng.choice([[], ["cache_register(A.shared, at=ki)"]]),
        *(["cache_shared(C, at=px) -> Cs"] if staged else []),
        *(["bulk(Cs)"] if staged == "bulk(Cs)" else []),
        "bulk(A.shared)",
        "bulk(B.shared)",
        f"pipeline(ko, {rng.choice([2, 3, 4])})",
        "specialize(ko, turns=w)",
        *([f"multicast({'B' if along == 'bj' else 'A'}.shared, cz)"] if cluster else []),
    ]
    head = "kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n\n"
    return head + "schedule s for gemm():\n" + "".join(f"    {step}\n" for step in steps)


@pytest.mark.parametrize("number", first(range(CASES[0]), CASES[1], long=6))
@pytest.mark.parametrize("text", [text_of, text_in_turn], ids=["ring", "turns"])
def test_a_random_ring(number, text):
    rng = random.Random(number)
    tree = tree_from(text(rng))
    sizes = {"M": 4 * rng.randrange(1, 6), "N": 4 * rng.randrange(1, 10), "K": 4 * rng.randrange(1, 12)}
    for version in ({}, {"whole": True}, {"wide": True}):
        launches = lower(tree, **version)
        assert any(is_release(node) for node in launches[0].nodes)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        assert difference(emit(launches), launches, "cuda") is None
    assert faults(lower(tree), tree, sizes) is None
