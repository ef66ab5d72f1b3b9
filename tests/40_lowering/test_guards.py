"""Guards that were once lost on the way to the text."""

from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.proof import demand, prove

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
    tree = tree_from(TEXT)
    proof = prove(tree.kernel, lower(tree))
    demand(proof, tree.kernel.name)
    assert proof.verdict == "proved"


NARROW = """
kernel two(A: f32[N, 64]) -> B: f32[N, 32], C: f32[N, 64]:
    B[i, j] = 2 * A[i, j]
    C[i, j] = 3 * A[i, j]

schedule s for two():
    fuse(B.i, C.i) -> i
    bind(i, block.x)
    bind(B.j, thread.x)
    bind(C.j, thread.x)
"""


def test_a_thread_loop_shorter_than_the_block_is_tested_for():
    """The name of such a loop runs over all threads of its axis in the text."""
    tree = tree_from(NARROW)
    launches = lower(tree)
    assert "if (B_j < 32)\n" in emit(launches, "cuda")
    assert prove(tree.kernel, launches).verdict == "proved"
