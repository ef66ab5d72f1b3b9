"""Small products by tensor cores, for tests: `TENSORIZED` loads element by element, `LOADED` by ldmatrix."""

PRODUCT = """
kernel product(A: bf16[M, K], B: bf16[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
"""
# A block of two warps, each of which has two fragments of C side by side.
TILES = """
schedule s for product():
    round_up(k, 16)
    tile(i, 32) -> bi, ti
    tile(ti, 16) -> w, i
    tile(j, 16) -> bj, tj
    tile(tj, 8) -> f, j
    tile(k, 16) -> ko, k
    order(bi, bj, ko, w, f, i, j, k)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(w, thread.y)
    cache_register(C, at=bj)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko)
    cache_register(A.shared, at=w)
    cache_register(B.shared, at=w)
    tensorize(i, j, k, by=mma_m16n8k16_bf16)
"""
LDMATRIX = "    tensorize(i, k, by=ldmatrix_a_bf16)\n    tensorize(k, f, j, by=ldmatrix_b_trans_bf16)\n"
TENSORIZED = PRODUCT + TILES
LOADED = TENSORIZED + LDMATRIX

PRODUCT_F64 = """
kernel product_f64(A: f64[M, K], B: f64[K, N]) -> C: f64[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def by_one_warp(schedule: str, kernel: str, instruction: str, m: int, n: int, k: int) -> str:
    """A schedule whose blocks are of one warp, which loads its fragments of m x k and k x n from global memory."""
    return f"""
schedule {schedule} for {kernel}:
    round_up(k, {k})
    tile(i, {m}) -> bi, i
    tile(j, {n}) -> bj, j
    tile(k, {k}) -> ko, k
    order(bi, bj, ko, i, j, k)
    bind(bi, block.y)
    bind(bj, block.x)
    cache_register(C, at=bj)
    cache_register(A, at=ko)
    cache_register(B, at=ko)
    tensorize(i, j, k, by={instruction})
"""
