"""Reductions inside expressions: each is an equation of its own, for a tensor that is called after the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, product
from typing import Any

from tilegen.errors import SourceError, Span
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.index import COMPARISONS
from tilegen.frontend.equations.operators import DTYPES
from tilegen.ir.nodes import ONLY, REDUCTIONS
from tilegen.ir.walk import rewrite

_MOST_TRIED = 40


class NestedReduction(SourceError):
    """A reduction that is not at the top of its equation."""

    def __init__(self, equation: s.Assign, reduction: s.Reduction) -> None:
        super().__init__(
            "the type or the range of this reduction inside of an expression cannot be found",
            reduction.span,
            notes=("give it a tensor and an equation of its own, and use that here",),
        )
        self.equation = equation


def write_out(decl: s.KernelDecl, nested: NestedReduction, build: Callable[[s.KernelDecl], object]) -> s.KernelDecl:
    """The kernel with the reductions inside of an equation as equations for tensors.

    `m[i] = sum[j](X[i, j]) / 8` becomes `m.sum[i] = sum[j](X[i, j])` and `m[i] = m.sum[i] / 8`. Types and extents of a
    tensor are those with which `build` accepts the kernel, that of the target first.

    Raises SourceError where it accepts none: its own, of a kernel in which the reduction is right, or else `nested`.
    """
    tried = 0
    refusal: SourceError = nested
    waiting = [_Attempt(decl, nested.equation)]
    while waiting and tried < _MOST_TRIED:
        for step in waiting.pop(0).steps():
            tried += 1
            try:
                build(step.decl)
            except NestedReduction as error:
                if error.equation == step.equation:  # one more inside the same right side
                    waiting.insert(0, step)
                    break
            except SourceError as error:
                wrong = [each for each in (error, *error.others) if each.span == step.moved]
                refusal = error if refusal is nested and not wrong else refusal
                continue
            return step.decl
    raise refusal


@dataclass(frozen=True)
class _Attempt:
    """A rewritten kernel, in which some nested reductions are equations for new tensors.

    `equation` is the one that had them inside it, as it is now; the one at `moved` has been taken out last.
    """

    decl: s.KernelDecl
    equation: s.Assign
    moved: Span | None = None

    def steps(self) -> Iterator[_Attempt]:
        """The kernels with the innermost nested reduction moved out, one for each type and extent that it may have."""
        reduction, around = _innermost(self.equation)
        bound = {name.text for item in reduction.items for name in _words_in(item)} - set(around)
        used = {name.text for name in _words_in(reduction)} - bound
        kept = [word for word in around if word in used]
        extents = [_index_bounds(self.decl, self.equation, word) for word in kept]
        span, name, alone = reduction.span, self._name_of(reduction), self._fresh_index()
        index = tuple(s.Name(word, span) for word in kept or [alone])
        place = s.Subscript(s.Name(name, span), tuple(index if kept else [s.Num(0, span)]), span)
        value = rewrite(self.equation.value, lambda part: place if part is reduction else part)
        changed = replace(self.equation, value=value)
        own = s.Assign(s.Subscript(place.base, index, span), reduction, self._kept_restriction(set(kept)), span)
        types = dict.fromkeys((self._type_of_target(), *DTYPES))
        for shape, dtype in product(product(*extents) if kept else [(s.Num(1, span),)], types):
            param = s.Param(place.base, s.Name(dtype, span), shape, None, None, span)
            equations = tuple(
                e for old in self.decl.equations for e in ((own, changed) if old == self.equation else (old,))
            )
            decl = replace(self.decl, variables=(*self.decl.variables, param), equations=equations)
            yield _Attempt(decl, changed, span)

    def _name_of(self, reduction: s.Reduction) -> str:
        """`m.sum`, of two of them `m.sum2`."""
        known = {param.name.text for param in self._params()}
        first = f"{self.equation.target.base.text}.{reduction.word.text}"
        return next(name for name in chain([first], (f"{first}{n}" for n in count(2))) if name not in known)

    def _fresh_index(self) -> str:
        known = {name.text for equation in self.decl.equations for name in _words_in(equation)}
        known |= {param.name.text for param in self._params()}
        known |= {*self.decl.functions, *self.decl.attributes, *self.decl.size_names()}
        return next(name for name in chain(["z", "o"], (f"z{n}" for n in count(2))) if name not in known)

    def _params(self) -> tuple[s.Param, ...]:
        return (*self.decl.inputs, *self.decl.outputs, *self.decl.variables)

    def _type_of_target(self) -> str:
        return next(p.type.text for p in self._params() if p.name.text == self.equation.target.base.text)

    def _kept_restriction(self, kept: set[str]) -> s.Syntax | None:
        """The equation's own restriction, where it is one of the indices that are kept."""
        condition = self.equation.condition
        if condition is None:
            return None
        sizes = {*self.decl.size_names(), *self.decl.attributes}
        return condition if {name.text for name in _words_in(condition)} <= kept | sizes else None


def _innermost(equation: s.Assign) -> tuple[s.Reduction, list[str]]:
    """The first reduction below the top that has none inside it, and the index words that are bound around it."""
    words = [n.text for item in equation.target.items for n in _words_in(item)]

    def inside(node: s.Syntax, around: list[str], top: bool) -> Iterator[tuple[s.Reduction, list[str]]]:
        if isinstance(node, s.Reduction) and node.word.text in (*REDUCTIONS, ONLY):
            inner = [*around, *(n.text for item in node.items for n in _words_in(item))]
            found = list(inside(node.body, inner, False))
            yield from found
            if not found and not top:
                yield node, around
            return
        for part in s.parts_of(node):
            yield from inside(part, around, False)

    reduction, around = next(inside(equation.value, words, True))
    return reduction, list(dict.fromkeys(around))


def _words_in(node: Any) -> Iterator[s.Name]:
    """Every word in an expression or equation that is the name of an index or a size, that of a range included."""
    if isinstance(node, s.Assign):
        for part in (node.target, node.value, node.condition):
            yield from _words_in(part) if part is not None else ()
        return
    for part in s.subexpressions(node):
        if isinstance(part, s.Name):
            yield part
        elif isinstance(part, s.Within):
            yield part.name


def _index_bounds(decl: s.KernelDecl, equation: s.Assign, word: str) -> list[s.Syntax]:
    """What the index may run to: the ends of its ranges, and the extents of dimensions where it stands alone."""
    shapes = {p.name.text: p.shape or () for p in (*decl.inputs, *decl.outputs, *decl.variables)}
    found: list[s.Syntax] = []
    for part in (p for e in (equation.target, equation.value) for p in s.subexpressions(e)):
        match part:
            case s.Subscript(base, items):
                pairs = zip(items, shapes.get(base.text, ()), strict=False)
                found += [extent for item, extent in pairs if isinstance(item, s.Name) and item.text == word]
            case s.Within(name, _, high) if name.text == word:
                found += [high]
            case s.Reduction(_, items):
                found += [
                    item.right if item.operator == "<" else s.Binary("+", item.right, s.Num(1, item.span), item.span)
                    for item in items
                    if isinstance(item, s.Binary) and item.operator in ("<", "<=") and item.operator in COMPARISONS
                    if isinstance(item.left, s.Name) and item.left.text == word
                ]
    return list({extent.span.text: extent for extent in found}.values())
