"""The loops of an equation: its index words, where each of them runs, and what else restricts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.index import (
    COMPARISONS,
    affine_of,
    conditions_of,
    never_negative,
    subexpressions,
    written,
)
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import REDUCTIONS, Condition, Range, Tensor


@dataclass
class Words:
    """The index words of one equation: those of the left side, and those it reduces, in order.

    `left` and `reduced` map each word to its first place.
    """

    left: dict[str, Span] = field(default_factory=dict)
    reduced: dict[str, Span] = field(default_factory=dict)

    def all(self) -> list[str]:
        return [*self.left, *self.reduced]


def words_of(equation: s.Assign, known: Mapping[str, Affine], tensors: Mapping[str, Tensor]) -> Words:
    """The index words of an equation; `known` has the sizes and attributes. Raises SourceError."""
    words = Words()
    for item in equation.target.items:
        for part in subexpressions(item):
            if isinstance(part, s.Subscript):
                affine_of(part, known, tensors)
            if isinstance(part, s.Name) and part.text not in known and part.text not in tensors:
                words.left.setdefault(part.text, part.span)
    if not words.left:
        target = equation.target.base.text
        raise SourceError(
            "the left side has no index",
            equation.target.span,
            notes=(f"a single number is a tensor of one element: {target}: f32[1], written {target}[i]",),
        )
    if isinstance(equation.value, s.Reduction):
        for item in equation.value.items:
            _add_reduced(item, words, known, tensors)
    return words


def _add_reduced(item: s.Syntax, words: Words, known: Mapping[str, Affine], tensors: Mapping[str, Tensor]) -> None:
    match item:
        case s.Name() | s.Within():
            name = item if isinstance(item, s.Name) else item.name
        case s.Binary(operator, _, _) if operator in (*COMPARISONS, "and"):
            names = [p for p in subexpressions(item) if isinstance(p, s.Name)]
            new = [n for n in names if n.text not in words.left and n.text not in known and n.text not in tensors]
            fresh = [n for n in new if n.text not in words.reduced]
            if not fresh and not new:
                raise SourceError("this range names no index of its own", item.span, notes=(_RANGES,))
            name = (fresh or new)[0]
        case _:
            raise SourceError("this is no reduction index", item.span, notes=(_RANGES,))
    if name.text in words.left:
        notes = ("an index of the left side is fixed while the reduction runs; take another word",)
        raise SourceError(f"'{name.text}' is an index of the left side too", name.span, notes=notes)
    if name.text in known:
        raise SourceError(f"'{name.text}' is a size and cannot be a reduction index", name.span)
    if name.text in tensors:
        raise SourceError(f"'{name.text}' is a tensor and cannot be a reduction index", name.span)
    words.reduced.setdefault(name.text, name.span)


_RANGES = "a reduction index is written k, k < 3, k <= i or k in a..b (b excluded)"


@dataclass(frozen=True)
class Lone:
    """A place where an index stands alone, and the extent of the dimension there."""

    extent: Affine
    span: Span
    text: str
    sure: bool  # False for a read with a fallback, which may go outside


@dataclass(frozen=True)
class Loops:
    left: tuple[Range, ...]
    reduced: tuple[Range, ...]
    conditions: tuple[Condition, ...]


def loops_of(
    equation: s.Assign,
    words: Words,
    names: Mapping[str, str],
    known: Mapping[str, Affine],
    tensors: Mapping[str, Tensor],
    assumed: bool,
) -> Loops:
    """The loops and conditions of an equation; `names` gives each index word its loop name.

    `assumed`: the kernel states facts about its sizes, so that unequal extents may still fit.
    """
    index = {**known, **{word: var(loop) for word, loop in names.items()}}
    ranges = _Ranges(index, tensors, {names[w] for w in words.all()})
    if isinstance(equation.value, s.Reduction):
        for item in equation.value.items:
            ranges.add_item(item, names)
    bounded = ranges.bounded.copy()
    if equation.condition is not None:
        ranges.add_condition(equation.condition)
    lone = _lone_places(equation, words, tensors)
    found: dict[str, Affine] = {}
    for word in words.all():
        loop = names[word]
        if loop in bounded:
            found[loop] = bounded[loop]
        elif lone[word]:
            found[loop] = _agreed(word, lone[word], assumed or loop in ranges.mentioned)
    for word in words.all():
        if names[word] not in found:
            found[names[word]] = _bound_by_conditions(word, names, ranges, found, words)

    def made(group: dict[str, Span]) -> tuple[Range, ...]:
        return tuple(Range(names[w], found[names[w]], w) for w in group)

    conditions = [c for c in ranges.conditions if not _said_by_extents(c, found)]
    return Loops(made(words.left), made(words.reduced), tuple(dict.fromkeys(conditions)))


class _Ranges:
    """What an equation says about its ranges: extents given outright, and conditions."""

    def __init__(self, index: Mapping[str, Affine], tensors: Mapping[str, Tensor], loops: set[str]) -> None:
        self.index = index
        self.tensors = tensors
        self.loops = loops
        self.bounded: dict[str, Affine] = {}
        self.conditions: list[Condition] = []
        self.mentioned: set[str] = set()

    def add_item(self, item: s.Syntax, names: Mapping[str, str]) -> None:
        match item:
            case s.Name():
                pass
            case s.Within(name, low, high):
                loop = var(names[name.text])
                low_, high_ = (affine_of(e, self.index, self.tensors, "a range") for e in (low, high))
                self._add([Condition(loop - low_), Condition(high_ - loop - 1)])
            case _:
                self._add(conditions_of(item, self.index, self.tensors, "a range"))

    def add_condition(self, item: s.Syntax) -> None:
        self._add(conditions_of(item, self.index, self.tensors))

    def _add(self, conditions: list[Condition]) -> None:
        for condition in conditions:
            self.conditions.append(condition)
            value = condition.value
            inside = value.names() & self.loops
            self.mentioned |= inside
            if len(inside) == 1 and not condition.equal:
                (loop,) = inside
                if value.coefficient(loop) == -1 and value.linear_in(loop):
                    self.bounded.setdefault(loop, value + var(loop) + 1)


def _lone_places(equation: s.Assign, words: Words, tensors: Mapping[str, Tensor]) -> dict[str, list[Lone]]:
    """Where each index word stands alone: those of the left side where there are any, else the reads."""
    on_left: dict[str, list[Lone]] = {w: [] for w in words.all()}
    on_right: dict[str, list[Lone]] = {w: [] for w in words.all()}
    _collect(equation.target, tensors, on_left, True)
    _walk_reads(equation.value, tensors, on_right)
    result: dict[str, list[Lone]] = {}
    for word in words.all():
        places = on_left[word] + [p for p in on_right[word] if p.sure]
        result[word] = places or on_right[word]
    return result


def _walk_reads(value: s.Syntax, tensors: Mapping[str, Tensor], found: dict[str, list[Lone]]) -> None:
    parts = list(subexpressions(value))
    unsure = {id(p.read) for p in parts if isinstance(p, s.Fallback)}
    for part in parts:
        if isinstance(part, s.Subscript):
            _collect(part, tensors, found, id(part) not in unsure)


def _collect(node: s.Subscript, tensors: Mapping[str, Tensor], found: dict[str, list[Lone]], sure: bool) -> None:
    tensor = tensors.get(node.base.text)
    if tensor is None or len(tensor.shape) != len(node.items):
        return
    for item, extent in zip(node.items, tensor.shape, strict=True):
        if isinstance(item, s.Name) and item.text in found:
            found[item.text].append(Lone(extent, item.span, written(node.span), sure))


def _agreed(word: str, places: list[Lone], lenient: bool) -> Affine:
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


def _bound_by_conditions(
    word: str, names: Mapping[str, str], ranges: _Ranges, found: Mapping[str, Affine], words: Words
) -> Affine:
    """The extent of an index that stands nowhere alone, from the conditions on it."""
    loop = names[word]
    if loop in ranges.bounded:
        return ranges.bounded[loop]
    for condition in ranges.conditions:
        value = condition.value
        if condition.equal or value.coefficient(loop) != -1 or not value.linear_in(loop):
            continue
        largest = _largest(value + var(loop) + 1, ranges.loops, found)
        if largest is not None:
            return largest
    span = words.left.get(word) or words.reduced[word]
    example = f"{word} < ..." if word in words.reduced else f"for {word} < ..."
    raise SourceError(
        f"nothing says how far the index '{word}' runs",
        span,
        notes=(f"it stands alone in no tensor's index, so write its range: {example}",),
    )


def _largest(value: Affine, loops: set[str], found: Mapping[str, Affine]) -> Affine | None:
    """The greatest value over the loops whose extents are found, or None."""
    for name in sorted(value.names() & loops):
        if name not in found or not value.linear_in(name):
            return None
        factor = value.coefficient(name)
        value = value - var(name) * factor + ((found[name] - 1) * factor if factor > 0 else 0)
    return value


def _said_by_extents(condition: Condition, extents: Mapping[str, Affine]) -> bool:
    """True for `i >= 0` and for `i < extent of i`, which the loops say already."""
    value = condition.value
    for loop, extent in extents.items():
        if not condition.equal and loop in value.names():
            if value in (var(loop), extent - var(loop) - 1):
                return True
            if value.terms == ((loop, 1),) and value.const >= 0:
                return True
    return False


def check_words(equation: s.Assign, words: Words, index: Mapping[str, Affine], tensors: Mapping[str, Tensor]) -> None:
    """Raises SourceError for a reduction inside the right side, and for an index that nothing binds."""
    top = equation.value
    inside = top.body if isinstance(top, s.Reduction) else top
    for part in subexpressions(inside):
        if isinstance(part, s.Reduction) and part.word.text in REDUCTIONS:
            raise _nested(equation, part, words, tensors)
    for part in subexpressions(top):
        if not isinstance(part, s.Subscript) or part.base.text not in tensors:
            continue
        for name in (n for item in part.items for n in subexpressions(item)):
            if isinstance(name, s.Name) and name.text not in index and name.text not in tensors:
                reduction = top.word.text if isinstance(top, s.Reduction) else "sum"
                way_out = f"to reduce it, write {reduction}[{', '.join([*words.reduced, name.text])}](...)"
                raise SourceError(
                    f"the index '{name.text}' is neither on the left side nor reduced",
                    name.span,
                    notes=did_you_mean(name.text, list(index)) or (way_out,),
                )


def _nested(equation: s.Assign, reduction: s.Reduction, words: Words, tensors: Mapping[str, Tensor]) -> SourceError:
    """The error for a reduction that is not at the top, with the two lines that say the same."""
    target = tensors[equation.target.base.text]
    used = {p.text for p in subexpressions(reduction) if isinstance(p, s.Name)}
    kept = {
        item.text: str(extent)
        for item, extent in zip(equation.target.items, target.shape, strict=False)
        if isinstance(item, s.Name) and item.text in used and item.text in words.left
    } or {"z": "1"}
    name = next(n for n in ("t", "u", "part", "inner", "reduced") if n not in tensors)
    return SourceError(
        "a reduction stands alone on the right side of its equation",
        reduction.span,
        notes=(
            "give it a tensor and an equation of its own, and use that here:",
            f"    var {name}: {target.dtype}[{', '.join(kept.values())}]",
            f"    {name}[{', '.join(kept)}] = {written(reduction.span)}",
        ),
    )
