"""Random reductions over rows whose ends data give, with schedules: a thread a row, lanes, warps, tiles, columns."""

from __future__ import annotations

HEAD = """\
kernel k(x: {dtype}[N{columns}], q: i32[N], start: {index}[M + 1]) -> y: {dtype}[M{columns}]{promise}:
    y[i{at}] = {reduce}[j in {range}]({term}{choice})

schedule s for k():
    reassociate(y)
"""

REST = {"sum": 0, "max": -9, "min": 9}


def ragged(rng):
    """The text of a kernel and its schedule, and what makes its result by hand: (reduction, first, after, term)."""
    pick = rng.choice
    reduce, dtype = pick(["sum", "sum", "max", "min"]), pick(["i32", "i32", "f32"])
    ends = pick([(0, 1, 0), (0, 1, 0), (0, 1, 1), (1, 1, 2)])  # what is added to i at both ends, and to the last one
    low, behind = "start[i]" if not ends[0] else "start[i + 1]", f"start[i + 1]{f' + {ends[2]}' * bool(ends[2])}"
    factor, chosen, columns = pick(["", " * 2"]), pick([False, False, True]), pick([False, True])
    text = HEAD.format(
        dtype=dtype, reduce=reduce, index=pick(["i32", "i32", "i64"]), range=f"{low}..{behind}",
        promise=pick(["", " where rising(start, N)"]), columns=", F" * columns, at=", f" * columns,
        term=f"x[j{', f' * columns}]{factor}",
        choice=f" if q[j] > 0 else {REST[reduce]}" * chosen,
    )  # fmt: skip
    return text + "".join(f"    {step}\n" for step in _steps(pick, columns)), (reduce, ends, factor, chosen)


def _steps(pick, columns):
    if columns:
        yield "tile(f, 4) -> cf, lf"
        if pick([True, False]):
            yield "tile(lf, 2) -> vf, lf"
        else:
            yield "tile(lf, 1) -> lf, vf"
        yield "tile(i, 2) -> b, w"
        blocks = pick([("b", "cf"), ("cf", "b")])
        yield f"order({', '.join(blocks)}, w, lf, {pick(['j, vf', 'vf, j'])})"
        yield from (f"bind({block}, block.x)" for block in blocks)
        yield from ("bind(w, thread.y)", "bind(lf, thread.x)")
        if pick([True, False]):
            yield "cache_register(y, at=lf)"
            yield "unroll(vf)"
        return
    kind = pick(["thread", "tiles", "lanes", "vectors", "block"])
    if kind in ("thread", "tiles"):
        yield "blocks(i, 4) -> b, t"
        yield from ["tile(j, 4) -> jo, ji", "unroll(ji)"] * (kind == "tiles")
        yield from ["cache_register(y, at=t)"] * pick([False, True])
        return
    if kind == "block":
        yield "share_block(j, 2) -> c, w, l, v"
        yield "order(i, w, l, c, v)"
        yield "reduce_block(y, i, w, l) -> yw, yl"
        yield "bind_warps(i, w, l)"
    else:
        lanes = pick([2, 4])
        yield "tile(i, 2) -> b, w"
        yield f"share_warp(j, {lanes}) -> c, l, v" if kind == "vectors" else f"tile(j, {lanes}) -> c, l"
        yield f"order(b, w, l, c{', v' * (kind == 'vectors')})"
        yield "reduce_warp(y, w, l) -> part"
        yield "bind_warps(b, w, l)"
    if kind != "lanes":
        yield from ["cache_register(x, at=c, vector=4)"] * pick([False, True])
        yield from ["unroll(v)"] * pick([False, True])


GROUPS = """\
kernel k(X: {dtype}[N, K], W: {dtype}[G, K, F], start: {index}[G + 1]) -> Y: {dtype}[N, F] where rising(start, N):
    var P: {dtype}[G, N, F]
    P[g, t, f] = sum[k](X[t, k] * W[g, k, f])
    Y[t, f] = P[g, t, f] for t in start[g]..start[g + 1]

schedule s for k():
    order(P.t, P.f, P.g, k)
    fuse(P.t, Y.t) -> t
    fuse(P.f, Y.f) -> f
    fuse(P.g, Y.g) -> g
"""


ALIGNED = (
    GROUPS[: GROUPS.index("    order(")]
    + """\
    anchor(Y) -> s
    order(P.g, P.s, P.t, P.f, k)
    order(Y.g, s, Y.t, Y.f)
    fuse(P.g, Y.g) -> g
    fuse(P.s, s) -> s
    fuse(P.t, Y.t) -> row
    shift(row, s) -> t
    fuse(P.f, Y.f) -> f
"""
)


def groups(rng):
    """A product by groups of rows, with a schedule: a thread runs the group of its row, a block those of its rows, or
    a tile of one group, of which it stores the rows that the group has, from any row on or from the group's first."""
    pick = rng.choice
    if pick([False, False, True]):
        text = ALIGNED.format(dtype=pick(["i32", "f32"]), index=pick(["i32", "i64"]))
        return text + "".join(f"    {step}\n" for step in _steps_from_starts(pick))
    text = GROUPS.format(dtype=pick(["i32", "f32"]), index=pick(["i32", "i64"]))
    return text + "".join(f"    {step}\n" for step in _steps_of_groups(pick))


def _steps_of_groups(pick):
    yield from (f"tile(f, {pick([2, 4])}) -> c, l", f"tile(t, {pick([2, 4])}) -> b, w", "tile(k, 4) -> ko, ki")
    alone, together = pick([False, False, True]), pick([True, True, False])
    outer = "b, c, g, ko, w, l, ki" if together else "b, c, w, l, g, ko, ki"
    if alone:
        together, outer = True, "g, b, c, ko, w, l, ki"
    yield from (f"order({outer})", "bind(w, thread.y)", "bind(l, thread.x)")
    yield from ["bind(g, block.y)"] * alone
    blocks = not alone or pick([True, False])
    yield from ["bind(b, block.x)"] * blocks
    yield from ["bind(c, block.x)"] * (blocks and pick([False, True]))
    yield from [f"cache_register(Y, at={'c' if together else 'l'})"] * (not alone and pick([True, True, False]))
    yield f"cache_register(P, at={'c' if alone else 'g'})"
    if together:
        yield from _copies(pick)


def _steps_from_starts(pick):
    yield from (f"tile(f, {pick([2, 4])}) -> c, l", f"tile(t, {pick([2, 4])}) -> b, w", "tile(k, 4) -> ko, ki")
    yield from ("order(g, s, b, c, ko, w, l, ki)", "bind(w, thread.y)", "bind(l, thread.x)")
    yield pick(["deal(g, s, b, c, group=2)", "deal(g, s, b, c)", "bind(g, block.x)", "bind(g, block.x)"])
    yield "cache_register(P, at=c)"
    yield from ["cache_register(Y, at=c)"] * pick([False, True])
    yield from ["cache_shared(Y, at=c, vector=2)"] * pick([False, True])
    yield from _copies(pick)


def _copies(pick):
    yield from ["cache_shared(X, at=ko)"] * pick([False, True])
    yield "cache_shared(W, at=ko)"
    yield from [f"pipeline(ko, {pick([2, 3])})"] * pick([False, True])
