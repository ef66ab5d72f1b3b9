"""The index words of an equation, and the checks that each is bound once and used where it may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.index import COMPARISONS, affine_of
from tilegen.frontend.equations.nested import NestedReduction
from tilegen.frontend.equations.values import unknown_reduction
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import REDUCTIONS, Scalar, Tensor
from tilegen.ir.parts.lists import LISTS

# What is declared and is no index or size: data.
Declared = Mapping[str, Tensor | Scalar]


@dataclass
class IndexWords:
    """The index words of one equation: those of the left side, and those it reduces, in order.

    `left` and `reduced` map each word to its first place.
    """

    left: dict[str, Span] = field(default_factory=dict)
    reduced: dict[str, Span] = field(default_factory=dict)

    def all(self) -> list[str]:
        return [*self.left, *self.reduced]


def words_of(equation: s.Assign, known: Mapping[str, Affine], tensors: Declared) -> IndexWords:
    """The index words of an equation; `known` has the sizes and attributes. Raises SourceError."""
    words = IndexWords()
    for item in equation.target.items:
        for part in s.subexpressions(item):
            if isinstance(part, s.Subscript):
                affine_of(part, known, tensors, "a place to write to")
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
        if equation.value.word.text not in REDUCTIONS and not equation.rows:
            raise unknown_reduction(equation.value.word)
        for item in equation.value.items:
            _add_reduced(item, words, known, tensors)
    return words


def _add_reduced(item: s.Syntax, words: IndexWords, known: Mapping[str, Affine], tensors: Declared) -> None:
    match item:
        case s.Name() | s.Within():
            name = item if isinstance(item, s.Name) else item.name
        case s.Binary(operator, _, _) if operator in (*COMPARISONS, "and"):
            names = [p for p in s.subexpressions(item) if isinstance(p, s.Name)]
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
        kind = "scalar" if isinstance(tensors[name.text], Scalar) else "tensor"
        raise SourceError(f"'{name.text}' is a {kind} and cannot be a reduction index", name.span)
    words.reduced.setdefault(name.text, name.span)


_RANGES = "a reduction index is written k, k < 3, k <= i or k in a..b (b excluded)"


def check_words(equation: s.Assign, words: IndexWords, index: Collection[str], tensors: Declared) -> None:
    """Raises SourceError for a reduction inside the right side, and for an index that nothing binds.

    `index` are the sizes, attributes and index words.
    """
    top = equation.value
    inside = top.body if isinstance(top, s.Reduction) else top
    for part in s.subexpressions(inside):
        if isinstance(part, s.Reduction) and part.word.text in LISTS:
            raise SourceError(f"a '{part.word.text}' is the whole right side of an equation", part.span)
        if isinstance(part, s.Reduction) and part.word.text in REDUCTIONS:
            raise NestedReduction(equation, part)
    for part in s.subexpressions(top):
        if not isinstance(part, s.Subscript) or part.base.text not in tensors:
            continue
        for name in (n for item in part.items for n in s.subexpressions(item)):
            if isinstance(name, s.Name) and name.text not in index and name.text not in tensors:
                reduction = top.word.text if isinstance(top, s.Reduction) else "sum"
                way_out = f"to reduce it, write {reduction}[{', '.join([*words.reduced, name.text])}](...)"
                raise SourceError(
                    f"the index '{name.text}' is neither on the left side nor reduced",
                    name.span,
                    notes=did_you_mean(name.text, index) or (way_out,),
                )
