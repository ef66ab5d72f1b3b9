"""A right tree for a register-blocked GEMM, one fault put into it at a time, and what the judge says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Load, Loop, Op, Stmt
from tilegen.ir.walk import rewrite, stmts
from tilegen.ir.written import tree_of
from tilegen.judge import judge
from tilegen.primitives.calling.call import bind

TEXT = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule registers for gemm():
    tile(i, 32) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(k, 8) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(bj, block.x)
    tile(ti, parts=4) -> wi, ti
    order(..., wi)
    tile(tj, parts=4) -> wj, tj
    order(..., wj)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(A, at=ko, layout=[k, i], vector=4)
    cache_shared(B, at=ko, vector=4)
    pad(A.shared, 4)
    cache_register(A.shared, at=ki)
    cache_register(B.shared, at=ki)
    unroll(ki)
"""


def _stages():
    module = parse(Source("gemm.tg", TEXT))
    tree = tree_of(build(module.kernels["gemm"]))
    yield tree
    for call in module.schedules[0].steps:
        tree = bind(call).apply(tree)
        yield tree


STAGES = list(_stages())
PLAIN, BLOCKED = STAGES[0], STAGES[-1]


def change_tree(tree, change):
    return replace(tree, body=rewrite(tree.body, change))


def with_stmt(name, change, tree=BLOCKED):
    return change_tree(tree, lambda v: change(v) if isinstance(v, Stmt) and v.name == name else v)


def with_loop(name, change, tree=BLOCKED):
    return change_tree(tree, lambda v: change(v) if isinstance(v, Loop) and v.name == name else v)


def with_buffer(name, tree=BLOCKED, **fields):
    return replace(tree, buffers=tuple(replace(b, **fields) if b.name == name else b for b in tree.buffers))


def without(name, statement):
    """The tree without the nests of loop `name` that hold the statement."""
    return with_loop(name, lambda v: () if any(s.name == statement for s in stmts(v.body)) else v)


def change_load(change):
    return lambda s: replace(s, value=replace(s.value, index=tuple(change(*s.value.index))))


def guards(count):
    return lambda s: replace(s, guard=s.guard[:count])


def reindex(buffer, change):
    def visit(v):
        return replace(v, index=change(v.index)) if isinstance(v, Access | Load) and v.buffer == buffer else v

    return change_tree(BLOCKED, visit)


def k_backwards():
    return change_tree(PLAIN, lambda v: v.substitute({"k": var("K") - 1 - var("k")}) if v == var("k") else v)


# name, tree, what the sentence says, what the witness says
FAULTS = [
    (
        "never runs",
        lambda: with_loop("k", lambda v: replace(v, extent=v.extent - 1), PLAIN),
        "an instance of 'C' never runs",
        "C(i=0, j=0, k=0) is missing (M=1, K=1, N=1)",
    ),
    (
        "runs twice",
        lambda: with_loop("k", lambda v: (v, v), PLAIN),
        "an instance of 'C' runs more than once",
        "C(i=0, j=0, k=0) runs at i=0, j=0, k=0 and again at i=0, j=0, k=0 (M=1, K=1, N=1)",
    ),
    (
        "overlapping tiles",
        lambda: with_stmt(
            "C", lambda s: replace(s, instance=(s.instance[0], s.instance[1], (s.instance[2] * 2) // 2 - var("ko")))
        ),
        "an instance of 'C' runs more than once",
        None,
    ),
    (
        "outside the kernel",
        lambda: with_stmt("C", guards(1)),
        "an iteration runs an instance of 'C' that the kernel does not have",
        "C(i=0, j=0, k=1) runs at bi=0, bj=0, ko=0, ti=0, tj=0, ki=1, wi=0, wj=0 (M=1, K=1, N=1)",
    ),
    (
        "reduction backwards",
        k_backwards,
        "the order of the steps that build an element of 'C' changes",
        "C(i=0, j=0, k=0) must run before C(i=0, j=0, k=1), but runs after it (M=1, K=2, N=1)",
    ),
    (
        "update before init",
        lambda: with_loop("j", lambda v: replace(v, body=v.body[::-1]), PLAIN),
        "'C' runs before 'C.init', which it depends on through 'C'",
        "C.init(i=0, j=0) must run before C(i=0, j=0, k=0), but runs after it (M=1, K=1, N=1)",
    ),
    (
        "parallel reduction",
        lambda: with_loop("k", lambda v: replace(v, kind="thread.x"), PLAIN),
        "the iterations of 'k' cannot run at once as thread.x: they depend on each other through 'C'",
        "C(i=0, j=0, k=0) and C(i=0, j=0, k=1) both touch C[0, 0], and one of them writes it, at k=0 and k=1 "
        "(M=1, K=2, N=1)",
    ),
    (
        "register of two threads",
        lambda: reindex("C.reg", lambda i: (const(0), *i[1:])),
        "'C.reg' is in registers, and two threads would use one element of it",
        "C.reg[0, 0, 0, 0] is touched by threads ti=1 and ti=0 (M=2, K=1, N=1)",
    ),
    (
        "nested threads",
        lambda: with_loop("ki", lambda v: replace(v, kind="thread.x")),
        "loops 'tj' and 'ki' are both thread.x, and 'ki' is inside 'tj'",
        None,
    ),
    (
        "block inside",
        lambda: with_loop("ti", lambda v: replace(v, kind="block.z"), STAGES[4]),
        "block loop 'ti' is inside 'bi', and block loops are outermost in their launch",
        None,
    ),
    (
        "shared between blocks",
        lambda: with_buffer("A.shared", scope="bi"),
        "'A.shared' would be shared by several blocks: it lives in loop 'bi', outside block loop 'bj'",
        None,
    ),
    (
        "fill out of bounds",
        lambda: with_stmt("A.shared", change_load(lambda i, k: (i + 1, k))),
        "an access is outside 'A'",
        None,
    ),
    (
        "buffer too small",
        lambda: with_buffer("A.shared", shape=(const(32), const(7))),
        "an access is outside 'A.shared'",
        "the copy A.shared at bi=0, bj=0, ko=0, A.shared.i=0, A.shared.k=1, A.shared.v=3 writes A.shared[0, 7], and "
        "dimension 1 has 7 elements (M=1, K=8, N=1)",
    ),
    (
        "wrong element copied",
        lambda: with_stmt("B.shared", change_load(lambda k, j: (k, (j // 2) * 2))),
        "'B.shared' holds another element than the one that is read from it",
        "the copy B.shared.reg at bi=0, bj=0, ko=0, ti=0, tj=1, ki=0, wj=0 reads B.shared[0, 1] for B[0, 1], and it "
        "holds B[0, 0] (M=1, K=1, N=2)",
    ),
    (
        "wrong element read",
        lambda: with_stmt("A.shared.reg", change_load(lambda i, k: (i, (k // 2) * 2))),
        "'A.shared' holds another element than the one that is read from it",
        "the copy A.shared.reg at bi=0, bj=0, ko=0, ti=0, tj=0, ki=1, wi=0 reads A.shared[0, 0] for A[0, 1], and it "
        "holds A[0, 0] (M=1, K=2, N=1)",
    ),
    (
        "part not copied",
        lambda: with_stmt("B.shared", lambda s: replace(s, guard=(*s.guard, Condition(var("B.shared.k") - 1)))),
        "'B.shared' is read where nothing has been written",
        None,
    ),
    (
        "nothing copied",
        lambda: without("A.shared.i", "A.shared"),
        "'A.shared' is read where nothing has been written",
        None,
    ),
    (
        "not stored back",
        lambda: without("ti", "C.reg"),
        "'C.reg' is written and not stored back to 'C'",
        "C.init(i=0, j=0) writes C.reg[0, 0, 0, 0], which is lost at the end of this iteration of 'bj' (M=1, K=1, N=1)",
    ),
    (
        "contents lost",
        lambda: with_buffer("A.shared.reg", scope="wi"),
        "'A.shared.reg' is read where nothing has been written",
        None,
    ),
    (
        "another operation",
        lambda: with_stmt("C", lambda s: replace(s, value=Op("+", s.value.args, "f32"))),
        "a statement does not compute what 'C' does in the kernel",
        None,
    ),
    (
        "another reduction",
        lambda: with_stmt("C", lambda s: replace(s, reduce="max")),
        "a statement does not compute what 'C' does in the kernel",
        None,
    ),
]


def test_every_stage_is_the_kernel():
    for tree in STAGES:
        assert judge(tree) is None


@pytest.mark.parametrize(("tree", "sentence", "witness"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_fault_is_refused(tree, sentence, witness):
    violation = judge(tree())
    assert violation is not None
    if sentence:
        assert violation.sentence == sentence
    if witness:
        assert violation.witness == witness


def test_reassociation_is_allowed_where_a_step_says_so():
    assert judge(k_backwards()) is not None
    assert judge(replace(k_backwards(), reassociated=("C",))) is None


def test_verdicts_do_not_depend_on_what_was_asked_before():
    fault = with_stmt("A.shared.reg", change_load(lambda i, k: (i, (k // 2) * 2)))
    first = judge(fault)
    assert judge(BLOCKED) is None
    assert judge(fault) == first
