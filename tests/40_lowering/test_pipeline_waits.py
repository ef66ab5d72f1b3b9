"""Asynchronous copies are waited for, also where no thread needs another's work."""

from simulate import faults

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.program import VectorCopy
from tilegen.schedule import apply

TEXT = """
kernel scaled(X: f32[N + 1], R: f32[3, N]) -> out: f32[N]:
    out[i] = sum[r](X[i + 1] * R[r, i])

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
