"""Pipelined loops can copy ahead, and peeled loops have their last iteration apart.

Theorem: the copies at the start of an iteration may be made iterations earlier if they read nothing that the loop
writes, and fill buffers that nothing else in the loop writes: each stage of a buffer is a modulo slot of its own.
`across` asks the same of the loop around. A peeled iteration finds what lives around the loop, or copies it anew.
"""

from __future__ import annotations

from operator import attrgetter

from tilegen.ir.affine import const
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import THREAD_KINDS, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import loops, reads, stmts, writes
from tilegen.poly.instances import Projection
from tilegen.poly.verdict import NoForm

_manner = attrgetter("stages", "peeled")


def check_ahead(program: Projection) -> None:
    """Refused where a pipelined loop copies what it writes itself, or fills a buffer by more than copies, where its
    iterations run at once, and where a launch is nothing but a pipelined or a peeled loop."""
    tree = program.tree
    if set(map(_manner, loops(tree.body))) <= {(1, False)}:
        return
    for loop in tree.body:
        if isinstance(loop, Loop) and loop.stages > 1:
            raise NoForm(
                f"'{loop.name}' is outermost in its launch, and there is nothing around it for its buffers to live in",
                way="pipeline a loop inside the block loops",
            )
        if isinstance(loop, Loop) and loop.peeled:
            raise NoForm(
                f"'{loop.name}' is outermost in its launch, and its last iteration would be a launch of its own",
                way="peel a loop inside the block loops",
            )
    for loop in loops(tree.body):
        if loop.stages > 1 and loop.kind not in ("serial", "unrolled"):
            raise NoForm(
                f"'{loop.name}' is pipelined, and iterations that run at once have no next one to copy for",
                way="pipeline a loop whose iterations a thread runs one after the other",
            )
        if loop.stages > 1:
            _check_loop(tree, loop)
        if loop.peeled:
            _check_peeled(tree, loop)


def _check_peeled(tree: Tree, loop: Loop) -> None:
    """What lives in an iteration is kept around the loop, where its last iteration finds it, or is copied anew."""
    inside = {each.name: each for each in loops(loop)}
    for buffer in tree.buffers:
        home = inside.get(buffer.scope or "")
        if home is None or home is not loop and _is_filled_by_copies(tree, buffer.name):
            continue
        if home.stages > 1 and loop.name in (home.name, home.across) and buffer.name in staged_buffers(tree, home):
            continue
        raise NoForm(
            f"'{buffer.name}' lives in one iteration of '{home.name}', not around '{loop.name}' and its last iteration",
            way=f"keep it around '{loop.name}', or peel a loop inside '{home.name}'",
        )


def _is_filled_by_copies(tree: Tree, buffer: str) -> bool:
    return all(s.is_copy for s in stmts(tree.body) if s.target.buffer == buffer)


def _check_loop(tree: Tree, loop: Loop) -> None:
    """Moving the copies of an iteration before earlier iterations changes nothing that they read."""
    staged = staged_buffers(tree, loop)
    ahead = [s for node in loop.body[: leading_copies(loop, staged)] for s in stmts(node)]
    written = {name for s in stmts(loop.body) if s not in ahead for name, _ in writes(s)}
    for name in sorted(staged & written):
        raise NoForm(
            f"'{name}' is not filled at the start of '{loop.name}' alone, and cannot run ahead",
            way="pipeline copies that stand at the start of the loop: caches of what the loop only reads",
        )
    if not ahead:
        raise NoForm(
            f"nothing at the start of '{loop.name}' only copies, so no copy can start early",
            way="cache_shared and cache_register put a copy there for what the loop only reads",
        )
    for stmt in ahead:
        for name in (memory_of(read) for read, _ in reads(stmt)):
            if name in written:
                raise NoForm(
                    f"'{name}' is written in '{loop.name}', and a copy into '{stmt.target.buffer}' would come early",
                    way="pipeline a loop that only reads what it copies",
                )
    if loop.across:
        _check_across(tree, loop, ahead)


def _check_across(tree: Tree, loop: Loop, ahead: list[Stmt]) -> None:
    """The copies for the first iterations can be made an iteration of the loop `across` earlier."""
    outer = next((each for each in loops(tree.body) if each.name == loop.across and has_inside(each, loop.name)), None)
    if outer is None or outer.kind not in ("serial", "unrolled") or nest_of(outer, loop.name) is None:
        raise NoForm(
            f"'{loop.name}' is not right inside '{loop.across}', thread loops apart, and cannot run across it",
            way=f"order the loops so that '{loop.across}' holds '{loop.name}' with nothing but thread loops between",
        )
    if not loop.extent.is_const or loop.extent.const % loop.stages:
        raise NoForm(
            f"'{loop.name}' has {loop.extent} iterations, which is no multiple of {loop.stages} stages, "
            f"so that each iteration of '{outer.name}' would need other registers",
            way=f"choose a tile with a multiple of {loop.stages} iterations",
        )
    kept = staged_buffers(tree, outer) if outer.stages > 1 else frozenset()
    written = {name for s in stmts(outer.body) for name, _ in writes(s)} - kept
    for stmt in ahead:
        if tree.buffer(stmt.target.buffer).space != "register":
            raise NoForm(
                f"'{stmt.target.buffer}' is in shared memory, and only registers are filled across '{outer.name}'",
                way=f"pipeline '{outer.name}' for what is in shared memory",
            )
        for name in (memory_of(read) for read, _ in reads(stmt)):
            if name in written:
                raise NoForm(
                    f"'{name}' is written in '{outer.name}', and a copy into '{stmt.target.buffer}' would come early",
                    way=f"pipeline({outer.name}, 3), before this step, fills '{name}' before its use",
                )


def has_inside(outer: Loop, name: str) -> bool:
    """Whether a loop called `name` is inside; of several nests in a loop `outer`, others may have none."""
    return any(inner.name == name for inner in loops(outer.body))


def nest_of(outer: Loop, name: str) -> Loop | None:
    """The child of `outer` that is the loop called `name`, or is thread loops around nothing but it.

    One iteration of a loop, where it has no other, needs no other registers either.
    """
    for child in outer.body:
        node: Node = child
        while isinstance(node, Loop) and node.name != name and len(node.body) == 1 and (
            node.kind in THREAD_KINDS or node.extent == const(1)
        ):  # fmt: skip
            node = node.body[0]
        if isinstance(child, Loop) and isinstance(node, Loop) and node.name == name:
            return child
    return None


def staged_buffers(tree: Tree, loop: Loop) -> frozenset[str]:
    """The buffers that run ahead in a pipelined loop: those that live in it, in whichever of its nests, and are copied
    from outside it."""
    own = frozenset(b.name for b in tree.buffers if b.space != "global" and b.scope == loop.name)
    return own - {
        s.target.buffer
        for s in stmts(tree.body)
        if not (s.is_copy and isinstance(s.value, Load) and s.value.buffer not in own)
    }


def useful_stages(loop: Loop) -> int:
    """How many stages of a pipelined loop are filled: no more than it has iterations, but by a producer, which counts
    on from run to run. Registers across another loop, and the last iteration that is apart, are for all stages."""
    kept = loop.specialized or loop.peeled or any(each.across for each in loops(loop))
    return loop.stages if kept or not loop.extent.is_const else min(loop.stages, max(loop.extent.const, 1))


def leading_copies(loop: Loop, staged: frozenset[str]) -> int:
    """How many children at the start of the body do nothing but copy into the buffers `staged`."""
    count = 0
    for node in loop.body:
        if not all(s.is_copy and isinstance(s.value, Load) and s.target.buffer in staged for s in stmts(node)):
            break
        count += 1
    return count
