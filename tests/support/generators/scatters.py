"""Random kernels whose data say where a term goes, with schedules: one copy of the result or several, where it lies."""

from __future__ import annotations

HEAD = """\
kernel k(x: {index}[N], w: {dtype}[N], m: i32[N]) -> h: {dtype}[{shape}]:
    h[{left}] = {reduce}[i]({term} if {test} else {rest})

schedule s for k():
    reassociate(h)
"""


def scattered(rng):
    """The text of a kernel and its schedule; (bins, neutral) for a reference of one's own."""
    pick = rng.choice
    bins, low = pick([1, 3, 8, 33]), pick([0, 0, 2])
    index, dtype = pick(["i32", "i32", "i64", "u8", "i8"]), pick(["i32", "i32", "f32", "f64"])
    reduce = pick(["sum", "sum", "max", "min"]) if dtype == "i32" else "sum"
    rest = {"sum": "0", "max": "-2147483648", "min": "2147483647"}[reduce]
    place = "i32(x[i])" if index in ("u8", "i8") else "x[i]"
    equal = f"{place} == b + {low}" if low else pick([f"{place} == b", f"b == {place}"])
    test = pick([equal, equal, f"{equal} and m[i] > 0", f"m[i] != 1 and {equal}"])
    pair = pick([False, False, True])
    text = HEAD.format(
        index=index, dtype=dtype, reduce=reduce, rest=rest, term=pick(["w[i]", "w[i] * 2"]),
        shape=f"{bins}, 4" if pair else f"{bins}", left="b, c" if pair else "b",
        test=f"{test} and m[i] == c" if pair else test,
    )  # fmt: skip
    return text + "".join(f"    {step}\n" for step in _steps(pick, pair)), bins, low


def _steps(pick, pair):
    loops = ["b", "c"] if pair else ["b"]
    part, threads = pick([8, 24]), pick([2, 4])
    if pick([True, False]):  # in global memory, by whatever runs at once
        yield "atomic(h)"
        yield f"order(i, {', '.join(loops)})"
        yield from (f"scatter({each})" for each in loops)
        yield f"tile(i, {part}) -> p, t"
        if not pair and pick([True, False]):
            yield "tile(t, 2) -> t, v"
            yield "unroll(v)"
        yield "bind(p, block.x)"
        yield "bind(t, thread.x)"
        return
    several = pick([True, False])  # copies, of a block or of the threads with one number
    yield f"tile(i, {part}) -> p, r"
    yield f"tile(r, {threads * 2}) -> c0, t"
    yield "tile(t, 2) -> u, t"
    if several:
        yield "rfactor(h, [p, t]) -> mine"
        yield "rfactor(h, h.p) -> part"
        yield "reassociate(mine, part)"
    else:
        yield "rfactor(h, p) -> part"
        yield "reassociate(part)"
    yield "atomic(h)"
    yield f"order(p, u, t, c0, {', '.join(loops)})"
    yield from (f"scatter({each})" for each in loops)
    if several:
        theirs = [f"h.{each}" for each in loops]
        yield f"order(h.p, {', '.join(theirs)}, h.t)"
        yield f"order(h.p2, {', '.join(f'{each}2' for each in theirs)})"
        yield "fuse(p, h.p) -> p"
        yield "fuse(p, h.p2) -> p"
    else:
        yield f"order(h.p, {', '.join(f'h.{each}' for each in loops)})"
        yield "fuse(p, h.p) -> p"
    held = "mine" if several else "part"
    yield f"cache_shared({held}, at=p)"
    if several:
        yield "cache_shared(part, at=p)"
    yield f"atomic({held})"
    yield "bind(p, block.x)"
    yield "bind(u, thread.y)"
    yield "bind(t, thread.x)"
