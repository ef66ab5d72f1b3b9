"""Integer index arithmetic: quasi-affine expressions over loop variables and sizes, in canonical form.

An `Affine` is a sum of integer multiples of atoms and a constant. An atom is a name (a loop, a size, or a product of
sizes such as `B*H*W` or `B*((H - 1)/2 + 1)`, which is as good as a size of its own) or a floor division or remainder by
a positive constant.
Two expressions that differ only in the order or grouping of terms are equal as values, so trees can be compared by
structure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple


class Div(NamedTuple):
    """floor(arg / by), by > 0."""

    arg: Affine
    by: int
    sign: str = "/"  # what tells it from a remainder: tuples are equal where their parts are


class Mod(NamedTuple):
    """arg - by * floor(arg / by): the remainder, never negative, by > 0."""

    arg: Affine
    by: int
    sign: str = "%"


Atom = str | Div | Mod


class Product(str):
    """The name of a product of extents, some of which are no sizes, but made of sizes."""

    factors: tuple[Affine, ...]

    def __new__(cls, factors: tuple[Affine, ...]) -> Product:
        self = super().__new__(cls, "*".join(str(f) if _is_name(f) else f"({f})" for f in factors))
        self.factors = factors
        return self

    def __getnewargs__(self) -> tuple[tuple[Affine, ...]]:  # type: ignore[override]
        return (self.factors,)


def factors_of(name: str) -> tuple[Affine, ...]:
    """What `B*H*W` is a product of; any other name alone."""
    return name.factors if isinstance(name, Product) else tuple(map(var, name.split("*")))


def names_of_atom(atom: Atom) -> frozenset[str]:
    """The loop or the sizes, or those inside of the product or division."""
    if isinstance(atom, Product):
        return frozenset[str]().union(*map(Affine.names, atom.factors))
    return frozenset(atom.split("*")) if isinstance(atom, str) else atom.arg.names()


def _key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, _atom_text(atom))


@lru_cache(maxsize=10_000)
def _atom_text(atom: Div | Mod) -> str:
    return repr(atom)


class _Sum(NamedTuple):
    terms: tuple[tuple[Atom, int], ...] = ()
    const: int = 0


class Affine(_Sum):
    """sum of coefficient * atom, plus const. Build with `var`, `const` and the operators.

    Attributes:
        terms: the atoms, each with its coefficient.
        const: the constant.

    It is a tuple because trees are full of these: they are compared and looked up all the time.
    """

    # What has been worked out of the same sum again and again; no part of the value.
    _names: frozenset[str] | None = None

    def __reduce__(self) -> tuple[type[Affine], tuple[object, ...]]:
        return Affine, (self.terms, self.const)

    # -- arithmetic

    def __add__(self, other: Affine | int) -> Affine:  # type: ignore[override]
        return self._plus(other, 1)

    def __sub__(self, other: Affine | int) -> Affine:
        return self._plus(other, -1)

    def _plus(self, other: Affine | int, times: int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.const + times * other)
        if not other.terms:
            return Affine(self.terms, self.const + times * other.const)
        sums: dict[Atom, int] = dict(self.terms)
        for atom, coefficient in other.terms:
            sums[atom] = sums.get(atom, 0) + times * coefficient
        return _canonical(sums, self.const + times * other.const)

    def __neg__(self) -> Affine:
        return self * -1

    def __mul__(self, factor: int) -> Affine:  # type: ignore[override]
        if factor == 0:
            return Affine()
        if factor == 1:
            return self
        return Affine(tuple((a, c * factor) for a, c in self.terms), self.const * factor)

    __radd__ = __add__
    __rmul__ = __mul__  # type: ignore[assignment]

    def __rsub__(self, other: int) -> Affine:
        return -self + other

    def __floordiv__(self, by: int) -> Affine:
        assert by > 0, by
        whole, rest = self.split(by)
        if not rest.terms:
            return whole + rest.const // by
        return whole + Affine(((Div(*_cancel(rest, by)), 1),))

    def __mod__(self, by: int) -> Affine:
        assert by > 0, by
        _, rest = self.split(by)
        if not rest.terms:
            return Affine((), rest.const % by)
        shared = _common_factor(rest, by)
        if shared > 1:
            return (_scaled_down(rest, shared) % (by // shared)) * shared
        match rest:
            case Affine(((Mod(_, inner), 1),), 0) if inner <= by:
                return rest
            case Affine(((Mod(arg, inner), 1),), 0) if inner % by == 0:
                return arg % by
            case _:
                return Affine(((Mod(rest, by), 1),))

    def ceildiv(self, by: int) -> Affine:
        """ceil(self / by)."""
        return (self + (by - 1)) // by

    def split(self, by: int) -> tuple[Affine, Affine]:
        """(whole, rest) with self == by * whole + rest and the coefficients of rest in [0, by)."""
        whole = Affine(tuple((a, c // by) for a, c in self.terms if c // by), self.const // by)
        rest = Affine(tuple((a, c % by) for a, c in self.terms if c % by), self.const % by)
        return whole, rest

    # -- questions

    @property
    def is_const(self) -> bool:
        return not self.terms

    def names(self) -> frozenset[str]:
        """Every loop and size that occurs, inside products and divisions too."""
        if self._names is not None:
            return self._names
        names = frozenset[str]().union(*(names_of_atom(atom) for atom, _ in self.terms))
        self._names = names
        return names

    def symbols(self) -> frozenset[str]:
        """Every name that occurs, inside divisions too; a product of sizes is one."""
        own = frozenset(atom for atom, _ in self.terms if isinstance(atom, str))
        return own.union(*(atom.arg.symbols() for atom, _ in self.terms if not isinstance(atom, str)))

    def divisions(self) -> Iterator[Div | Mod]:
        """Every division and remainder that occurs, those inside of others too."""
        for atom, _ in self.terms:
            if not isinstance(atom, str):
                yield from atom.arg.divisions()
                yield atom

    def coefficient(self, name: str) -> int:
        """The factor of `name` outside products and divisions."""
        return dict(self.terms).get(name, 0)

    def linear_in(self, name: str) -> bool:
        """True if `name` occurs in no product and no division."""
        return all(a == name or name not in names_of_atom(a) for a, _ in self.terms)

    def part_with(self, names: Collection[str]) -> Affine:
        """The terms that some of these names occur in, inside divisions too."""
        return Affine(tuple((a, c) for a, c in self.terms if not names_of_atom(a).isdisjoint(names)))

    def sides(self) -> tuple[Affine, Affine]:
        """(low, high) with self == high - low + const, no factor in either of them negative."""
        low, high = (tuple((a, abs(c)) for a, c in self.terms if (c < 0) == minus) for minus in (True, False))
        return Affine(low), Affine(high)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """Each name in `values` replaced, all at once."""
        if not values or self.names().isdisjoint(values):
            return self
        sums: dict[Atom, int] = {}
        constant = self.const
        for atom, coefficient in self.terms:
            match atom:
                case str():
                    new = values.get(atom) or _with_factors(atom, values)
                    if new is None:
                        sums[atom] = sums.get(atom, 0) + coefficient
                        continue
                case Div(arg, by):
                    new = arg.substitute(values) // by
                case Mod(arg, by):
                    new = arg.substitute(values) % by
                case _:
                    raise TypeError(atom)
            constant += coefficient * new.const
            for inner, factor in new.terms:
                sums[inner] = sums.get(inner, 0) + coefficient * factor
        return _canonical(sums, constant)

    def with_atoms(self, values: Mapping[Atom, Affine]) -> Affine:
        """Each name and each division in `values` replaced, those inside of other divisions too."""
        total = const(self.const)
        for atom, coefficient in self.terms:
            if atom in values:
                new = values[atom]
            elif isinstance(atom, str):
                new = var(atom)
            else:
                inner = atom.arg.with_atoms(values)
                new = inner // atom.by if isinstance(atom, Div) else inner % atom.by
            total += new * coefficient
        return total

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The integer at the given values of all names; numpy arrays work as values too."""
        total = self.const
        for atom, coefficient in self.terms:
            match atom:
                case str():
                    whole = atom in values or "*" not in atom
                    value = values[atom] if whole else prod(f.evaluate(values) for f in factors_of(atom))
                case Div(arg, by):
                    value = arg.evaluate(values) // by
                case Mod(arg, by):
                    value = arg.evaluate(values) % by
                case _:
                    raise TypeError(atom)
            total = total + coefficient * value
        return total

    def in_python(self, name: Callable[[str], str]) -> str:
        """The value as Python writes it, with what `name` makes of each name."""
        terms = [str(self.const)] if self.const or not self.terms else []
        for atom, coefficient in self.terms:
            match atom:
                case str():
                    found = (str(f) if _is_name(f) else f for f in factors_of(atom))
                    text = "*".join(name(f) if isinstance(f, str) else f"({f.in_python(name)})" for f in found)
                case Div(arg, by):
                    text = f"(({arg.in_python(name)})//{by})"
                case Mod(arg, by):
                    text = f"(({arg.in_python(name)})%{by})"
                case _:
                    raise TypeError(atom)
            terms.append(f"{coefficient}*{text}" if coefficient != 1 else text)
        return " + ".join(terms)

    def sorted_terms(self) -> Iterator[tuple[Atom, int]]:
        """Terms for a reader: large factors first, so that block, tile and lane come in order."""
        return iter(sorted(self.terms, key=lambda t: (-abs(t[1]), _key(t[0]))))

    def __str__(self) -> str:
        parts: list[str] = []
        for atom, coefficient in self.sorted_terms():
            match atom:
                case str():
                    text = atom
                case Div(arg, by):
                    text = f"{_operand_text(arg)}/{by}"
                case Mod(arg, by):
                    text = f"{_operand_text(arg)}%{by}"
                case _:
                    raise TypeError(atom)
            if abs(coefficient) != 1:
                text = f"{text}*{abs(coefficient)}" if isinstance(atom, str) else f"({text})*{abs(coefficient)}"
            sign = "-" if coefficient < 0 else "+"
            parts += [f" {sign} {text}" if parts else (f"-{text}" if sign == "-" else text)]
        if self.const or not parts:
            sign = "-" if self.const < 0 else "+"
            parts += [f" {sign} {abs(self.const)}" if parts else str(self.const)]
        return "".join(parts)


def affine(value: Affine | int) -> Affine:
    """`value` as an Affine."""
    return Affine((), value) if isinstance(value, int) else value


@lru_cache(maxsize=10_000)
def const(value: int) -> Affine:
    return Affine((), value)


@lru_cache(maxsize=10_000)
def var(name: str) -> Affine:
    return Affine(((name, 1),))


def product_of(factors: Iterable[Affine]) -> Affine:
    """The product of extents, which has a name of its own."""
    times, open_ = 1, list[Affine]()
    for factor in factors:
        match factor:
            case Affine((), value):
                times *= value
            case Affine(((str() as name, value),), 0):
                times *= value
                open_ += factors_of(name)
            case _:
                open_.append(factor)
    if len(open_) < 2:
        return (open_[0] if open_ else const(1)) * times
    name = "*".join(map(str, open_)) if all(map(_is_name, open_)) else Product(tuple(open_))
    return Affine(((name, times),)) if times else const(0)


def _is_name(factor: Affine) -> bool:
    match factor:
        case Affine(((str(), 1),), 0):
            return True
        case _:
            return False


def _with_factors(name: str, values: Mapping[str, Affine]) -> Affine | None:
    """The product of sizes with those in `values` replaced; None where none of them is."""
    if values.keys().isdisjoint(names_of_atom(name)):
        return None
    return product_of(factor.substitute(values) for factor in factors_of(name))


def _canonical(sums: Mapping[Atom, int], constant: int) -> Affine:
    kept = [term for term in sums.items() if term[1]] if 0 in sums.values() else list(sums.items())
    for atom, _ in kept:
        if not isinstance(atom, str):
            kept.sort(key=lambda t: _key(t[0]))
            break
    else:
        kept.sort()
    return Affine(tuple(kept), constant)


def _common_factor(rest: Affine, by: int) -> int:
    """The largest number that divides `by` and every part of `rest`."""
    shared = gcd(by, rest.const)
    for _, coefficient in rest.terms:
        shared = gcd(shared, coefficient)
    return shared


def _scaled_down(rest: Affine, by: int) -> Affine:
    return Affine(tuple((a, c // by) for a, c in rest.terms), rest.const // by)


def _cancel(rest: Affine, by: int) -> tuple[Affine, int]:
    """floor(rest / by) in lowest terms; the constant's part below the common factor cannot matter."""
    shared = by
    for _, coefficient in rest.terms:
        shared = gcd(shared, coefficient)
    return _scaled_down(rest, shared), by // shared


def _operand_text(arg: Affine) -> str:
    text = str(arg)
    return text if " " not in text and "*" not in text and "/" not in text and "%" not in text else f"({text})"
