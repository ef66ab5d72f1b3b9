"""The form of a kernel is what it computes, whatever its names are: what is called what in another of the same form?

Types, sizes and numbers are no part of it, and neither is the order of terms and factors. Dimensions count in the order
in which they are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tilegen.ir.affine import Affine, Div, Mod
from tilegen.ir.hardware.matching import COMMUTATIVE
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Cast, Const, Equation, Expr, Gather, Index, Kernel, Load, Op, Scalar
from tilegen.ir.printing.shown import counted
from tilegen.ir.walk import loads

_MOST_TRIED = 20_000  # pairs of parts, until two kernels are held to be of different forms


@dataclass(frozen=True)
class Names:
    """The names of one kernel, each with that of another kernel of its form.

    Attributes:
        tensors: and scalars.
        words: the index words of the text, as dimensions of a tensor; under "" those of all equations.
    """

    sizes: Mapping[str, str]
    loops: Mapping[str, str]
    tensors: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]]

    @property
    def text(self) -> str:
        """`M = T; i = t, k = d; A = X`: those that differ; empty where none does."""
        groups = (self.sizes, self.loops, self.tensors)
        shown = [", ".join(f"{one} = {other}" for one, other in group.items() if one != other) for group in groups]
        return "; ".join(filter(None, shown))


def find_names(one: Kernel, other: Kernel) -> Names | str:
    """The names of `one` in `other`; a sentence that says what differs where the two are not of one form."""
    search = _Search()
    forms = [[_of_equation(kernel, e) for e in kernel.equations] for kernel in (one, other)]
    found = next(search.match_in_order(forms[0], forms[1], {}), None)
    if found is None:
        return _difference(one, other, search.equations)
    loops = {a.text: b.text for a, b in found.items() if a.kind == "loop"}
    others = {a.text: b.text for a, b in found.items() if a.kind != "loop"}
    order = dict.fromkeys([*(t.name for t in one.tensors), *(each.name for each in one.scalars), *others])
    tensors = {name: others[name] for name in order if name in others}
    words: dict[str, dict[str, str]] = {"": {}}
    for first, second in zip(one.equations, other.equations, strict=True):
        index = {r.name: r.index for r in (*second.loops, *second.reduced)}
        words[first.target] = {r.index: index[loops[r.name]] for r in (*first.loops, *first.reduced)}
        words[""] = words[first.target] | words[""]
    for equation in one.equations:
        for load in loads(equation.value):
            words.setdefault(load.buffer, words[equation.target])
    if any(load.buffer in later for later, e in _later(one) for load in loads((e.value, e.arg))):
        loops |= {word: its for word, its in words[""].items() if word not in loops}  # those that a recurrence shares
    return Names(_sizes(one, other, tensors), loops, tensors, words)


def _later(kernel: Kernel) -> Iterator[tuple[set[str], Equation]]:
    """Each equation with the targets of it and of those below."""
    for place, equation in enumerate(kernel.equations):
        yield {e.target for e in kernel.equations[place:]}, equation


def _sizes(one: Kernel, other: Kernel, tensors: Mapping[str, str]) -> dict[str, str]:
    """What each size of `one` is in `other`, by the shapes of tensors: a size, or a number."""
    found: dict[str, str] = {}
    for first in one.tensors:
        if second := next((t for t in other.tensors if t.name == tensors.get(first.name)), None):
            for d, e in zip(first.order, second.order, strict=True):
                if str(first.shape[d]) in one.sizes:
                    found.setdefault(str(first.shape[d]), str(second.shape[e]))
    return {size: found[size] for size in one.sizes if size in found}


def _difference(one: Kernel, other: Kernel, alike: int) -> str:
    """What tells the two apart, `alike` of whose equations are of one form."""
    counts = [counted(kernel.equations, "equation") for kernel in (one, other)]
    if alike >= min(len(one.equations), len(other.equations)):
        return f"{one.name} has {counts[0]}, {other.name} has {counts[1]}"
    first, second = one.equations[alike], other.equations[alike]
    shown = [f"'{e.target}' of {kernel.name}" for e, kernel in ((first, one), (second, other))]
    if first.reduce != second.reduce:
        return f"{shown[0]} is {_what(first)}, {shown[1]} is {_what(second)}"
    loops = [f"{len(e.loops)} + {len(e.reduced)}" for e in (first, second)]
    if loops[0] != loops[1]:
        return f"{shown[0]} has {loops[0]} loops, of its elements and of their terms, {shown[1]} has {loops[1]}"
    return f"{shown[1]} is not {shown[0]} under other names"


def _what(equation: Equation) -> str:
    return f"a {equation.reduce}" if equation.reduce else "no reduction"


# -- forms


@dataclass(frozen=True)
class _Name:
    """A name of the kernel: of a "loop", a "tensor" or a "scalar"."""

    kind: str
    text: str


@dataclass(frozen=True)
class _Part:
    """An operation on others, which may be in `any_order`."""

    word: str
    parts: tuple[_Form, ...] = ()
    any_order: bool = False


_Form = _Name | _Part
_NUMBER = _Part("number")


def _of_equation(kernel: Kernel, equation: Equation) -> _Form:
    loops = {r.name for r in (*equation.loops, *equation.reduced)}
    parts = [
        _of_access(kernel, equation.target, [_of_affine(i, loops) for i in equation.index]),
        _of(kernel, equation.value, loops),
        _Part("conditions", tuple(_of_affine(c.value, loops) for c in equation.conditions), any_order=True),
    ]
    if equation.arg is not None:
        parts.append(_of(kernel, equation.arg, loops))
    if hits := equation.hits:
        parts.append(_of_access(kernel, hits.access.buffer, [_of_affine(i, loops) for i in hits.access.index]))
        parts += [_of(kernel, item, loops) for item in hits.items]
    for group in (equation.loops, equation.reduced):  # those that stand nowhere else, too
        parts.append(_Part("loops", tuple(_Name("loop", r.name) for r in group), any_order=True))
    return _Part(f"{equation.reduce}, {equation.carried} carried", tuple(parts))


def _of_access(kernel: Kernel, buffer: str, index: list[_Form]) -> _Form:
    order = kernel.tensor(memory_of(buffer)).order
    return _Part("element", (_Name("tensor", buffer), *(index[d] for d in order)))


def _of_affine(index: Affine, loops: Collection[str]) -> _Form:
    """The loops in an index, each with its sign."""
    parts: list[_Form] = []
    for atom, weight in index.terms:
        sign = "+" if weight > 0 else "-"
        match atom:
            case Div(arg) | Mod(arg):
                inner = _of_affine(arg, loops)
                parts += [_Part(f"{sign} {atom.sign}", (inner,))] if inner != _NUMBER else []
            case _ if atom in loops:
                parts.append(_Part(sign, (_Name("loop", atom),)))
    return _Part("sum of loops", tuple(parts), any_order=True) if parts else _NUMBER


def _of(kernel: Kernel, value: Expr, loops: Collection[str]) -> _Form:
    match value:
        case Const():
            return _NUMBER
        case Index(index):
            return _of_affine(index, loops)
        case Scalar(name):
            return _Name("scalar", name)
        case Cast(inner):
            return _of(kernel, inner, loops)
        case Load(buffer, index, _, fallback):
            element = _of_access(kernel, buffer, [_of_affine(i, loops) for i in index])
            return element if fallback is None else _Part("or else", (element, _of(kernel, fallback, loops)))
        case Gather(buffer, places, _, other):
            element = _of_access(kernel, buffer, [_of(kernel, i, loops) for i in places])
            return element if other is None else _Part("or else", (element, _of(kernel, other, loops)))
        case Op(name, args):
            parts = [_of(kernel, arg, loops) for arg in args]
            if all(part == _NUMBER for part in parts):
                return _NUMBER
            if name not in COMMUTATIVE:
                return _Part(name, tuple(parts))
            same = [part.parts if isinstance(part, _Part) and part.word == name else (part,) for part in parts]
            return _Part(name, tuple(part for group in same for part in group), any_order=True)
        case _:
            raise TypeError(value)


# -- the search


_Found = dict[_Name, _Name]


@dataclass
class _Search:
    """Attributes: equations: how many have been of one form, at the most; left: pairs of parts that may be tried."""

    equations: int = 0
    left: int = field(default=_MOST_TRIED)

    def match_in_order(self, ones: list[_Form], others: list[_Form], names: _Found, at: int = 0) -> Iterator[_Found]:
        """The ways in which all of these equations are the others."""
        self.equations = max(self.equations, at)
        if at == len(ones) == len(others):
            yield names
        elif at < min(len(ones), len(others)):
            for found in self._match(ones[at], others[at], names):
                yield from self.match_in_order(ones, others, found, at + 1)

    def _match(self, one: _Form, other: _Form, names: _Found) -> Iterator[_Found]:
        self.left -= 1
        match one, other:
            case _ if self.left < 0:
                return
            case _Name(kind), _Name(kind_of_other) if kind == kind_of_other:
                if names.get(one) == other or (one not in names and other not in names.values()):
                    yield {**names, one: other}
            case _Part(word, parts, any_order), _Part(word_of_other, others):
                if word == word_of_other and len(parts) == len(others):
                    yield from (self._any_order if any_order else self._all)(parts, others, names)

    def _all(self, ones: tuple[_Form, ...], others: tuple[_Form, ...], names: _Found) -> Iterator[_Found]:
        if not ones:
            yield names
            return
        for found in self._match(ones[0], others[0], names):
            yield from self._all(ones[1:], others[1:], found)

    def _any_order(self, ones: tuple[_Form, ...], others: tuple[_Form, ...], names: _Found) -> Iterator[_Found]:
        if not ones:
            yield names
            return
        for n, other in enumerate(others):
            for found in self._match(ones[0], other, names):
                yield from self._any_order(ones[1:], (*others[:n], *others[n + 1 :]), found)
