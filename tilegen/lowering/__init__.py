"""From the last tree of a schedule to programs of one thread: the stages in order, on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilegen.errors import LimitError
from tilegen.ir.affine import Affine, const
from tilegen.ir.hardware import SHARED_LIMIT
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Buffer, Condition, Loop, Node, Stmt, Tree
from tilegen.ir.reserved_words import fresh
from tilegen.ir.walk import accesses, gathers, loads, loops, stmts, walk
from tilegen.judge import waits_of_some
from tilegen.lowering.flatten import Context, drop_dims, flatten, kept_dims, without_dims
from tilegen.lowering.guards.guards import IsImplied, guard
from tilegen.lowering.guards.inner_tiles import split_inner_tiles
from tilegen.lowering.guards.known import implication_checker
from tilegen.lowering.guards.narrow import narrow
from tilegen.lowering.guards.peel import split_peeled
from tilegen.lowering.guards.ragged import run_between_ends, without_wrapping
from tilegen.lowering.guards.reads import choose
from tilegen.lowering.guards.register_guards import spare
from tilegen.lowering.guards.running import without_dead
from tilegen.lowering.guards.starts import starts
from tilegen.lowering.guards.whole import whole_tiles
from tilegen.lowering.guards.zeros import declare_zeros
from tilegen.lowering.integers.integers import choose_integers, fits
from tilegen.lowering.launch.coordinates import Coordinates, coordinates
from tilegen.lowering.launch.memory import bytes_of, shared_layout, stored_extents
from tilegen.lowering.launch.program import Barrier, Declare, Launch, Spmd, names_in, nodes
from tilegen.lowering.outline.functions import make_functions
from tilegen.lowering.sync.barriers import barriers
from tilegen.lowering.sync.batches import align_described, complete_batches, with_fences
from tilegen.lowering.sync.bulk import bulk_copies, join_waits
from tilegen.lowering.sync.bulk_loops import bulk_nests, deal_bulk_loops, without_arrivals
from tilegen.lowering.sync.bulk_plan import WAITING, Bulk
from tilegen.lowering.sync.bulk_stores import add_store_waits, add_stores, check_stored, join_stores
from tilegen.lowering.sync.conflicts import Conflict, Path, conflicts
from tilegen.lowering.sync.dependent_launch import with_launch_waits
from tilegen.lowering.sync.overlap import overlap_batches
from tilegen.lowering.sync.pipeline import Pipe, write_out_pipelines
from tilegen.lowering.sync.roles import Roles
from tilegen.lowering.sync.specialized import split_roles, with_whole_rings, without_idle_producers
from tilegen.lowering.sync.turns import join_blocks, take_turns
from tilegen.lowering.sync.waits import asynchronous, covered_pipes, group_ends, with_waits
from tilegen.lowering.threads.dealing import deal_tiles, walk_tiles
from tilegen.lowering.threads.distribute import (
    Block,
    Shares,
    block_of,
    deal_vector_loops,
    distribute,
    without_single,
    write_thread_loops,
)
from tilegen.lowering.threads.fragments import deal, without_instructions
from tilegen.lowering.threads.lanes import Lanes
from tilegen.lowering.threads.look_back import with_look_back
from tilegen.lowering.threads.places import named_places
from tilegen.lowering.threads.registers import declare, lives, unroll_register_loops
from tilegen.lowering.threads.vectors import Needs, vectorize
from tilegen.poly import Facts

__all__ = ["Launch", "distributed_tree", "fits", "lower", "lower_for_some_sizes", "unmet"]

# Bytes of a thread's registers. A GPU has 1020; what is beyond lies in memory, where a little of it does no harm.
REGISTER_LIMIT = 64 * 1024


def lower(
    tree: Tree,
    *,
    vector: bool = True,
    loose: frozenset[str] = frozenset(),
    whole: bool = False,
    wide: bool | None = None,
    instructions: bool = True,
) -> tuple[Launch, ...]:
    """The launches of `tree`, one for each of its top-level nodes, in order.

    Args:
        vector: False makes all vector loops loose: right for all sizes and addresses, and slower.
        loose: the vector loops that move at once what is aligned at all sizes, and the rest one by one.
        whole: for sizes that the tiles divide, so that no tile needs a test.
        wide: offsets and sizes have 64 bits, for tensors of about 2**31 elements and more. None: where no sizes that
            the kernel admits have smaller ones.
        instructions: False for a device without them: one thread of each warp computes what they mean, in loops.

    Raises:
        LimitError: threads have to wait where not all of their block come by; or more threads, registers or shared
            memory than a block can have, more blocks than a grid, or more elements than a memory.
    """
    if waiting := waits_of_some(tree):
        loop, fault = waiting
        raise LimitError(fault.sentence, loop.span, witness=fault.witness, notes=fault.notes)
    private = REGISTER_LIMIT
    if not instructions and (plain := without_instructions(tree)) != tree:
        tree, private = plain, 8 * REGISTER_LIMIT  # one thread has what lanes hold together
    if not vector:
        loose = frozenset(loop.name for loop in loops(tree.body) if loop.kind == "vector")
        loose |= {loop.name for loop in bulk_nests(tree.body)}
    loose = with_whole_rings(tree, loose)
    if loose:
        dealt = (deal_vector_loops(deal_bulk_loops(node, loose), loose) for node in tree.body)
        tree = replace(tree, body=tuple(dealt))
    tree, whole_starts = deal(align_described(without_idle_producers(tree)))
    tree, pipes = write_out_pipelines(narrow(without_dead(tree)))
    tree = split_peeled(without_single(tree))
    names, version = _launch_names(tree), _Version(loose, whole, whole_starts, private)
    launches = [_lower_launch(tree, pipes, number, names[number], version) for number in range(len(tree.body))]
    found = choose_integers([with_launch_waits(each) for each in launches] if tree.dependent else launches, wide)
    found = tuple(map(without_wrapping, found))
    return tuple(with_look_back(each, tree) for each in found) if instructions else found


@dataclass(frozen=True)
class _Version:
    loose: frozenset[str]
    whole: bool
    starts: frozenset[tuple[str, str]]  # of fragments: (statement, buffer) that do no harm without their guard
    private: int = REGISTER_LIMIT  # bytes of a thread's registers


def _lower_launch(tree: Tree, pipes: tuple[Pipe, ...], number: int, name: str, version: _Version) -> Launch:
    node, requires, tiles = _walked(tree, number, version)
    taken = frozenset(tree.kernel.sizes) | {loop.name for loop in loops(node)} | {b.name for b in tree.buffers}
    block = block_of(node, taken)
    dealt = distribute(node, block, told := dict[str, Shares]())
    plain = write_thread_loops(dealt, block, told)
    where, extents = join_blocks(coordinates(dealt), block), _extents(dealt, block)
    is_implied = implication_checker(tree.kernel, extents, requires)
    bulk = add_stores(bulk_copies(plain, tree, pipes, block, taken), plain, tree, block)
    stops, groups, ahead = _waiting(tree, (plain, dealt), pipes, bulk, block, is_implied)
    lanes, less = Lanes(replace(tree, body=(dealt,))), spare(dealt, tree.buffers, tree.kernel)
    context = Context(block, where, stops, frozenset(told), groups, lanes, {b.name: b for b in tree.buffers}, bulk)
    body, buffers = _drop_needless_dims(tree, flatten(less.node, context), dealt)
    memory, registers = bulk.memory(buffers), [b for b in buffers if b.space == "register"]
    needs = bulk.add_needs(Needs(memory, frozenset(tree.kernel.sizes), is_implied, version.loose, list(requires)))
    body = unroll_register_loops(vectorize(body, needs), frozenset(b.name for b in registers if b.shape))
    needs.variables |= lanes.results
    buffers = (*memory.values(), *needs.variables.values())
    roles, free = Roles(loops(dealt), taken), starts(dealt, tree.buffers) | less.starts | version.starts
    is_implied = roles.keep_tests(implication_checker(tree.kernel, extents, tuple(needs.requires)))
    body = join_stores(join_waits(guard(body, _id_counts(block, where), is_implied, free, roles.choose)))
    known = {b.name: b for b in buffers}
    body = _choose_reads(body, dealt, known, _id_counts(block, where), is_implied)
    body = asynchronous(run_between_ends(roles.name(body), known, tree.kernel, is_implied), ahead, known)
    body = overlap_batches(complete_batches(split_roles(named_places(body, told), block)), dealt)
    body, buffers = take_turns(_declare_registers(body, registers, dealt), buffers, block)
    body = make_functions(body, buffers, _known_integers(tree, block, where))
    mine, shared = _used_buffers(body, buffers, needs, version.private)
    launch = Launch(
        name=name,
        kernel=tree.kernel,
        tensors=tuple(dict.fromkeys(memory_of(b.name) for b in mine.values() if b.space == "global")),
        sizes=_used_sizes(tree, body, mine, where),
        grid=where.grid,
        block=block.launched,
        left_out=block.left_out,
        shared_bytes=shared,
        body=body,
        distributed=plain,
        memory=tree.buffers,
        buffers=bulk.tensors(buffers) | mine,
        coordinates=where.names,
        tid=block.tid,
        flat=block.flat,
        **needs.of_launch,
        approximate=tree.approximate,
        maps=tuple(bulk.maps),
        cluster=bulk.cluster,
    )
    return deal_tiles(launch, tiles)


# -- stages that are a few lines


def _waiting(
    tree: Tree, nodes: tuple[Node, Node], pipes: tuple[Pipe, ...], bulk: Bulk, block: Block, is_implied: IsImplied
) -> tuple[dict[tuple[Path, int], Barrier], frozenset[tuple[Path, int]], tuple[Pipe, ...]]:
    """The barriers, the places where groups of asynchronous copies end, and what is copied so. `nodes` are the launch
    with the numbers of threads written out, and without."""
    plain, dealt = nodes
    alone, buffers = block.threads == 1, {b.name: b for b in tree.buffers}
    crossing: tuple[Conflict, ...] = ()
    if not alone:
        launch = replace(tree, body=(plain,), buffers=(*tree.buffers, WAITING))
        crossing = without_arrivals(plain, conflicts(launch, block, bulk.waits_as_reads(buffers)), buffers)
    slots = with_fences({} if alone else barriers(plain, crossing, is_implied), dealt, bulk.stored)
    check_stored(bulk, tree, slots.values())
    add_store_waits(bulk, plain, block, crossing, slots, is_implied)
    pipes = bulk.others(pipes)
    ahead = covered_pipes(plain, pipes, with_waits(plain, slots, pipes))
    pipes = tuple(pipe for pipe, some in zip(pipes, ahead, strict=True) if some.buffers)
    return with_waits(plain, slots, pipes), frozenset(group_ends(dealt, pipes)), ahead


def _walked(tree: Tree, number: int, version: _Version) -> tuple[Node, tuple[Condition, ...], tuple[Loop, ...]]:
    """(the launch, with a block that comes by all of its tiles where they are dealt; what it requires; its tiles)."""
    node, requires = whole_tiles(tree.body[number], tree.kernel) if version.whole else (tree.body[number], ())
    node, tiles = walk_tiles(node, tree.buffers)
    return node, requires, tiles


def _choose_reads(
    body: tuple[Spmd, ...], node: Node, known: Mapping[str, Buffer], counts: Mapping[str, int], is_implied: IsImplied
) -> tuple[Spmd, ...]:
    """`body` with a version without tests of each read that is inside its tensor in most tiles."""
    if not any(load.fallback for load in loads(node)):
        return body
    return choose(split_inner_tiles(body, known, counts, is_implied), known, is_implied)


def _drop_needless_dims(tree: Tree, body: tuple[Spmd, ...], node: Node) -> tuple[tuple[Spmd, ...], tuple[Buffer, ...]]:
    """Buffers on the chip without the dimensions that a thread's program does not need."""
    threads = frozenset(loop.name for loop in loops(node) if loop.kind.startswith("thread"))
    kept = kept_dims(tree.buffers, node, threads)
    kept = {b.name: kept[b.name] for b in tree.buffers if len(kept.get(b.name, b.shape)) < len(b.shape)}
    buffers = tuple(without_dims(b, kept[b.name]) if b.name in kept else b for b in tree.buffers)
    return drop_dims(body, kept), buffers


def _declare_registers(body: tuple[Spmd, ...], registers: list[Buffer], node: Node) -> tuple[Spmd, ...]:
    """Declarations of the register buffers."""
    outer = lives(node, registers)
    for buffer in reversed(registers):
        body = declare(body, buffer.name, outer.get(buffer.name, frozenset()), len(buffer.shape))
    return declare_zeros(body, {buffer.name: buffer for buffer in registers})


def _used_buffers(
    body: tuple[Spmd, ...], buffers: tuple[Buffer, ...], needs: Needs, limit: int
) -> tuple[dict[str, Buffer], int]:
    """The buffers that the program speaks of, and the bytes of the shared ones."""
    used = {access.buffer for access in accesses(body)} | {v.buffer for v in nodes(body) if isinstance(v, Declare)}
    used |= needs.variables.keys() | {v.buffer for v in gathers(body)}
    used |= set(map(memory_of, used))
    mine = {b.name: b for b in buffers if b.name in used}
    shared = shared_layout(mine.values())[1]
    if shared > SHARED_LIMIT:
        message = f"a block needs {shared} bytes of shared memory, and a GPU has {SHARED_LIMIT} at most"
        raise _too_much(message, mine, "shared")
    private = sum(bytes_of(b) for b in mine.values() if b.space == "register")
    if private > limit:
        message = f"a thread needs {private} bytes in registers, and {limit} are the most; a GPU has 1020"
        raise _too_much(message, mine, "register")
    return mine, shared


def _id_counts(block: Block, where: Coordinates) -> dict[str, int]:
    """What tells the threads of one block apart, each with its number of values."""
    inner = {block.tid: block.consuming}
    for loop in block.loops:
        size = loop.extent.const
        inner |= {name: size for name, kind, _ in where.names if kind == loop.kind}
    return inner


def _known_integers(tree: Tree, block: Block, where: Coordinates) -> frozenset[str]:
    """The integers that are known everywhere in a launch."""
    return frozenset((*tree.kernel.sizes, block.tid, *(name for name, _, _ in where.names)))


def _extents(node: Node, block: Block) -> dict[str, Affine]:
    """What each name runs over: a thread loop over all threads of its axis, where it tests for those that it has."""
    sizes = {kind: const(size) for kind, size in zip(THREAD_KINDS, block.size, strict=True)}
    return {loop.name: sizes.get(loop.kind, loop.extent) for loop in loops(node)} | {block.tid: const(block.consuming)}


# -- the parameters


def _used_sizes(tree: Tree, body: tuple[Spmd, ...], buffers: dict[str, Buffer], where: Coordinates) -> tuple[str, ...]:
    """The sizes that the program speaks of: in extents, tests and values, in the pitches of tensors, in coordinates."""
    pitches = [extent for b in buffers.values() if b.space == "global" for extent in stored_extents(b)[1:]]
    tested = [buffers[v.buffer].shape[d] for v in gathers(body) for d in v.tested]
    used = names_in((*walk(body), *pitches, *tested))
    for kind, blocks in zip(BLOCK_KINDS, where.grid, strict=True):
        sharing = [name for name, each, _ in where.names if each == kind] if len(blocks.factors) > 1 else []
        for position in (n for n, name in enumerate(sharing) if name in used):
            by, of = blocks.digit(position)
            used |= names_in((*by, of))
    return tuple(size for size in tree.kernel.sizes if size in used)


def _launch_names(tree: Tree) -> list[str]:
    """The kernel's name for a single launch; else each is called after the first tensor that it computes.

    They are the entry points of the text, so that none of them is a word that has a meaning there.
    """
    parts = [""] if len(tree.body) == 1 else [f".{_main(node)}" for node in tree.body]
    taken = {loop.performed.instruction.name for loop in loops(tree.body) if loop.performed}
    return [fresh(f"{tree.kernel.name}{part}", taken, entry=True) for part in parts]


def _main(node: Node) -> str:
    every = list(stmts(node))
    computing: list[Stmt] = [s for s in every if not s.is_copy] or every
    return computing[0].name.removesuffix(".init").removesuffix(".best")


def _too_much(what: str, buffers: dict[str, Buffer], space: str) -> LimitError:
    largest = max((b for b in buffers.values() if b.space == space), key=bytes_of)
    part = f"the largest part is {largest.name} with {bytes_of(largest)} bytes; "
    way = "make its tile smaller" if space == "shared" else "make its tile smaller, or keep it in shared memory"
    return LimitError(what, largest.span, notes=(part + way,))


def unmet(launches: Iterable[Launch], sizes: Mapping[str, int], addresses: Mapping[str, int]) -> frozenset[str]:
    """The vector loops that need what does not hold: at these sizes, with tensors at these addresses.

    A tensor without an address is aligned.
    """
    return frozenset(
        loop
        for launch in launches
        for loop, need in launch.needs.items()
        if not all(c.holds(sizes) for c in need.requires)
        or any(addresses.get(name, 0) % by for name, by in need.alignment)
    )


def lower_for_some_sizes(tree: Tree, **version: Any) -> tuple[Launch, ...]:
    """As `lower`, but that those vector loops are loose whose needs no sizes meet beside those of the loops before."""
    launches = lower(tree, **version)
    needs = [pair for launch in launches for pair in launch.needs.items()]
    of_loops = {c for _, need in needs for c in need.requires}
    known = [c for launch in launches for c in launch.requires if c not in of_loops]
    facts, never = Facts(tree.kernel), frozenset[str]()
    for loop, need in needs:
        if facts.is_possible((*known, *need.requires), {}):
            known += need.requires
        else:
            never |= {loop}
    return lower(tree, **{**version, "loose": never}) if never else launches


def distributed_tree(launches: Iterable[Launch]) -> Tree:
    """The launches with their copies dealt out, as one tree: an ordinary sequential program."""
    launches = tuple(launches)
    return Tree(launches[0].kernel, launches[0].memory, tuple(launch.distributed for launch in launches))
