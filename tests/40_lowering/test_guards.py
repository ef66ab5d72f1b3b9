"""Guards that were once lost on the way to the text."""

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.lowering import lower
from tilegen.proof import demand, prove
from tilegen.schedule import apply

TEXT = """
kernel product(A: f32[N, P], B: f32[M, P]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[j, k])

schedule s for product():
    tile(i, 3) -> bi, ti
    tile(j, 2) -> bj, tj
    tile(k, 4) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(tj, thread.x)
    bind(ti, thread.y)
    cache_register(C, at=bj)
    cache_shared(A, at=ko, vector=2)
    pipeline(ko, 2)
"""


def test_start_of_a_register_does_not_free_a_vector_copy_beside_it():
    """The two share a test; the start needs none, but the copy does."""
    module = parse(Source("product.tg", TEXT))
    kernel = build(module.kernels["product"])
    proof = prove(kernel, lower(apply(kernel, module.schedules[0]).tree))
    demand(proof, kernel.name)
    assert proof.verdict == "proved"
