"""Blocks that stand several times become functions, so that the main loop is seen whole (outlining).

    if (full) {                                     const auto load_A_shared = [&](int ko, int ahead) {
        for l: S[0][l] = A[l]                           for l: S[(ko + ahead)%2][l] = A[8*ko + l + 8*ahead]
    }                                               };
    for ko                                          if (full) load_A_shared(0, 0);
        for l: S[(ko + 1)%2][l] = A[8*ko + l + 8]   for ko
                                                        load_A_shared(ko, 1)

A block is a loop or a test whose statements all do one thing with one buffer, which gives the function its name. Blocks
that are equal up to their index expressions are one function; what differs becomes its parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from tilegen.ir.nodes import Buffer, Const, Load, Op, Stmt
from tilegen.ir.walk import accesses, stmts
from tilegen.ir.walk import loops as loops_of
from tilegen.lowering.launch.program import (
    Call,
    Declare,
    For,
    Function,
    If,
    Let,
    Perform,
    Spmd,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    names_in,
    nodes,
    with_body,
)
from tilegen.lowering.outline.generalise import (
    Expressions,
    Parameters,
    Values,
    expressions,
    loop_names,
    shape,
    with_expressions,
)

MOST_PARAMETERS = 3
FEW_LINES = 4  # of a block that is made a function beside others
SOME_LINES = 6  # of one that is worth a function by itself
_MAY_STAND = (Stmt, Perform, VectorCopy, VectorLoad, VectorStore, VectorDeclare, Let, For, If)
Path = tuple[tuple[str, int], ...]  # for each list down to a node its name and the place in it
Purpose = tuple[str, str]  # what is done with which buffer


def make_functions(body: tuple[Spmd, ...], memory: Iterable[Buffer], seen: frozenset[str]) -> tuple[Spmd, ...]:
    """`body` with functions for the blocks that stand several times in it.

    Args:
        seen: the coordinates and sizes, which are known everywhere.
    """
    buffers = {b.name: b for b in memory}
    chosen: list[_Outline] = []
    for places in sorted(_blocks_by_shape(body, buffers), key=_by_repetition):
        disjoint = [b for b in places if not any(_overlap(b.path, path) for o in chosen for path in o.calls)]
        outline = _outline(body, disjoint, buffers, seen) if len(disjoint) > 1 else None
        chosen += [outline] if outline else []
    worth = any(_count_lines(o.function.body) >= SOME_LINES for o in chosen)
    return _with_calls("body", body, (), _name_functions(_join_loads(chosen))) if worth else body


def _by_repetition(blocks: list[_Block]) -> tuple[int, Path]:
    """Sorts first the blocks whose repetitions have most lines."""
    return -blocks[0].lines * (len(blocks) - 1), blocks[0].path


def _overlap(one: Path, other: Path) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


# -- blocks that are alike


@dataclass(frozen=True)
class _Block:
    path: Path
    node: For | If
    purpose: Purpose
    lines: int


def _blocks_by_shape(body: tuple[Spmd, ...], buffers: Mapping[str, Buffer]) -> Iterator[list[_Block]]:
    """The blocks of the program, those of one shape together, where they are worth a function."""
    sizes: dict[tuple[Purpose, int], list[_Block]] = {}
    for block in _find_blocks("body", body, (), buffers):
        sizes.setdefault((block.purpose, block.lines), []).append(block)
    for (_, lines), blocks in sizes.items():
        if lines >= FEW_LINES and len(blocks) > 1:
            shapes: dict[object, list[_Block]] = {}
            for block in blocks:
                shapes.setdefault(shape(block.node), []).append(block)
            yield from shapes.values()


def _find_blocks(name: str, body: tuple[Spmd, ...], path: Path, buffers: Mapping[str, Buffer]) -> Iterator[_Block]:
    """Each loop and test in the list `name` that serves one purpose, outer ones first."""
    for place, node in enumerate(body):
        if isinstance(node, For | If):
            here = (*path, (name, place))
            purposes = {p for v in nodes((node,)) if (p := _purpose(v, buffers))}
            if len(purposes) == 1 and all(isinstance(v, _MAY_STAND) for v in nodes((node,))):
                yield _Block(here, node, purposes.pop(), _count_lines((node,)))
            yield from _find_blocks("body", node.body, here, buffers)
            if isinstance(node, If):
                yield from _find_blocks("orelse", node.orelse, here, buffers)


def _purpose(node: Spmd, buffers: Mapping[str, Buffer]) -> Purpose | None:
    """What a statement does with the buffer that it writes; None for what only prepares another one."""
    match node:
        case Stmt(target=target) if buffers[target.buffer].space == "vector":
            return None
        case Stmt(target=target, value=Load(), reduce=None) | VectorStore(target=target) | VectorCopy(target=target):
            return "store" if buffers[target.buffer].space == "global" else "load", target.buffer
        case Perform():
            return _purpose(stmt, buffers) if (stmt := next(stmts(node.origin), None)) else None
        case Stmt(target=target, value=Const(), reduce=None):
            return "start", target.buffer
        case Stmt(target=target, value=Op("*"), reduce="sum"):
            return "multiply", target.buffer
        case Stmt(target=target):
            return "update" if node.reduce else "compute", target.buffer
        case _:
            return None


def _count_lines(body: tuple[Spmd, ...]) -> int:
    """How many lines the text of these nodes has, about."""
    count = 0
    for node in body:
        match node:
            case For():
                count += 3 + _count_lines(node.body)
            case If():
                count += 2 + _count_lines(node.body) + (1 + _count_lines(node.orelse) if node.orelse else 0)
            case _:
                count += 1
    return count


# -- one function for blocks that are alike


@dataclass(frozen=True)
class _Outline:
    """A function, its calls by their paths, and the path of the node that it is to stand before.

    `space` is the memory that it writes. A call is made in place of `count` nodes.
    """

    purpose: Purpose
    function: Function
    calls: dict[Path, Call]
    before: Path
    space: str
    count: int = 1

    @property
    def is_tested(self) -> bool:
        return any(isinstance(v, If) for v in nodes(self.function.body))


def _outline(
    body: tuple[Spmd, ...], places: list[_Block], buffers: Mapping[str, Buffer], seen: frozenset[str]
) -> _Outline | None:
    """What `places` have in common as a function, or None where that takes too many parameters."""
    first, common = places[0].node, _common_path([b.path for b in places])
    inside = nodes((first,))
    own = {v.name for v in inside if isinstance(v, For | Let)}
    own |= {loop.name for v in inside if isinstance(v, Perform) for loop in loops_of(v.origin)}
    rows = [expressions(b.node) for b in places]
    views = [_view(body, common[: n + 1], seen, [b.path for b in places]) for n in range(len(common))]
    wanted = names_in(v for row in rows for v in row.printed) & views[-1].names
    fitting = [n for n, v in enumerate(views) if wanted <= v.names and _can_stand(inside, v, own, buffers)]
    if not fitting:
        return None
    # As far out as it can be: the loops that it is called in are then seen whole.
    before, view = common[: fitting[0] + 1], views[fitting[0]]
    loops = [f for f in nodes(body) if isinstance(f, For)]
    extents = {f.name: f.extent.const for f in loops if f.extent.is_const}
    counted = frozenset(f.name for f in loops if f.kind == "serial")
    parameters = Parameters(frozenset(view.names | own), extents, counted)

    def name(values: Values, otherwise: str) -> str:
        taken = view.names | own | parameters.values.keys()
        wanted = next((n for n in loop_names(values) if n not in taken and "." not in n), None)
        return wanted or _free_name(otherwise, taken)

    printed = parameters.general([row.printed for row in rows], name)
    shown = sorted(parameters.values, key=lambda n: not n.startswith("slot"))
    count = itertools.count()  # what is not printed has names that no loop can have
    instances = parameters.general([row.instances for row in rows], lambda *_: f"{places[0].purpose[1]} {next(count)}")
    unprinted = [n for n in parameters.values if n not in shown]
    if len(shown) > MOST_PARAMETERS or any(names_in(v) & own for v in parameters.values.values()):
        return None
    made = with_expressions(first, Expressions(printed, instances))
    values = [{name: column[n] for name, column in parameters.values.items()} for n in range(len(places))]
    calls = {
        block.path: Call("", tuple(row[name] for name in shown), tuple(row[name] for name in unprinted))
        for block, row in zip(places, values, strict=True)
    }
    purpose = places[0].purpose
    function = Function("", tuple(shown), tuple(unprinted), (made,))
    return _Outline(purpose, function, calls, before, buffers[purpose[1]].space)


def _free_name(name: str, taken: Set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}{number}"
    return found


def _common_path(paths: list[Path]) -> Path:
    """The path of the first node of the innermost list that has all of these in it."""
    first = min(paths)
    depth = next(n for n in range(len(first)) if any(p[: n + 1] != first[: n + 1] for p in paths))
    if any(p[depth][0] != first[depth][0] for p in paths):  # in the two branches of one test
        return first[:depth]
    return (*first[:depth], (first[depth][0], min(p[depth][1] for p in paths)))


@dataclass(frozen=True)
class _View:
    """What is known in front of a node, and is still the same in other places: names of integers, and registers."""

    names: frozenset[str]
    registers: frozenset[str]


def _view(body: tuple[Spmd, ...], before: Path, seen: frozenset[str], places: list[Path]) -> _View:
    known = _declarations_before(body, before)
    since = {each for place in places for each in _declarations_before(body, place)[len(known) :]}
    names, registers = ({name for kind, name in known if kind == wanted} for wanted in ("integer", "register"))
    renewed = {name for _, name in since}
    return _View((seen | names) - renewed, frozenset(registers - renewed))


def _declarations_before(body: tuple[Spmd, ...], path: Path) -> list[tuple[str, str]]:
    """The loops around the node at `path`, and what is declared in front of it, in their order."""
    found: list[tuple[str, str]] = []
    node: Spmd | None = None
    for name, place in path:
        items = body if node is None else getattr(node, name)
        if isinstance(node, For):
            found.append(("integer", node.name))
        for earlier in items[:place]:
            match earlier:
                case Let(known):
                    found.append(("integer", known))
                case Declare(known):
                    found.append(("register", known))
                case _:
                    pass
        node = items[place]
    return found


def _can_stand(inside: list[Spmd], view: _View, own: set[str], buffers: Mapping[str, Buffer]) -> bool:
    """True if the nodes of a block find all that they speak of in front of the function, apart from integers."""
    vectors = {v.name for v in inside if isinstance(v, VectorLoad | VectorDeclare)}
    if own & view.names:
        return False
    for node in inside:
        if isinstance(node, For) and not node.extent.names() <= view.names | own:
            return False
        if isinstance(node, VectorStore) and node.name not in vectors:
            return False
    arrays = {name for name in view.registers if buffers[name].shape}
    found = {"register": arrays, "vector": vectors, "lanes": set()}
    return all(a.buffer in found.get(buffers[a.buffer].space, {a.buffer}) for a in accesses(inside[0]))


# -- loads that always stand together


def _join_loads(outlines: list[_Outline]) -> list[_Outline]:
    """`outlines` with one function for those that load into one kind of memory, and are always called together."""
    for one in outlines:
        for other in outlines:
            if one is not other and _are_called_together(one, other):
                rest = [o for o in outlines if o is not one and o is not other]
                return _join_loads([_join(one, other), *rest])
    return outlines


def _are_called_together(one: _Outline, other: _Outline) -> bool:
    """True if each call of `one` stands before one of `other` with the same arguments."""
    loads = one.purpose[0] == other.purpose[0] == "load" and one.space == other.space
    if not loads or one.is_tested != other.is_tested or one.function.parameters != other.function.parameters:
        return False
    pairs = [(call, other.calls.get(_path_behind(path, one.count))) for path, call in one.calls.items()]
    if len(pairs) != len(other.calls):
        return False
    return all(beside is not None and beside.arguments == call.arguments for call, beside in pairs)


def _path_behind(path: Path, count: int) -> Path:
    name, place = path[-1]
    return (*path[:-1], (name, place + count))


def _join(one: _Outline, other: _Outline) -> _Outline:
    """One function that does the work of two that are called together."""
    calls: dict[Path, Call] = {}
    for path, call in one.calls.items():
        beside = other.calls[_path_behind(path, one.count)]
        calls[path] = replace(call, unprinted=call.unprinted + beside.unprinted)
    unprinted = one.function.unprinted + other.function.unprinted
    function = replace(one.function, unprinted=unprinted, body=one.function.body + other.function.body)
    what = {"register": "registers"}.get(one.space, one.space)
    # As far in as the one that finds less outside.
    before = _common_path(list(one.calls))[: max(len(one.before), len(other.before))]
    return _Outline(("load", what), function, calls, before, one.space, one.count + other.count)


# -- names, and calls in place of the blocks


def _name_functions(outlines: list[_Outline]) -> list[_Outline]:
    """The functions with their names: what they do, and with what; `partial` where another does it without tests."""
    outlines = sorted(outlines, key=lambda o: min(o.calls))
    whole = {o.purpose for o in outlines if not o.is_tested}
    multiplied = {o.purpose for o in outlines if o.purpose[0] == "multiply"}
    taken: frozenset[str] = frozenset()
    found: list[_Outline] = []
    for outline in outlines:
        verb, buffer = outline.purpose
        name = verb if multiplied == {outline.purpose} else f"{verb}.{buffer}"
        name = _free_name(f"{name}.partial" if outline.is_tested and outline.purpose in whole else name, taken)
        taken |= {name}
        calls = {path: replace(call, function=name) for path, call in outline.calls.items()}
        found.append(replace(outline, function=replace(outline.function, name=name), calls=calls))
    return found


def _with_calls(name: str, body: tuple[Spmd, ...], path: Path, outlines: list[_Outline]) -> tuple[Spmd, ...]:
    """The list `name` at `path` with functions, and calls of them."""
    out: list[Spmd] = []
    behind = 0  # the nodes up to here have been made one call
    for place, node in enumerate(body):
        here = (*path, (name, place))
        out += (o.function for o in outlines if o.before == here)
        outline = next((o for o in outlines if here in o.calls), None)
        match node:
            case _ if outline is not None:
                out.append(outline.calls[here])
                behind = place + outline.count
            case _ if place < behind:
                pass
            case For():
                out.append(with_body(node, _with_calls("body", node.body, here, outlines)))
            case If():
                branches = (_with_calls(each, getattr(node, each), here, outlines) for each in ("body", "orelse"))
                out.append(with_body(node, *branches))
            case _:
                out.append(node)
    return tuple(out)
