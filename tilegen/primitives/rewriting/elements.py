"""The element of a tensor that a copy holds at a place, derived from the statements that write the copy.

A.shared[k', i'] = A[bi*128 + i', ko*16 + k']      so A.shared[p, q] is A[bi*128 + q, ko*16 + p]
"""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir.affine import Affine, Atom, const, names_of_atom
from tilegen.ir.nodes import Buffer, Load, Loop, Stmt, Tree
from tilegen.ir.walk import leaves
from tilegen.primitives.rewriting.region import Point, Region

# A linear combination: atoms of indices by themselves, dimensions of a copy by their numbers.
_Sum = dict[Atom | int, int]


def element_copied(tree: Tree, region: Region, place: Point) -> Point | None:
    """The element that a copy of the region's buffer, made at `place` of it, hands over.

    None of a tensor, which says it by itself, and where the contents of the buffer depend on loops inside the region:
    then it is used outside of the loop that it lives in.
    """
    element = element_at(tree, region.buffer, place)
    around: set[str] = set(region.sizes)
    for path, _ in leaves(tree.body):
        names = [loop.name for loop in path]
        if region.at in names:
            around |= set(names[: names.index(region.at) + 1])
    known = around.union(*(p.names() for p in place))
    return element if element and all(e.names() <= known for e in element) else None


def element_at(tree: Tree, copy: Buffer, place: Point, passed: tuple[str, ...] = ()) -> Point | None:
    """The element of its tensor that the copy holds at `place`; None where no statement determines it.

    Args:
        passed: the copies that this answers for: registers and shared memory may be copied to each other.
    """
    if copy.role != "copy" or copy.name in passed:
        return None
    for path, stmt in leaves(tree.body):
        for index, source, origin in _written_contents(tree, copy.name, stmt):
            function = _element_of_place(copy, index, origin, path)
            if function is None:
                continue
            found = tuple(
                rest + sum((factor * p for factor, p in zip(factors, place, strict=True)), const(0))
                for factors, rest in function
            )
            if source is None or source.role != "copy":
                return found
            if (element := element_at(tree, source, found, (*passed, copy.name))) is not None:
                return element
    return _split_joined(tree, copy, place)


def _written_contents(tree: Tree, copy: str, stmt: Stmt) -> Iterator[tuple[Point, Buffer | None, Point]]:
    """(place, what it is filled from or None, the place there or the element) of each write of `stmt` to the copy."""
    if stmt.is_copy:
        if stmt.target.buffer == copy and isinstance(stmt.value, Load):
            if stmt.element is not None:
                yield stmt.target.index, None, stmt.element
            yield stmt.target.index, tree.buffer(stmt.value.buffer), stmt.value.index
        return
    equation = next(e for e in tree.kernel.equations if stmt.name.removesuffix(".init") in (e.target, e.best))
    names = [r.name for r in (*equation.loops, *equation.reduced)]
    values = dict(zip(names, stmt.instance or (), strict=False))
    for access in (stmt.target, stmt.best):
        if access is not None and access.buffer == copy:
            yield access.index, None, tuple(i.substitute(values) for i in equation.index)


def _element_of_place(
    copy: Buffer, place: Point, element: Point, path: tuple[Loop, ...]
) -> list[tuple[tuple[int, ...], Affine]] | None:
    """For each dimension of the element, the factors with which the dimensions of `place` add up to it, and the rest.

    The rest is of loops that hold all uses of the copy. None where there are no such factors.
    """
    names = [loop.name for loop in path]
    inner = frozenset(names[names.index(copy.scope) + 1 :] if copy.scope in names else names)
    found = []
    for value in element:
        factors = _solve_factors(place, value, inner)
        if factors is None:
            return None
        rest = value - sum((f * p for f, p in zip(factors, place, strict=True)), const(0))
        found.append((factors, rest))
    return found


def _solve_factors(places: Point, wanted: Affine, inner: frozenset[str]) -> tuple[int, ...] | None:
    """Whole factors with which the places add up to `wanted`, but for terms without `inner` loops; by elimination."""
    steps: list[tuple[Atom, _Sum]] = []
    for d, place in enumerate((*places, wanted)):
        # Its own terms, and beside them, under numbers, which places it has been made of.
        left: _Sum = {atom: f for atom, f in place.terms if not inner.isdisjoint(names_of_atom(atom))}
        left[d] = 1
        for pivot, step in steps:
            times, by = left.get(pivot, 0), step[pivot]
            if times:
                left = {a: f for a in left | step if (f := left.get(a, 0) * by - times * step.get(a, 0))}
        atoms = [a for a in left if not isinstance(a, int)]
        steps += [(atoms[0], left)] if atoms and d < len(places) else []
    # How many times `wanted`, and what has been taken from it.
    times, taken = left[len(places)], [-left.get(d, 0) for d in range(len(places))]
    if atoms or any(f % times for f in taken):
        return None
    return tuple(f // times for f in taken)


def _split_joined(tree: Tree, copy: Buffer, place: Point) -> Point | None:
    """The element at a place of a copy whose dimensions join those of its tensor."""
    if not copy.joined or copy.copy_of is None:
        return None
    shape, found = tree.buffer(copy.copy_of).shape, {}
    for value, group in zip(place, copy.joined, strict=True):
        for dim in reversed(group[1:]):
            found[dim], value = value % shape[dim].const, value // shape[dim].const
        found[group[0]] = value
    return tuple(found[dim] for dim in range(len(shape)))
