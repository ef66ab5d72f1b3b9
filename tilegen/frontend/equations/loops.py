"""The loops of an equation: where each of its index words runs, and which points its conditions leave out.

A loop counts from 0. The range of an index word is, in this order:

1. `k in a..b`: from a to b - 1, whatever stands there;
2. `k < 3` in a reduction's brackets: up to there, and from what another comparison says, or from 0;
3. the dimension in whose index the word stands alone, on the left side or else in a read without a fallback;
4. what comparisons say of it: from the lower end that they give, or 0;
5. the dimension of a read with a fallback, in whose index the word stands alone.

Other comparisons leave points out of that: terms of a reduction, if they stand in its brackets or name an index of it,
and else elements. A range whose lower end may be negative is shifted: its word is the loop
plus the lower end. One whose lower end is never negative begins at 0, and the points before its lower end are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilegen.errors import SourceError, Span
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.index import affine_of, comparisons_of, conditions_of, never_negative
from tilegen.frontend.equations.index_words import Declared, IndexWords
from tilegen.frontend.equations.ragged import is_data
from tilegen.ir.affine import Affine, Div, Mod, const, var
from tilegen.ir.nodes import Condition, Range, Tensor


@dataclass(frozen=True)
class Loops:
    """The loops of an equation, its conditions in these, and the value of each index word.

    `on_all_terms` are conditions on terms that no index of the reduction is left in, `step*k < 3` where `step` is 0:
    they leave out all terms of an element or none, and are none of the `conditions`.
    """

    left: tuple[Range, ...]
    reduced: tuple[Range, ...]
    conditions: tuple[Condition, ...]
    on_all_terms: tuple[Condition, ...]
    values: Mapping[str, Affine]


@dataclass(frozen=True)
class _Ends:
    """A range: `low <= value < high`. Where there are several candidates for `high`, each of them is right."""

    low: Affine
    high: tuple[Affine, ...]


@dataclass(frozen=True)
class _LonePlace:
    """A place where an index stands alone, and the extent of the dimension there."""

    extent: Affine
    span: Span
    text: str


def loops_of(
    equation: s.Assign,
    words: IndexWords,
    names: Mapping[str, str],
    known: Mapping[str, Affine],
    tensors: Declared,
    assumed: bool,
) -> Loops:
    """The loops and conditions of an equation; `names` gives each index word its loop name.

    `assumed`: the kernel states facts about its sizes, so that unequal extents may still fit.

    Raises:
        SourceError: nothing says how far an index runs, two places contradict each other, or two ranges depend on
            each other.
    """
    index = {**known, **{word: var(loop) for word, loop in names.items()}}
    loops = {names[word]: word for word in words.all()}
    said = _RangeFacts(equation, index, tensors, set(loops), words.reduced.keys())
    sure, unsure = _lone_places(equation, words, tensors)
    ends: dict[str, _Ends] = {}
    for loop, word in loops.items():
        lenient = assumed or loop in said.mentioned
        dimension = _common_extent(word, sure[word], lenient) if sure[word] else None
        possible = _common_extent(word, unsure[word], lenient) if unsure[word] else None
        ends[loop] = said.ends(loop, dimension, possible) or _Ends(const(0), ())
    shifts = _shifts(ends, set(loops))
    values = _values(shifts, loops, words)
    extents = _extents(ends, shifts, values, loops, words)
    reduced = {name for name, word in loops.items() if word in words.reduced}
    kept: dict[Condition, None] = {}
    on_all_terms: dict[Condition, None] = {}
    for c, of_terms in zip(said.conditions, said.of_terms, strict=True):
        condition = Condition(c.value.substitute(values), c.equal)
        if of_terms and condition.value.names().isdisjoint(reduced):
            on_all_terms[condition] = None
        elif not _follows_from_extents(condition, extents):
            kept[condition] = None

    def ranges_of(group: Iterable[str]) -> tuple[Range, ...]:
        return tuple(Range(n, extents[n], w, values[n] - var(n)) for n, w in loops.items() if w in group)

    left, inside = ranges_of(words.left), ranges_of(words.reduced)
    return Loops(left, inside, tuple(kept), tuple(on_all_terms), {w: values[n] for n, w in loops.items()})


class _RangeFacts:
    """The ranges that an equation states outright, and its conditions, both in the values of the index words.

    `of_terms` says of each condition whether it leaves out terms of a reduction, and not elements.
    """

    def __init__(
        self,
        equation: s.Assign,
        index: Mapping[str, Affine],
        tensors: Declared,
        loops: set[str],
        reduced: Collection[str],
    ) -> None:
        self.loops = loops
        self.ranges: dict[str, _Ends] = {}
        self.conditions: list[Condition] = []
        items = equation.value.items if isinstance(equation.value, s.Reduction) else ()
        for item in items:
            match item:
                case s.Name():
                    pass
                case s.Within(name, low, high) if is_data(low, tensors) or is_data(high, tensors):
                    at = index[name.text]
                    self.conditions += [] if is_data(low, tensors) else [Condition(at - affine_of(low, index))]
                    self.conditions += [] if is_data(high, tensors) else [Condition(affine_of(high, index) - at - 1)]
                case s.Within(name, low, high):
                    (loop,) = index[name.text].names()
                    ends = [affine_of(e, index, tensors, "a range") for e in (low, high)]
                    self.ranges.setdefault(loop, _Ends(ends[0], (ends[1],)))
                    self.conditions += [Condition(var(loop) - ends[0]), Condition(ends[1] - var(loop) - 1)]
                case _:
                    self.conditions += conditions_of(item, index, tensors, "a range")
        self.in_brackets = len(self.conditions)
        self.of_terms = [True] * self.in_brackets
        for part in comparisons_of(equation.condition):
            names = {name.text for name in s.subexpressions(part) if isinstance(name, s.Name)}
            self.conditions += conditions_of(part, index, tensors)
            self.of_terms += [not names.isdisjoint(reduced)]
        self.reduced = {name for word in reduced for name in index[word].names()}
        self.mentioned = {name for c in self.conditions for name in c.value.names() & loops}

    def ends(self, loop: str, dimension: Affine | None, possible: Affine | None) -> _Ends | None:
        """The range of a loop; None where nothing says it.

        Args:
            dimension: of the place where it stands alone; `possible`: of one where it may go outside.
        """
        if loop in self.ranges:
            return self.ranges[loop]
        found = [
            c
            for c, of_terms in zip(self.conditions, self.of_terms, strict=True)
            if loop in self.reduced or not of_terms
        ]
        brackets = [c for c in self.conditions[: self.in_brackets] if loop in self.reduced]
        alone = [end for end in _upper(loop, brackets) if end.names().isdisjoint(self.loops)]
        if alone:
            return _Ends(self._low(loop, brackets), (alone[0],))
        if dimension is not None:
            return _Ends(const(0), (dimension,))
        high = tuple(_upper(loop, found))
        if high:
            first = sorted(high, key=lambda end: not end.names().isdisjoint(self.loops))
            return _Ends(self._low(loop, found), tuple(first))
        return None if possible is None else _Ends(const(0), (possible,))

    def _low(self, loop: str, conditions: Iterable[Condition]) -> Affine:
        """A lower end that the conditions state, one of sizes alone if there is one; else 0."""
        found = list(_lower(loop, conditions))
        return next((low for low in found if low.names().isdisjoint(self.loops)), found[0] if found else const(0))


def _upper(loop: str, conditions: Iterable[Condition]) -> Iterator[Affine]:
    """The upper ends, exclusive, that the conditions set to a loop."""
    for c in conditions:
        if not c.equal and c.value.coefficient(loop) == -1 and c.value.linear_in(loop):
            yield c.value + var(loop) + 1


def _lower(loop: str, conditions: Iterable[Condition]) -> Iterator[Affine]:
    for c in conditions:
        if not c.equal and c.value.coefficient(loop) == 1 and c.value.linear_in(loop):
            yield var(loop) - c.value


# -- where an index stands alone


def _lone_places(
    equation: s.Assign, words: IndexWords, tensors: Declared
) -> tuple[dict[str, list[_LonePlace]], dict[str, list[_LonePlace]]]:
    """(places where each index word stands alone and stays inside, such places in reads with a fallback)."""
    sure: dict[str, list[_LonePlace]] = {w: [] for w in words.all()}
    unsure: dict[str, list[_LonePlace]] = {w: [] for w in words.all()}
    _collect(equation.target, tensors, sure)
    parts = list(s.subexpressions(equation.value))
    total = {id(p.read) for p in parts if isinstance(p, s.Fallback)}
    for part in parts:
        if isinstance(part, s.Subscript):
            _collect(part, tensors, unsure if id(part) in total else sure)
    return sure, unsure


def _collect(node: s.Subscript, tensors: Declared, found: dict[str, list[_LonePlace]]) -> None:
    tensor = tensors.get(node.base.text)
    if not isinstance(tensor, Tensor) or len(tensor.shape) != len(node.items):
        return
    for item, extent in zip(node.items, tensor.shape, strict=True):
        if isinstance(item, s.Name) and item.text in found:
            found[item.text].append(_LonePlace(extent, item.span, node.span.text))


def _common_extent(word: str, places: list[_LonePlace], lenient: bool) -> Affine:
    """The extent that all places allow. Raises SourceError naming two that contradict each other.

    On the left side the target's extent counts; a read may have more elements than that.
    """
    first = places[0]
    for other in places[1:]:
        if other.extent == first.extent or lenient or never_negative(other.extent - first.extent):
            continue
        raise SourceError(
            f"the index '{word}' runs over {first.extent} in {first.text} but over {other.extent} in {other.text}",
            other.span,
            notes=(
                f"give both the same size, or say how far it goes: sum[{word} < ...], or 'for {word} < ...' at the end",
            ),
        )
    return first.extent


# -- from ranges to loops that count from 0


def _shifts(ends: Mapping[str, _Ends], loops: set[str]) -> dict[str, Affine]:
    """The lower ends by which loops are shifted: those that may be negative."""
    shifted: dict[str, Affine] = {}
    while True:
        counted = loops - shifted.keys()
        more = {n: e.low for n, e in ends.items() if n in counted and not never_negative(e.low, loops, counted)}
        if not more:
            return shifted
        shifted |= more


def _values(shifts: Mapping[str, Affine], loops: Mapping[str, str], words: IndexWords) -> dict[str, Affine]:
    """What the word of each loop stands for: the loop, and the lower end of its range where that is a shift."""
    values = {name: var(name) for name in loops}
    pending = dict(shifts)
    while pending:
        ready = [name for name, low in pending.items() if low.names().isdisjoint(pending)]
        if not ready:
            first = loops[next(iter(pending))]
            raise SourceError(
                f"the range of '{first}' depends on itself",
                words.reduced.get(first) or words.left[first],
                notes=("let the range of one index depend on the other one alone",),
            )
        for name in ready:
            values[name] = var(name) + pending.pop(name).substitute(values)
    return values


def _extents(
    ends: Mapping[str, _Ends],
    shifts: Mapping[str, Affine],
    values: Mapping[str, Affine],
    loops: Mapping[str, str],
    words: IndexWords,
) -> dict[str, Affine]:
    """The extent of each loop, in sizes alone: the greatest length that its range has anywhere."""
    found: dict[str, Affine] = {}
    pending = dict(ends)
    while pending:
        before = len(found)
        for name, range_ in list(pending.items()):
            lengths = ((high - shifts.get(name, const(0))).substitute(values) for high in range_.high)
            largest = next((most for n in lengths if (most := _largest(n, set(loops), found)) is not None), None)
            if largest is not None:
                found[name] = largest if largest.terms else const(max(0, largest.const))
                del pending[name]
        if len(found) == before:
            raise _no_range_error(loops[next(iter(pending))], words)
    return found


def _no_range_error(word: str, words: IndexWords) -> SourceError:
    example = f"{word} < ..." if word in words.reduced else f"for {word} < ..."
    return SourceError(
        f"nothing says how far the index '{word}' runs",
        words.left.get(word) or words.reduced[word],
        notes=(f"it stands alone in no tensor's index, so write its range: {example}",),
    )


def _largest(value: Affine, loops: set[str], found: Mapping[str, Affine]) -> Affine | None:
    """An upper end of `value` over the loops, in sizes alone; None where one of them has no extent yet."""
    total = const(value.const)
    for atom, factor in value.terms:
        match atom:
            case str() if atom not in loops:
                part: Affine | None = var(atom) * factor
            case str():
                part = None if atom not in found else (found[atom] - 1) * factor if factor > 0 else const(0)
            case Div(arg, by):
                inner = _largest(arg if factor > 0 else -arg, loops, found)
                part = None if inner is None else ((inner if factor > 0 else -inner) // by) * factor
            case Mod(by=by):
                part = const((by - 1) * factor) if factor > 0 else const(0)
            case _:
                raise TypeError(atom)
        if part is None:
            return None
        total = total + part
    return total


def _follows_from_extents(condition: Condition, extents: Mapping[str, Affine]) -> bool:
    """True for `i >= 0` and for `i < extent of i`, which the loop implies."""
    value = condition.value
    for loop, extent in extents.items():
        if not condition.equal and loop in value.names():
            if value in (var(loop), extent - var(loop) - 1):
                return True
            if value.terms == ((loop, 1),) and value.const >= 0:
                return True
    return False
