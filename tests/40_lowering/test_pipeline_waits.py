"""Asynchronous copies are waited for, also where no thread needs another's work."""

from simulate import faults

from tilegen.backends.text import emit
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.program import VectorCopy
from tilegen.schedule import apply

TEXT = """
kernel scaled(X: f32[N + 1], R: f32[3, N]) -> out: f32[N]:
    out[i] = sum[r](X[i + 1] * R[r, i])

kernel product(A: f32[M, K], B: f32[K]) -> out: f32[M]:
    out[i] = sum[k](A[i, k] * B[k])

schedule own for scaled():
    tile(i, 8) -> b, t
    tile(r, 1) -> ko, ki
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=ko)
    pipeline(ko, 2)
"""


def test_a_thread_that_reads_its_own_copies_alone_makes_plain_ones():
    module = parse(Source("scaled.tg", TEXT))
    tree = apply(build(module.kernels["scaled"]), module.schedules[0]).tree
    launches = lower(tree)
    assert not any(isinstance(v, VectorCopy) and v.asynchronous for v in walk(launches[0].body))
    assert faults(launches, tree, {"N": 7}) is None


def test_a_group_ends_behind_all_of_its_copies():
    text = (
        TEXT.split("schedule own")[0]
        + """
schedule both for product():
    tile(i, 4) -> b, t
    tile(k, 4) -> ko, ki
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(B, at=ko)
    cache_register(A, at=ko)
    pipeline(ko, 2)
"""
    )
    module = parse(Source("both.tg", text))
    tree = apply(build(module.kernels["product"]), module.schedules[0]).tree
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert faults(launches, tree, {"M": 5, "K": 9}) is None
        assert "end_copies();" in emit(launches, "cuda")
        emit(launches, "opencl")
