"""What can be said of the index of a gather by itself."""

from __future__ import annotations

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Cast, Const, Expr, Index, Op

_FEW = 2**16


def fits_32_bits(place: Expr) -> bool:
    """True if 32 bits will do for an index of 64, wherever they do for the loops and sizes in it, one at a time.

    Its smallest, its largest and its remainder are no larger than what they are taken of.
    """
    match place:
        case Const(value):
            return abs(value) < _FEW
        case Index(index):
            return _one_at_a_time(index)
        case Cast(arg):
            return arg.dtype in ("i32", "i8", "u8")
        case Op("min" | "max", (one, two)):
            return fits_32_bits(one) and fits_32_bits(two)
        case Op("%", (one, Index() | Const() as by)):
            return fits_32_bits(one) and fits_32_bits(by)
        case _:
            return False


def _one_at_a_time(index: Affine) -> bool:
    plain = all(isinstance(atom, str) and factor in (1, -1) for atom, factor in index.terms)
    return plain and abs(index.const) < _FEW and sum(factor > 0 for _, factor in index.terms) <= 1


def has_ends(place: Expr) -> bool:
    """True if the index is held between two ends, or is a remainder, or is affine: it may be inside everywhere."""
    return isinstance(place, Index | Const) or _has_end(place, "min") and _has_end(place, "max")


def _has_end(place: Expr, word: str) -> bool:
    match place:
        case Index() | Const() | Op("%", (_, Index() | Const())):
            return True
        case Op("min" | "max" as name, (one, two)):
            found = (_has_end(one, word), _has_end(two, word))
            return any(found) if name == word else all(found)
        case Op("select", (_, one, two)):
            return _has_end(one, word) and _has_end(two, word)
        case _:
            return False
