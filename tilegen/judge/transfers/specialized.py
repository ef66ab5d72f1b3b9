"""Specialized loops: a producer can fill what the others use, each in a loop of its own.

Theorem: the iterations of a pipelined loop may be divided between a producer and consumers if what it copies ahead are
bulk copies alone. All else is the work of the consumers. Where the loop runs several times in a block, the producer
goes on with the next run while the consumers are still at the last one: no statement of the launch writes what it
copies (`bulk`), and nothing else touches the slots. The consumers are whole warps, each of which says that it has read;
the producer makes all bulk copies to shared memory, in every iteration, and each is for that iteration. Consumers that
are given registers are whole warpgroups, and so is the row of the producer, which gives up as many. The products of an
iteration may run on into the next one if the loop does nothing else but asynchronous products: nothing in it looks
at what they compute.

Turns: two blocks along a block loop are one, in which each is a group of consumers. What a group does is an iteration
of that loop, which runs beside the other one as blocks do: races are asked of it as of any loop of blocks. Registers
and shared memory are each group's own, but for the slots: these the groups use one after the other, tile by tile, so
that one producer fills them for both. The blocks of a cluster have the same runs, so that what one shares with the
others is for their groups of the same number.
"""

from __future__ import annotations

from tilegen.ir.affine import const
from tilegen.ir.hardware.budgets import WARPGROUP
from tilegen.ir.hardware.described import align_described
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.hardware.limits import SWIZZLED_PLACE
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.hardware.threads import consumers_and_row, threads_along
from tilegen.ir.nodes import BLOCK_KINDS, Loop, Node, Tree
from tilegen.ir.walk import accesses, loads, loops
from tilegen.judge.transfers.bulk import boxes_in
from tilegen.judge.transfers.pipelines import leading_copies, staged_buffers
from tilegen.poly.instances import Projection
from tilegen.poly.verdict import NoForm


def check_specialized(program: Projection) -> None:
    """Refused where a specialized loop cannot be divided."""
    for launch in program.tree.body:
        found = [loop for loop in loops(launch) if loop.specialized]
        if len(found) > 1:
            raise NoForm(
                f"'{found[0].name}' and '{found[1].name}' are specialized in one launch",
                way="a block has one producer, which serves one loop",
            )
        for loop in found:
            _check_loop(program, launch, loop)


def runs_again(launch: Node, loop: Loop) -> bool:
    """Whether a block runs several iterations of a loop, be it one in each of several runs."""
    around = (each for each in _loops_around(launch, loop) if each.kind not in BLOCK_KINDS or each.dealt)
    return any(each.extent != const(1) for each in (loop, *around))


def _check_loop(program: Projection, launch: Node, loop: Loop) -> None:
    inner = next((each for each in _loops_around(launch, loop) if each.kind not in (*BLOCK_KINDS, "serial")), None)
    if inner is not None:
        raise NoForm(
            f"'{loop.name}' is specialized and runs inside '{inner.name}', which is no loop of the whole block",
            way=f"order the loops so that '{inner.name}' is inside '{loop.name}'",
        )
    _check_threads(launch, loop)
    if loop.turns:
        _check_turns(launch, loop)
        _check_groups(program.tree, launch, loop)
    if loop.registers:
        _check_warpgroups(launch, loop)
    _check_copies(program, launch, loop)
    copies = loop.body[: leading_copies(loop, staged_buffers(program.tree, loop))]
    if loop.overlapped and not all(_is_asynchronous(node) for node in loop.body[len(copies) :]):
        raise NoForm(
            f"'{loop.name}' does something else than asynchronous products, and none of it can run on",
            way="tensorize all of it by instructions that the text waits for (wgmma), before this step",
        )
    other = next((node for node in copies if not isinstance(node, Loop) or node.kind != "bulk"), None)
    if other is not None:
        raise NoForm(
            f"'{loop.name}' is specialized, and all threads share a copy in it",
            way="bulk(...) lets one thread start the copy",
        )


def _check_threads(launch: Node, loop: Loop) -> None:
    """Refused where a block's threads are no whole warps, or leave no place for a producer."""
    sizes, (consuming, _) = threads_along(launch), consumers_and_row(launch)
    if loop.turns and not {*sizes} <= {"thread.x"}:
        raise NoForm(
            f"the threads along '{loop.turns}' take turns, and those of one turn are not all along x",
            way="one warpgroup multiplies a whole tile, one part of it after the other: bind no loop to thread.y",
        )
    if not loop.turns and {*sizes} <= {"thread.x"}:
        raise NoForm(
            "a block whose threads are all along x has no row for a producer",
            way="bind a loop to thread.y, be it one of a single iteration: the producer is one row more",
        )
    if consuming % WARP:
        raise NoForm(
            f"'{loop.name}' is specialized, and its {consuming} consumers are no whole warps",
            way=f"bind loops of a multiple of {WARP} iterations to threads",
        )


def _check_warpgroups(launch: Node, loop: Loop) -> None:
    """Refused where the threads that give registers and get them are no warpgroups."""
    consuming, row = consumers_and_row(launch)
    if consuming % WARPGROUP or row % WARPGROUP:
        raise NoForm(
            f"'{loop.name}' gives registers to {consuming} consumers in rows of {row}, which are no warpgroups",
            way=f"a warpgroup has {WARPGROUP} threads, in one row or several",
        )


def _check_groups(tree: Tree, launch: Node, loop: Loop) -> None:
    """Refused where what both of two groups have, one after the other, would begin at no good place."""
    stored = {box.target for _, box in boxes_in(launch, {b.name: b for b in tree.buffers}) if box.stores}
    own = {access.buffer for access in accesses(launch)} - staged_buffers(tree, loop)
    for buffer in align_described(tree).buffers:
        align = max(buffer.align, SWIZZLED_PLACE if buffer.name in stored else 1)
        if buffer.space == "shared" and buffer.name in own and bytes_of(buffer) % align:
            raise NoForm(
                f"each of two that take turns has {bytes_of(buffer)} bytes for '{buffer.name}', which begins at "
                f"multiples of {align}",
                way="make its tile larger, so that the second one can lie after the first",
            )


def _check_copies(program: Projection, launch: Node, loop: Loop) -> None:
    """Refused where a producer does not make all bulk copies, for the iteration that it is in."""
    staged = staged_buffers(program.tree, loop)
    for path, box in boxes_in(launch, program.buffers):
        if not box.stores and path[-1].name != loop.name:
            raise NoForm(
                f"'{box.target}' is filled beside other bulk copies, and the producer of '{loop.name}' makes one",
                way=f"keep all bulk copies side by side in '{loop.name}'",
            )
        inside = box.inside | {each.name for each in box.outside}
        if not box.stores and any(c.value.names().isdisjoint(inside) for c in box.stmt.guard):
            raise NoForm(
                f"'{box.target}' is filled in some iterations of '{loop.name}' alone", way="specialize no such loop"
            )
    for inner in loops(loop.body):
        copied = inner.body[: leading_copies(inner, staged_buffers(program.tree, inner))] if inner.across else ()
        if inner.across == loop.name and (read := {load.buffer for load in loads(copied)} & staged):
            raise NoForm(
                f"'{min(read)}' is read one iteration of '{loop.name}' early, and that loop is specialized",
                way=f"load no registers early across '{loop.name}'",
            )


def _check_turns(launch: Node, loop: Loop) -> None:
    """Refused where no two blocks can take turns at the loop's slots."""
    around = _loops_around(launch, loop)
    group = next((each for each in around if each.name == loop.turns), None)
    if group is None or group.kind not in BLOCK_KINDS or group.extent != const(2):
        raise NoForm(
            f"'{loop.turns}' is no block loop of two iterations around '{loop.name}', and nobody can take turns",
            way=f"tile(tiles, 2) -> pair, {loop.turns} before order(...), and bind({loop.turns}, block.z)",
        )
    if any(each.kind == group.kind and each.name != group.name for each in loops(launch)):
        raise NoForm(
            f"'{group.name}' shares {group.kind} with other loops, and its two blocks are to be one",
            way=f"bind '{group.name}' to an axis of its own",
        )
    if all(each.kind in BLOCK_KINDS and not each.dealt for each in around):
        raise NoForm(
            f"the blocks along '{group.name}' take turns at '{loop.name}', which runs once in each of them",
            way=f"order the loops so that a loop over several tiles stands around '{loop.name}'",
        )


def _is_asynchronous(node: Node) -> bool:
    """True for a nest of instructions that go on while their lanes do."""
    while isinstance(node, Loop) and node.performed is None and len(node.body) == 1:
        (node,) = node.body
    return isinstance(node, Loop) and node.performed is not None and bool(node.performed.instruction.protocol)


def _loops_around(launch: Node, loop: Loop) -> list[Loop]:
    """The loops around `loop`, outermost first."""
    found: list[Loop] = []
    node = launch
    while isinstance(node, Loop) and node is not loop:
        found.append(node)
        node = next(child for child in node.body if any(each is loop for each in loops(child)))
    return found
