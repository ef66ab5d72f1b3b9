"""Results that leave through shared memory: stored there by `stmatrix` whole, copied out in rows."""

from dataclasses import replace

import pytest

from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Loop, Stmt
from tilegen.ir.walk import rewrite_nodes
from tilegen.judge import judge
from tilegen.judge.copies import check_values
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If, Perform
from tilegen.lowering.launch.timelines import Barrier
from tilegen.poly import Refused
from tilegen.poly.instances import project
from tilegen.proof import prove

# Two warps, each with two fragments of P side by side.
STAGED = """
kernel product(A: bf16[M, K], B: bf16[K, N]) -> C: bf16[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    C[i, j] = bf16(P[i, j])

schedule s for product():
    round_up(k, 16)
    fuse(P.i, C.i) -> i
    fuse(P.j, C.j) -> j
    tile(i, 32) -> bi, ti
    tile(ti, 16) -> w, i
    tile(j, 16) -> bj, tj
    tile(tj, 8) -> f, j
    tile(k, 16) -> ko, k
    order(bi, bj, ko, w, f, i, j, k)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(w, thread.y)
    cache_register(P, at=bj)
    cache_register(C, at=bj) -> Cf
    cache_shared(C, at=bj, vector=8) -> Cs
    cache_register(A, at=ko)
    cache_register(B, at=ko)
    tensorize(i, j, k, by=mma_m16n8k16_bf16)
    tensorize(i, f, j, by=stmatrix_c_bf16)
    swizzle(Cs, 8)
"""
# The tiles of a row one after the other, by one block.
ROW_BY_ROW = STAGED.replace("    bind(bj, block.x)\n", "")
SIZES = [{"M": 32, "N": 16, "K": 16}, {"M": 35, "N": 9, "K": 3}, {"M": 7, "N": 24, "K": 5}, {"M": 1, "N": 1, "K": 1}]
FORMS = [(STAGED, sizes) for sizes in SIZES] + [(ROW_BY_ROW, sizes) for sizes in SIZES[1:3]]


@pytest.mark.parametrize(("text", "sizes"), FORMS)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("vector", [False, True])
def test_all_sizes_are_proved_and_run(text, sizes, vector, whole):
    tree = tree_from(text)
    launches = lower(tree, vector=vector, whole=whole)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    if all(c.holds(sizes) for launch in launches for c in launch.requires):
        assert faults(launches, tree, sizes) is None


EPILOGUE = """
kernel product(A: f16[M, K], B: f16[K, N], b: f32[N], R: f16[M, N]) -> C: f16[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    C[i, j] = f16(max(P[i, j] + b[j], 0.0) + f32(R[i, j]))
"""
SUMS = """
kernel product(A: bf16[M, K], B: bf16[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
"""
ON_SCALAR_UNITS = """
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for product():
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    tile(ti, 2) -> ti, wi
    order(bi, bj, ti, tj, wi, k)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(C, at=bj, vector=4) -> Cs
"""
SCHEDULE = STAGED[STAGED.index("schedule") :]
OTHERS = {
    "an epilogue that reads beside the tensor": EPILOGUE + SCHEDULE.replace("bf16", "f16"),
    "a second input through shared memory": EPILOGUE
    + SCHEDULE.replace("bf16", "f16").replace("-> Cs\n", "-> Cs\n    cache_shared(R, at=bj, vector=8)\n"),
    "panels of eight columns": STAGED.replace("vector=8)", "vector=8, panel=8)").replace("    swizzle(Cs, 8)\n", ""),
    "sums on the scalar units": ON_SCALAR_UNITS,
    "no instruction for sums": SUMS
    + "".join(
        line
        for line in SCHEDULE.splitlines(keepends=True)
        if not any(word in line for word in ("fuse", "(P", "stmatrix"))
    ).replace("vector=8", "vector=4").replace("swizzle(Cs, 8)", "pad(Cs, 4)"),
}  # fmt: skip


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_results_and_forms(text):
    tree = tree_from(text)
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for sizes in SIZES[1:3]:
            if all(c.holds(sizes) for launch in launches for c in launch.requires):
                assert faults(launches, tree, sizes) is None


def test_a_warp_stores_its_tile_whole_and_a_barrier_stands_before_the_rows():
    (launch,) = lower(tree_from(STAGED))
    text = emit((launch,), "cuda")
    store = text.index("    stmatrix_c_bf16(&Cs[w * 16 + lane % 16][((lane / 16) * 8)")
    barrier = text.index("    __syncthreads();  // Cs is complete: written above, read below")
    rows = text.index("*reinterpret_cast<uint4*>(&C[")
    assert store < barrier < rows
    assert "if" not in text[text.index("Cf[2][4]") : barrier]
    assert len([node for node in launch.nodes if isinstance(node, Barrier)]) == 1


def test_threads_store_their_registers_without_tests_too():
    (launch,) = lower(tree_from(ON_SCALAR_UNITS))
    text = emit((launch,), "cuda")
    stores = text[
        text.index("    for (int wi = 0; wi < 2; ++wi)\n        Cs[") : text.index("    __syncthreads();  // Cs")
    ]
    assert stores.splitlines()[1].strip() == "Cs[ti * 2 + wi][tj] = C_reg[wi];"


def test_a_block_that_goes_on_waits_before_it_overwrites_the_tile():
    (launch,) = lower(tree_from(ROW_BY_ROW))
    claims = [claim for node in launch.nodes if isinstance(node, Barrier) for claim in node.claims]
    assert [(claim.kind, claim.buffer) for claim in claims] == [("RAW", "Cs"), ("WAR", "Cs")]


def without(launch, dropped):
    """The launch without the nodes for which `dropped` is true."""

    def kept(body):
        rest = (node for node in body if not dropped(node))
        return tuple(replace(node, body=kept(node.body)) if isinstance(node, For | If) else node for node in rest)

    return replace(launch, body=kept(launch.body))


@pytest.mark.parametrize(("text", "sizes"), [(STAGED, SIZES[0]), (ROW_BY_ROW, {"M": 20, "N": 40, "K": 3})])
def test_a_missing_barrier_is_found(text, sizes):
    tree = tree_from(text)
    launches = tuple(without(launch, lambda v: isinstance(v, Barrier)) for launch in lower(tree))
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "refused: races"
    assert faults(launches, tree, sizes) == "race"


def test_a_missing_store_is_found():
    tree = tree_from(STAGED)
    launches = tuple(
        without(launch, lambda v: isinstance(v, Perform) and v.instruction.is_copy) for launch in lower(tree)
    )
    assert prove(tree.kernel, launches, tree.reassociated).violation
    assert faults(launches, tree, SIZES[0]) == "uninitialised"


NEVER = Condition(const(-1))


def with_another_store(tree, place, never_true=NEVER):
    """`tree` in which a second store of the fragments stands before or after the first, and never runs."""

    def never(value):
        return replace(value, guard=(never_true,)) if isinstance(value, Stmt) else value

    def twice(value):
        stores = [v for v in getattr(value, "body", ()) if isinstance(v, Loop) and v.performed]
        if not isinstance(value, Loop) or not any(v.performed.instruction.is_copy for v in stores):
            return value
        return replace(value, body=(*value.body[:place], *rewrite_nodes(value.body, never), *value.body[place:]))

    return replace(tree, body=rewrite_nodes(tree.body, twice))


def test_what_is_used_is_not_written_over():
    """An instruction runs whole, whatever a test says of its points."""
    never = Condition(-1 - var("i"))
    assert judge(with_another_store(tree_from(STAGED), 0, never)) is None
    found = judge(with_another_store(tree_from(STAGED), 1, never))
    assert found.sentence == "'Cf' is copied where it has no element, over what is read from 'Cs'"


@pytest.mark.parametrize("place", [0, 1])
def test_what_a_copy_leaves_where_it_has_no_element_lies_over_nothing_that_is_read(place):
    program = project(with_another_store(tree_from(STAGED), place))
    stores = [placed for placed in program.leaves if placed.leaf.stmt.target.buffer == "Cs"]
    store, other = stores[1 - place], stores[place]

    def where(*guard):
        return replace(other, leaf=replace(other.leaf, stmt=replace(other.leaf.stmt, guard=guard)))

    beside = [where(Condition(-1 - test.value)) for test in store.leaf.stmt.guard]
    assert len(beside) == 2
    check_values(program, beside)
    if place == 0:
        check_values(program, (where(),))  # the store after it puts this right
        return
    with pytest.raises(Refused) as caught:
        check_values(program, (where(),))
    assert caught.value.violation.sentence == "'Cf' is copied where it has no element, over what is read from 'Cs'"
    assert caught.value.violation.witness == (
        "the copy Cf at bi=0, bj=0, w=0, f=0, i=0, j=0 writes Cs[0, 0], and the copy Cs at bi=0, bj=0, Cs.i=0, Cs.j=0, "
        "Cs.v=0 reads Cs[0, 0] for C[0, 0] (M=1, K=1, N=1)"
    )
