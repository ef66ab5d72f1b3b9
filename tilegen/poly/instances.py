"""From kernels and trees to integer systems: the instances of each leaf, what they are and what they touch.

A leaf is one statement with the loops around it. Two instances of leaves are distinguished by a prime on
the names of the second one; loops that both are in the same iteration of keep one name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import eq, ne

from tilegen.ir.affine import Affine, factors_of
from tilegen.ir.hardware.lanes import Copied, combining_loop, copied_registers
from tilegen.ir.nodes import ONLY, Buffer, Const, Equation, Kernel, Loop, Node, Range, Stmt, Tree
from tilegen.ir.walk import leaves, leaves_at, loads, loops, walk, writes
from tilegen.ir.written import tree_of
from tilegen.poly.promised import Promise, promise_of
from tilegen.poly.rows import FALSE, Rows, identify, rename
from tilegen.poly.same_iteration import determined_loops
from tilegen.poly.system import Form, Row, equal_rows, form, quotients, range_of, rows_of

Places = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Use:
    """One access of a leaf. `fallback` is what a read outside gives, and `promise` what two that meet share."""

    buffer: str
    index: tuple[Affine, ...]
    writes: bool
    fallback: Const | None = None
    promise: Promise | None = None

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        return tuple(form(i) for i in self.index)

    def forms_with(self, other: Use) -> tuple[Form, ...]:
        """What is equal to the same of `other` where both are to one element."""
        return (*self.forms, *(form(i) for i in _promised_alike(self, other)))


@dataclass(frozen=True, eq=False)
class Leaf:
    """A statement and its loops."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    extents: tuple[Affine, ...]
    stmt: Stmt
    promise: Promise | None = None  # of two iterations that update one element

    @cached_property
    def domain(self) -> tuple[Row, ...]:
        """Rows that say which iterations exist and run the statement."""
        return self.ranges + tuple(r for condition in self.stmt.guard for r in rows_of(condition))

    @cached_property
    def ranges(self) -> tuple[Row, ...]:
        """Rows that say which iterations exist."""
        return tuple(
            row for name, extent in zip(self.names, self.extents, strict=True) for row in range_of(name, extent)
        )

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Its accesses: the loads in program order, what a reduction reads, the writes."""
        stmt = self.stmt
        found = [Use(load.buffer, load.index, False, load.fallback) for load in loads(stmt)]
        written = (stmt.target, stmt.best) if stmt.best else (stmt.target,)
        if stmt.reduce not in (None, ONLY):
            found += [Use(a.buffer, a.index, False, promise=self.promise) for a in written]
        found += [Use(a.buffer, a.index, True, promise=self.promise) for a in written]
        if stmt.hits:
            access = stmt.hits.access
            found += [Use(access.buffer, access.index, True, promise=None if stmt.reduce else self.promise)]
        return tuple(found)

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        """What it touches, each buffer once."""
        return tuple(dict.fromkeys([use.buffer for use in self.uses]))

    @cached_property
    def written_buffers(self) -> frozenset[str]:
        """The buffers that it writes."""
        return frozenset(name for name, _ in writes(self.stmt))

    @cached_property
    def point(self) -> tuple[Form, ...]:
        """The instance of the kernel's statement that each iteration runs; empty for a copy."""
        return tuple(form(i) for i in self.stmt.instance or ())

    def determined_by(self, index: tuple[Affine, ...], shared: frozenset[str]) -> frozenset[str]:
        """The loops that are the same in any two iterations that share these and have one value of `index`."""
        return determined_loops(index, self.loops, shared)

    @cached_property
    def loops(self) -> Mapping[str, Affine]:
        """Its loops with their extents."""
        return dict(zip(self.names, self.extents, strict=True))

    def along(self, kind: str) -> tuple[str, ...]:
        """Its loop of this kind, if it is in one; or several block loops, which share an axis."""
        return tuple([name for name, each in zip(self.names, self.kinds, strict=True) if each == kind])

    def primed_names(self, shared: frozenset[str]) -> Mapping[str, str]:
        """New names for a second instance that is in the same iteration of the loops in `shared`."""
        return {n: f"{n}'" for n, inside in self._variables.items() if not inside <= shared}

    def primed_domain(self, shared: frozenset[str]) -> tuple[Row, ...]:
        """`domain` for a second instance that is in the same iteration of the loops in `shared`."""
        return rename(self.domain, self.primed_names(shared))

    @cached_property
    def _variables(self) -> Mapping[str, frozenset[str]]:
        """Its loops and the divisions in its rows and forms, each with the loops that it depends on."""
        values = [*self.extents, *(c.value for c in self.stmt.guard), *(self.stmt.instance or ())]
        values += [i for use in self.uses for i in use.index]
        values += self.promise.same if self.promise else ()
        inside = {quotient: names for value in values for quotient, names in quotients(value)}
        loops = frozenset(self.names)
        return {n: frozenset((n,)) for n in self.names} | {q: names & loops for q, names in inside.items()}


@dataclass(frozen=True, eq=False)
class Placed:
    """A leaf at its place in a tree: the position in each body on the way to it."""

    leaf: Leaf
    places: Places
    number: int

    def common_depth(self, other: Placed) -> int:
        """How many loops, from the outermost, hold both."""
        apart = [*map(ne, self.places[:-1], other.places[:-1])]
        return apart.index(True) if True in apart else len(apart)


@dataclass(frozen=True, eq=False)
class Projection:
    """A tree, projected: its leaves in program order and its buffers by name."""

    kernel: Kernel
    leaves: tuple[Placed, ...]
    buffers: Mapping[str, Buffer]
    tree: Tree
    original: Original = field(repr=False)

    def of(self, name: str) -> list[Placed]:
        """The leaves that execute the kernel's statement `name`."""
        return [p for p in self.leaves if not p.leaf.stmt.is_copy and p.leaf.stmt.name == name]

    @cached_property
    def lanes(self) -> Mapping[int, str]:
        """By the number of a leaf, the loop whose iterations combine their terms there as lanes of a warp."""
        found = {}
        for number, (path, stmt) in enumerate(leaves(self.tree.body)):
            if stmt.reduce and (loop := combining_loop(self.tree, path, stmt)):
                found[number] = loop.name
        return found

    def threads(self, launch: int, kind: str) -> int:
        """The threads of a block along an axis."""
        bound = [loop.extent.const for loop in loops(self.tree.body[launch]) if loop.kind == kind]
        return max(bound, default=1)

    @cached_property
    def register_copies(self) -> tuple[Copied, ...]:
        """For each launch, the registers of which every thread along an axis has a copy."""
        return tuple([copied_registers(self.tree, leaves((launch,))) for launch in self.tree.body])


@dataclass(frozen=True, eq=False)
class Original:
    """The kernel as written: its statements, and what holds of its sizes."""

    kernel: Kernel
    context: tuple[Row, ...]
    statements: Mapping[str, Placed]
    equations: Mapping[str, Equation]

    def ranges(self, name: str) -> tuple[Range, ...]:
        """The ranges of the statement's loops, as the kernel's text has them."""
        equation = self.equations[name]
        return equation.loops if name.endswith(".init") else (*equation.loops, *equation.reduced)

    def rows(self, leaf: Leaf) -> Rows:
        """Rows for an iteration in which the leaf runs its statement."""
        return self.context + leaf.domain

    def pair(self, one: Leaf, two: Leaf, shared: frozenset[str]) -> Rows:
        """Rows for such an iteration of each, the second one's names primed but for the loops in `shared`."""
        return self.rows(one) + two.primed_domain(shared)

    def meeting_rows(
        self, one: Leaf, two: Leaf, a: Use, b: Use, shared: frozenset[str], order: tuple[Row, ...] = ()
    ) -> tuple[Rows, Mapping[str, str]]:
        """Rows for such iterations in which access `a` of the one and `b` of the other have one place, and the names
        of the other: loops that both are in the same iteration of then, too, have one name.

        Args:
            order: what else holds of the two, with primes on all names of the other that differ.
        """
        met = shared | equal_loops(one, two, common_index(a, b), shared)
        order = identify(order, {f"{n}'": n for n in met})
        if FALSE in order:
            return order, {}  # whatever else holds
        names = with_divisions(two.primed_names(met), b.forms_with(a), "'")
        place = equal_rows(a.forms_with(b), [f.rename(names) for f in b.forms_with(a)])
        return self.pair(one, two, met) + (order + place), names

    def elements(self, leaf: Leaf) -> tuple[Use, ...]:
        """The accesses that the kernel's statement makes at the instance which `leaf` runs."""
        return _elements(self, leaf.stmt.name, leaf.stmt.instance or ())


@lru_cache(maxsize=20_000)
def _elements(original: Original, name: str, instance: tuple[Affine, ...]) -> tuple[Use, ...]:
    origin = original.statements[name].leaf
    values = dict(zip(origin.names, instance, strict=True))
    return tuple(
        [Use(u.buffer, tuple([i.substitute(values) for i in u.index]), u.writes, u.fallback) for u in origin.uses]
    )


def with_divisions(names: Mapping[str, str], index: tuple[Form, ...], mark: str) -> Mapping[str, str]:
    """`names`, and new ones for the divisions in `index` of what gets a new name: they get the mark."""
    found = dict(names)
    for place in index:
        for _, (*divided, (quotient, _)), _ in place.rows:
            if quotient not in found and any(name in found for name, _ in divided):
                found[quotient] = f"{quotient}{mark}"
    return found


def common_index(a: Use, b: Use) -> tuple[Affine, ...]:
    """What the places of two accesses to one element have in common: equal sums of the loops around each."""
    alike = a.index if a.index == b.index else tuple([i for i, j in zip(a.index, b.index, strict=True) if i == j])
    return (*alike, *(i for i, j in zip(_promised_alike(a, b), _promised_alike(b, a), strict=True) if i == j))


def _promised_alike(a: Use, b: Use) -> tuple[Affine, ...]:
    return a.promise.same if a.promise and b.promise and a.promise.by == b.promise.by else ()


def equal_loops(one: Leaf, two: Leaf, index: tuple[Affine, ...], shared: frozenset[str]) -> frozenset[str]:
    """Loops that iterations of the two leaves with one value of `index` are in the same iteration of."""
    return one.determined_by(index, shared) if _have_equal_extents(one, two, index) else frozenset()


def _have_equal_extents(one: Leaf, two: Leaf, index: tuple[Affine, ...]) -> bool:
    """True if the loops in `index` run over the same in both."""
    if one is two:
        return True
    names = frozenset().union(*map(Affine.names, index))
    return all(map(eq, map(one.loops.get, names), map(two.loops.get, names)))


@lru_cache(maxsize=32)
def original_of(kernel: Kernel) -> Original:
    """The kernel, projected; computed once for equal kernels, which two schedules of a text have."""
    context: tuple[Row, ...] = tuple((False, ((size, 1),), -1) for size in kernel.symbols)
    context += tuple(r for c in kernel.assumptions for r in rows_of(c))
    statements = {p.leaf.stmt.name: p for p in _leaves(tree_of(kernel).body)}
    equations: dict[str, Equation] = {}
    for equation in kernel.equations:
        for name in (equation.target, equation.best):
            if name is not None:
                equations[name] = equations[f"{name}.init"] = equation
    return Original(kernel, context, statements, equations)


@lru_cache(maxsize=32)
def symbols_alone(kernel: Kernel) -> tuple[str, ...]:
    """The `symbols` of the kernel without the sizes that stand in products alone."""
    parts = walk((kernel.tensors, kernel.equations, kernel.assumptions, kernel.rising))
    named = frozenset[str]().union(*(part.symbols() for part in parts if isinstance(part, Affine)))
    within = {size for name in kernel.symbols if len(factors_of(name)) > 1 for size in map(str, factors_of(name))}
    return tuple(name for name in kernel.symbols if name in named or name not in within)


def project(tree: Tree) -> Projection:
    """The tree as leaves."""
    buffers = {b.name: b for b in tree.buffers}
    original = original_of(tree.kernel)
    return Projection(tree.kernel, _leaves(tree.body, original), buffers, tree, original)


def _leaves(body: tuple[Node, ...], original: Original | None = None) -> tuple[Placed, ...]:
    every = ((leaf, (n, *places)) for n, node in enumerate(body) for leaf, places in leaves_at(node))
    found = ((leaf_of(*leaf, original), places) for leaf, places in every)
    return tuple([Placed(leaf, places, number) for number, (leaf, places) in enumerate(found)])


def leaf_of(path: tuple[Loop, ...], stmt: Stmt, original: Original | None = None) -> Leaf:
    """The statement in the loops of `path`, with what the kernel's promises say of it."""
    names, kinds, extents = ([getattr(loop, what) for loop in path] for what in ("name", "kind", "extent"))
    promise = None
    if stmt.reduce == ONLY or stmt.hits and not stmt.reduce:
        # One term has the element, and no two hits have one rank.
        promise = Promise((stmt.target.buffer,), stmt.term or stmt.instance or ())
    elif original and original.kernel.different and stmt.instance is not None and stmt.name in original.statements:
        elements = [(use.buffer, use.index) for use in _elements(original, stmt.name, stmt.instance)]
        promise = promise_of(path, stmt, elements, original.kernel.different)
    return Leaf(tuple(names), tuple(kinds), tuple(extents), stmt, promise)
