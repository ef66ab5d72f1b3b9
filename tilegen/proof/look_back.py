"""Launches whose blocks hand on a value, read as the loop that they are iterations of.

What the judge's theorem asks (`judge/threads/look_back.py`) is asked here of the program that is printed: that all
threads of a block run one look-back, for what the block then adds, unconditionally and once, to a value that
nothing has used before; and, of the tree that is read back, that iterations share nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilegen.ir.affine import const
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, Stmt, Tree
from tilegen.ir.reductions.linear import words_of_blocks
from tilegen.ir.walk import accesses, loads
from tilegen.judge import check_apart
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Declare,
    For,
    If,
    Spmd,
    nodes,
    with_lists,
)
from tilegen.lowering.launch.timelines import LookBack
from tilegen.poly import Refused
from tilegen.proof.lift import Lifted
from tilegen.proof.reading.lane_loops import written_buffers

_ONE = Product((const(1),))


@dataclass(frozen=True)
class Handed:
    """In the launch `name`, iterations of `loop` are blocks, which hand on the register `buffer`."""

    name: str
    loop: str
    buffer: str


def without_look_back(launch: Launch, reassociated: tuple[str, ...]) -> tuple[Launch, Handed | None]:
    """The launch with a loop for its blocks. Raises Refused where they do not have what they would in that loop."""
    if not any(isinstance(node, LookBack) or getattr(node, "kind", "") == "handed" for node in launch.nodes):
        return launch, None
    loop = _only_loop(launch, launch.body)
    finders = [node for node in nodes(loop.body) if isinstance(node, LookBack)]
    if len(set(finders)) != 1:
        raise Refused(f"the blocks of {launch.name} do not look back for one thing")
    _check_state(launch, loop, node := finders[0])
    for path in _paths(loop.body, node.buffer, frozenset((loop.name, *launch.kernel.sizes))):
        _check_path(launch, node, path, reassociated)
    body = _with_loop(launch.body, replace(loop, body=_without_nodes(loop.body), kind="serial"))
    kept = {name: buffer for name, buffer in launch.buffers.items() if name != node.states}
    tensors = tuple(name for name in launch.tensors if name != node.states)
    plain = replace(launch, body=body, grid=(_ONE, _ONE, _ONE), buffers=kept, tensors=tensors)
    return plain, Handed(launch.name, loop.name, node.buffer)


def check_handed(program: Lifted, handed: Handed, reassociated: tuple[str, ...]) -> None:
    """Refused where iterations share more than the value, in what was read back with a loop for them.

    From here on what the block has in shared memory lives in one iteration, which is a block.
    """
    home = f"block.{handed.name}"
    for name, each in program.buffers.items():
        if each.space == "shared" and each.scope == home:
            program.buffers[name] = replace(each, scope=handed.loop)
    buffer = program.buffers.get(handed.buffer)
    if buffer is None or buffer.shape:
        raise Refused(f"'{handed.buffer}' is not the same in all threads of a block, and is handed to all of them")
    tree = Tree(program.kernel, tuple(program.buffers.values()), program.body, reassociated)
    check_apart(tree, handed.loop, handed.buffer)


def _only_loop(launch: Launch, body: tuple[Spmd, ...]) -> For:
    """The loop of blocks, beside and around which nothing runs but what starts registers."""
    rest = [node for node in body if not isinstance(node, Declare)]
    match rest:
        case [For(kind="handed") as loop]:
            return loop
        case [For(extent=extent, body=inner)] if extent == const(1):
            return _only_loop(launch, inner)
        case _:
            raise Refused(f"blocks of {launch.name} do more than the iterations of one loop")


def _with_loop(body: tuple[Spmd, ...], loop: For) -> tuple[Spmd, ...]:
    def change(node: Spmd) -> Spmd:
        if not isinstance(node, For):
            return node
        return loop if node.name == loop.name else replace(node, body=_with_loop(node.body, loop))

    return tuple(map(change, body))


def _check_state(launch: Launch, loop: For, node: LookBack) -> None:
    """There are as many blocks and words as iterations, and nothing else uses the words."""
    states = launch.buffers[node.states]
    threads = launch.threads
    sound = (
        (node.block, node.blocks) == (loop.name, loop.extent)
        and launch.grid == (Product((loop.extent,)), _ONE, _ONE)
        and not any(kind in BLOCK_KINDS for _, kind, _ in launch.coordinates)
        and (states.role, states.dtype, states.shape) == ("states", "i64", (words_of_blocks(loop.extent, node.reduce),))
        and all(access.buffer != node.states for access in accesses(launch.body))
        and threads % 32 == 0
        and launch.cluster is None
    )
    if not sound:
        raise Refused(f"the blocks of {launch.name} are not the iterations of '{loop.name}', with a word for each")


def _paths(body: tuple[Spmd, ...], name: str, alike: frozenset[str]) -> Iterator[tuple[Spmd, ...]]:
    """The ways through an iteration, apart where tests choose between versions that look back, for all threads."""
    for n, node in enumerate(body):
        if isinstance(node, If) and any(isinstance(each, LookBack) for each in nodes((node,))):
            if not node.decided_by <= alike:
                raise Refused(f"some threads of a block use '{name}', which all of them are handed, and some do not")
            for branch in (node.body, node.orelse):
                for path in _paths((*branch, *body[n + 1 :]), name, alike):
                    yield (*body[:n], *path)
            return
    yield body


def _without_nodes(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    return tuple(with_lists(node, _without_nodes) for node in body if not isinstance(node, LookBack))


def _check_path(launch: Launch, node: LookBack, path: tuple[Spmd, ...], reassociated: tuple[str, ...]) -> None:
    """What a block looks back for is what it adds then, once, in the only update of the value."""
    name, buffer = node.buffer, launch.buffers[node.buffer]
    places = [n for n, each in enumerate(path) if isinstance(each, LookBack)]
    if len(places) != 1 or sum(isinstance(each, LookBack) for each in nodes(path)) != 1:
        raise Refused(f"the threads of a block do not look back for '{name}' once, all of them")
    before, behind = path[: places[0]], path[places[0] + 1 :]
    if any(access.buffer == name for access in accesses(before)):
        raise Refused(f"'{name}' is used before the block has looked back")
    writers = [each for each in nodes(behind) if name in written_buffers(each)]
    update = writers[0] if len(writers) == 1 else None
    if not isinstance(update, Stmt) or not any(update is each for each in behind) or update.guard:
        raise Refused(f"'{name}' is not updated once in each block, by all threads")
    told = (node.reduce, node.value, node.factor)
    if (update.reduce, update.value, update.arg) != told or update.name not in reassociated:
        raise Refused(f"a block does not add to '{name}' what it looks back for, or not in any order")
    place = next(n for n, each in enumerate(behind) if each is update)
    terms = {load.buffer for load in loads((update.value, update.arg))}
    changed = {written for each in nodes(behind[:place]) for written in written_buffers(each)}
    changed |= {each.buffer for each in nodes(behind[:place]) if isinstance(each, Declare)}
    if name in terms or changed & terms or buffer.space != "register" or buffer.shape or DTYPE_BYTES[buffer.dtype] != 4:
        raise Refused(f"what a block adds to '{name}' changes when it has looked back, or is no value of 32 bits")
