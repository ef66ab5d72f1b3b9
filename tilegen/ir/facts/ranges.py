"""What follows about an index expression from the extents of the loops in it, without a solver."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tilegen.ir.affine import Affine, Div, Mod
from tilegen.ir.nodes import Condition


def interval_of(value: Affine, extents: Mapping[str, int]) -> tuple[int, int] | None:
    """(least, greatest) of `value` when each name in `extents` runs over 0 .. extent-1.

    Exact where no name occurs twice; None where a name has no constant extent.
    """
    low = high = value.const
    for atom, coefficient in value.terms:
        match atom:
            case str():
                if atom not in extents:
                    return None
                part = (0, extents[atom] - 1)
            case Div(arg, by):
                inner = interval_of(arg, extents)
                if inner is None:
                    return None
                part = (inner[0] // by, inner[1] // by)
            case Mod(arg, by):
                inner = interval_of(arg, extents)
                if inner is not None and inner[0] // by == inner[1] // by:
                    part = (inner[0] % by, inner[1] % by)
                else:
                    part = (0, by - 1)
            case _:
                raise TypeError(atom)
        ends = (coefficient * part[0], coefficient * part[1])
        low, high = low + min(ends), high + max(ends)
    return low, high


def never_negative(value: Affine) -> bool:
    """True if every loop and size being at least 0 is enough."""
    return value.const >= 0 and all(
        factor >= 0 and (isinstance(atom, str | Mod) or never_negative(atom.arg)) for atom, factor in value.terms
    )


def follows(
    condition: Condition, given: Iterable[Condition], extents: Mapping[str, Affine], sizes: Collection[str]
) -> bool:
    """True if the condition is seen to hold by itself, or because its value is no less than one that is given."""

    def certain(value: Affine) -> bool:
        low = least_value(value, extents, sizes)
        return low is not None and low >= 0

    if condition.equal:
        return False
    return certain(condition.value) or any(certain(condition.value - g.value) for g in given if not g.equal)


def least_value(value: Affine, extents: Mapping[str, Affine], sizes: Collection[str]) -> int | None:
    """A number that `value` is never below, each loop in 0 .. extent-1 and sizes from 1 on; None if none is seen.

    Each term is taken at its least by itself. Where (x/8)*8 is taken away, it is x at most.
    """
    low, pending = value.const, list(value.terms)
    of_sizes: dict[str, int] = {}
    while pending:
        atom, factor = pending.pop()
        match atom:
            case str() if atom not in extents:
                of_sizes[atom] = of_sizes.get(atom, 0) + factor
                continue
            case str():
                if factor > 0:
                    continue
                low -= factor  # its last value is one less
                more, times = extents[atom], factor
            case Div(arg, by) if factor < 0 and factor % by == 0:
                more, times = arg, factor // by
            case Div(arg, by):
                inner = least_value(arg if factor > 0 else -arg, extents, sizes)
                if inner is None:
                    return None
                low += factor * (inner // by if factor > 0 else -inner // by)
                continue
            case Mod(by=by):
                low += min(factor, 0) * (by - 1)
                continue
            case _:
                raise TypeError(atom)
        low += times * more.const
        if more.terms:
            pending += [(a, times * f) for a, f in more.terms]
    if not all(factor >= 0 and name in sizes for name, factor in of_sizes.items()):
        return None
    return low + sum(of_sizes.values())


def rejoin(value: Affine) -> Affine:
    """`value` with digits that make up a number again, (x/8)*8 + x%8 or x/8%4*8 + x%8, as that number, x or x%32."""
    for atom, coefficient in value.terms:
        if isinstance(atom, Mod):
            for higher, factor in value.terms:
                digit = isinstance(higher, Mod) and higher.arg == atom.arg // atom.by
                if isinstance(higher, Mod) and digit and factor == coefficient * atom.by:
                    both = Affine(((higher, factor),)) + Affine(((atom, coefficient),))
                    return rejoin(value - both + atom.arg % (atom.by * higher.by) * coefficient)
            whole, factor = Div(atom.arg, atom.by), coefficient * atom.by
            if (whole, factor) in value.terms:
                both = Affine(((whole, factor),)) + Affine(((atom, coefficient),))
                return rejoin(value - both + atom.arg * coefficient)
    return value


def simplify(value: Affine, extents: Mapping[str, int]) -> Affine:
    """`value` with divisions and remainders removed that the extents decide."""
    divided = [term for term in value.terms if not isinstance(term[0], str)]
    if not divided:
        return value
    result = Affine(tuple([term for term in value.terms if isinstance(term[0], str)]), value.const)
    for atom, coefficient in divided:
        match atom:
            case Div(arg, by):
                inner = simplify(arg, extents)
                whole, rest = _divide(inner, by, extents)
                part = whole if rest is not None else inner // by
            case Mod(arg, by):
                inner = simplify(arg, extents)
                _, left = _divide(inner, by, extents)
                part = left if left is not None else inner % by
            case _:
                raise TypeError(atom)
        result = result + part * coefficient
    return result


def _divide(value: Affine, by: int, extents: Mapping[str, int]) -> tuple[Affine, Affine | None]:
    """(whole, rest) with value == by*whole + rest and 0 <= rest < by certain, or (value, None)."""
    whole, rest = value.split(by)
    range_ = interval_of(rest, extents)
    if range_ is None or range_[0] < 0 or range_[1] >= by:
        return value, None
    return whole, rest


def begins(left: Affine) -> Condition:
    """left >= 0, without a division by the tile: where (K + 15)/16 - 1 - ko is left, K - 16*ko - 1 is."""
    divisions = [atom for atom, factor in left.terms if isinstance(atom, Div) and factor == 1]
    if len(divisions) != 1:
        return Condition(left)
    (tiles,) = divisions
    return Condition(tiles.arg + (left - Affine(((tiles, 1),))) * tiles.by)
