"""Blocks that hand on one value run at once, and each has of it what it would have in sequence.

Let the iterations of a loop be blocks, which take numbers in the order in which they begin, and let each publish what
it adds to a value, and what the value is after it once it knows. It finds what the value is before it by combining
what the blocks of smaller numbers have published, in their order, back to one that knows. Theorem: each has what it
would have in sequence if the operation is associative, which a step has said for that reduction (of a linear
recurrence, the operation on pairs of a factor and a term); if one update of the value is all that changes it, once in
each iteration and in no test; if what reads it stands right beside that update, so that what is added is known by
then; and if iterations share nothing else: what is on the chip lives in one iteration, and accesses to memory that one
of them writes never meet.

Progress: a block waits for blocks of smaller numbers alone. These have begun, each publishes what it adds before it
waits for anything, and the one of the smallest number that waits has only such before it that know.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilegen.ir.affine import const
from tilegen.ir.hardware.lanes import WARP, running_reads
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, THREAD_KINDS, Loop, Node, Stmt, Tree
from tilegen.ir.reductions.initial import COMBINES
from tilegen.ir.reductions.linear import LINEAR, words_of_blocks
from tilegen.ir.walk import leaves, loads, loops, rewrite_nodes, stmts, writes
from tilegen.judge.threads.races import check_races
from tilegen.poly.instances import Projection, project
from tilegen.poly.verdict import Misplaced, NoForm, Refused


def check_look_back(program: Projection) -> None:
    """Refused where the iterations of a loop that hand on a value cannot run at once."""
    for number, launch in enumerate(program.tree.body):
        for loop in loops(launch):
            if loop.handed:
                if loop.stages > 1 or any(each.across == loop.name for each in loops(launch)):
                    message = f"the iterations of '{loop.name}' hand on a value, and copies for one start in another"
                    raise NoForm(message, way=f"leave out pipeline({loop.name}, ...): other blocks run meanwhile")
                _check_alone(program, launch, loop)
                _check_update(program, number, loop)
                check_apart(program.tree, loop.name, loop.handed)


def _check_alone(program: Projection, launch: Node, loop: Loop) -> None:
    """The loop is all that the launch does, but for the start of the value; its registers and tiles are its own."""
    inside, names = loop, [loop.name]
    for path, stmt in leaves((launch,)):
        around = [each for each in path if each.name == loop.name]
        outer = path[: path.index(around[0])] if around else path
        if any(each.extent != const(1) or each.kind in BLOCK_KINDS for each in outer) or not (
            around or stmt.target.buffer == loop.handed
        ):
            raise NoForm(
                f"blocks along '{loop.name}' hand on '{loop.handed}', and '{stmt.name}' in the same launch runs "
                "outside of that loop",
                way="look_back takes one loop that holds all of a launch: one array, not the rows of several",
            )
    names += [each.name for each in loops(inside.body)]
    used = {use.buffer for p in program.leaves if loop.name in p.leaf.names for use in p.leaf.uses}
    for buffer in (program.buffers[name] for name in used):
        if buffer.space != "global" and buffer.scope not in names and buffer.name != loop.handed:
            raise Misplaced(
                f"'{buffer.name}' lives outside of '{loop.name}', whose iterations are blocks",
                way=f"keep it at '{loop.name}' or at a loop inside it",
            )


def _check_update(program: Projection, number: int, loop: Loop) -> None:
    """One update, which all threads make, with what is known before all that reads the value."""
    name = loop.handed
    found = [n for n, node in enumerate(loop.body) if isinstance(node, Stmt) and node.target.buffer == name]
    users = [s for s in stmts(loop.body) if name in {load.buffer for load in loads(s)} | {n for n, _ in writes(s)}]
    update = loop.body[found[0]] if len(found) == 1 else None
    if not isinstance(update, Stmt) or update.reduce not in (*COMBINES, LINEAR) or update.guard:
        raise Misplaced(f"'{name}' is not updated once in each iteration of '{loop.name}', by itself")
    beside = [loop.body[n] for places in running_reads(loop.body, found[0], name) for n in places]
    terms = {name, *(load.buffer for load in loads(update))}
    for stmt in users:
        if stmt is not update and (not any(stmt is each for each in beside) or stmt.target.buffer in terms):
            raise Misplaced(
                f"'{stmt.name}' reads '{name}' along '{loop.name}', and not right beside its update",
            )
    if update.name not in program.tree.reassociated:
        raise Refused(f"blocks combine '{update.name}' in another order than the text has",
                      way=f"reassociate({update.name}) allows any order")  # fmt: skip
    buffer, states = program.buffers[name], program.buffers.get(f"{name}.states")
    if states is None or (states.role, states.shape) != ("states", (words_of_blocks(loop.extent, update.reduce),)):
        raise Misplaced(f"blocks along '{loop.name}' have no word each")
    if buffer.shape or DTYPE_BYTES[buffer.dtype] != 4:
        raise NoForm(f"'{name}' is not one value of 32 bits, which goes into a word with what is known of it")
    kinds = {each.kind for each in loops(program.tree.body[number]) if each.kind in THREAD_KINDS}
    if prod(program.threads(number, kind) for kind in THREAD_KINDS) % WARP:
        way = f"bind a loop of {WARP}, or of a multiple of that, to thread.x"
        raise NoForm(f"a block looks back by a warp, and the blocks along '{loop.name}' are no whole warps", way=way)
    if {(name, kind) for kind in kinds} - program.register_copies[number]:
        way = "cache what is computed from it in registers, too, at the loop of blocks"
        raise Misplaced(f"not every thread has '{name}', which its block is handed", way=way)


def check_apart(tree: Tree, loop: str, handed: str) -> None:
    """Refused where two iterations of the loop touch one element that one of them writes; of the value each has one."""

    def change(node: object) -> object:
        return replace(node, kind="block.x") if isinstance(node, Loop) and node.name == loop else node

    buffers = tuple(replace(b, scope=loop) if b.name == handed else b for b in tree.buffers)
    check_races(project(replace(tree, body=rewrite_nodes(tree.body, change), buffers=buffers)))
