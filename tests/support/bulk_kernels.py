"""Small schedules with bulk copies, for tests: `CASES` by name."""

GEMM = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for gemm():
    tile(i, 16) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(k, 8) -> ko, ki
    tile(ti, 4) -> ti, wi
    order(bi, bj, ko, ti, tj, ki, wi)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko, vector=4)
"""
BATCHED = """
kernel products(A: f32[M, L, 32], B: f32[L, 32, N]) -> C: f32[M, N]:
    C[i, j] = sum[l, k](A[i, l, k] * B[l, k, j])

schedule s for products():
    tile(i, 16) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(k, 8) -> ko, ki
    order(bi, bj, l, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_shared(B, at=ko)
    bulk(B.shared)
"""
SHORT = BATCHED.replace("32]", "8]").replace("32, N]", "8, N]")
TRANSPOSE = """
kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
    Y[j, i] = X[i, j]

schedule s for transpose():
    tile(i, 32) -> bi, ti
    tile(j, 64) -> bj, tj
    order(bi, bj, tj, ti)
    bind(bi, block.y)
    bind(bj, block.x)
    tile(tj, 4) -> tj, wj
    bind(tj, thread.y)
    bind(ti, thread.x)
"""
# All threads wait for what one of them reads.
FEW_READERS = """
kernel whole(X: i32[M]) -> s: i32[1]:
    s[z] = sum[k](X[k] else 0)

schedule s for whole():
    tile(z, 8) -> b, t
    tile(k, 32) -> ko, ki
    order(b, ko, t, ki)
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(s, at=b)
    cache_shared(X, at=ko)
    bulk(X.shared)
"""
AHEAD = """    cache_register(X.shared, at=ki)
    pipeline(ko, 2)
    pipeline(ki, 2, across=ko)
"""
HALVES = """
kernel hgemm_f32(A: bf16[M, K], B: bf16[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))

schedule s for hgemm_f32(TM=128, TN=128, TK=64, WM=64, WN=64, STAGES=3):
    round_up(k, TK)
    tile(i, TM) -> bi, ti
    tile(j, TN) -> bj, tj
    tile(k, TK) -> ko, ki
    tile(ti, WM) -> wi, ii
    tile(tj, WN) -> wj, jj
    tile(ii, 16) -> fi, i16
    tile(jj, 16) -> fj, jn
    tile(jn, 8) -> nj, j8
    tile(ki, 16) -> fk, k16
    order(bi, bj, ko, wi, wj, fk, fi, fj, nj, i16, j8, k16)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.z)
    bind(wj, thread.y)
    cache_register(C, at=bj, vector=2) -> Cf
    cache_shared(A, at=ko, vector=8) -> As
    cache_shared(B, at=ko, vector=8, panel=64) -> Bs
    swizzle(As, 8)
    swizzle(Bs, 8)
    bulk(As)
    bulk(Bs)
    cache_register(As, at=fk) -> Af
    cache_register(Bs, at=fk) -> Bf
    tensorize(i16, j8, k16, by=mma_m16n8k16_bf16)
    tensorize(i16, k16, by=ldmatrix_a_bf16)
    tensorize(k16, nj, j8, by=ldmatrix_b_trans_bf16)
    unroll(fk)
    pipeline(ko, STAGES)
    pipeline(fk, 2, across=ko)
"""


def _tile_by_tile(text):
    """A block has several tiles, one after the other."""
    text = text.replace("    tile(ti, 4)", "    tile(bj, 2) -> px, bx\n    tile(ti, 4)").replace("bj, ko", "bx, px, ko")
    return text.replace("bind(bj,", "bind(bx,").replace("at=bj", "at=px")


def _in_clusters(text):
    """Two blocks along y, one beside the other, are a cluster."""
    text = text.replace("    order(bi,", "    tile(bi, 2) -> bi, ci\n    order(bi, ci,")
    return text.replace("    bind(bi, block.y)\n", "    bind(bi, block.y)\n    bind(ci, block.y)\n")


NARROW = GEMM.replace("    tile(ti, 4)", "    tile(tj, 2) -> tj, wj\n    tile(ti, 4)").replace("ki, wi)", "ki, wi, wj)")
BOTH = "    bulk(A.shared)\n    bulk(B.shared)\n"
EACH_ROW = """
kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
    Y[j, i] = X[i, j]

schedule s for transpose():
    tile(i, 32) -> bi, ti
    tile(j, 8) -> bj, tj
    order(bi, bj, tj, ti)
    bind(bi, block.x)
    bind(tj, thread.y)
    bind(ti, thread.x)
    cache_shared(Y, at=bj) -> out
    bulk(out)
"""
# The results of a tile go out 8 columns at a time, through one buffer.
PANELS = """
kernel twice(X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j] = X[i, j] + X[i, j]

schedule s for twice():
    tile(i, 32) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(bj, 2) -> px, bx
    tile(tj, 8) -> pj, wj
    order(bi, bx, px, pj, wj, ti)
    bind(bi, block.y)
    bind(bx, block.x)
    bind(wj, thread.y)
    bind(ti, thread.x)
    cache_shared(Y, at=pj) -> out
    bulk(out)
"""
SHARED = "    multicast(B.shared, ci)\n"
# Two blocks are one, a warp each, and take turns.
TURNS = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for gemm():
    tile(i, 8) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(k, 8) -> ko, ki
    tile(bj, 2) -> px, w
    order(bi, w, px, ko, ti, ki, tj)
    bind(bi, block.y)
    bind(w, block.z)
    bind(tj, thread.x)
    cache_register(C, at=px)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko, vector=4)
"""
IN_TURN = "    pipeline(ko, 2)\n    specialize(ko, turns=w)\n"
OUT = "    cache_shared(C, at=bj) -> Cs\n    bulk(Cs)\n"
CASES = {
    "once": TRANSPOSE + "    cache_shared(X, at=bj) -> tile\n    bulk(tile)\n",
    "swizzled": TRANSPOSE + "    cache_shared(X, at=bj, panel=32) -> tile\n    swizzle(tile, 4)\n    bulk(tile)\n",
    "short rows": TRANSPOSE
    + "    cache_shared(X, at=bj, panel=8) -> tile\n    swizzle(tile, 4, 2, 4)\n    bulk(tile)\n",
    "each time": GEMM + BOTH,
    "one of two": GEMM + "    bulk(B.shared)\n",
    "two stages": GEMM + BOTH + "    pipeline(ko, 2)\n",
    "four stages": GEMM + BOTH + "    pipeline(ko, 4)\n",
    "beside others": GEMM + "    bulk(B.shared)\n    pipeline(ko, 3)\n",
    "registers ahead": GEMM
    + BOTH
    + "    cache_register(A.shared, at=ki)\n    pipeline(ko, 3)\n    pipeline(ki, 2, across=ko)\n",
    "again": BATCHED,
    "again in stages": BATCHED + "    pipeline(ko, 2)\n",
    "again, one iteration in two stages": SHORT + "    pipeline(ko, 2)\n",
    "few readers": FEW_READERS,
    "few readers, two stages": FEW_READERS + "    pipeline(ko, 2)\n",
    "few readers, registers ahead": FEW_READERS + AHEAD,
    "once, registers ahead": FEW_READERS.replace("i32[M]", "i32[32]").replace("i32[1]", "i32[9]") + AHEAD,
    "few readers, three tiles": FEW_READERS.replace("i32[M]", "i32[96]") + AHEAD,
    "halves": HALVES,
    "stored": TRANSPOSE + "    cache_shared(Y, at=bj) -> out\n    bulk(out)\n",
    "stored, swizzled": TRANSPOSE + "    cache_shared(Y, at=bj) -> out\n    swizzle(out, 4)\n    bulk(out)\n",
    "stored in panels": TRANSPOSE + "    cache_shared(Y, at=bj, panel=8) -> out\n    bulk(out)\n",
    "stored each time": EACH_ROW,
    "stored and filled": GEMM + BOTH + OUT,
    "stored beside a ring": GEMM + BOTH + OUT + "    pipeline(ko, 3)\n    specialize(ko)\n",
    "ring": GEMM + BOTH + "    pipeline(ko, 3)\n    specialize(ko)\n",
    "ring, narrow": NARROW + BOTH + "    pipeline(ko, 2)\n    specialize(ko)\n",
    "ring, again": _tile_by_tile(GEMM) + BOTH + "    pipeline(ko, 3)\n    specialize(ko)\n",
    "ring, again, one iteration": SHORT + "    pipeline(ko, 3)\n    specialize(ko)\n",
    "ring, again, narrow": _tile_by_tile(NARROW) + BOTH + "    pipeline(ko, 2)\n    specialize(ko)\n",
    "cluster": _in_clusters(GEMM) + BOTH + "    pipeline(ko, 3)\n    specialize(ko)\n" + SHARED,
    "cluster, narrow": _in_clusters(NARROW) + BOTH + "    pipeline(ko, 2)\n    specialize(ko)\n" + SHARED,
    "cluster, again, narrow": _tile_by_tile(_in_clusters(NARROW))
    + BOTH
    + "    pipeline(ko, 2)\n    specialize(ko)\n"
    + SHARED,
    "stored tile by tile": _tile_by_tile(GEMM) + OUT.replace("bj", "px"),
    "stored tile by tile, beside a ring": _tile_by_tile(GEMM)
    + BOTH
    + OUT.replace("bj", "px")
    + "    pipeline(ko, 3)\n    specialize(ko)\n",
    "stored panel by panel": PANELS,
    "turns": TURNS + BOTH + IN_TURN,
    "turns, one iteration": TURNS.replace("K", "8") + BOTH + IN_TURN,
    "turns, staged": TURNS + BOTH + "    cache_shared(C, at=px) -> Cs\n" + IN_TURN,
    "turns, stored": TURNS + BOTH + OUT.replace("bj", "px") + IN_TURN,
    "turns, cluster": _in_clusters(TURNS) + BOTH + OUT.replace("bj", "px") + IN_TURN + SHARED,
}
