"""Bulk copies read back: the nest that each is, from its tensor map, and what is said at barriers as statements.

    expect_bytes(&filled[s], 4096)           filled[s, p]: phase p of barrier s has its arrival
    copy_box_2d(As[s], A_map, .., k, i)      for y < 32, x < 64: As[s, y, x] = (A[i + y, k + x] else 0)
    wait_barrier(&filled[s], p % 2)          filled[s, p]: the thread has seen the end of phase p
    take_turn(w), pass_turn(1 - w)           turns[w], turns[1 - w]: of which iteration, the loops around say
    store_box_2d(C_map, Cs, i, j)            for y < 32, x < 64: C[j + y, i + x] = Cs[y, x]  if that is inside of C
    wait_stores_read()                       the thread has seen the end of what its stores read

What is said at barriers keeps its place in the program, where `arrivals` asks of it; it is nothing that the kernel has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from tilegen.ir.affine import Affine, affine, const, var
from tilegen.ir.facts.row_digits import count_rows
from tilegen.ir.hardware.limits import BOX_LIMIT, BOX_PLACE, BOX_STEP_LIMIT, SWIZZLED_PLACE
from tilegen.ir.hardware.memory import shared_layout
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, Access, Buffer, Condition, Const, Load, Loop, Node, Stmt
from tilegen.ir.parts.swizzle import BULK_UNIT, hardware_swizzle
from tilegen.ir.walk import rewrite_nodes, substitute
from tilegen.judge.transfers.windows import check_windows
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    For,
    If,
    Spmd,
    Start,
    nodes,
    with_lists,
)
from tilegen.lowering.launch.tensor_maps import TensorMap
from tilegen.lowering.launch.timelines import Arrive, Await, Box, Event, StartBarriers, box_place
from tilegen.poly import Facts, Refused
from tilegen.proof.reading.lane_loops import written_buffers
from tilegen.proof.reading.on_timelines import EVENTS, Does, OnTimeline, does, is_event
from tilegen.proof.reading.roles import Ring, share_of


def expand_bulk(body: tuple[Spmd, ...], launch: Launch, ring: Ring | None) -> tuple[Spmd, ...]:
    """`body` with the nests of bulk copies, and statements for what is said at barriers.

    Raises Refused where a barrier is used that has not been started, or not for as many arrivals as there are, or a
    copy is not what its map says.
    """
    started: tuple[str, ...] = ()
    if body and isinstance(body[0], StartBarriers):
        if body[0].line.arrivals != ("cluster" if launch.cluster else "block"):
            raise Refused("others may arrive at barriers that have not been started, or are waited for in vain")
        released = {v.barrier.buffer for v in nodes(body) if isinstance(v, Arrive) and v.line.arrivals == "warps"}
        for name, arrivals in body[0].barriers:
            all_ = ring.warps * ring.blocks if ring and name in released else 1
            if arrivals != all_ or released & _barriers_of(launch):
                raise Refused(f"'{name}' waits for another number of arrivals than there are")
        started, body = tuple(name for name, _ in body[0].barriers), body[1:]
    if any(isinstance(node, StartBarriers) for node in nodes(body)):
        raise Refused("barriers are started where threads may be at them already")
    if len(set(started)) < len(started):
        raise Refused("a barrier is started twice")
    return _expand(body, launch, frozenset(started), ring)


def _expand(body: tuple[Spmd, ...], launch: Launch, started: frozenset[str], ring: Ring | None) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        match node:
            case For() | If() if launch.cluster and _speaks_of(launch.cluster.rank, node):
                raise Refused("what one block of a cluster does to the others is not done by all of them")
            case For() | If():
                out.append(with_lists(node, lambda body: _expand(body, launch, started, ring)))
            case Start():
                out += _started(node, launch, started)
            case Box():
                raise Refused(f"nobody can wait for a bulk copy of '{node.place.buffer}', which is part of no event")
            case Arrive(line) if line.arrivals == "warps":
                if not ring or {*node.buffers} != ring.buffers:
                    raise Refused(f"a release at '{node.barrier.buffer}' names other buffers than are filled")
                out.append(_to_blocks(_event(node, started, launch), node.blocks, launch))
            case Arrive(line, at, count=threads) | Await(line, at, count=threads) if line.arrivals == "threads":
                if not ring or not ring.turn or threads != ring.threads_of_turn:
                    raise Refused("turns are taken by another number of threads than two groups have")
                assert isinstance(at, Affine)
                out.append(_on_timeline(node, "turns", Access(barrier_of("turns", launch), (at,))))
            case Await(line) if line.writes_tensors:
                out.append(_on_timeline(node, "bulk stores", Access(EVENTS.name, ())))
            case Await(line) if line.has_phases:
                filled = _filled_at(node.barrier.buffer, launch)
                if {*node.buffers} != (filled or (ring and ring.buffers)) or (line.arrivals == "bytes") != bool(filled):
                    raise Refused(f"a wait at '{node.barrier.buffer}' names other buffers than arrive there")
                out.append(_event(node, started, launch))
            case _:
                out.append(node)
    return tuple(out)


def _started(node: Start, launch: Launch, started: frozenset[str]) -> Iterator[Spmd]:
    """What is said at a barrier before copies, and the nests of these; the nests of stores."""
    if node.line.arrivals == "bytes":
        yield _event(node, started, launch)
        name = node.barrier.buffer
        if any(each.at != node.at for each in nodes(node.body) if isinstance(each, Box)):
            raise Refused(f"a copy does not arrive at '{name}', where its bytes are expected")
        if (found := bytes_of_copies(node.body, launch)) != node.count:
            raise Refused(f"'{name}' waits for {node.count} bytes, and {found} arrive")
    yield from _nests(node, node.body, launch)


def _nests(start: Start, body: tuple[Spmd, ...], launch: Launch) -> Iterator[Spmd]:
    """The nests of what is started."""
    for node in body:
        match node:
            case For():
                yield replace(node, body=tuple(_nests(start, node.body, launch)))
            case Box(line) if line == start.line:
                yield _to_blocks(_nest_of(node, launch), node.blocks, launch)
            case _:
                raise Refused(f"a {type(node).__name__} is among what is started for '{start.line.name}'")


def _to_blocks(node: Spmd, mask: int, launch: Launch) -> Spmd:
    """`node`, done to memory and barriers of several blocks: to those of each one by all blocks of its cluster."""
    if not mask:
        return node
    if not launch.cluster or mask != launch.cluster.mask:
        raise Refused("something is sent to other blocks than all those of a cluster")
    share = share_of(launch.cluster.rank)
    return For(share, const(launch.cluster.blocks), (substitute(node, {launch.cluster.rank: var(share)}),))


def _speaks_of(rank: str, node: For | If) -> bool:
    """True if something around what is done to other blocks is not the same in all of them."""
    sent = (each for each in nodes((node,)) if isinstance(each, Box | Arrive) and each.blocks)
    return rank in node.decided_by and any(True for _ in sent)


def barrier_of(name: str, launch: Launch) -> str:
    """The name of an array of barriers of a launch: another may have one of the same name."""
    return f"{name} of {launch.name}"


def _event(node: Event, started: frozenset[str], launch: Launch) -> Stmt:
    barrier = node.barrier
    if barrier.buffer not in started:
        raise Refused(f"'{barrier.buffer}' is used, and nobody has started it")
    target = Access(barrier_of(barrier.buffer, launch), (*barrier.index, node.number))
    return _on_timeline(node, barrier.buffer, target)


def _on_timeline(node: Event, name: str, target: Access) -> Stmt:
    what: Does = "wait" if isinstance(node, Await) else "arrive"
    return OnTimeline(name, target, Const(node.count, "i64"), does=what, line=node.line)


def bytes_of_copies(body: tuple[Spmd, ...], launch: Launch) -> int:
    """The bytes that the copies in a list bring to a block: each a whole box, from every block that sends it one."""
    total = 0
    for node in body:
        match node:
            case For(extent=extent) if extent.is_const:
                total += extent.const * bytes_of_copies(node.body, launch)
            case Box():
                each, blocks = _map_of(node, launch), node.blocks.bit_count() or 1
                total += prod(each.box) * DTYPE_BYTES[each.dtype] * blocks
            case _:
                raise Refused("it is not known how many bytes arrive", f"a {type(node).__name__} is among the copies")
    return total


def _barriers_of(launch: Launch) -> set[str]:
    """The barriers that copies arrive at."""
    return {node.barrier.buffer for node in launch.nodes if isinstance(node, Start) and node.line.arrivals == "bytes"}


def _filled_at(barrier: str, launch: Launch) -> set[str]:
    """What the copies fill that arrive at a barrier."""
    copies = (node for node in launch.nodes if isinstance(node, Box) and node.line.arrivals == "bytes")
    return {copy.place.buffer for copy in copies if copy.barrier.buffer == barrier}


def _map_of(node: Box, launch: Launch) -> TensorMap:
    found = next((each for each in launch.maps if each.name == node.map), None)
    if found is None:
        raise Refused(f"there is no tensor map '{node.map}'")
    return found


def _nest_of(node: Box, launch: Launch) -> Spmd:
    """The loops over the box, with zeros for what is beyond the tensor, or nothing written there."""
    each, first = _map_of(node, launch), node.place
    tensor = next(b for b in launch.memory if b.name == each.buffer)
    target = launch.buffers[first.buffer]
    if tensor.space != "global" or target.space != "shared" or not tensor.dtype == target.dtype == each.dtype:
        raise Refused(f"'{node.map}' is no map for copies of '{tensor.name}' to '{target.name}'")
    shown = next((b for b in launch.memory if tensor.windows and b.name == tensor.windows.tensor), tensor)
    if each.shape != tuple(shown.shape[d] for d in reversed(shown.order)):
        raise Refused(f"'{node.map}' says that '{shown.name}' has another shape")
    if each.pitch != shown.pitch:
        raise Refused(f"'{node.map}' says that the rows of '{shown.name}' are {each.row} elements apart")
    if not each.windows == node.windows == tensor.windows:
        raise Refused(f"'{node.map}' says that '{tensor.name}' shows other elements")
    if not len(node.coordinates) == len(tensor.shape) == len(each.box):
        raise Refused(f"a copy by '{node.map}' has another number of coordinates than '{tensor.name}' has dimensions")
    steps = (1,) * len(each.box) if each.windows else each.steps
    if len(steps) != len(each.box) or any(not 1 <= e * s <= BOX_LIMIT for e, s in zip(each.box, steps, strict=True)):
        raise Refused(f"a box of '{node.map}' has more elements in a dimension than {BOX_LIMIT}")
    widest = (1, *[1 if node.line.writes_tensors else BOX_STEP_LIMIT] * (len(steps) - 1))
    if any(not 1 <= step <= most for step, most in zip(steps, widest, strict=True)):
        raise Refused(f"the elements of a box of '{node.map}' are further apart than a copy takes them")
    if each.windows and (node.line.writes_tensors or shown is tensor):
        raise Refused(f"'{tensor.name}' shows no tensor, or is stored")
    check_windows(tensor, {shown.name: shown}, each.box, steps)
    names = [box_place(target.name, n) for n in range(len(each.box))]
    source = dict(zip(reversed(tensor.order), node.coordinates, strict=True))
    for name, extent, step, dim in zip(names, each.box, steps, reversed(tensor.order), strict=True):
        source[dim] += var(name) * step if extent > 1 else 0
    index = tuple(source[d] for d in range(len(source)))
    place = _place_in(target, first.index, each.box, names)
    nest: Spmd
    if node.line.writes_tensors:
        inside = (c for i, n in zip(index, tensor.shape, strict=True) for c in (Condition(i), Condition(n - 1 - i)))
        copied = Load(target.name, place, target.dtype)
        stmt = OnTimeline(tensor.name, Access(tensor.name, index), copied, element=node.element, line=node.line)
        nest = If(tuple(c for c in inside if not c.value.is_const or c.value.const < 0), (stmt,))
    else:
        value = Load(tensor.name, index, tensor.dtype, Const(0, tensor.dtype))
        nest = OnTimeline(target.name, Access(target.name, place), value, element=node.element, line=node.line)
    for name, extent in zip(names, each.box, strict=True):
        nest = For(name, const(extent), (nest,)) if extent > 1 else nest
    return nest


def _place_in(buffer: Buffer, first: tuple[Affine, ...], box: tuple[int, ...], names: list[str]) -> tuple[Affine, ...]:
    """Where an element of the box lies, whose elements stand one after another from `first` on."""
    index, dims, covered = list(first), list(reversed(buffer.order)), 1
    for name, extent in zip(names, box, strict=True):
        if extent == 1:
            continue
        while len(dims) > 1 and covered == buffer.shape[dims[0]].const:
            if buffer.pad and dims[0] == buffer.order[-1]:
                raise Refused(f"a box is put into '{buffer.name}', and its rows are apart there")
            dims, covered = dims[1:], 1
        if covered > 1:
            raise Refused(f"the rows of a box are put into '{buffer.name}', and are shorter than its rows")
        index[dims[0]] += var(name)
        covered = extent
    return tuple(index)


# -- what of this is in the kernel


def is_wait(node: object) -> bool:
    """True for a wait at a barrier, for a turn, or for stores: not for what is in the thread's own registers."""
    return isinstance(node, OnTimeline) and node.does == "wait" and not node.line.in_registers


def is_bulk_copy(node: Spmd) -> bool:
    """True for the nest of a bulk copy."""
    inner = node
    while isinstance(inner, For) and len(inner.body) == 1:
        (inner,) = inner.body
    return does(inner, "start", "bytes")


def without_events(body: tuple[Node, ...]) -> tuple[Node, ...]:
    """`body` with loops of nothing in place of what is said at barriers: all else keeps its place."""
    return rewrite_nodes(body, lambda v: Loop(v.name, const(1), ()) if is_event(v) else v)


# -- what the hardware takes


def check_boxes(launch: Launch, facts: Facts, extents: Mapping[str, Affine]) -> int:
    """How many bulk copies there are. Raises Refused where one is not as the hardware takes it, or its map is not."""
    copies = [node for node in launch.nodes if isinstance(node, Box)]
    written = {memory_of(name) for node in launch.nodes for name in written_buffers(node)}
    stored = {memory_of(_map_of(node, launch).buffer) for node in copies if node.line.writes_tensors}
    loaded = {memory_of(_map_of(node, launch).buffer) for node in copies if not node.line.writes_tensors}
    for each in launch.maps:
        name = memory_of(each.buffer)
        if name in written or name in stored & loaded:
            raise Refused(f"'{each.buffer}' is copied in bulk, and threads write it, whom no copy waits for")
        _check_map(each, launch, facts)
    places, _ = shared_layout(launch.buffers.values())
    for node in copies:
        each, first = _map_of(node, launch), node.place
        target = launch.buffers[first.buffer]
        _check_swizzle(each, target, places[target.name])
        size, step, place = DTYPE_BYTES[target.dtype], 1, affine(0)
        for number, dim in enumerate(reversed(target.order)):
            place += first.index[dim] * step
            step *= target.shape[dim].const + (0 if number else target.pad)
        off = (place * size) % BOX_PLACE
        begins = facts.is_implied(Condition(off, equal=True), extents, launch.requires)
        _check_coordinates(node, each, launch, facts, extents)
        if places[target.name] % BOX_PLACE or not begins:
            raise Refused(f"a box in '{target.name}' begins at no multiple of {BOX_PLACE} bytes", f"at {place}")
    return len(copies)


def _check_coordinates(node: Box, each: TensorMap, launch: Launch, facts: Facts, extents: Mapping[str, Affine]) -> None:
    """The coordinates of windows are those of some: what the text divides is not negative, places are in windows."""
    if not each.windows:
        return
    view = next(b for b in launch.memory if b.name == each.buffer)
    _, *inner, pixel = node.coordinates
    ends = (extent - 1 - place for place, extent in zip(inner, view.shape[-2:0:-1], strict=True))
    for value in (pixel, *inner, *ends):
        if not facts.is_implied(Condition(value), extents, launch.requires):
            raise Refused(f"a copy by '{each.name}' is of no windows, or of a place outside of them", f"{value} < 0")


def _check_map(each: TensorMap, launch: Launch, facts: Facts) -> None:
    size = DTYPE_BYTES[each.dtype]
    if launch.alignment.get(memory_of(each.buffer), 1) % BULK_UNIT:
        raise Refused(f"'{each.buffer}' is copied in bulk, and nothing says that its memory is aligned")
    rows = Condition(each.row * size % BULK_UNIT, equal=True)
    if len(each.shape) > 1 and not facts.is_implied(rows, {}, launch.requires):
        raise Refused(f"the rows of '{each.buffer}' begin at no multiples of {BULK_UNIT} bytes, as '{each.name}' wants")
    if each.box[0] * size % BULK_UNIT:
        raise Refused(f"the rows of a box of '{each.name}' are no multiples of {BULK_UNIT} bytes")


def _check_swizzle(each: TensorMap, target: Buffer, place: int) -> None:
    """The hardware and the buffer have one element at one place."""
    size = DTYPE_BYTES[each.dtype]
    length = (target.shape[target.order[-1]].const + target.pad) * size
    if target.swizzle != (hardware_swizzle(each.swizzle, size) if each.swizzle else None):
        raise Refused(f"the swizzle of '{target.name}' is not that of '{each.name}'")
    if not each.swizzle:
        return
    if length != each.swizzle or each.box[0] * size != length or (count_rows(target) > 1 and count_rows(target) % 8):
        raise Refused(f"the rows of '{target.name}' are not those that '{each.name}' swizzles")
    if place % SWIZZLED_PLACE:
        raise Refused(f"'{target.name}' is swizzled, and does not begin at a multiple of {SWIZZLED_PLACE} bytes")
