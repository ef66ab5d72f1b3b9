"""Pipelined loops: copies run ahead of their use, in as many buffers as there are stages.

    for ko < n  3 stages             for ko.fill < 2
      A.shared[..] = A[.. ko ..]       A.shared[ko.fill, ..] = A[.. ko.fill ..]       if ko.fill < n
      use A.shared[..]               for ko < n
                                       A.shared[(ko + 2)%3, ..] = A[.. ko + 2 ..]     if ko + 2 < n
                                       use A.shared[ko%3, ..]

The result is an ordinary tree, so barriers are derived from it like from any other. Why the values are
right: iteration ko reads slot ko%3, which was filled for ko two iterations before; between the two, only the
slots of ko + 1 and ko + 2 are written, and three neighbouring numbers differ modulo 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import copysign

from tilegen.ir.affine import Affine, affine, const, var
from tilegen.ir.nodes import Access, Buffer, Condition, Const, Load, Loop, Node, Op, Stmt, Tree
from tilegen.ir.walk import loads, loops, rewrite, stmts, substitute
from tilegen.lowering.program import Barrier, Spmd, VectorCopy
from tilegen.poly import leading, staged

Path = tuple[int, ...]
_ASYNC_BYTES = (4, 8, 16)


@dataclass(frozen=True)
class Pipe:
    """A pipelined loop of a launch: its shared buffers, and how many groups of copies may be on their way."""

    loop: str
    buffers: frozenset[str]
    pending: int


def pipelined(tree: Tree) -> tuple[Tree, tuple[Pipe, ...]]:
    """The tree with its pipelined loops written out."""
    pipes: list[Pipe] = []
    for loop in list(loops(tree.body)):
        if loop.stages > 1 and loop.name not in [pipe.loop for pipe in pipes]:
            tree, pipe = _written_out(tree, loop)
            pipes.append(pipe)
    return tree, tuple(p for p in pipes if p.buffers)


def _written_out(tree: Tree, loop: Loop) -> tuple[Tree, Pipe]:
    mine = staged(tree, loop)
    shared = frozenset(b.name for b in tree.buffers if b.space == "shared" and b.name in mine)
    around = _around(tree, loop.name)

    def change(value: object) -> object:
        return _ahead(value, mine) if isinstance(value, Loop) and value.name == loop.name else value

    buffers = tuple(_staged(b, loop.stages, around) if b.name in mine else b for b in tree.buffers)
    return replace(tree, buffers=buffers, body=rewrite(tree.body, change)), Pipe(loop.name, shared, loop.stages - 2)


def _ahead(loop: Loop, mine: frozenset[str]) -> tuple[Node, ...]:
    """The loop that fills the first stages, and the loop itself with its copies ahead."""
    count = leading(loop, mine)
    copies, rest = loop.body[:count], loop.body[count:]
    assert not any(s.target.buffer in mine for node in rest for s in stmts(node)), "the judge refuses this"
    fill = f"{loop.name}.fill"
    ahead = loop.stages - 1
    first = _shifted(copies, loop, var(fill), mine)
    later = _shifted(copies, loop, var(loop.name) + ahead, mine)
    used = tuple(_in_slot(node, mine, var(loop.name) % loop.stages) for node in rest)
    filling = Loop(fill, const(ahead), first, "unrolled", stages=loop.stages, span=loop.span, step=loop.step)
    return filling, replace(loop, body=(*later, *used))


def _shifted(copies: tuple[Node, ...], loop: Loop, at: Affine, mine: frozenset[str]) -> tuple[Node, ...]:
    """The copies of iteration `at`, into its slot, if there is such an iteration."""
    inside = Condition(loop.extent - 1 - at)
    slot = at % loop.stages if at != var(f"{loop.name}.fill") else at

    def guarded(value: object) -> object:
        return replace(value, guard=(inside, *value.guard)) if isinstance(value, Stmt) else value

    moved = substitute(copies, {loop.name: at})
    return rewrite(tuple(_in_slot(node, mine, slot) for node in moved), guarded)


def _in_slot(node: Node, mine: frozenset[str], slot: Affine) -> Node:
    """`node` with the slot in front of every index of the buffers `mine`."""

    def change(value: object) -> object:
        if isinstance(value, Access | Load) and value.buffer in mine:
            return replace(value, index=(slot, *value.index))
        return value

    return rewrite(node, change)


def _staged(buffer: Buffer, stages: int, scope: str | None) -> Buffer:
    order = (0, *(dim + 1 for dim in buffer.order))
    return replace(buffer, shape=(affine(stages), *buffer.shape), order=order, scope=scope)


def _around(tree: Tree, name: str) -> str | None:
    """The loop right around the one called `name`."""
    for loop in loops(tree.body):
        if any(isinstance(child, Loop) and child.name == name for child in loop.body):
            return loop.name
    return None


# -- asynchronous copies and waits, in the program of one thread


def group_ends(node: Node, pipes: tuple[Pipe, ...], path: Path = (0,)) -> set[tuple[Path, int]]:
    """(path to a loop's body, place in it) behind the last copy of each iteration of a pipelined loop.

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


def with_waits(slots: dict[tuple[Path, int], Barrier], pipes: tuple[Pipe, ...]) -> dict[tuple[Path, int], Barrier]:
    """The barriers, those that make a staged buffer complete with a wait for its copies."""
    found: dict[tuple[Path, int], Barrier] = {}
    for key, barrier in slots.items():
        pending = [p.pending for p in pipes if p.buffers & set(barrier.completes)]
        found[key] = replace(barrier, wait=min(pending)) if pending else barrier
    return found


def waited(node: Node, pipes: tuple[Pipe, ...], slots: dict[tuple[Path, int], Barrier]) -> tuple[Pipe, ...]:
    """The pipes with those of their buffers whose asynchronous copies would be waited for before each use.

    A thread that reads nothing but what it has copied itself needs no barrier, so there is none to wait at,
    and its copies are plain ones.
    """
    early = _unwaited(node, pipes, slots, (0,))
    return tuple(replace(p, buffers=p.buffers - early) for p in pipes)


def _unwaited(
    node: Node, pipes: tuple[Pipe, ...], slots: dict[tuple[Path, int], Barrier], path: Path
) -> frozenset[str]:
    """The buffers that an iteration of their loop reads before a barrier which waits for its copies."""
    if not isinstance(node, Loop):
        return frozenset()
    found: frozenset[str] = frozenset()
    for place, child in enumerate(node.body):
        found |= _unwaited(child, pipes, slots, (*path, place))
        for pipe in pipes:
            if node.name == pipe.loop and not _waits_before(path, place, pipe, slots):
                found |= {load.buffer for load in loads(child)} & pipe.buffers
    return found


def _waits_before(path: Path, place: int, pipe: Pipe, slots: dict[tuple[Path, int], Barrier]) -> bool:
    """True if a wait comes before child `place` of the loop at `path`: in the same iteration, or in the one
    before and, for the first, ahead of the loop."""
    waits = [key for key, b in slots.items() if b.wait is not None and b.wait <= pipe.pending]
    here = [slot for p, slot in waits if p == path]
    # The loop that fills the first stages stands right before: a wait ahead of that one has come too early.
    ahead = any(p == path[:-1] and slot == path[-1] for p, slot in waits)
    return any(slot <= place for slot in here) or (bool(here) and ahead)


def asynchronous(body: tuple[Spmd, ...], pipes: tuple[Pipe, ...], buffers: dict[str, Buffer]) -> tuple[Spmd, ...]:
    """`body` with every plain copy from global memory into a staged buffer made asynchronous.

    So is one with zeros outside the tensor: the copy itself can write them.
    """
    staged = frozenset(name for pipe in pipes for name in pipe.buffers)

    def change(value: object) -> object:
        match value:
            case VectorCopy():
                plain = value
            case Stmt(target=target, value=Load(buffer=buffer, index=index, dtype=dtype), reduce=None):
                plain = VectorCopy(dtype, 1, target, Access(buffer, index), origin=value)
            case Stmt(
                target=target,
                value=Op("select", (test, Load(buffer=buffer, index=index, dtype=dtype), Const(value=other))),
                reduce=None,
            ) if other == 0 and copysign(1, other) > 0:
                plain = VectorCopy(dtype, 1, target, Access(buffer, index), inside=test, origin=value)
            case _:
                return value
        if plain.target.buffer not in staged or buffers[plain.source.buffer].space != "global":
            return value
        if plain.bytes not in _ASYNC_BYTES or buffers[plain.target.buffer].dtype != plain.dtype:
            return value
        return replace(plain, asynchronous=True)

    return rewrite(body, change) if staged else body
