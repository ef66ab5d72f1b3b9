"""From the last tree of a schedule to programs of one thread: the stages in order, on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilegen.errors import LimitError
from tilegen.ir.affine import Affine, const
from tilegen.ir.hardware.described import align_described
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import THREAD_KINDS, Buffer, Condition, Loop, Node, Stmt, Tree
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.walk import loads, loops, stmts
from tilegen.judge import fault_of_launches
from tilegen.lowering.flatten import Context, drop_dims, flatten, kept_dims, without_dims
from tilegen.lowering.guards.guards import IsImplied, guard
from tilegen.lowering.guards.inner_tiles import split_inner_tiles
from tilegen.lowering.guards.known import implication_checker
from tilegen.lowering.guards.narrow import narrow
from tilegen.lowering.guards.peel import split_peeled
from tilegen.lowering.guards.ragged import Around, may_be_ragged, run_between_ends, with_ragged, without_wrapping
from tilegen.lowering.guards.reads import choose
from tilegen.lowering.guards.register_guards import spare
from tilegen.lowering.guards.running import without_dead
from tilegen.lowering.guards.starts import starts
from tilegen.lowering.guards.whole import whole_tiles
from tilegen.lowering.guards.zeros import declare_zeros
from tilegen.lowering.integers.integers import choose_integers, fits
from tilegen.lowering.launch.coordinates import Coordinates, coordinates
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.lists import with_places
from tilegen.lowering.launch.program import For, Spmd, nodes
from tilegen.lowering.launch.timelines import Barrier
from tilegen.lowering.launch.used import used_buffers, used_sizes
from tilegen.lowering.outline.full_tiles import name_tests
from tilegen.lowering.outline.functions import make_functions
from tilegen.lowering.outline.thread_places import name_thread_places
from tilegen.lowering.sync.barriers import barriers
from tilegen.lowering.sync.batches import complete_batches, needs_fence
from tilegen.lowering.sync.bulk import bulk_copies, fence_starts, join_waits
from tilegen.lowering.sync.bulk_loops import bulk_nests, copy_whole_boxes, deal_bulk_loops, without_arrivals
from tilegen.lowering.sync.bulk_plan import WAITING, Bulk
from tilegen.lowering.sync.bulk_stores import add_store_waits, add_stores, join_stores
from tilegen.lowering.sync.conflicts import Conflict, Gap, conflicts
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
    scalarized: frozenset[str] = frozenset(),
    whole: bool = False,
    wide: bool | None = None,
    instructions: bool = True,
) -> tuple[Launch, ...]:
    """The launches of `tree`, one for each of its top-level nodes, in order.

    Args:
        vector: False makes all vector loops scalarized: right for all sizes and addresses, and slower.
        scalarized: the vector loops that move at once what is aligned at all sizes, and the rest one by one.
        whole: for sizes that the tiles divide, so that no tile needs a test.
        wide: offsets and sizes have 64 bits, for tensors of about 2**31 elements and more. None: where no sizes that
            the kernel admits have smaller ones.
        instructions: False for a device without them: one thread of each warp computes what they mean, in loops.

    Raises:
        LimitError: threads have to wait where not all threads of their block run; or more threads, registers or shared
            memory than a block can have, more blocks than a grid, or more elements than a memory.
    """
    if fault := fault_of_launches(tree):
        raise LimitError(fault.sentence, fault.span, witness=fault.witness, notes=fault.notes)
    private = REGISTER_LIMIT
    if not instructions and (plain := without_instructions(tree)) != tree:
        tree, private = plain, 8 * REGISTER_LIMIT  # one thread has what lanes hold together
    if not vector:
        scalarized = frozenset(loop.name for loop in loops(tree.body) if loop.kind == "vector")
        scalarized |= {loop.name for loop in bulk_nests(tree.body)}
    scalarized = with_whole_rings(tree, scalarized)
    if scalarized:
        dealt = (deal_vector_loops(deal_bulk_loops(node, scalarized), scalarized) for node in tree.body)
        tree = replace(tree, body=tuple(dealt))
    tree = without_dead(tree)
    tree = without_idle_producers(tree)
    tree = align_described(tree)
    tree, whole_starts = deal(tree)
    tree = copy_whole_boxes(narrow(tree))
    tree, pipes = write_out_pipelines(tree)
    tree = without_single(tree)
    tree = split_peeled(tree)
    names, version = _launch_names(tree), _Version(scalarized, whole, whole_starts, private)
    launches = [_lower_launch(tree, pipes, number, names[number], version) for number in range(len(tree.body))]
    launches = [with_launch_waits(each) for each in launches] if tree.dependent else launches
    found = choose_integers(launches, wide)
    found = tuple(replace(without_wrapping(each), named=tree.named) for each in found)
    return tuple(with_places(with_look_back(each, tree)) for each in found) if instructions else found


@dataclass(frozen=True)
class _Version:
    scalarized: frozenset[str]
    whole: bool
    starts: frozenset[tuple[str, str]]  # of fragments: (statement, buffer) that do no harm without their guard
    private: int = REGISTER_LIMIT  # bytes of a thread's registers


@dataclass(frozen=True)
class _Plan:
    """What is decided of a launch while it is a tree: who does what, and who waits for whom.

    Attributes:
        node: the launch, its copies dealt out to threads; `numbered` has the number of a thread written in its loops.
        shares: by their loops, which iterations of a copy a thread runs.
        tiles: the loops over tiles that are dealt to blocks.
        taken: names of sizes, loops and buffers.
        barriers: by their places, `groups` the places where a group of asynchronous copies ends.
        staged: the pipelined loops whose copies are asynchronous.
    """

    node: Node
    numbered: Node
    requires: tuple[Condition, ...]
    tiles: tuple[Loop, ...]
    shares: dict[str, Shares]
    taken: frozenset[str]
    block: Block
    where: Coordinates
    is_implied: IsImplied
    bulk: Bulk
    barriers: dict[Gap, Barrier]
    groups: frozenset[Gap]
    staged: tuple[Pipe, ...]


def _lower_launch(
    tree: Tree,
    pipes: tuple[Pipe, ...],
    number: int,
    name: str,
    version: _Version,
    ragged: frozenset[str] | None = None,
) -> Launch:
    """The launch `number`: planned as a tree, then rewritten, a stage a line, as the program of one thread.

    Args:
        ragged: the loops that data may leave without iterations, so that no barrier in them is certain to be met; None
            for all that may turn out to be.
    """
    ragged = may_be_ragged(tree.body[number]) if ragged is None else ragged
    plan = _plan(tree, pipes, number, version, ragged)
    node, block, bulk, ids = plan.node, plan.block, plan.bulk, _id_counts(plan.block, plan.where)
    lanes, spared = Lanes(replace(tree, body=(node,))), spare(node, tree.buffers, tree.kernel)

    body = flatten(spared.node, _context(plan, lanes, tree))
    body, buffers = _drop_needless_dims(tree, body, node)
    body, needs = _write_vectors(body, bulk.memory(buffers), plan, tree, version)
    body = unroll_register_loops(body, frozenset(b.name for b in buffers if b.space == "register" and b.shape))
    variables = needs.variables | lanes.results
    memory = bulk.memory(buffers) | variables

    roles, unguarded = Roles(loops(node), plan.taken), starts(node, tree.buffers) | spared.starts | version.starts
    known = implication_checker(tree.kernel, _extents(node, block), tuple(needs.requires))
    body = guard(body, ids, is_implied := roles.keep_tests(known), unguarded, roles.choose)
    body = join_waits(body)
    body = join_stores(body)
    body = _choose_reads(body, node, memory, ids, is_implied)
    body = roles.name(body)
    body = run_between_ends(body, _around(plan, memory, tree, is_implied))
    if found := ragged - {each.name for each in nodes(body) if isinstance(each, For) and each.ends}:
        return _lower_launch(tree, pipes, number, name, version, ragged - found)

    body = asynchronous(body, plan.staged, memory)
    body = named_places(body, plan.shares)
    body = split_roles(body, block)
    body = complete_batches(body)
    body = overlap_batches(body, node)
    body = _declare_registers(body, [b for b in buffers if b.space == "register"], node)
    body, every = take_turns(body, tuple(memory.values()), block)
    body = make_functions(body, every, _known_integers(tree, block, plan.where))
    used, shared = used_buffers(body, every, frozenset(variables), version.private)
    launch = _launch(name, body, used, shared, bulk.tensors(every), plan, needs, tree)
    return name_thread_places(name_tests(deal_tiles(launch, plan.tiles)))


def _plan(tree: Tree, pipes: tuple[Pipe, ...], number: int, version: _Version, ragged: frozenset[str]) -> _Plan:
    node, requires, tiles = _tiles_of_a_block(tree, number, version)
    taken = frozenset(tree.kernel.sizes) | {loop.name for loop in loops(node)} | {b.name for b in tree.buffers}
    block = block_of(node, taken)
    node, shares = distribute(node, block)
    numbered = write_thread_loops(node, block, shares)
    where = join_blocks(coordinates(node), block)
    is_implied = implication_checker(tree.kernel, _extents(node, block), requires)
    bulk = bulk_copies(numbered, tree, pipes, block, taken)
    bulk = add_stores(bulk, numbered, tree, block)
    waiting = _waiting(tree, (with_ragged(numbered, ragged), node), pipes, bulk, block, is_implied)
    return _Plan(node, numbered, requires, tiles, shares, taken, block, where, is_implied, bulk, *waiting)


def _launch(
    name: str,
    body: tuple[Spmd, ...],
    used: dict[str, Buffer],
    shared: int,
    tensors: dict[str, Buffer],
    plan: _Plan,
    needs: Needs,
    tree: Tree,
) -> Launch:
    """`used` are the buffers that the program speaks of, `tensors` those that are copied in bulk."""
    block, where = plan.block, plan.where
    return Launch(
        name=name,
        kernel=tree.kernel,
        tensors=tuple(dict.fromkeys(memory_of(b.name) for b in used.values() if b.space == "global")),
        sizes=used_sizes(tree, body, used, where),
        grid=where.grid,
        block=block.launched,
        left_out=block.left_out,
        shared_bytes=shared,
        body=body,
        distributed=plan.numbered,
        memory=tree.buffers,
        buffers=tensors | used,
        coordinates=where.names,
        tid=block.tid,
        flat=block.flat,
        **needs.of_launch,
        approximate=tree.approximate,
        maps=tuple(plan.bulk.maps),
        cluster=plan.bulk.cluster,
    )


# -- stages that are a few lines


def _waiting(
    tree: Tree, nodes: tuple[Node, Node], pipes: tuple[Pipe, ...], bulk: Bulk, block: Block, is_implied: IsImplied
) -> tuple[dict[Gap, Barrier], frozenset[Gap], tuple[Pipe, ...]]:
    """The barriers, the places where groups of asynchronous copies end, and what is copied so. `nodes` are the launch
    with the numbers of threads written out, and without."""
    plain, dealt = nodes
    alone, buffers = block.threads == 1, {b.name: b for b in tree.buffers}
    crossing: tuple[Conflict, ...] = ()
    if not alone:
        launch = replace(tree, body=(plain,), buffers=(*tree.buffers, WAITING))
        crossing = without_arrivals(plain, conflicts(launch, block, bulk.waits_as_reads(buffers)), buffers)
    fenced = needs_fence(dealt, bulk.stored, bulk.filled)
    found = {} if alone else barriers(plain, crossing, is_implied, fenced)
    fence_starts(bulk, dealt)
    add_store_waits(bulk, plain, block, crossing, found, is_implied)
    pipes = bulk.others(pipes)
    ahead = covered_pipes(plain, pipes, with_waits(plain, found, pipes))
    pipes = tuple(pipe for pipe, some in zip(pipes, ahead, strict=True) if some.buffers)
    return with_waits(plain, found, pipes), frozenset(group_ends(dealt, pipes)), ahead


def _context(plan: _Plan, lanes: Lanes, tree: Tree) -> Context:
    memory = {b.name: b for b in tree.buffers}
    dealt = frozenset(plan.shares)
    return Context(plan.block, plan.where, plan.barriers, dealt, plan.groups, lanes, memory, plan.bulk)


def _write_vectors(
    body: tuple[Spmd, ...], memory: dict[str, Buffer], plan: _Plan, tree: Tree, version: _Version
) -> tuple[tuple[Spmd, ...], Needs]:
    """`body` with its vector loops as accesses of vectors, and what these need of sizes and addresses."""
    sizes = frozenset(tree.kernel.sizes)
    needs = plan.bulk.add_needs(Needs(memory, sizes, plan.is_implied, version.scalarized, list(plan.requires)))
    return vectorize(body, needs), needs


def _tiles_of_a_block(
    tree: Tree, number: int, version: _Version
) -> tuple[Node, tuple[Condition, ...], tuple[Loop, ...]]:
    """(the launch, with a block that walks all of its tiles where they are dealt; what it requires; its tiles)."""
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


def _around(plan: _Plan, memory: Mapping[str, Buffer], tree: Tree, is_implied: IsImplied) -> Around:
    """What loops with ends that data give stand in: all threads that do something count."""
    threads = {loop.name: loop.extent.const for loop in loops(plan.node) if loop.kind in THREAD_KINDS}
    threads |= {plan.block.tid: plan.block.consuming}
    lanes = frozenset((plan.block.tid, *(loop.name for loop in loops(plan.node) if loop.kind == "thread.x")))
    return Around(tree.kernel, memory, threads, lanes, frozenset(loop.name for loop in plan.tiles), is_implied)


def _launch_names(tree: Tree) -> list[str]:
    """The kernel's name for a single launch; else each is called after the first tensor that it computes, or, if it
    copies, after the last one that it writes.

    They are the entry points of the text, so that none of them is a word that has a meaning there.
    """
    parts = [""] if len(tree.body) == 1 else [f".{_main(node)}" for node in tree.body]
    taken = {loop.performed.instruction.name for loop in loops(tree.body) if loop.performed}
    return [fresh(f"{tree.kernel.name}{part}", taken, entry=True) for part in parts]


def _main(node: Node) -> str:
    every = list(stmts(node))
    computing: list[Stmt] = [s for s in every if not s.is_copy] or every[-1:]
    return computing[0].name.removesuffix(".init").removesuffix(".best")


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
    """As `lower`, with those vector loops scalarized whose needs no sizes meet beside those of the loops before."""
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
    return lower(tree, **{**version, "scalarized": never}) if never else launches


def distributed_tree(launches: Iterable[Launch]) -> Tree:
    """The launches with their copies dealt out, as one tree: an ordinary sequential program."""
    launches = tuple(launches)
    return Tree(launches[0].kernel, launches[0].memory, tuple(launch.distributed for launch in launches))
