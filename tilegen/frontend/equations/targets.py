"""The left side of an equation: what it defines is declared, is no input, and has no other equation."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.errors import SourceError, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.lists import check_kept
from tilegen.frontend.equations.values import check_rank
from tilegen.ir.nodes import Scalar, Tensor


def check_left(
    equation: s.Assign, tensors: Mapping[str, Tensor], scalars: Mapping[str, Scalar], done: Mapping[str, s.Assign]
) -> None:
    """Raises SourceError where the left side of an equation is nothing that it can define; `done` are those above."""
    for side in filter(None, (equation.target, equation.kept)):
        _check_target(side.base, tensors, scalars, done)
    check_rank(tensors[equation.target.base.text], equation.target)
    check_kept(equation, tensors)


def _check_target(
    name: s.Name, tensors: Mapping[str, Tensor], scalars: Mapping[str, Scalar], done: Mapping[str, s.Assign]
) -> None:
    if name.text in scalars:
        raise SourceError(f"'{name.text}' is a scalar and cannot be written", name.span)
    if name.text not in tensors:
        written = [t.name for t in tensors.values() if t.role != "input"]
        notes = did_you_mean(name.text, written) or (f"declare it: var {name.text}: f32[...]",)
        raise SourceError(f"there is no tensor '{name.text}'", name.span, notes=notes)
    if tensors[name.text].role == "input":
        notes = ("what is declared among the outputs, too, is updated in place",)
        raise SourceError(f"'{name.text}' is an input and cannot be written", name.span, notes=notes)
    if name.text in done:
        line = done[name.text].span.line
        notes = (f"the first is on line {line}; one equation defines all elements of its target",)
        raise SourceError(f"'{name.text}' has a second equation", name.span, notes=notes)
