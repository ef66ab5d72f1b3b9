"""Vector accesses read back as what their lanes do; and whether each is one whole, aligned vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.atomics import WIDE
from tilegen.ir.hardware.limits import ACCESS_LIMIT
from tilegen.ir.hardware.memory import row_of
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, ONLY, Access, Buffer, Condition, Load, Stmt
from tilegen.ir.reductions.ragged import only_where
from tilegen.ir.walk import accesses, loads, rewrite_accesses, substitute, writes
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    For,
    If,
    Spmd,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    nodes,
    with_lists,
)
from tilegen.lowering.launch.timelines import COPIES
from tilegen.poly import Facts, Refused, Unproved
from tilegen.proof.reading.on_timelines import started

_WIDTHS = (2, 4, 8, 16)
_VECTORS = (VectorLoad, VectorStore, VectorCopy)


@dataclass
class _Open:
    """A vector variable whose lanes are being assigned."""

    width: int
    lanes: list[Stmt] = field(default_factory=list)


@dataclass(frozen=True)
class _Variables:
    """What the vector variables in sight stand for."""

    loaded: dict[str, tuple[Access, int]]
    opened: dict[str, _Open]
    buffers: Mapping[str, Buffer]
    names: frozenset[str]

    def copy(self) -> _Variables:
        return _Variables(dict(self.loaded), {}, self.buffers, self.names)


def expand_vectors(body: tuple[Spmd, ...], launch: Launch) -> tuple[Spmd, ...]:
    """`body` without vector nodes: loops over their lanes, or the lanes one by one.

    Raises:
        Unproved: vectors are used in a way that this does not follow.
    """
    vectors = frozenset(b.name for b in launch.buffers.values() if b.space == "vector")
    return _expand(body, _Variables({}, {}, launch.buffers, vectors))


def _expand(body: tuple[Spmd, ...], known: _Variables) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        match node:
            case Stmt():
                out += _statement(node, known)
            case For() | If():
                out.append(with_lists(node, lambda body: _expand(body, known.copy())))
            case VectorLoad(name, _, width, source):
                known.loaded[name] = (source, width)
            case VectorDeclare(name, _, width):
                known.opened[name] = _Open(width)
            case VectorStore():
                out += _expand_store(known, node)
            case VectorCopy():
                out.append(_expand_copy(node, known))
            case _:
                out.append(node)
        _forget(node, known)
    return tuple(out)


def _forget(node: Spmd, known: _Variables) -> None:
    """A variable stands for memory only as long as nothing is written there."""
    if not known.loaded:
        return
    changed = {name for v in nodes((node,)) for name in written_buffers(v)}
    for name in [n for n, (source, _) in known.loaded.items() if source.buffer in changed]:
        del known.loaded[name]


def written_buffers(value: object) -> tuple[str, ...]:
    """The buffers that a node writes itself: not by an instruction, which writes none in global memory."""
    match value:
        case Stmt():
            return tuple(name for name, _ in writes(value))
        case VectorStore(target=target) | VectorCopy(target=target):
            return (target.buffer,)
        case _:
            return ()


def _statement(stmt: Stmt, known: _Variables) -> tuple[Spmd, ...]:
    if known.names.isdisjoint([access.buffer for access in accesses(stmt)]):
        return (stmt,)

    def read_lane(value: Load) -> Load:
        if value.buffer not in known.names:
            return value
        if value.buffer not in known.loaded:
            raise Unproved(f"'{value.buffer}' is read where it may be out of date")
        source, width = known.loaded[value.buffer]
        lane = value.index[0]
        if not lane.is_const or not 0 <= lane.const < width:
            raise Refused(f"'{value.buffer}' has no lane {lane}")
        return Load(source.buffer, _lane_index(source, lane, known.buffers), value.dtype)

    stmt = replace(stmt, value=rewrite_accesses(stmt.value, read_lane))
    if stmt.target.buffer not in known.names:
        return (stmt,)
    if stmt.target.buffer not in known.opened or stmt.reduce:
        raise Refused(f"'{stmt.target.buffer}' is written where it is not declared")
    known.opened[stmt.target.buffer].lanes.append(stmt)
    return ()


def _expand_store(known: _Variables, node: VectorStore) -> tuple[Spmd, ...]:
    name, width, target, update, where = node.name, node.width, node.target, node.update, node.where
    opened = known.opened.pop(name, None)
    order = [const(lane) for lane in range(width)]
    if opened is None or [s.target.index[0] for s in opened.lanes] != order:
        raise Refused(f"not each lane of '{name}' has a value when it is stored")
    if any(load.buffer == target.buffer for s in opened.lanes for load in loads(s.value)):
        raise Unproved(f"the lanes of '{name}' read '{target.buffer}', and are stored there")
    places = [Access(target.buffer, _lane_index(target, lane, known.buffers)) for lane in order]
    memory = known.buffers[target.buffer]
    if update and (memory.space != "global" or (update, memory.dtype, width) not in WIDE):
        raise Refused(f"there is no atomic {update} of {width} neighbours in '{target.buffer}' at once")
    stmts = [replace(s, target=t) for s, t in zip(opened.lanes, places, strict=True)]
    if where:
        stmts = [replace(s, value=only_where(where, s.value), reduce=ONLY) for s in stmts]
    return tuple(replace(s, reduce=update, atomic=True) if update else s for s in stmts)


def _expand_copy(node: VectorCopy, known: _Variables) -> Spmd:
    if node.origin is None:
        raise Unproved(f"it is not known which statement fills '{node.target.buffer}'")
    lane = var(f"lane{node.width}") if node.width > 1 else const(0)
    stmt = replace(
        substitute(node.origin, {node.lane: lane}) if node.lane else node.origin,
        target=Access(node.target.buffer, _lane_index(node.target, lane, known.buffers)),
        value=node.value(Access(node.source.buffer, _lane_index(node.source, lane, known.buffers))),
    )
    stmt = started(stmt, COPIES) if node.asynchronous else stmt
    return For(f"lane{node.width}", const(node.width), (stmt,)) if node.width > 1 else stmt


def _lane_index(access: Access, lane: Affine, buffers: Mapping[str, Buffer]) -> tuple[Affine, ...]:
    """The index of a lane of the vector that begins at `access`."""
    order = buffers[access.buffer].order
    if not order:
        raise Refused(f"'{access.buffer}' has one element, and is used as a vector")
    return tuple(i + lane if d == order[-1] else i for d, i in enumerate(access.index))


# -- alignment


def check_aligned(launch: Launch, facts: Facts, extents: Mapping[str, Affine]) -> int:
    """How many vector accesses there are. Raises Refused where one is not aligned at all admitted sizes."""
    found = [each for value in launch.nodes if isinstance(value, _VECTORS) for each in _accesses(value)]
    for access, dtype, width in dict.fromkeys(found):
        _check_access(launch, facts, extents, access, dtype, width)
    return len(found)


def _accesses(value: VectorLoad | VectorStore | VectorCopy) -> tuple[tuple[Access, str, int], ...]:
    match value:
        case VectorLoad(_, dtype, width, access) | VectorStore(_, dtype, width, access):
            return ((access, dtype, width),)
        case VectorCopy(dtype=dtype, width=width, target=target, source=source):
            return (target, dtype, width), (source, dtype, width)


def _check_access(
    launch: Launch, facts: Facts, extents: Mapping[str, Affine], access: Access, dtype: str, width: int
) -> None:
    buffer = launch.buffers[access.buffer]
    size = width * DTYPE_BYTES[dtype]
    if buffer.windows:
        raise Refused(f"an address in '{buffer.name}' is used, and windows have none")
    if width == 1 or buffer.space == "register" and dtype == buffer.dtype:
        return  # registers have no addresses

    def access_text() -> str:
        return f"{access.buffer}[{', '.join(map(str, access.index))}]"

    if width not in _WIDTHS or size > ACCESS_LIMIT or buffer.space not in ("global", "shared") or dtype != buffer.dtype:
        raise Refused(f"{access_text()} is no vector of {width} {dtype}")
    if buffer.space == "global" and launch.alignment.get(memory_of(access.buffer), 1) % size:
        raise Refused(
            f"{access_text()} is used as a vector of {size} bytes, and nothing says that its memory is aligned"
        )
    if buffer.swizzle and not buffer.swizzle.keeps(width):
        raise Refused(
            f"{access_text()} is a vector of {width} elements, and a swizzle moves units of {buffer.swizzle.unit}"
        )
    *outer, fastest = (access.index[d] for d in buffer.order)
    row = row_of(buffer)
    wanted = [fastest, *([row] if any(i != const(0) for i in outer) else [])]
    for value in wanted:
        off = value % width
        if off != const(0) and not facts.is_implied(Condition(off, equal=True), extents, launch.requires):
            what = "its row" if value is row else "it"
            raise Refused(
                f"a vector of {width} elements at {access_text()} is not aligned",
                f"{what} begins at {value}, which is no multiple of {width} at all sizes",
            )
