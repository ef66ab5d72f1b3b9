"""Counts as formulas in the sizes: `2*M*K*N/128`, for sizes that are multiples of the tiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from tilegen.ir.affine import Affine, Div, Mod, factors_of

# The sizes of a product, each repeated to its power, sorted.
Product = tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """A sum of factor * product of sizes. Equal terms are kept apart, so that two tiles of 128 print as 2*.../128."""

    terms: tuple[tuple[Fraction, Product], ...] = ()

    def __add__(self, other: Formula) -> Formula:
        return Formula(self.terms + other.terms)

    def __mul__(self, other: Formula) -> Formula:
        return Formula(tuple((a * b, tuple(sorted(p + q))) for a, p in self.terms for b, q in other.terms))

    def scale(self, factor: Fraction | int) -> Formula:
        """The formula times `factor`."""
        return Formula(tuple((a * factor, p) for a, p in self.terms if factor))

    def evaluate(self, sizes: Mapping[str, int]) -> float:
        """The number at the given sizes."""
        return float(sum(a * prod(sizes[name] for name in p) for a, p in self.terms))

    def __str__(self) -> str:
        groups: dict[Product, list[Fraction]] = {}
        for factor, product in self.terms:
            groups.setdefault(product, []).append(factor)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[0]), item[0]))
        text = ""
        for product, factors in ordered:
            part = _term_text(factors, product)
            if part:
                text += (" - " if part[0] == "-" else " + ") + part.lstrip("-") if text else part
        return text or "0"


def number(value: Fraction | int) -> Formula:
    """A constant."""
    return Formula(((Fraction(value), ()),)) if value else Formula()


def total(parts: Iterable[Formula]) -> Formula:
    """The sum of all parts."""
    return Formula(tuple(term for part in parts for term in part.terms))


def of(extent: Affine) -> Formula:
    """The extent of a loop as if every division were exact: (M + 127)/128 is M/128."""
    result = number(extent.const)
    for atom, coefficient in extent.terms:
        match atom:
            case str():
                factors = factors_of(atom)
                part = number(1) if len(factors) > 1 else Formula(((Fraction(1), (atom,)),))
                for factor in factors[len(factors) == 1 :]:
                    part *= of(factor)
            case Div(arg, by):
                # (x + by - 1)/by is x/by rounded up.
                whole = arg - (by - 1) if arg.const >= by - 1 else arg
                part = of(whole).scale(Fraction(1, by))
            case Mod():
                part = Formula()  # the remainder of an exact division
            case _:
                raise TypeError(atom)
        result = result + part.scale(coefficient)
    return result


def _term_text(factors: list[Fraction], product: Product) -> str:
    """One product with its factor; an empty text where the factors cancel."""
    same = all(f == factors[0] for f in factors)
    below = factors[0].denominator if same else sum(factors).denominator
    above = sum(factors) * below
    if not above:
        return ""
    powers = {name: product.count(name) for name in product}
    words = [name if power == 1 else f"{name}^{power}" for name, power in powers.items()]
    if abs(above) != 1 or not words:
        words.insert(0, str(abs(above)))
    return f"{'-' if above < 0 else ''}{'*'.join(words)}" + (f"/{below}" if below != 1 else "")
