"""Races: iterations that run at once could as well run one after the other, in any order.

Theorem: this is so if no two iterations of a parallel loop, no two blocks and no two threads touch an element that one
of them writes. Every pair of accesses to one memory is asked: that both are at one element, in different iterations of
the loop or at different coordinates, has to be an empty system. Threads of one block may meet in different nests of
their loops, where a barrier can stand: what crosses threads there is asked in `cross_thread`. Registers are each
thread's own, but for those of which all threads along an axis have an equal copy, and lanes that combine.

Also the structure that a launch needs: blocks outside, threads inside, buffers where their memory is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product, zip_longest

from tilegen.ir.affine import Affine
from tilegen.ir.hardware.atomics import are_updates_of_one
from tilegen.ir.hardware.lanes import writes_alone
from tilegen.ir.hardware.limits import RESIDENT_THREADS
from tilegen.ir.hardware.threads import consumers_and_row
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import BLOCK_KINDS, PARALLEL, THREAD_KINDS, Buffer, Loop, Node
from tilegen.ir.walk import leaves, loop_names, loops, writes
from tilegen.judge.threads.ways_out import ways_out, ways_out_of_roles
from tilegen.poly.instances import Leaf, Placed, Projection, Use
from tilegen.poly.rows import Row
from tilegen.poly.verdict import Misplaced, NoForm, Refused, Words, counterexample


def check_structure(program: Projection) -> None:
    """Refused where block or thread loops nest wrongly, or a buffer lives where its memory cannot."""
    sizes = program.kernel.sizes
    names = [name for name, _, _ in set(map(_header, loops(program.tree.body)))]
    clash = len({*names, *sizes}) < len(names) + len(sizes)
    for name in loop_names(program.tree) if clash else ():
        if names.count(name) > 1:
            raise Misplaced(f"two loops are called '{name}', and differ in their extent or kind")
        if name in sizes:
            raise Misplaced(f"'{name}' is a loop and a size of the kernel")
    for leaf in dict.fromkeys(placed.leaf for placed in program.leaves):
        _check_kinds(program, leaf)
        for name in leaf.buffers:
            _check_home(leaf, program.buffers[name])
    _check_shared_axes(program)
    _check_lanes(program)
    for launch in program.tree.body:
        _check_resident(launch)


def _header(loop: Loop) -> tuple[str, Affine, str]:
    """What loops of one name have in common; of one that runs between ends, another version may run all iterations."""
    return loop.name, loop.extent, "serial" if loop.kind == "ragged" else loop.kind


def _check_kinds(program: Projection, leaf: Leaf) -> None:
    kinds = leaf.kinds
    for depth, (name, kind) in enumerate(zip(leaf.names, kinds, strict=True)):
        if leaf.names.index(name) != depth:
            raise Misplaced(f"loop '{name}' is inside itself")
        if kind not in (*BLOCK_KINDS, *THREAD_KINDS):
            continue
        if kinds.index(kind) != depth and kind in THREAD_KINDS:
            other = leaf.names[kinds.index(kind)]
            unused = ", ".join(k for k in (*BLOCK_KINDS, *THREAD_KINDS) if k not in kinds)
            way = f"bind one of them to another: {unused}" if unused else "leave one of them serial"
            raise Misplaced(
                f"loops '{other}' and '{name}' are both {kind}, and '{name}' is inside '{other}'",
                way=way,
            )
        if kind in BLOCK_KINDS:
            outside = next((n for n, k in zip(leaf.names[:depth], kinds, strict=False) if k not in BLOCK_KINDS), None)
            if outside is not None:
                way = f"order({name}, {outside}) puts '{name}' outside"
                if any(outside in i.names() for i in leaf.stmt.target.index):
                    way = f"if '{outside}' is to run on blocks, too, bind it first; else {way}"
                raise Misplaced(
                    f"block loop '{name}' is inside '{outside}', and block loops are outermost in their launch",
                    None,
                    way,
                    *ways_out(program, leaf, name, kind),
                )


def _check_shared_axes(program: Projection) -> None:
    """Where block loops share an axis, everything in the launch is inside all of them: nothing is the first block's.
    Those that stand side by side are as long: a launch has one grid."""
    shared = {(p.places[0], kind): p.leaf.along(kind) for p in program.leaves for kind in BLOCK_KINDS
              if p.leaf.kinds.count(kind) > 1}  # fmt: skip
    for (launch, kind), names in shared.items():
        for leaf in (p.leaf for p in program.leaves if p.places[0] == launch):
            if leaf.along(kind) != names:
                listed = "', '".join(names)
                raise Misplaced(
                    f"loops '{listed}' share {kind}, and '{leaf.stmt.name}' in the same launch is not in all of them",
                    way="leave it in a launch of its own, or bind only loops that hold everything",
                )
    for (number, node), kind in product(enumerate(program.tree.body), BLOCK_KINDS):
        bound = [loop for loop in loops(node) if loop.kind == kind]
        other = next((loop for loop in bound if loop.extent != bound[0].extent), None)
        if other and (number, kind) not in shared:
            raise NoForm(
                f"the loops '{bound[0].name}' and '{other.name}' of one launch are bound to {kind} "
                f"and have different extents, {bound[0].extent} and {other.extent}",
                way="fuse the loops, or leave the statements in launches of their own",
            )


def _check_resident(launch: Node) -> None:
    """Refused where a multiprocessor has no room for the threads of its resident blocks."""
    block = max(loops(launch), key=lambda loop: loop.resident, default=None)
    threads = sum(consumers_and_row(launch))
    if block and block.resident > 1 and block.resident * threads > RESIDENT_THREADS:
        most = RESIDENT_THREADS // threads
        raise NoForm(
            f"{block.resident} blocks of {threads} threads are {block.resident * threads} threads, "
            f"and a multiprocessor has room for {RESIDENT_THREADS}",
            way=f"resident({block.name}, {most}) fits"
            if most > 1
            else "a block of this size leaves no room for another",
        )


def _check_lanes(program: Projection) -> None:
    """Lanes that combine are all the threads along x: their neighbours are other rows, and do the same."""
    for number, name in program.lanes.items():
        combining = program.leaves[number]
        extent = combining.leaf.extents[combining.leaf.names.index(name)]
        for placed in program.leaves:
            leaf = placed.leaf
            if placed.places[0] != combining.places[0] or "thread.x" not in leaf.kinds:
                continue
            other = leaf.kinds.index("thread.x")
            if leaf.extents[other] != extent:
                raise Misplaced(
                    f"the {extent} iterations of '{name}' combine '{combining.leaf.stmt.target.buffer}' as lanes of "
                    f"a warp, and '{leaf.names[other]}' of the same launch has {leaf.extents[other]} threads along x",
                    way=f"bind what is beyond {extent} lanes to thread.y: tile({leaf.names[other]}, {extent}) cuts it",
                )


def _check_home(leaf: Leaf, buffer: Buffer) -> None:
    """Shared memory belongs to one block, registers to one thread."""
    if buffer.space == "global" or buffer.scope is None or buffer.scope not in leaf.names:
        if buffer.space != "global":
            raise Misplaced(f"'{buffer.name}' is used outside loop '{buffer.scope}', in which it lives")
        return
    depth = leaf.names.index(buffer.scope)
    if buffer.space == "register" and "cooperative" in leaf.kinds[depth + 1 :]:
        loop = leaf.names[leaf.kinds.index("cooperative", depth + 1)]
        raise Misplaced(
            f"'{buffer.name}' is in registers, and loop '{loop}' deals it out to all threads of the block",
            way="cache it at a loop inside those of the threads, so that each of them fills its own",
        )
    if buffer.space != "shared":
        return
    for name, kind in zip(leaf.names[depth + 1 :], leaf.kinds[depth + 1 :], strict=True):
        if kind in BLOCK_KINDS:
            raise Misplaced(
                f"'{buffer.name}' would be shared by several blocks: it lives in loop '{buffer.scope}', "
                f"outside block loop '{name}'",
                way=f"cache it at '{name}' or at a loop inside it",
            )
    for name, kind in zip(leaf.names[: depth + 1], leaf.kinds, strict=False):
        if kind == "cooperative":
            raise Misplaced(
                f"'{buffer.name}' is in shared memory, and lives inside loop '{name}', which is dealt out to all "
                "threads of the block",
                way=f"cache it at a loop outside '{name}'",
            )
        if kind in THREAD_KINDS:
            raise Misplaced(
                f"'{buffer.name}' is in shared memory, and lives inside thread loop '{name}'",
                way=f"order loop '{name}' inside '{buffer.scope}'"
                if name != buffer.scope
                else f"cache it at a loop outside '{name}'",
            )


def check_races(program: Projection) -> None:
    """Refused where two iterations of a parallel loop, two blocks or two threads collide on an element."""
    by_buffer: dict[str, dict[int, list[Placed]]] = {}
    written = frozenset().union(*[placed.leaf.written_buffers for placed in program.leaves])
    for placed in program.leaves:
        for name in filter(written.__contains__, dict.fromkeys(map(memory_of, placed.leaf.buffers))):
            by_buffer.setdefault(name, {}).setdefault(placed.places[0], []).append(placed)
    for name, users in by_buffer.items():
        for launch, some in users.items():
            _check_users(program, program.buffers[name], launch, some)


def _check_users(program: Projection, buffer: Buffer, launch: int, users: list[Placed]) -> None:
    """Asks of all pairs of leaves that use the buffer in a launch."""
    writers = {placed.number for placed in users if buffer.name in placed.leaf.written_buffers}
    parallel = {placed.number for placed in users if _parallel_depths(placed.leaf.kinds)}
    if not writers or not parallel:
        return
    copies = _copied_kinds(program, buffer, launch)
    combining = program.lanes.keys() & writers if buffer.space == "register" else set()
    for n, one in enumerate(users):
        for two in users[n:]:
            # Two that run in no parallel loop are what one thread does.
            if writers.isdisjoint((one.number, two.number)) or parallel.isdisjoint((one.number, two.number)):
                continue
            if are_updates_of_one(one.leaf.stmt, two.leaf.stmt, buffer):
                continue
            lane = program.lanes.get(one.number, "") if one is two else ""
            _check_pair(program, buffer, one, two, Exempt(lane, copies, frozenset(combining)))


@dataclass(frozen=True)
class Exempt:
    """What may meet: the iterations of the loop `lane`, which combine, and threads along `kinds` with a copy each.

    `lanes` are the leaves in which lanes combine for the buffer.
    """

    lane: str
    kinds: frozenset[str] = frozenset()
    lanes: frozenset[int] = frozenset()


def _copied_kinds(program: Projection, buffer: Buffer, launch: int) -> frozenset[str]:
    """Along which axes each thread has a copy of the register of its own, the same in all."""
    if buffer.space != "register":
        return frozenset()
    kinds = frozenset(kind for name, kind in program.register_copies[launch] if name == buffer.name)
    for kind in kinds:
        _check_copies(program, buffer, launch, kind)
    return kinds


def _check_copies(program: Projection, buffer: Buffer, launch: int, kind: str) -> None:
    """No thread along `kind` changes its copy of the register alone."""
    copied = {name for name, k in program.register_copies[launch] if k == kind}
    for path, stmt in leaves((program.tree.body[launch],)):
        both = {name for name, _ in writes(stmt)}
        if buffer.name in both and not both <= copied:
            other = sorted(both - copied)[0]
            raise Misplaced(
                f"'{buffer.name}' is in a register of each thread along {kind[-1]}, and '{other}' is not",
                way=f"cache '{other}' in registers at the same loop",
            )
        if writes_alone(program.tree, path, stmt, buffer.name, kind):
            loop = next(each.name for each in path if each.kind == kind)
            raise Misplaced(
                f"'{buffer.name}' is in registers: a thread of '{loop}' changes its own, and all along "
                f"{kind[-1]} compute with what it holds",
                way="cache_shared keeps what one thread writes where the others read it",
            )


def _check_pair(program: Projection, buffer: Buffer, one: Placed, two: Placed, exempt: Exempt) -> None:
    pairs: dict[object, tuple[Use, Use]] = {}
    for a in one.leaf.uses:
        for b in two.leaf.uses:
            if memory_of(a.buffer) == memory_of(b.buffer) == buffer.name and (a.writes or b.writes):
                pairs.setdefault((a.index, b.index), (a, b))
    for a, b in pairs.values():
        signs = (1,) if one is two and a.index == b.index else (1, -1)
        for case in _collisions(buffer, one, two, signs, exempt):
            _check_case(program, one.leaf, two.leaf, a, b, case)


def _parallel_depths(kinds: tuple[str, ...]) -> list[int]:
    """At which depths loops of these kinds run their iterations at once."""
    return [depth for depth, kind in enumerate(kinds) if kind in PARALLEL]


# How two instances may run at once: which loops they share, rows for what differs, and what it is called.
Case = tuple[frozenset[str], tuple[Row, ...], str, str]


def _collisions(buffer: Buffer, one: Placed, two: Placed, signs: tuple[int, ...], exempt: Exempt) -> Iterator[Case]:
    names, kinds = one.leaf.names, one.leaf.kinds
    depth = one.common_depth(two)
    home = names.index(buffer.scope) if buffer.scope in names else -1
    for d in _parallel_depths(kinds[:depth]):
        if home >= d or names[d] == exempt.lane:
            continue
        if buffer.space == "register" and kinds[d] in THREAD_KINDS:
            continue
        for sign in signs:
            rows: tuple[Row, ...] = ((False, ((f"{names[d]}'", sign), (names[d], -sign)), -1),)
            yield frozenset(names[:d]), rows, kinds[d], names[d]
    if buffer.space == "register" and depth > home:
        own = tuple(kind for kind in THREAD_KINDS if kind not in exempt.kinds)
        yield from _cases_of_coordinates(one, two, own, frozenset(names[: home + 1]), signs, frozenset(), exempt.lanes)
    if buffer.space == "global":
        # Loops around both have been asked already.
        yield from _cases_of_coordinates(one, two, BLOCK_KINDS, frozenset(), signs, frozenset(names[:depth]))


def _cases_of_coordinates(
    one: Placed,
    two: Placed,
    wanted: tuple[str, ...],
    shared: frozenset[str],
    signs: tuple[int, ...],
    asked: frozenset[str],
    lanes: frozenset[int] = frozenset(),
) -> Iterator[Case]:
    """Different coordinates of one of the `wanted` kinds; a leaf outside such loops is at coordinate 0.

    So is the first of the lanes that combine, in the leaves of the numbers `lanes`: it updates the target. Loops around
    both that have been `asked` of are left out.
    """
    for kind, first, second in _coordinate_loops(one, two, wanted, lanes):
        if first is not None and first == second and first in asked:
            continue
        if first in shared or second in shared:
            continue
        for sign in signs:
            terms: tuple[tuple[str, int], ...] = ()
            terms += ((first, sign),) if first else ()
            terms += ((f"{second}'", -sign),) if second else ()
            if terms:
                yield shared, ((False, terms, -1),), kind, first or second or ""


def _coordinate_loops(
    one: Placed, two: Placed, wanted: tuple[str, ...], lanes: frozenset[int]
) -> Iterator[tuple[str, str | None, str | None]]:
    """The loops of both that say where along an axis they are; several where loops share one."""
    for kind in wanted:
        if kind == "thread.x" and "matrix" in (*one.leaf.kinds, *two.leaf.kinds):
            continue  # an instruction leaves each register to the lane that has it
        first, second = (() if kind == "thread.x" and p.number in lanes else p.leaf.along(kind) for p in (one, two))
        yield from ((kind, *pair) for pair in zip_longest(first, second))


def _check_case(program: Projection, one: Leaf, two: Leaf, a: Use, b: Use, case: Case) -> None:
    original = program.original
    shared, rows, kind, loop = case
    question, names = original.meeting_rows(one, two, a, b, shared, rows)
    words = counterexample(original, question, (*one.names, *(names.get(n, n) for n in two.names)), shared)
    if words is None:
        return
    element = words.element(a) if a.writes else words.element(b, True)
    buffer = program.buffers[a.buffer]
    if buffer.space == "register" and kind in THREAD_KINDS:
        first, second = _thread_words(one, kind, words, False), _thread_words(two, kind, words, True)
        own = f"bind '{loop}' before cache_register, so that each thread gets its own"
        raise Refused(
            f"'{buffer.name}' is in registers, and two threads would use one element of it",
            f"{element} is touched by threads {first} and {second}{words.sizes}",
            *(ways_out(program, one, loop, kind) or ways_out(program, two, loop, kind) or (own,)),
            code="race",
        )
    doing, name = "write" if a.writes and b.writes else "touch", memory_of(a.buffer)
    ending = "" if a.writes and b.writes else ", and one of them writes it"
    raise Refused(
        f"the iterations of '{loop}' cannot run at once as {kind}: they depend on each other through '{name}'",
        f"{words.instance(one)} and {words.instance(two, True)} both {doing} {element}{ending}"
        f"{_iteration_words(one, two, loop, words)}{words.sizes}",
        *(ways_out(program, one, loop, kind) or ways_out(program, two, loop, kind)),
        *ways_out_of_roles(program, one, two, loop, kind),
        code="thread race" if kind in THREAD_KINDS else "race",
    )


def _iteration_words(one: Leaf, two: Leaf, loop: str, words: Words) -> str:
    if loop not in one.names or loop not in two.names:
        return ""
    return f", at {loop}={words.at(loop)} and {loop}={words.at(loop, True)}"


def _thread_words(leaf: Leaf, kind: str, words: Words, second: bool) -> str:
    return next((f"{name}={words.at(name, second)}" for name in leaf.along(kind)), f"{kind}=0")
