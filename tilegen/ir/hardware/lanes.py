"""What the lanes of a warp do together: reductions that they combine, and registers that all of them have.

    for w < 4  thread.y
      m.reg[w] = -inf                        every lane does it, in a register of its own
      for l < 32  thread.x
        m.reg[w] max= part.reg[w, l]         the lanes exchange their terms, and each has the result
      for l < 32  thread.x
        Y[w, l] = X[w, l] - m.reg[w]

A thread.x loop around a reduction whose target does not depend on it combines: its iterations are neighbouring
lanes of one warp. What reads the target right beside that has it as it is there in sequence: with the terms of the
earlier lanes, or up to its own. A register that is touched inside and outside of the loops of an axis is there once for
each thread along it, all with the same contents: what writes it outside is done by all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from operator import attrgetter

from tilegen.ir.affine import const
from tilegen.ir.nodes import ONLY, THREAD_KINDS, Load, Loop, Stmt, Tree
from tilegen.ir.reductions.linear import LINEAR
from tilegen.ir.walk import accesses, loads, writes

WARP = 32
Leaf = tuple[tuple[Loop, ...], Stmt]
# (register buffer, thread kind)
Copied = frozenset[tuple[str, str]]

_kind, _buffer = attrgetter("kind"), attrgetter("buffer")


def combining_loop(tree: Tree, path: tuple[Loop, ...], stmt: Stmt) -> Loop | None:
    """The loop around `stmt` whose iterations combine their terms as lanes of a warp, if there is one.

    Sums and products need the permission to be reassociated, and so does any reduction that goes on inside.
    Of argmax and argmin the best of parts can be combined: the lower index of equals wins, in whatever order. Steps of
    a linear recurrence keep theirs: a lane has one.
    """
    if stmt.reduce in (None, ONLY) or stmt.hits or "thread.x" not in map(_kind, path):
        return None
    depth = [*map(_kind, path)].index("thread.x")
    if not _divides_warp(path[depth]) or "scatter" in map(_kind, path[depth:]):
        return None
    own = {loop.name for loop in path[depth:]}
    for target in (stmt.target, stmt.best) if stmt.best else (stmt.target,):
        if any(path[depth].name in i.names() for i in target.index) or tree.buffer(target.buffer).scope in own:
            return None
        if any(load.buffer == target.buffer for load in loads(stmt)):
            return None
    if stmt.best and not isinstance(stmt.arg, Load):
        return None
    if stmt.name not in tree.reassociated and (
        stmt.reduce in ("sum", "prod", LINEAR) or _has_inner_loops(path[depth + 1 :], stmt)
    ):
        return None
    if stmt.reduce == LINEAR and path[depth + 1 :]:
        return None
    return path[depth]


def running_reads(body: Sequence[object], at: int, target: str) -> tuple[range, range]:
    """The places of statements in `body` that read `target` right before its update at `at`, and right after it."""

    def reads(place: int) -> bool:
        node = body[place] if 0 <= place < len(body) else None
        return isinstance(node, Stmt) and any(load.buffer == target for load in loads(node))

    first = next(n for n in count(at, -1) if not reads(n - 1))
    last = next(n for n in count(at) if not reads(n + 1))
    return range(first, at), range(at + 1, last + 1)


def _has_inner_loops(inner: tuple[Loop, ...], stmt: Stmt) -> bool:
    """True if loops of the reduction are inside: the lanes exchange a term in each iteration of these."""
    target = {name for i in stmt.target.index for name in i.names()}
    return any(loop.name not in target and loop.extent != const(1) for loop in inner)


def _divides_warp(loop: Loop) -> bool:
    """True for a power of two that divides a warp."""
    return loop.extent.is_const and loop.extent.const > 1 and WARP % loop.extent.const == 0


def copied_registers(tree: Tree, launch: Iterable[Leaf]) -> Copied:
    """The registers of one launch that every thread along an axis has, all with the same contents.

    What such a register is computed from and with, outside the loops of the axis, is copied as well.
    """
    launch = list(launch)
    registers = {b.name for b in tree.buffers if b.space == "register"}
    # Nothing is touched inside and outside of an axis that all statements are inside of, or none.
    around = [frozenset(kind for kind in THREAD_KINDS if is_bound(path, kind)) for path, _ in launch]
    mixed = frozenset().union(*around) - frozenset(THREAD_KINDS).intersection(*around)
    kinds = [kind for kind in THREAD_KINDS if kind in mixed]
    if not registers or not kinds:
        return frozenset()
    users: dict[str, list[Leaf]] = {}
    for path, stmt in launch:
        for name in registers.intersection(map(_buffer, accesses(stmt))):
            users.setdefault(name, []).append((path, stmt))
    found = {(n, kind) for n, all_ in users.items() for kind in kinds if _is_everywhere(tree, n, all_, kind)}
    pending = list(found)
    while pending:
        name, kind = pending.pop()
        for path, stmt in users[name]:
            if is_bound(path, kind) or all(name != target for target, _ in writes(stmt)):
                continue
            more = {(register, kind) for register in registers.intersection(map(_buffer, accesses(stmt)))} - found
            found |= more
            pending += more
    return frozenset(found)


def is_bound(path: Iterable[Loop], kind: str) -> bool:
    """True if one of the loops is bound to `kind`; what an instruction performs is bound to the lanes that run it."""
    kinds = set(map(_kind, path))
    return kind in kinds or (kind == "thread.x" and "matrix" in kinds)


def writes_alone(tree: Tree, path: tuple[Loop, ...], stmt: Stmt, name: str, kind: str) -> bool:
    """True if `stmt`, inside a loop of `kind`, writes `name` by one thread along it and no other."""
    if not is_bound(path, kind) or all(name != target for target, _ in writes(stmt)):
        return False
    lane = combining_loop(tree, path, stmt)
    return lane is None or lane.kind != kind


def _is_everywhere(tree: Tree, name: str, users: list[Leaf], kind: str) -> bool:
    """Touched inside and outside of loops of `kind`, and written outside or by all lanes together.

    What lanes combine for the first of them alone is not used by the others.
    """
    within = [leaf for leaf in users if is_bound(leaf[0], kind)]
    used = [leaf for leaf in within if all(name != target for target, _ in writes(leaf[1]))]
    if not used or len(within) == len(users):
        return False
    return not any(writes_alone(tree, path, stmt, name, kind) for path, stmt in within)
