"""Faults of tilegen's own that the proof of lowered programs has found, each with its smallest case."""

import pytest

from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.proof import prove

# A dimension with the name that the rounds of a copy had.
NAMED_LIKE_ROUNDS = """
kernel rows(R: i32[5, N]) -> out: i32[N]:
    out[l] = sum[r](R[r, l])

schedule s for rows():
    tile(l, 4) -> b, t
    tile(r, 4) -> ko, ki
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(R, at=ko, layout=[1, 0])
"""

# The second tile copies nothing ahead: a test that no round passes said that the tile is full.
DEAD_ROUNDS = """
kernel lower_part(X: i32[N, N], R: i32[5, N]) -> out: i32[N, N]:
    out[i, j] = sum[r](X[i, j] * R[r, j]) for j <= i

schedule s for lower_part():
    tile(j, 4) -> b, t
    tile(r, 4) -> ko, ki
    order(i, b, ko, t, ki)
    bind(i, block.y)
    bind(t, thread.y)
    cache_shared(X, at=ko, layout=[1, 0])
    cache_shared(R, at=ko, layout=[1, 0])
    pipeline(ko, 3)
"""

# A pipeline inside a loop that runs as often as a size says: its groups are counted from there.
COUNTED_ANEW = """
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for product():
    tile(i, 4) -> bi, ti
    tile(j, 4) -> bj, tj
    tile(k, 3) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_shared(B, at=ko)
    cache_shared(A, at=ko)
    pipeline(ko, 3)
"""

# The first lane updates y in memory, and all lanes start the parts that they put in: it was read as the first alone.
FIRST_LANE = """
kernel row_sum(X: f32[M, 32]) -> y: f32[M]:
    y[i] = sum[j](X[i, j])

schedule s for row_sum():
    reassociate(y)
    tile(j, 8) -> l, r
    rfactor(y, l) -> part
    fuse(i, y.i) -> i
    rename(l, y.l) -> l
    bind(i, block.x)
    bind(l, thread.x)
    cache_register(X, at=l)
    cache_register(part, at=i)
"""

# Registers are filled across tiles from a shared copy in a loop that runs in the block: its element changes with that.
ACROSS_IN_A_BLOCK = """
kernel product(A: f32[M, 16], B: f32[16, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for product():
    tile(i, 4) -> bi, ti
    tile(j, 4) -> bj, tj
    tile(k, 4) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(A, at=bi)
    cache_shared(B, at=ko)
    cache_register(A.shared, at=ki)
    cache_register(B.shared, at=ki)
    pipeline(ko, 3)
    pipeline(ki, 2, across=ko)
"""

# The last tile of T has elements that Y does not read: Y's test says nothing of whether T computes them.
NOT_READ = """
kernel tiles(X: f32[2, 4]) -> Y: f32[6]:
    var S: f32[2, 4], T: f32[2, 4]
    S[t, j] = X[t, j]
    T[t, j] = S[t, j] + 1
    Y[i] = T[i/4, i % 4]

schedule s for tiles():
    tile(i, 4) -> b, r
    compute_at(T, at=b)
    compute_at(S, at=b)
    bind(b, thread.x)
    cache_register(S, at=b)
    cache_register(T, at=b)
"""

# The tile has one row, and a thread walks two to and fro: its way back never runs, and the registers of both rows were
# taken for tested like the first.
NO_WAY_BACK = """
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for product():
    tile(i, 1) -> bi, ti
    tile(ti, 2) -> wi, vi
    tile(j, 4) -> bj, vj
    order(bi, bj, k, wi, vi, vj)
    cache_register(C, at=bj)
    serpentine(vi, vj)
"""

# One thread along y: its value was read back within the axis, where it is stored, and its index outside of it.
ONE_THREAD = """
kernel largest(X: f32[M, N]) -> at: i32[M]:
    at[i] = argmax[j](X[i, j])

schedule s for largest():
    tile(j, 8) -> c, r
    tile(r, 8) -> w, r
    rfactor(at, w) -> aw
    fuse(i, at.i) -> i
    order(w, c, r)
    bind(i, block.x)
    bind(w, thread.y)
    cache_shared(aw.best, at=i)
    cache_shared(aw, at=i)
    cache_register(at.best, at=i)
    cache_register(at, at=i)
"""

# Several rows a block: the copy to shared memory alone says that the first lane has the sum, and does not test the row.
FIRST_OF_SEVERAL_ROWS = """
kernel row_sums(A: f32[M, K]) -> y: f32[M]:
    y[i] = sum[k](A[i, k])

schedule s for row_sums:
    reassociate(y)
    tile(k, 32) -> c, l
    order(i, l, c)
    rfactor(y, l) -> pl
    tile(i, 4) -> bi, ri
    tile(y.i, 4) -> bi1, ri1
    order(bi, l, c, ri)
    fuse(bi, bi1) -> bi
    rename(l, y.l) -> l
    bind(bi, block.x)
    bind(l, thread.x)
    cache_register(pl, at=bi)
    cache_register(y, at=ri1)
    cache_shared(y, at=bi)
"""

# A tensor computed at its tile has room for elements beyond the border, which nothing computes.
NOT_COMPUTED = """
kernel two(X: f32[C, W]) -> Y: f32[W]:
    var P: f32[C, W]
    P[c, x] = 2 * X[c, x]
    Y[x] = sum[c](P[c, x])

schedule s for two():
    tile(Y.x, 8) -> bx, tx
    tile(Y.c, 4) -> co, ci
    order(bx, co, tx, ci)
    bind(bx, block.x)
    bind(tx, thread.x)
    compute_at(P, at=co)
    cache_shared(P, at=co)
    order(P.x, P.c)
    bind(P.x, thread.x)
    cache_register(P.shared, at=P.c)
"""

# In a tile of one element `i % 2 == 1` never holds: what is read there is certain to be inside, as anything is.
NEVER_READ = """
kernel odd(X: i32[K]) -> out: i32[N]:
    out[i] = max[k]((X[k + i - 1] else 7) + X[k] if i % 2 == 1 else -3)

schedule s for odd():
    tile(i, 2) -> b, t
    tile(k, 3) -> ko, ki
    tile(ki, 4) -> ka, kb
"""

# A loop of the inner copy had the name that a function gave to what it is told beside its parameters.
NUMBERED = """
kernel spread(X: i32[2*N, M]) -> out: i32[N, M]:
    out[i, j] = X[2*i, j]

schedule s for spread():
    tile(i, 3) -> pb, pt
    tile(j, 5) -> qb, qt
    tile(pt, 8) -> a, b
    order(pb, a, qb, qt, b)
    bind(qt, thread.x)
    cache_shared(X, at=qb, using=[a]) -> c
    cache_shared(X, at=qb)
    pipeline(qb, 2)
"""
# An instruction has more rows than a tile: of the others, which are those of the next tile, nobody reads the results.
FEW_ROWS = """
kernel product(A: bf16[M, K], B: bf16[N, K]) -> D: bf16[M, N]:
    var C: f32[M, N]
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[j, k]))
    D[i, j] = bf16(C[i, j])

schedule s for product():
    round_up(k, 64)
    fuse(C.i, D.i) -> i
    fuse(C.j, D.j) -> j
    tile(i, 32) -> bi, ti
    tile(j, 64) -> bj, tj
    tile(k, 64) -> ko, ki
    tile(ti, 64) -> wi, i64
    tile(ki, 16) -> fk, k16
    order(bi, bj, ko, wi, fk, i64, tj, k16)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.y)
    cache_register(C, at=bj)
    cache_register(D, at=bj)
    cache_shared(A, at=ko, vector=8) -> As
    cache_shared(B, at=ko, vector=8) -> Bs
    swizzle(As, 8)
    swizzle(Bs, 8)
    tensorize(i64, tj, k16, by=wgmma_m64n64k16_bf16)
"""
FOUND = [
    FEW_ROWS,
    NUMBERED,
    NEVER_READ,
    NAMED_LIKE_ROUNDS,
    DEAD_ROUNDS,
    COUNTED_ANEW,
    FIRST_LANE,
    ACROSS_IN_A_BLOCK,
    NOT_READ,
    NO_WAY_BACK,
    ONE_THREAD,
    FIRST_OF_SEVERAL_ROWS,
    NOT_COMPUTED,
]


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("text", FOUND)
def test_what_was_wrong_is_proved(text, vector):
    tree = tree_from(text)
    proof = prove(tree.kernel, lower(tree, vector=vector), tree.reassociated)
    assert proof.verdict == "proved", [o for o in proof.obligations if not o.is_proved]


def test_a_copy_keeps_the_tests_without_which_it_has_no_value():
    text = emit(lower(tree_from(NOT_COMPUTED), vector=False))
    assert text.count("P_shared[c][P_x] = P_shared_reg;") == 3
    assert "float P_shared_reg;" not in text
