"""Fragments dealt out to the lanes of a warp or warpgroup: the tree in which each lane has its registers.

    register C.reg: f32[4, 16, 8]  in fragments     register C.reg: f32[4, 32, 4]
    for f < 4                                       for f < 4
      for i < 16  matrix                              for lane < 32  thread.x
        for j < 8  matrix                               for i_high < 2
          C.reg[f, i, j] = 0                              for j_low < 2
                                                            C.reg[f, lane, i_high*2 + j_low] = 0

The layouts permute bits (lane_bits.py). What an instruction performs stays outside of the loop over lanes, and speaks
of places: element [i, j] is in lane i%8*4 + j/2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.ranges import rejoin, simplify
from tilegen.ir.hardware.lane_bits import LaneBits, NotDealt, count_of, lane_bits, runs_of_bits, value_by_lane
from tilegen.ir.nodes import Access, Buffer, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import (
    accesses,
    constant_extents,
    leaves,
    loop_names,
    loops,
    rewrite_accesses,
    rewrite_indices,
    rewrite_nodes,
    substitute,
)


def deal_fragments(tree: Tree) -> Tree:
    """`tree` with the registers of lanes in place of fragments. Raises NotDealt where that cannot be."""
    held = {b.name: b for b in tree.buffers if b.fragment}
    if not held:
        return tree
    taken = {*loop_names(tree), *tree.kernel.sizes, *(b.name for b in tree.buffers)}
    lane = "lane"
    while lane in taken:
        lane += "_"
    plain = {b.name: b.scope for b in tree.buffers if b.space == "register" and not b.fragment}
    deal = _Deal(held, plain, lane, taken)
    body = tuple(deal.node(node, {}) for node in tree.body)
    buffers = tuple(replace(_buffer_of_lanes(b), scope=deal.scopes.get(b.scope or "", b.scope)) for b in tree.buffers)
    return replace(tree, buffers=buffers, body=body)


def registers_of(buffer: Buffer) -> int:
    """The elements of one fragment that a lane has."""
    assert buffer.fragment
    return buffer.fragment.elements_of_a_lane


def _buffer_of_lanes(buffer: Buffer) -> Buffer:
    if not buffer.fragment:
        return buffer
    others = [extent for d, extent in enumerate(buffer.shape) if d not in buffer.fragment_dims]
    shape = (*others, const(buffer.fragment.lanes), const(registers_of(buffer)))
    return replace(buffer, shape=shape, order=tuple(range(len(shape))))


def register_index(buffer: Buffer, index: tuple[Affine, ...], extents: Mapping[str, int]) -> tuple[Affine, ...]:
    """Where an element of a buffer in fragments lies: its other indices, its lane, its register."""
    assert buffer.fragment
    places = dict(zip(buffer.fragment.indices, (index[d] for d in buffer.fragment_dims), strict=True))
    others = tuple(i for d, i in enumerate(index) if d not in buffer.fragment_dims)
    lane, register = buffer.fragment.lane, buffer.fragment.within
    return (*others, *(rejoin(simplify(each.substitute(places), extents)) for each in (lane, register)))


# -- nests


@dataclass
class _Deal:
    """The work on one tree.

    Attributes:
        held: the buffers in fragments.
        registers: the other register buffers, each with the loop that it lives in.
        lane: the name of the loops over lanes.
        taken: names in use.
        scopes: the loops that are gone, and the one that is there instead.
    """

    held: Mapping[str, Buffer]
    registers: Mapping[str, str | None]
    lane: str
    taken: set[str]
    scopes: dict[str, str] = field(default_factory=dict)
    parts: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def node(self, node: Node, extents: Mapping[str, int]) -> Node:
        """`node` inside loops of these extents."""
        if not isinstance(node, Loop):
            if used := self._held_in(node):
                raise NotDealt(
                    f"'{used[0].buffer}' is used in no loop over its elements",
                    "one lane has an element, and others get it through shared memory",
                )
            return node
        extents = {**extents, node.name: node.extent.const} if node.extent.is_const else extents
        if node.performed:
            points = _with_points(node)
            performed: Loop = self._with_registers(points, {**extents, **constant_extents(points)})
            return performed
        if node.name in self._over_elements(node) and not self._is_shared(node, extents):
            lanes = self._lanes_of(node)
            body = self._deal_nest(node, lanes, extents)
            return Loop(self.lane, const(lanes), body, "thread.x", step=node.step, span=node.span)
        return replace(_each_lane(node), body=tuple(self.node(child, extents) for child in node.body))

    def _is_shared(self, node: Loop, extents: Mapping[str, int]) -> bool:
        """True if threads share a copy in the loop, which is the same for all lanes: all of them run it."""
        known = {**extents, **constant_extents(node)}
        layouts = (lane_bits(self.held[a.buffer], a.index, known).get(node.name, ()) for a in self._held_in(node))
        copied = any(each.kind in ("cooperative", "bulk") for each in loops(node))
        return copied and all(bit is None for bits in layouts for bit in bits)

    def _held_in(self, value: Any) -> list[Access | Load]:
        return [access for access in accesses(value) if access.buffer in self.held]

    def _over_elements(self, node: Node) -> set[str]:
        """The loops that stand in the indices of fragments, but for those of instructions."""
        if isinstance(node, Loop):
            return set() if node.performed else set().union(*map(self._over_elements, node.body))
        dims = ((a.index, self.held[a.buffer].fragment_dims) for a in self._held_in(node))
        return {name for index, which in dims for d in which for name in index[d].names()}

    def _with_registers(self, value: Any, extents: Mapping[str, int]) -> Any:
        """`value` with its accesses to fragments by register."""

        def change(access: Any) -> Any:
            buffer = self.held.get(access.buffer)
            return replace(access, index=register_index(buffer, access.index, extents)) if buffer else access

        return rewrite_accesses(value, change)

    def _lanes_of(self, node: Node) -> int:
        """How many lanes hold the fragments in `node` together."""
        used = {a.buffer: f.lanes for a in self._held_in(node) if (f := self.held[a.buffer].fragment)}
        if len(set(used.values())) > 1:
            (one, few), (other, many) = sorted(used.items(), key=lambda pair: pair[1])[:: len(used) - 1]
            raise NotDealt(
                f"{few} lanes hold '{one}' together, and {many} hold '{other}'",
                "fragments that are used together are those of one warp, or of one warpgroup",
            )
        return next(iter(used.values()))

    def _deal_nest(self, loop: Loop, lanes: int, extents: Mapping[str, int]) -> tuple[Node, ...]:
        """The nest of `loop` for one lane."""
        extents = {**extents, **constant_extents(loop)}
        bits: dict[str, LaneBits] = {}
        for path, stmt in leaves((loop,)):
            if any(each.performed for each in path):
                raise NotDealt(f"'{stmt.target.buffer}' is computed by an instruction inside '{loop.name}'")
            in_stmt: dict[str, LaneBits] = {}
            for access in self._held_in(stmt):
                found = lane_bits(self.held[access.buffer], access.index, extents)
                for name, layout in found.items():
                    if in_stmt.setdefault(name, layout) != layout:
                        raise _lanes_differ(access.buffer, name)
                    if bits.setdefault(name, layout) != layout:
                        raise _lanes_differ(access.buffer, name)
            _check_targets(stmt, in_stmt)
            _check_registers(self.registers, stmt, path)
            if in_stmt and prod(2 ** sum(b is not None for b in layout) for layout in in_stmt.values()) != lanes:
                raise NotDealt(f"the loops around '{stmt.target.buffer}' do not tell which lane has the element")
        values: dict[str, Affine] = {}
        parts: dict[str, list[Loop]] = {}
        for name, layout in bits.items():
            values[name], parts[name] = self._split(name, lanes, layout, extents[name])
        known = {**extents, self.lane: lanes} | {p.name: p.extent.const for each in parts.values() for p in each}
        return self._nest((loop,), parts, known, values)

    def _split(self, name: str, lanes: int, layout: LaneBits, extent: int) -> tuple[Affine, list[Loop]]:
        """The value of a loop for a lane, and the loops of every lane that are left of it, outermost first."""
        rest: dict[int, Affine] = {}
        left: list[Loop] = []
        for low, high in runs_of_bits(layout):
            if layout[low] is None:
                part = name if high - low == len(layout) else self._part(name, low, high)
                rest[low] = var(part)
                left.insert(0, Loop(part, const(count_of(layout, low, high, extent)), ()))
        return value_by_lane(layout, var(self.lane), lanes, rest), left

    def _part(self, name: str, low: int, high: int) -> str:
        """The name of the loop over some bits of another one."""
        if (name, low, high) not in self.parts:
            word = f"{name}_{'high' if low else 'low'}"
            while word in self.taken:
                word += "_"
            self.taken.add(word)
            self.parts[name, low, high] = word
        return self.parts[name, low, high]

    def _nest(
        self,
        body: tuple[Node, ...],
        parts: Mapping[str, list[Loop]],
        known: Mapping[str, int],
        values: Mapping[str, Affine],
    ) -> tuple[Node, ...]:
        out: list[Node] = []
        for node in body:
            if not isinstance(node, Loop):
                new = rewrite_indices(node, lambda i: simplify(i.substitute(values), known))
                out.append(self._at_own_lane(self._with_registers(new, known)))
                continue
            inner = self._nest(node.body, parts, known, values)
            if node.name not in parts:
                out.append(replace(_each_lane(node), body=inner))
                continue
            for part in reversed(parts[node.name]):
                inner = (replace(_each_lane(node), name=part.name, extent=part.extent, body=inner),)
            names = [part.name for part in parts[node.name]]
            if node.name not in names:
                self.scopes[node.name] = names[-1] if names else self.lane
            out += inner
        return tuple(out)

    def _at_own_lane(self, stmt: Any) -> Any:
        """`stmt`, which uses its lane's registers alone; NotDealt if it does not."""
        for access in self._held_in(stmt):
            if access.index[-2] != var(self.lane):
                raise NotDealt(
                    f"lanes would need registers of others: '{access.buffer}' is used in lane {access.index[-2]}",
                    "fragments that are used together have one layout; through shared memory it changes",
                )
        return stmt


def _check_targets(stmt: Stmt, layouts: Mapping[str, LaneBits]) -> None:
    """What some lanes reduce to one element, and others to another, no lane can reduce alone."""
    lanes = [name for name, bits in layouts.items() if any(bit is not None for bit in bits)]
    for access in (stmt.target, stmt.best) if stmt.reduce else ():
        over = [name for name in lanes if access and all(name not in i.names() for i in access.index)]
        if access and over and len(over) < len(lanes):
            digit = over[0] if None not in layouts[over[0]] else "that digit"
            way = f"rfactor({stmt.name}, {digit}) gives each lane a result of its own"
            raise NotDealt(
                f"'{access.buffer}' is reduced along '{over[0]}', and several lanes have its terms",
                way if digit == over[0] else f"tile '{over[0]}' into digits, one that distinguishes the lanes: {way}",
            )


def _check_registers(registers: Mapping[str, str | None], stmt: Stmt, nest: tuple[Loop, ...]) -> None:
    """Registers beside the fragments are each lane's own: they do not outlive the nest."""
    inside = {loop.name for loop in nest}
    for access in accesses(stmt):
        if access.buffer in registers and registers[access.buffer] not in inside:
            raise NotDealt(
                f"'{access.buffer}' is used with fragments, and is none: each lane would have all of it",
                f"put the step that makes '{access.buffer}' before tensorize, so that it is held by the same lanes",
            )


def _with_points(nest: Loop) -> Loop:
    """What an instruction performs, in loops with names of its own: `i.point`. Loops over lanes keep the others."""
    names = {loop.name: var(f"{loop.name}.point") for loop in loops(nest)}
    (renamed,) = rewrite_nodes(
        (substitute(nest, names),), lambda v: replace(v, name=f"{v.name}.point") if isinstance(v, Loop) else v
    )
    assert isinstance(renamed, Loop)
    return renamed


def _each_lane(loop: Loop) -> Loop:
    """A loop that every lane runs through."""
    return replace(loop, kind="serial") if loop.kind == "matrix" else loop


def _lanes_differ(buffer: str, loop: str) -> NotDealt:
    return NotDealt(
        f"the layouts of '{buffer}' and of what is used with it give an element of '{loop}' to different lanes",
        "fragments that are used together have one layout; through shared memory it changes",
    )
