"""For which sizes the integers of a text are wide enough: each one that it computes, in whatever order it adds.

Loops, sizes and offsets have 32 bits, or 64 in the wide version. A version is for tensors of fewer elements than
`elements` says, and for sizes that satisfy the launch's `fitting`: what the tensors do not bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tilegen.errors import LimitError
from tilegen.ir.affine import Affine, Atom, Div, Mod, const, var
from tilegen.ir.facts.gathers import fits_32_bits
from tilegen.ir.facts.ranges import follows
from tilegen.ir.hardware.memory import allocated
from tilegen.ir.nodes import (
    Access,
    Cast,
    Condition,
    Expr,
    Gather,
    Index,
    Load,
    Op,
    Stmt,
)
from tilegen.ir.walk import walk
from tilegen.lowering.launch.coordinates import extents_of
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Call,
    Combine,
    Declare,
    Flag,
    For,
    Function,
    If,
    Let,
    Spmd,
    Start,
    TimelineNode,
    VectorCopy,
    VectorLoad,
    VectorStore,
)
from tilegen.lowering.launch.timelines import integers_of
from tilegen.poly import Facts

Shape = tuple[Affine, ...]
ZERO = const(0)


def elements(wide: bool) -> int:
    """A version is for tensors of fewer elements than this: a tile may pass them. No memory has 2**48."""
    return 2**48 if wide else 2**31 - 2**20


def greatest(wide: bool) -> int:
    """The greatest integer of the type of loops, sizes and offsets."""
    return 2**63 - 1 if wide else 2**31 - 1


def fits(launches: Iterable[Launch], sizes: Mapping[str, int]) -> bool:
    """True if no integer in the text of `launches` leaves its type at these sizes."""
    for launch in launches:
        if not all(c.holds(sizes) for c in launch.fitting):
            return False
        most = elements(launch.wide)
        if any(prod(max(1, e.evaluate(sizes)) for e in shape) >= most for shape in shapes(launch)):
            return False
    return True


def fit_somewhere(launches: tuple[Launch, ...]) -> bool:
    """True if there are sizes that the kernel admits and `launches` fit; they are looked for among the least."""
    extents = {Condition(e - 1) for launch in launches for shape in shapes(launch) for e in shape}
    wanted = (
        *sorted(extents, key=str),
        *(c for launch in launches for c in (*element_bounds(launch), *launch.fitting)),
    )
    sizes = Facts(launches[0].kernel).least_sizes(wanted)
    return sizes is not None and fits(launches, sizes)


def choose_integers(launches: Sequence[Launch], wide: bool | None) -> tuple[Launch, ...]:
    """`launches` in 64 bits or in 32, with what sizes have to be for that; None takes 64 where 32 fit no sizes.

    Raises:
        LimitError: more elements than any memory has.
    """
    found = tuple(_claim_bounds(replace(launch, wide=bool(wide))) for launch in launches)
    if wide is False or fit_somewhere(found):
        return found
    if wide is None:
        return choose_integers(launches, True)
    raise _too_large(found)


def _claim_bounds(launch: Launch) -> Launch:
    """`launch` with the claims that do not follow from the elements of its tensors, short ones first."""
    facts, (found, beyond) = Facts(launch.kernel), claims(launch)
    launch = replace(launch, beyond=tuple(beyond.items()))
    for claim in sorted(found, key=lambda c: (len(str(c)), str(c))):
        if not holds(launch, claim, facts):
            kept = tuple(c for c in launch.fitting if not _covers(claim, c))
            launch = replace(launch, fitting=(*kept, claim))
    return launch


def _covers(one: Condition, other: Condition) -> bool:
    return follows(other, (one,), {}, one.value.names() | other.value.names())


def _too_large(launches: Sequence[Launch]) -> LimitError:
    least = {shape: prod(e.const for e in shape) for launch in launches for shape in shapes(launch)}
    largest = max(least, key=lambda shape: least[shape])
    message = f"arrays of {' x '.join(map(str, largest))} elements are more than 64-bit offsets are meant for"
    return LimitError(message, launches[0].kernel.span, notes=("smaller sizes are the way out",))


def element_bounds(launch: Launch) -> tuple[Condition, ...]:
    """What the elements of its tensors say of sizes: of numbers from 1 on, the product is at least the sum, less one
    for each but one of them."""
    most = elements(launch.wide) - 1
    return tuple(dict.fromkeys(Condition(most + len(s) - 1 - sum(s, ZERO)) for s in shapes(launch)))


def holds(launch: Launch, claim: Condition, facts: Facts) -> bool:
    """True if the claim holds wherever its tensors have so few elements and its `fitting` is satisfied."""
    if claim in launch.fitting:
        return True
    most = elements(launch.wide)
    ranges = {name: const(most) for shape in shapes(launch) for e in shape for name in e.names() if e == var(name)}
    return follows(claim, launch.fitting, ranges, ()) or facts.is_implied(
        claim, {}, (*element_bounds(launch), *launch.fitting)
    )


def shapes(launch: Launch) -> tuple[Shape, ...]:
    """Of the tensors that a call has in memory, the kernel's and what the launch uses beside them, and how far offsets
    go where nothing is read."""
    given = [t.shape for t in launch.kernel.tensors if t.role != "intermediate" and not t.windows]
    own = [allocated(b) for b in launch.buffers.values() if b.space == "global" and not b.windows]
    return tuple(dict.fromkeys((*given, *own, *(shape for _, shape in launch.beyond))))


# -- what the text computes


def claims(launch: Launch) -> tuple[frozenset[Condition], Mapping[str, Shape]]:
    """What has to be true of sizes so that nothing leaves its type, and what has to be small enough as tensors are.

    An expression is a sum; whatever the order of its terms, each partial sum lies between its negative terms and its
    positive ones, which have no cancellation between them. An offset (n*C + c)*H + y is inside its tensor as soon as a
    dimension is complete, so that what is added there may only pass the extent by what is left above the elements.
    A copy that writes zeros for what is outside has the offset all the same: it is inside of a larger tensor.
    """
    found = _Claims(launch)
    names = {name: found.loop(extent, {}) for name, extent in extents_of(launch).items()}
    if launch.tid not in names:
        names[launch.tid] = found.loop(const(launch.threads), {})
    for size in launch.sizes:
        found.reach(var(size), names)
    found.body(launch.body, names)
    return frozenset(map(Condition, map(_without_rounding, found.spares))), found.beyond


@dataclass(frozen=True)
class Reach:
    """Bounds in sizes alone: of a value, and of every sum of some of its terms, which lies between -less and more."""

    low: Affine
    high: Affine
    more: Affine
    less: Affine


Names = Mapping[str, Reach]
Functions = Mapping[str, tuple[Function, Names]]


@dataclass
class _Claims:
    launch: Launch
    spares: set[Affine] = field(default_factory=set)
    beyond: dict[str, Shape] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.most = greatest(self.launch.wide)
        self.known: dict[tuple[int, Affine, int], Reach] = {}
        self.scopes: list[Names] = []  # they live as long as what is known by their identity

    # -- nodes

    def body(self, body: tuple[Spmd, ...], names: Names, functions: Functions | None = None) -> None:
        """Claims for a list of nodes and what is in them; `functions` are known there, each with the names it sees."""
        functions = functions or {}
        self.scopes.append(names)
        for node in body:
            match node:
                case For(name, extent, ring=ring):
                    if ring:  # the text has its slot and the parity of its phase
                        names = {**names, ring.number: self.loop(const(2 * ring.slots), names)}
                        self.scopes.append(names)
                    self.body(node.body, {**names, name: self.loop(extent, names)}, functions)
                case Let(name, value):
                    names = {**names, name: self.reach(value, names)}
                    self.scopes.append(names)
                case If():
                    self.tests(node.test, names)
                    self.body(node.body, names, functions)
                    self.body(node.orelse, names, functions)
                case Flag(_, test):
                    self.tests(test, names)
                case Function(name):
                    functions = {**functions, name: (node, names)}
                case Call(name, arguments):
                    called, seen = functions[name]
                    given = (self.reach(argument, names) for argument in arguments)
                    self.body(called.body, {**seen, **dict(zip(called.parameters, given, strict=True))}, functions)
                case Combine():
                    self.tests(node.test, names)
                    self.values((node.value, node.arg, node.start), names)
                case Declare():
                    self.values((node.start,), names)
                case Stmt():
                    kept = (node.hits.access, *node.hits.items) if node.hits else ()
                    self.values((node.target, node.value, node.best, node.arg, *kept), names)
                case VectorLoad():
                    self.values((node.source,), names)
                case VectorStore():
                    self.values((node.target,), names)
                case VectorCopy():
                    self.values((node.target, node.inside), names)
                    self.offset(node.source, names, inside=node.inside is None)
                case _ if isinstance(node, TimelineNode):
                    self.timeline(node, names)
                    if isinstance(node, Start):
                        self.body(node.body, names, functions)
                case _:
                    pass  # a barrier, the end of a group, a variable: nothing is computed

    def timeline(self, node: TimelineNode, names: Names) -> None:
        """Claims for what a node says itself; of coordinates in a tensor the hardware takes 32 bits."""
        accesses, others, coordinates = integers_of(node)
        self.values(accesses, names)
        for value in others:
            self.reach(value, names)
        for coordinate in coordinates:
            self.reach(coordinate, names, 2**31 - 1)

    def tests(self, test: Iterable[Condition], names: Names) -> None:
        for condition in test:
            self.reach(condition.value, names)

    def values(self, values: Iterable[Access | Expr | None], names: Names) -> None:
        """Claims for the indices in expressions."""
        for value in values:
            match value:
                case Access() | Load():
                    self.offset(value, names)
                case Gather():
                    self.claim_gather(value, names)
                case Index(index, "i64"):
                    self.reach(index, names, 2**63 - 1)
                case Index(index):
                    self.reach(index, names)
                case Op(_, args):
                    self.values(args, names)
                case Cast(arg):
                    self.values((arg,), names)
                case _:
                    pass  # constants, scalars

    def offset(self, access: Access | Load, names: Names, *, inside: bool = True) -> None:
        """Claims for the place of an element; `inside` if it is one wherever the text computes that."""
        memory = self.launch.buffers[access.buffer]
        places = [self.reach(place, names) for place in access.index]
        if memory.space != "global":
            return
        extents = allocated(memory)
        for extent in extents:
            self.reach(extent, names)
        if not inside:
            old = self.beyond.get(memory.name, extents)
            needed = [-_without_rounding(-1 - place.more - place.less) for place in places]
            self.beyond[memory.name] = tuple(_longer_extent(*each) for each in zip(old, needed, strict=True))
            return
        for d in memory.order[1:]:
            self.claim(extents[d] - places[d].more + (self.most - elements(self.launch.wide)))

    def claim_gather(self, gather: Gather, names: Names) -> None:
        """Claims for an element at a computed index, which is inside: in the integers of loops where these will do."""
        for extent in allocated(self.launch.buffers[gather.buffer]):
            self.reach(extent, names)
        for place in gather.index:
            if fits_32_bits(place):
                for each in walk(place):
                    if isinstance(each, Index):
                        self.reach(each.index, names)
            self.values((place,), names)
        self.values((gather.fallback,), names)

    # -- expressions

    def loop(self, extent: Affine, names: Names) -> Reach:
        """What runs over 0 .. extent - 1."""
        last = self.reach(extent, names).high - 1
        return Reach(ZERO, last, last, ZERO)

    def reach(self, value: Affine, names: Names, most: int = 0) -> Reach:
        """The bounds of `value`; claims that no partial sum passes `most`, by one where it stands in a test."""
        most = most or self.most
        key = (id(names), value, most)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._sum(value, names, most)
            self.claim(most - 1 - found.more)
            if found.less != ZERO:
                self.claim(most - 1 - found.less)
        return found

    def claim(self, spare: Affine) -> None:
        """Claims that `spare` is not negative."""
        if spare.terms or spare.const < 0:
            self.spares.add(spare)

    def _sum(self, value: Affine, names: Names, most: int) -> Reach:
        if not value.terms:
            return Reach(value, value, const(max(0, value.const)), const(max(0, -value.const)))
        if len(value.terms) == 1 and value.terms[0][1] == 1 and not value.const:
            return self._atom(value.terms[0][0], names, most)
        low = high = const(value.const)
        more, less = const(max(0, value.const)), const(max(0, -value.const))
        for atom, factor in value.terms:
            part = self._atom(atom, names, most)
            if factor > 0:
                low, high = low + part.low * factor, high + part.high * factor
                more, less = more + part.more * factor, less + part.less * factor
            else:
                low, high = low + part.high * factor, high + part.low * factor
                more, less = more - part.less * factor, less - part.more * factor
        return Reach(low, high, more, less)

    def _atom(self, atom: Atom, names: Names, most: int) -> Reach:
        match atom:
            case str():
                size = var(atom)
                return names.get(atom) or Reach(size, size, size, ZERO)
            case Div(arg, by):
                inner = self.reach(arg, names, most)
                low, high = inner.low // by, inner.high // by
                if inner.less == ZERO:
                    return Reach(low, high, high, ZERO)
                return Reach(low, high, inner.more // by, inner.less.ceildiv(by))
            case Mod(arg, by):
                inner = self.reach(arg, names, most)
                last = const(by - 1)
                if inner.less == ZERO and inner.high.is_const and inner.high.const < by:
                    last = inner.high
                return Reach(ZERO, last, last, ZERO)
            case _:
                raise TypeError(atom)


def _longer_extent(one: Affine, other: Affine) -> Affine:
    """An extent that is no less than either, of which all are at least 1."""
    names = one.names() | other.names()
    if follows(Condition(one - other), (), {}, names):
        return one
    return other if follows(Condition(other - one), (), {}, names) else one + other


def _without_rounding(value: Affine) -> Affine:
    """What `value` is no less than: (N/8)*8 that is taken away is N at most, one that is added N - 7 at least."""
    total = const(value.const)
    for atom, factor in value.terms:
        if isinstance(atom, Div) and factor % atom.by == 0:
            arg = atom.arg if factor < 0 else atom.arg - (atom.by - 1)
            total += _without_rounding(arg * (factor // atom.by))
        else:
            total += Affine(((atom, factor),))
    return total
