"""Asynchronous copies, in the program of one thread: which copies they are, where groups of them end, the waits."""

from __future__ import annotations

from dataclasses import replace
from math import copysign

from tilegen.ir.affine import Mod, const, var
from tilegen.ir.nodes import Access, Buffer, Const, Load, Loop, Node, Op, Stmt
from tilegen.ir.walk import loads, rewrite, stmts
from tilegen.lowering.launch.program import For, Spmd, VectorCopy, nodes, with_lists
from tilegen.lowering.launch.timelines import Barrier
from tilegen.lowering.sync.conflicts import Gap, Path
from tilegen.lowering.sync.pipeline import Pipe

ASYNCHRONOUS = (4, 8, 16)  # bytes of a copy that goes on while its thread does (PTX ISA, cp.async)
_COPIES = (Stmt, VectorCopy)
# The place before a child of the body at a path.


def group_ends(node: Node, pipes: tuple[Pipe, ...], path: Path = (0,)) -> set[Gap]:
    """The gaps after the last copy of each iteration of a pipelined loop.

    `path` is that of `node`; a launch is the only child of its tree.
    """
    if not isinstance(node, Loop):
        return set()
    ends = {end for n, child in enumerate(node.body) for end in group_ends(child, pipes, (*path, n))}
    for pipe in pipes:
        if node.name in (pipe.loop, f"{pipe.loop}.fill"):
            # Copies to registers, which are not asynchronous, may stand among them.
            filling = [n for n, c in enumerate(node.body) if any(s.target.buffer in pipe.buffers for s in stmts(c))]
            ends.add((path, filling[-1] + 1 if filling else 0))
    return ends


def with_waits(node: Node, barriers: dict[Gap, Barrier], pipes: tuple[Pipe, ...]) -> dict[Gap, Barrier]:
    """The barriers of the launch `node`, those that make a staged buffer complete with a wait for its copies."""
    complete = {key: [p for p in pipes if p.buffers & set(b.buffers)] for key, b in barriers.items()}
    waits = frozenset(key for key, pipes_there in complete.items() if pipes_there)
    pending = {key: min(_pending_groups(node, key, waits, pipe) for pipe in complete[key]) for key in waits}
    return {key: replace(b, wait=pending[key]) if key in waits else b for key, b in barriers.items()}


def _pending_groups(node: Node, key: Gap, waits: frozenset[Gap], pipe: Pipe) -> int:
    """How many groups of copies may be on their way after the barrier at `key`.

    At the start of iteration i of the loop, i + stages - 1 groups have been made; those to be waited for are
    the first i + 1, for its own tile, and one more for the next tile.
    """
    path, at = key
    loop = _loop_at(node, path)
    if loop is None or loop.name != pipe.loop:
        return _pending_ahead(loop, key, waits, pipe)
    (end,) = (place for p, place in group_ends(loop, (pipe,), path) if p == path)
    stops = [s for p, s in waits if p == path]
    ahead = pipe.pending + (at >= end)
    most = ahead
    for place, child in enumerate(loop.body):
        for tile in _tiles(child, pipe):
            # Its last wait stands before it in its iteration, or it is the last one of the iteration before.
            last = max((s for s in stops if s <= place), default=None)
            if last == at:
                most = min(most, ahead - tile)
            elif last is None and at == max(stops):
                most = min(most, ahead - tile - 1)
    return max(0, most)


def _pending_ahead(around: Loop | None, key: Gap, waits: frozenset[Gap], pipe: Pipe) -> int:
    """How many groups may be on their way after the barrier at `key`, outside the loop of `pipe`.

    Before the loop it is the wait for whatever the first iteration reads before a wait of its own.
    """
    path, at = key
    body = around.body if around else ()
    place = next((n for n, c in enumerate(body) if isinstance(c, Loop) and c.name == pipe.loop), None)
    if place is None or at > place:
        return pipe.pending
    loop = body[place]
    assert isinstance(loop, Loop)
    stop = min((s for p, s in waits if p == (*path, place)), default=len(loop.body))
    tiles = {tile for child in loop.body[:stop] for tile in _tiles(child, pipe)}
    return max(0, pipe.pending - max(tiles, default=0))


def _tiles(node: Node, pipe: Pipe) -> set[int]:
    """Which tiles are read in an iteration of a pipelined loop: 0 is its own, 1 that of the next."""
    slots = [load.index[0] for load in loads(node) if load.buffer in pipe.buffers]
    # In a loop of few iterations a slot may be the number of its tile, without a remainder.
    tiles = [next((atom.arg for atom, _ in slot.terms if isinstance(atom, Mod)), slot) for slot in slots]
    return {(tile - var(pipe.loop)).const for tile in tiles if pipe.loop in tile.names()}


def _loop_at(node: Node, path: Path) -> Loop | None:
    """The loop with the body at `path`, which begins with the place of `node`."""
    for place in path[1:]:
        if not isinstance(node, Loop):
            return None
        node = node.body[place]
    return node if isinstance(node, Loop) else None


def covered_pipes(node: Node, pipes: tuple[Pipe, ...], barriers: dict[Gap, Barrier]) -> tuple[Pipe, ...]:
    """The pipes with those of their buffers whose asynchronous copies would be waited for before each use.

    A thread that reads nothing but what it has copied itself needs no barrier, so there is none to wait at,
    and its copies are plain ones.
    """
    waits = frozenset(key for key, b in barriers.items() if b.wait is not None)
    return tuple(replace(p, buffers=p.buffers - _read_before_wait(node, p, waits, (0,))) for p in pipes)


def _read_before_wait(node: Node, pipe: Pipe, waits: frozenset[Gap], path: Path) -> frozenset[str]:
    """The buffers that are read before any wait for their copies, in the body around the loop of `pipe`."""
    if not isinstance(node, Loop):
        return frozenset()
    found: frozenset[str] = frozenset()
    names = [child.name if isinstance(child, Loop) else "" for child in node.body]
    for place, child in enumerate(node.body):
        found |= _read_before_wait(child, pipe, waits, (*path, place))
        if f"{pipe.loop}.fill" not in names[:place]:
            continue
        filled = names.index(f"{pipe.loop}.fill")
        first = any(p == path and filled < at <= place for p, at in waits)
        if isinstance(child, Loop) and child.name == pipe.loop:
            # A wait in the same iteration; or in the one before and, for the first, before the loop.
            inside = [at for p, at in waits if p == (*path, place)]
            early = [c for n, c in enumerate(child.body) if not (inside and first) and all(at > n for at in inside)]
            found |= _buffers_read(tuple(early), pipe)
        elif not first:
            found |= _buffers_read((child,), pipe)
    return found


def _buffers_read(body: tuple[Node, ...], pipe: Pipe) -> frozenset[str]:
    return frozenset(load.buffer for load in loads(body)) & pipe.buffers


def asynchronous(body: tuple[Spmd, ...], pipes: tuple[Pipe, ...], buffers: dict[str, Buffer]) -> tuple[Spmd, ...]:
    """`body` with every plain copy from global memory into a staged buffer made asynchronous.

    So is one with zeros outside the tensor: the copy itself can write them. What a loop does again at the same place
    stays plain: of two asynchronous copies that are on their way, none is the last.
    """
    staged = frozenset(name for pipe in pipes for name in pipe.buffers)

    def mark(node: Spmd) -> Spmd:
        new = with_lists(node, mark_all)
        if isinstance(new, For):  # a loop that is the same has no such copies in it
            return new if new is node else _copy_in_place_once(new)
        return _make_asynchronous(new, staged, buffers)

    def mark_all(nodes: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        return tuple(map(mark, nodes))

    return mark_all(body) if staged else body


def _make_asynchronous(node: Spmd, staged: frozenset[str], buffers: dict[str, Buffer]) -> Spmd:
    """`node`, or the asynchronous copy that can stand for it."""
    if not isinstance(node, _COPIES) or node.target.buffer not in staged:
        return node
    match node:
        case VectorCopy():
            plain = node
        case Stmt(target=target, value=Load(buffer=buffer, index=index, dtype=dtype), reduce=None):
            plain = VectorCopy(dtype, 1, target, Access(buffer, index), origin=node)
        case Stmt(
            target=target,
            value=Op("select", (test, Load(buffer=buffer, index=index, dtype=dtype), Const(value=other))),
            reduce=None,
        ) if other == 0 and copysign(1, other) > 0:
            plain = VectorCopy(dtype, 1, target, Access(buffer, index), inside=test, origin=node)
        case _:
            return node
    if (source := buffers[plain.source.buffer]).space != "global" or source.windows:
        return node
    if plain.bytes not in ASYNCHRONOUS or buffers[plain.target.buffer].dtype != plain.dtype:
        return node
    return replace(plain, asynchronous=True)


def _copy_in_place_once(loop: Spmd) -> Spmd:
    """`loop` with plain copies to places that it does not change, unless all wait for these in each iteration."""
    if not isinstance(loop, For) or loop.extent == const(1):
        return loop
    inside, name = nodes(loop.body), loop.name
    if any(isinstance(v, Barrier) for v in inside) or not any(_is_again(v, name) for v in inside):
        return loop
    return rewrite(loop, lambda v: replace(v, asynchronous=False) if _is_again(v, name) else v, (Stmt,))


def _is_again(value: object, loop: str) -> bool:
    """True for an asynchronous copy to a place that `loop` does not change."""
    if not isinstance(value, VectorCopy) or not value.asynchronous:
        return False
    return not any(loop in place.names() for place in value.target.index)
