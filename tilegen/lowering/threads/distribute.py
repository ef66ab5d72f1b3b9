"""Cooperative loops are dealt out: each thread of the block runs its share of the iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, TypeVar

from tilegen.ir.affine import Affine, const, var
from tilegen.ir.facts.ranges import simplify
from tilegen.ir.hardware.budgets import Budgets, budgets_of
from tilegen.ir.hardware.lanes import WARP
from tilegen.ir.hardware.threads import GROUPS, consumers_and_row, ring_of
from tilegen.ir.nodes import THREAD_KINDS, Condition, Loop, Node, Tree
from tilegen.ir.walk import add_guard, constant_extents, loops, rewrite_indices, rewrite_nodes, stmts

T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """The threads of a launch's block.

    Attributes:
        size: threads along x, y and z; 1 where no loop is bound.
        loops: for each bound axis, fastest first, a loop that runs over all of it.
        tid: the name that stands for the flat number of a thread.
        flat: that number in the loops' variables, x fastest.
        consumers: what holds of the threads that are no producers; None where all are alike.
        budgets: the registers of a thread, where it matters who it is.
        turns: the block loop whose blocks share one, as groups of its threads, each with what is said here.
    """

    size: tuple[int, int, int]
    loops: tuple[Loop, ...]
    tid: str
    flat: Affine
    consumers: Condition | None = None
    budgets: Budgets | None = None
    turns: str = ""

    @property
    def consuming(self) -> int:
        """How many threads are consumers, of one group."""
        if self.consumers is None or self.turns:
            return self.threads
        rows = self.loops[-1].extent.const
        return self.threads // (rows + 1) * rows

    @property
    def launched(self) -> tuple[int, int, int]:
        """Threads along x, y and z, with both groups where there are turns, and a row for the producer after them."""
        return (self.threads, GROUPS + 1, 1) if self.turns else self.size

    @property
    def left_out(self) -> int:
        """The threads of the last row that are not launched: the producer takes a warp of it, or all for registers."""
        if self.budgets:
            return 0
        return self.threads - WARP if self.turns else max(0, self.threads - self.consuming - WARP)

    @property
    def first_producer(self) -> Condition:
        """That a thread is the first one after the consumers."""
        return Condition(var(self.tid) - (0 if self.turns else self.consuming), equal=True)

    @property
    def threads(self) -> int:
        return prod(self.size)


@dataclass(frozen=True)
class Shares:
    """Which iterations of a cooperative copy a thread runs.

    Attributes:
        element: the number of the iteration.
        values: what each of the copy's loops is then, in loop and thread variables.
        of_element: tells the same in terms of that number, called `<buffer>.e`.
    """

    element: Affine
    values: Mapping[str, Affine]
    of_element: Callable[[], Mapping[str, Affine]]


def without_single(tree: Tree) -> Tree:
    """`tree` with ordinary loops for those over one thread, which need no coordinate. Where producers are a row of
    threads after the consumers all stay."""

    def change(value: Any) -> Any:
        single = isinstance(value, Loop) and value.extent == const(1) and value.kind in THREAD_KINDS
        return replace(value, kind="serial") if single else value

    specialized = any(loop.specialized for loop in loops(tree.body))
    return tree if specialized else replace(tree, body=rewrite_nodes(tree.body, change))


def block_of(node: Node, taken: frozenset[str]) -> Block:
    """The block that `node`, one launch, runs with.

    Along each axis it is as long as the longest loop bound there. `taken` are names in use.
    """
    size: list[int] = []
    longest: list[Loop] = []
    flat, stride = const(0), 1
    for kind in THREAD_KINDS:
        bound = [loop for loop in loops(node) if loop.kind == kind]
        size.append(max((loop.extent.const for loop in bound), default=1))
        if bound:
            first = next(loop for loop in bound if loop.extent.const == size[-1])
            longest.append(replace(first, body=()))
            flat += var(first.name) * stride
            stride *= size[-1]
    consumers, budgets = None, None
    if ring := ring_of(node):
        last, (consuming, row) = longest[-1], consumers_and_row(node)
        consumers = Condition(last.extent - 1 - var(last.name))
        if ring.turns:
            consumers = Condition(GROUPS - 1 - var(ring.turns))
        else:
            size[THREAD_KINDS.index(last.kind)] += 1
        if ring.registers:
            budgets = budgets_of(ring.registers, consuming, row, max(loop.resident for loop in loops(node)))
    tid = longest[0].name if len(longest) == 1 else "tid"
    while tid in taken and len(longest) != 1:
        tid += "_"
    return Block((size[0], size[1], size[2]), tuple(longest), tid, flat, consumers, budgets, ring.turns if ring else "")


def distribute(node: Node, block: Block) -> tuple[Node, dict[str, Shares]]:
    """`node` with thread loops in place of its cooperative loops; `block.tid` is the thread's number.

    E iterations and T threads make a loop `<buffer>.l` of ceil(E / T) loads a thread, neighbouring
    threads taking neighbouring iterations; what is left over in the last round is guarded. With it, by the name
    of that loop, which iterations a thread runs.
    """
    extents, shares = constant_extents(node), dict[str, Shares]()

    def deal(value: Any) -> Any:
        return _deal_out(value, block, extents, shares) if isinstance(value, Loop) else value

    return _rewrite_outermost(node, deal), shares


def _rewrite_outermost(node: Node, change: Any) -> Node:
    """`node` with `change` made to every outermost cooperative loop outside thread loops."""
    if not isinstance(node, Loop):
        return node
    if node.kind == "cooperative":
        new: Node = change(node)
        return new
    if node.kind in THREAD_KINDS:
        return _make_serial(node)
    return replace(node, body=tuple(_rewrite_outermost(child, change) for child in node.body))


def _deal_out(loop: Loop, block: Block, extents: Mapping[str, int], shares: dict[str, Shares]) -> Node:
    if not block.loops:
        return _make_serial(loop)
    nest, body = _cooperative_chain(loop)
    around, nest = _split_nest(nest, block.consuming)
    for inner in reversed(around):
        body = (replace(inner, body=body, kind="unrolled"),)
    total = prod(inner.extent.const for inner in nest)
    rounds = -(-total // block.consuming)
    name = _round_name(next((s.name for s in stmts(body)), loop.name), {inner.name for inner in loops(loop)})
    element = var(name) * block.consuming + var(block.tid)
    known = {**extents, name: rounds, block.tid: block.consuming}
    values = _in_coordinates(_loop_values(element, nest, known), block, known)
    number = f"{name[:-1]}e"
    shares[name] = Shares(element, values, partial(_loop_values, var(number), nest, {**known, number: total}))
    body = simplify_indices(tuple(_make_serial(child) for child in body), values, known)
    if total % block.consuming:
        body = add_guard(body, Condition(total - 1 - element))
    new = Loop(name, const(rounds), body, "unrolled", span=loop.span, step=loop.step)
    for thread in block.loops:
        new = replace(thread, body=(new,))
    return new


def _split_nest(nest: list[Loop], threads: int) -> tuple[list[Loop], list[Loop]]:
    """The outermost loops of `nest` that each thread runs whole, and the others, which are dealt out.

    A thread then finds its place in the inner loops once for all iterations of the outer ones. That is worth
    some idle threads in the last round, but not half as many rounds again.
    """
    least = -(-prod(loop.extent.const for loop in nest) // threads)
    for count in range(len(nest) - 1, 0, -1):
        outer, inner = (prod(loop.extent.const for loop in part) for part in (nest[:count], nest[count:]))
        if 2 * outer * -(-inner // threads) < 3 * least:
            return nest[:count], nest[count:]
    return [], nest


def _round_name(buffer: str, taken: set[str]) -> str:
    """`<buffer>.l`, unless a dimension is called so or `<buffer>.e`, as the number of an element is."""
    letters = "l"
    while f"{buffer}.{letters}" in taken or f"{buffer}.{letters[:-1]}e" in taken:
        letters += "l"
    return f"{buffer}.{letters}"


def _loop_values(element: Affine, nest: list[Loop], known: Mapping[str, int]) -> dict[str, Affine]:
    """The value of each loop of the nest in iteration number `element`, the innermost loop being the fastest."""
    values: dict[str, Affine] = {}
    size = prod(inner.extent.const for inner in nest)
    for inner in nest:
        size //= inner.extent.const
        share = simplify(element // size, known)
        values[inner.name] = share if inner is nest[0] else simplify(share % inner.extent.const, known)
    return values


def _in_coordinates(values: dict[str, Affine], block: Block, known: Mapping[str, int]) -> dict[str, Affine]:
    """`values` in the thread's coordinates where that needs no division, as for a tile as wide as the block."""
    if not any(any(v.divisions()) for v in values.values()):
        return values
    plain = {name: simplify(v.substitute({block.tid: block.flat}), known) for name, v in values.items()}
    return values if any(any(v.divisions()) for v in plain.values()) else plain


def _cooperative_chain(loop: Loop) -> tuple[list[Loop], tuple[Node, ...]]:
    """The cooperative loops directly inside one another, and what is inside them all."""
    nest, body = [loop], loop.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "cooperative":
        nest.append(body[0])
        body = body[0].body
    assert all(inner.extent.is_const for inner in nest), f"{loop.name} has no constant extent"
    return nest, body


def _make_serial(node: Node) -> Node:
    """`node` with the cooperative loops in it serial: one thread has all of their iterations."""

    def change(value: Any) -> Any:
        if isinstance(value, Loop) and value.kind == "cooperative":
            return replace(value, kind="serial")
        return value

    (new,) = rewrite_nodes((node,), change)
    return new


def simplify_indices(value: T, values: Mapping[str, Affine], extents: Mapping[str, int]) -> T:
    """Every index expression in `value` at these values of names, without the divisions that `extents` decide."""
    return rewrite_indices(value, lambda index: simplify(index.substitute(values), extents))


def write_thread_loops(node: Node, block: Block, shares: Mapping[str, Shares]) -> Node:
    """`node` with the thread's number written in thread loops where copies are dealt out: an ordinary tree again."""
    extents = constant_extents(node)

    def change(value: Any) -> Any:
        dealt = isinstance(value, Loop) and value.name in shares
        return simplify_indices(value, {block.tid: block.flat}, extents) if dealt else value

    (new,) = rewrite_nodes((node,), change)
    return new


def deal_vector_loops(node: Node, scalarized: frozenset[str], parent: str = "") -> Node:
    """`node` with those vector loops of its cooperative copies dealt out like the loops around them."""
    if not isinstance(node, Loop):
        return node
    cooperative = node.kind == "vector" and node.name in scalarized and parent == "cooperative"
    kind = "cooperative" if cooperative else node.kind
    return replace(node, kind=kind, body=tuple(deal_vector_loops(child, scalarized, node.kind) for child in node.body))
