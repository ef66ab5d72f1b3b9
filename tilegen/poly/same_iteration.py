"""Which loops the value of an index determines, read off the index as one reads the digits of a number.

In `bi*128 + ti*8 + wi`, with ti < 16 and wi < 8, each loop is a digit: two iterations with the same value are in
the same iteration of all three. Most questions about two iterations that meet in an element end here, without
the solver. A loop that is not determined may still be equal in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilegen.ir.affine import Affine, Atom, Div, Mod, names_of_atom
from tilegen.ir.facts.ranges import interval_of


def determined_loops(index: tuple[Affine, ...], extents: Mapping[str, Affine], fixed: frozenset[str]) -> frozenset[str]:
    """The names that are the same in any two iterations with the same value of `index`.

    Args:
        extents: every loop that can differ, with its extent.
        fixed: the loops, and whatever else has a name, that are the same anyway.
    """
    names = frozenset[str]().union(*[i.names() for i in index])
    # Leaves with other loops around them ask the same of these.
    loops = tuple([loop for loop in extents.items() if loop[0] in names])
    return _determined_names(index, loops, names.difference(extents) | (names & fixed)).intersection(extents)


@lru_cache(maxsize=20_000)
def _determined_names(
    index: tuple[Affine, ...], loops: tuple[tuple[str, Affine], ...], fixed: frozenset[str]
) -> frozenset[str]:
    """`fixed` and the loops that the index determines beside them."""
    known = set(fixed)
    # A place that is a loop and nothing else is the most frequent one.
    alone = {i.terms[0][0] for i in index if len(i.terms) == 1}
    known |= {atom for atom in alone if isinstance(atom, str)}
    values = [i for i in index if not i.names() <= known]
    atoms: set[Atom] = set()
    constant = {name: extent.const for name, extent in loops if extent.is_const} if values else {}
    more = bool(values)
    while more:
        more = False
        for value in values:
            for atom in _leading_digits(value, constant, known, atoms):
                atoms.add(atom)
                more = True
                if isinstance(atom, str):
                    known.add(atom)
                elif _other(atom) in atoms:
                    values.append(atom.arg)
                    break
    return frozenset(known)


def _leading_digits(value: Affine, constant: Mapping[str, int], known: set[str], atoms: set[Atom]) -> list[Atom]:
    """The digits of `value` that can be read from the highest down, of those that are not known yet."""
    rest = [(a, f) for a, f in value.terms if a not in atoms and not names_of_atom(a) <= known]
    rest.sort(key=lambda term: abs(term[1]))
    found: list[Atom] = []
    while rest:
        atom, factor = rest.pop()
        ends = interval_of(Affine(tuple(rest)), constant)
        if ends is None or ends[1] - ends[0] >= abs(factor):
            break
        found.append(atom)
    return found


def _other(atom: Div | Mod) -> Atom:
    """What gives, together with `atom`, the value of what is divided."""
    return Mod(atom.arg, atom.by) if isinstance(atom, Div) else Div(atom.arg, atom.by)
