"""Small products by warpgroups, for tests: B in rows along k or along j, A in registers, copies at once or ahead."""

from __future__ import annotations

_TEXT = """
kernel product(A: bf16[M, K], B: bf16[{shape}]) -> C: f32[M, N]:
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[{index}]))

schedule s for product():
    round_up(k, 64)
    tile(i, {rows}) -> bi, ti
    tile(j, {columns}) -> bj, tj
    tile(k, 64) -> ko, ki
    tile(ti, 64) -> wi, i64
    tile(ki, 16) -> fk, k16
    order(bi, bj, ko, wi, fk, i64, tj, k16)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.y)
    cache_register(C, at=bj, vector=2) -> Cf
    cache_shared(A, at=ko, vector=8) -> As
    cache_shared(B, at=ko, vector=8{panel}) -> Bs
    swizzle(As, 8)
    swizzle(Bs, 8){held}
    tensorize(i64, tj, k16, by=wgmma_m64n{columns}k16_{registers}{form}bf16)
"""

RING = ("bulk(As)", "bulk(Bs)", "pipeline(ko, 2)", "specialize(ko, overlap=1)")


def product(*more, transposed=False, rows=64, columns=64, panel=True, again=False, registers=""):
    """The text of a product; `transposed` is one of B in rows along j, and `again` one of blocks with several tiles.

    A is in registers in each iteration of the loop `registers`.
    """
    shape, index = ("K, N", "k, j") if transposed else ("N, K", "j, k")
    form, panel = ("trans_", ", panel=64" * panel) if transposed else ("", "")
    words = {"shape": shape, "index": index, "rows": rows, "columns": columns, "form": form, "panel": panel}
    words |= {"registers": "registers_" * bool(registers), "held": ""}
    if registers:
        words["held"] = f"\n    cache_register(As, at={registers}) -> Af"
    text = _TEXT.format(**words)
    if again:
        text = text.replace("    order(bi, bj,", "    tile(bj, 2) -> px, bx\n    order(bi, bx, px,").replace(
            "at=bj", "at=px"
        )
        text = text.replace("bind(bj,", "bind(bx,")
    return text + "".join(f"    {step}\n" for step in more)


def in_turn(*more):
    """The text of a product of blocks with two warpgroups, each with tiles of its own, of two products."""
    text = product("unroll(fk)", "unroll(wi)", *more, rows=128, transposed=True, again=True)
    return text.replace("    bind(wi, thread.y)\n", "")


# A half of the tile at a time goes by way of shared memory, which all threads store.
_HALVES = """cache_register(C, at=bj) -> Cf
    rename(tj, of=Cf) -> sj
    rename(i64, of=Cf) -> s64
    tile(sj, 32) -> hj, jj
    order(hj, wi, s64, jj)
    cache_shared(C, at=hj, vector=4) -> Cs
"""
CASES = {
    "rows along k": product(),
    "stored in halves": product().replace("cache_register(C, at=bj, vector=2) -> Cf\n", _HALVES),
    "rows along j": product(transposed=True),
    "ahead": product("pipeline(ko, 2)"),
    "panels": product("pipeline(ko, 2)", transposed=True, columns=128),
    "two warpgroups": product("unroll(fk)", rows=128),
}
# Products that run on into the next iteration.
RINGS = {
    "ring, turns": in_turn(*RING[:-1], "specialize(ko, overlap=1, turns=bx)"),
    "ring": product("unroll(fk)", *RING, rows=128),
    "ring, known": product("unroll(fk)", *RING).replace("M, K", "M, 192").replace("N, K", "N, 192"),
    "ring, again": product("unroll(fk)", *RING, transposed=True, again=True),
}
# Two blocks share the rows of B; one beyond the tensor copies its share, and multiplies nothing.
CLUSTER = (
    product("unroll(fk)", *RING, "multicast(Bs, ci)")
    .replace("    order(bi,", "    tile(bi, 2) -> bi, ci\n    order(bi, ci,")
    .replace("    bind(bi, block.y)\n", "    bind(bi, block.y)\n    bind(ci, block.y)\n")
)
# With A in registers: loaded for a whole tile, or for each product, from a ring or a tile that all copy.
FACTORS = {
    "factors of a tile": product("unroll(fk)", *RING[:-1], "specialize(ko)", registers="wi"),
    "factors of a product": product(transposed=True, registers="fk"),
}
# Consumers take the registers of the producer's warpgroup.
_TAKING = (*RING[:-1], "specialize(ko, registers=240)")
BUDGETS = {
    "budgets, turns": in_turn(*RING[:-1], "specialize(ko, turns=bx, registers=240)"),
    "budgets": product("unroll(fk)", *_TAKING, rows=128),
    "budgets, again": product("unroll(fk)", *_TAKING, rows=128, transposed=True, again=True),
}

# Rows of A are windows of x, each 16 bytes after the one before: a descriptor without a swizzle tells of them.
WINDOWS = """
kernel windows(x: bf16[2, M*8 + 8], B: bf16[2, N, 16]) -> C: f32[M, N]:
    C[i, j] = sum[r, k](f32(x[r, i*8 + k]) * f32(B[r, j, k]))

schedule s for windows():
    tile(i, 64) -> bi, i64
    tile(j, 64) -> bj, tj
    order(bi, bj, r, i64, tj, k)
    bind(bi, block.y)
    bind(bj, block.x)
    cache_register(C, at=bj, vector=2) -> Cf
    cache_shared(x, at=bj, vector=8) -> xs
    cache_shared(B, at=bj, vector=8) -> Bs
    swizzle(Bs, 8, 2, 4)
    tensorize(i64, tj, k, by=wgmma_m64n64k16_bf16)
"""
