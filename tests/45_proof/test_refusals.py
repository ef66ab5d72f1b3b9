"""Refusals of the proof that no net meets: each by the smallest change to a lowered program that brings it about."""

import re
from dataclasses import replace

import pytest

from tests.support.bulk_kernels import CASES as BULK
from tests.support.mutants.families import program
from tests.support.mutants.kinds import (
    is_copy,
    is_release,
    is_ring,
    is_start_of_copies,
    is_store,
    is_wait,
    is_wait_for_stores,
)
from tests.support.mutants.places import each
from tests.support.tensor_core_kernels import LOADED
from tests.support.warpgroup_kernels import CASES as WARPGROUPS
from tests.support.written import tree_from
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Const, Load, Stmt
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.ir.walk import rewrite
from tilegen.lowering import lower
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.program import (
    Combine,
    Declare,
    For,
    If,
    Perform,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    rings,
)
from tilegen.lowering.launch.timelines import CONSUMERS, EMPTIED, Barrier, StartBarriers
from tilegen.poly import Facts, Refused
from tilegen.proof import prove
from tilegen.proof.reading.bulk import check_boxes

TILED = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for gemm():
    tile(i, 8) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(k, 8) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko, vector=4)
"""
VECTORS = """
kernel scaled(X: f32[N]) -> Y: f32[N]:
    Y[i] = 2 * X[i]

schedule s for scaled():
    tile(i, 4) -> t, v
    tile(t, 32) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    vectorize(v)
"""
LANES = """
kernel largest(X: f32[M, K]) -> y: i32[M]:
    y[i] = argmax[k](X[i, k])

schedule s for largest():
    tile(k, 32) -> c, l
    rfactor(y, l) -> p
    order(l, c)
    fuse(i, y.i) -> i
    rename(l, y.l) -> l
    bind(i, block.x)
    bind(l, thread.x)
    cache_register(p, at=i)
    cache_register(p.best, at=i)
    cache_register(y, at=i)
    cache_register(y.best, at=i)
"""
ENDS = """
kernel sums(x: f32[N], start: i32[M + 1]) -> y: f32[M]:
    y[i] = sum[j in start[i]..start[i + 1]](x[j])

schedule s for sums():
    blocks(i, 4) -> b, t
    cache_register(y, at=t)
"""
PICKED = """
kernel embedded(token: i64[T], dY: f32[T, D]) -> dW: f32[V, D]:
    dW[v, d] = sum[t](dY[t, d] if token[t] == v else 0)

schedule s for embedded():
    reassociate(dW)
    atomic(dW)
    order(t, v, d)
    scatter(v)
    bind(t, block.x)
    tile(d, 4) -> c, l
    bind(l, thread.x)
"""
A_BARRIER = Barrier(claims=(Claim("RAW", "dW", None),))


def first(kind, change):
    """The launch with nodes in place of the first one of a kind."""
    return lambda launch: next(each(launch, kind, lambda node: [change(node)]))


def with_buffer(name, **fields):
    return lambda launch: replace(launch, buffers={**launch.buffers, name: replace(launch.buffers[name], **fields)})


def operands(change):
    return first(Perform, lambda node: (replace(node, operands=change(*node.operands)),))


def with_map(**fields):
    return lambda launch: replace(launch, maps=tuple(replace(each, **fields) for each in launch.maps))


# What a tile's first element is in COPIED and STORED, for a thread to write.
CORNER = Load("X", (var("bi") * 32, var("bj") * 64), "f32", Const(0.0, "f32"))
WRITTEN = Stmt("tile", Access("tile", (const(0), const(0))), CORNER)
STORED_ALONE = Stmt("Y", Access("Y", (var("bj") * 64, var("bi") * 32)), Load("out", (const(0), const(0)), "f32"))


ZERO = Const(0.0, "f32")
ALONE = Condition(var("tid"), equal=True)


def is_ragged(node):
    return isinstance(node, For) and node.kind == "ragged"


def is_scatter(node):
    return isinstance(node, For) and node.kind == "scatter"


def is_roles(node):
    return isinstance(node, If) and bool(rings(node.body) and rings(node.orelse))


def is_turn(node):
    return isinstance(node, For) and any(map(is_ring, node.body)) and node.name.endswith(".turn")


def is_wait_for_readers(node):
    return is_wait(node) and node.line == EMPTIED


def is_loop(name):
    return lambda node: isinstance(node, For) and node.name == name


def longer_by_run(launch):
    """Each run of the ring has one iteration more than the one before."""

    def change(node):
        return replace(node, extent=node.extent + var("px")) if is_loop("ko")(node) else node

    return replace(launch, body=rewrite(launch.body, change))


def clusters_of_16(launch):
    grid = (Product(tuple(const(16) if f == const(2) else f for f in product.factors)) for product in launch.grid)
    return replace(launch, grid=tuple(grid), cluster=replace(launch.cluster, blocks=16))


def released_twice(launch):
    """Consumers say of two barriers of a slot that they are done."""
    (start,) = (node for node in launch.body if isinstance(node, StartBarriers))
    more = replace(start, barriers=(*start.barriers, *(("more", n) for name, n in start.barriers if name == "emptied")))
    launch = replace(launch, buffers={**launch.buffers, "more": replace(launch.buffers["emptied"], name="more")})
    launch = first(StartBarriers, lambda node: (more,))(launch)
    for kind in (is_release, is_wait_for_readers):
        launch = first(kind, lambda node: (node, replace(node, at=replace(node.at, buffer="more"))))(launch)
    return launch


def behind_a_word(launch):
    word = replace(launch.buffers["filled"], name="word", dtype="i64", shape=(const(1),))
    return replace(launch, buffers={"word": word, **launch.buffers, "tile": replace(launch.buffers["tile"], align=8)})


def number_of(text):
    """Of an iteration of the ring, in a text with roles."""
    ((ring, _), *_) = rings(program(text)[1].body)
    return var(ring.number)


def again(node):
    return (node, node)


RING, STORED, TURNS_TAKEN = BULK["ring, narrow"], BULK["stored"], BULK["turns"]
COPIED, SWIZZLED, TWO_STAGES = BULK["once"], BULK["swizzled"], BULK["two stages"]
CLUSTERED = BULK["cluster, narrow"]
WARPGROUP = WARPGROUPS["rows along k"]
# By what the proof says, as an expression: a text, and what becomes of its launch.
CASES = {
    # the block and its memory
    "the rows of 'A.shared' overlap": (TILED, with_buffer("A.shared", pad=-1)),
    "not every factor of the grid": (
        TILED,
        lambda launch: replace(launch, grid=(Product((*launch.grid[0].factors, const(2))), *launch.grid[1:])),
    ),
    "threads of a block are left out": (TILED, lambda launch: replace(launch, left_out=32)),
    "which statement starts 'C.reg'": (TILED, first(Declare, lambda node: (replace(node, origin=None),))),
    # barriers of all threads
    "a barrier names nothing": (TILED, first(Barrier, lambda node: (replace(node, claims=()),))),
    "nobody knows which": (TILED, first(Barrier, lambda node: (replace(node, line=CONSUMERS),))),
    "a fence is there for nothing": (TILED, first(Barrier, lambda node: (replace(node, fence=True),))),
    "threads meet in loop 'ko', which they run": (
        TILED,
        first(For, lambda node: (replace(node, extent=node.extent + var("ti")),)),
    ),
    # vectors
    "has no lane 2": (VECTORS, first(VectorLoad, lambda node: (replace(node, width=2),))),
    "is written where it is not declared": (VECTORS, first(VectorDeclare, lambda node: ())),
    "not each lane of 'Y.vec'": (VECTORS, first(Stmt, lambda node: ())),
    "there is no atomic max of 4": (VECTORS, first(VectorStore, lambda node: (replace(node, update="max"),))),
    "is no vector of 4 f64": (VECTORS, first(VectorLoad, lambda node: (replace(node, dtype="f64"),))),
    "has one element, and is used as a vector": (VECTORS, with_buffer("X", shape=(), order=())),
    # lanes
    "is not used at once": (LANES, first(Combine, again)),
    "is not used$": (LANES, first(Combine, lambda node: (For("once", const(1), (node,)),))),
    "takes another index": (LANES, first(Combine, lambda node: (replace(node, arg=None),))),
    "lanes are no part of a warp": (
        LANES,
        lambda launch: first(Combine, lambda n: (replace(n, lanes=64),))(replace(launch, block=(64, 1, 1))),
    ),
    # loops whose ends data give
    "is read before a test that does not depend on it": (
        ENDS,
        first(is_ragged, lambda node: (replace(node, body=(If((Condition(var("t") - 1),), node.body),)),)),
    ),
    # barriers of bulk copies
    "a barrier is started twice": (
        COPIED,
        first(StartBarriers, lambda node: (replace(node, barriers=node.barriers * 2),)),
    ),
    "all those of a cluster": (
        STORED,
        first(is_store, lambda node: (replace(node, blocks=3),)),
    ),
    "nobody has started it": (COPIED, first(StartBarriers, lambda node: ())),
    "a wait at 'filled of transpose' is there for nothing": (COPIED, first(is_wait, again)),
    "has other slots": (RING, with_buffer("filled", shape=(const(3),))),
    "for a phase before the first one": (RING, first(is_start_of_copies, lambda n: (replace(n, number=n.number - 1),))),
    "is released at several barriers": (RING, released_twice),
    "and no fence orders them": (
        COPIED,
        first(If, lambda node: (If((ALONE,), (WRITTEN,)), node)),
    ),
    # what is started
    "a Stmt is among what is started": (STORED, first(is_store, lambda node: (node, WRITTEN))),
    "it is not known how many bytes arrive": (COPIED, first(is_copy, lambda node: (node, WRITTEN))),
    # maps
    "there is no tensor map": (COPIED, lambda launch: replace(launch, maps=())),
    "is no map for copies of": (COPIED, with_map(dtype="i32")),
    "has another shape": (COPIED, with_map(shape=(var("M"), var("N")))),
    "elements apart": (COPIED, with_map(pitch=var("M"))),
    "another number of coordinates": (COPIED, first(is_copy, lambda n: (replace(n, coordinates=n.coordinates[:1]),))),
    "the swizzle of 'tile' is not that of": (COPIED, with_map(swizzle=128)),
    "and are shorter than its rows": (COPIED, with_map(box=(32, 64))),
    "more elements in a dimension than": (COPIED, with_map(box=(2048, 1))),
    # stores
    "a wait for stores is there for nothing": (STORED, first(is_wait_for_stores, again)),
    "'Y' is stored in bulk at any time": (STORED, first(If, lambda node: (node, If((ALONE,), (STORED_ALONE,))))),
    # clusters
    "blocks of a cluster share copies": (CLUSTERED, first(is_roles, lambda node: ())),
    "does not number the blocks of a cluster": (
        CLUSTERED,
        lambda launch: replace(launch, cluster=replace(launch.cluster, rank="bi")),
    ),
    "a cluster has 16 blocks": (CLUSTERED, clusters_of_16),
    # roles
    "producers stand in several places": (RING, first(is_roles, again)),
    "a place in the ring of 'ko' is used outside": (
        RING,
        first(is_loop("ko"), lambda node: (Stmt("C", Access("C.reg", (number_of(RING), const(0))), ZERO), node)),
    ),
    "more threads are left out": (RING, lambda launch: replace(launch, left_out=32)),
    "by the last coordinate of a thread": (
        RING,
        first(is_roles, lambda node: (replace(node, test=(Condition(7 - var("tj")),), flag=""),)),
    ),
    "have runs of different lengths": (TURNS_TAKEN, longer_by_run),
    "are not all groups of consumers": (TURNS_TAKEN, first(is_turn, lambda n: (replace(n, extent=const(3)),))),
    # instructions
    "of 'ldmatrix_a_bf16' is no f32": (LOADED, with_buffer("A.shared.reg", dtype="f32")),
    "lies in registers, and 'A.shared.reg' is no array": (LOADED, with_buffer("A.shared.reg", space="shared")),
    "lies in shared memory, and 'A.shared' does not": (LOADED, with_buffer("A.shared", space="global")),
    "of 'A.shared' is divided by its swizzle": (LOADED, with_buffer("A.shared", swizzle=Swizzle(1, 1, 2))),
    "is given in another way": (WARPGROUP, operands(lambda a, *others: (a.start, *others))),
    "and the descriptor is of 'Bs'": (WARPGROUP, operands(lambda a, b, *others: (b, b, *others))),
    "lies in shared memory, and 'As' does not": (WARPGROUP, with_buffer("As", space="register")),
}


# Boxes, which the last obligations are about: the change does more than this harm.
BOXES = {
    "the rows of a box of 'X.map'": (COPIED, with_map(box=(2, 1))),
    "the rows of 'tile' are not those": (SWIZZLED, with_buffer("tile", pad=4)),
    "does not begin at a multiple of 1024": (SWIZZLED, behind_a_word),
    "begins at no multiple of 128 bytes": (COPIED, behind_a_word),
}


@pytest.mark.parametrize("sentence", CASES)
def test_the_proof_refuses(sentence):
    text, change = CASES[sentence]
    tree, launch = program(text)
    found = prove(tree.kernel, (change(launch),), tree.reassociated).violation
    assert found is not None
    assert re.search(sentence, found.violation.sentence)


@pytest.mark.parametrize("sentence", BOXES)
def test_boxes_are_refused(sentence):
    text, change = BOXES[sentence]
    tree, launch = program(text)
    with pytest.raises(Refused, match=sentence):
        check_boxes(change(launch), Facts(tree.kernel), {})


def test_threads_do_not_meet_in_a_loop_of_which_each_runs_what_its_data_pick():
    tree = tree_from(PICKED)
    *others, last = lower(tree)
    faulty = first(is_scatter, lambda node: (replace(node, body=(A_BARRIER, *node.body)),))(last)
    found = prove(tree.kernel, (*others, faulty), tree.reassociated).violation
    assert found is not None
    assert found.violation.sentence == "threads meet in loop 'v', of which each runs what its data pick"
