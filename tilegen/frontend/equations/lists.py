"""Lists: `at[count[o]] = list[i](X[i] if X[i] > 0)` counts hits in `count`, and stores each where that stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.errors import SourceError
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.index import affine_of
from tilegen.frontend.equations.index_words import Declared
from tilegen.frontend.equations.operators import adapt, check_bool
from tilegen.frontend.equations.values import Scope, value_of
from tilegen.ir.affine import Affine, const
from tilegen.ir.in_place import old_of
from tilegen.ir.nodes import Access, Expr, Tensor
from tilegen.ir.parts.lists import LISTS, Hits

COUNTS = ("i32", "i64")
_EXAMPLE = "at[count[o]] = list[i](X[i] if X[i] > 0)"


def counting(equation: s.Assign) -> s.Assign:
    """A list as the equation of the tensor that counts its hits; any other equation as it is. Raises SourceError."""
    value = equation.value
    if not isinstance(value, s.Reduction) or value.word.text not in LISTS:
        return equation
    word = value.word.text
    if not isinstance(value.body, s.Hit):
        notes = (f"it keeps what a condition holds for: {_EXAMPLE}",)
        raise SourceError(f"the '{word}' has no condition", value.body.span, notes=notes)
    counters = [item for item in equation.target.items if isinstance(item, s.Subscript)]
    if len(counters) != 1:
        notes = (f"an output counts the hits, and stands at the place of each: {_EXAMPLE}, with count: i32[1]",)
        raise SourceError(f"the left side does not say what counts the hits of '{word}'", equation.span, notes=notes)
    return replace(equation, target=counters[0], kept=equation.target)


def check_kept(equation: s.Assign, tensors: Mapping[str, Tensor]) -> None:
    """Raises SourceError where the outputs that count and keep the hits of a list are not declared for that."""
    kept, value, count = equation.kept, equation.value, equation.target.base
    if kept is None or not isinstance(value, s.Reduction) or not isinstance(value.body, s.Hit):
        return
    if tensors[count.text].dtype not in COUNTS:
        notes = (f"declare {count.text}: i32[...], or i64[...] where there may be 2**31 hits",)
        raise SourceError(f"'{count.text}' counts hits, and is {tensors[count.text].dtype}", count.span, notes=notes)
    tensor, parts = tensors[kept.base.text], len(value.body.items)
    wanted = len(kept.items) + (parts > 1)
    if old_of(tensor.name) in tensors:
        notes = ("keep the list in an output of its own",)
        raise SourceError(f"'{tensor.name}' keeps a list, and is an input, too", kept.base.span, notes=notes)
    if tensor.role != "output":
        notes = ("what follows the last hit has no value, so that nothing else can be computed from it",)
        raise SourceError(f"'{tensor.name}' keeps a list, and is no output", kept.base.span, notes=notes)
    if len(tensor.shape) != wanted or (parts > 1 and tensor.shape[-1] != const(parts)):
        several = f", and a last one of {parts} for the parts of a hit" if parts > 1 else ""
        declared = f"it is declared {tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
        wants = f"it has {wanted} dimensions: one for each index on the left{several}"
        raise SourceError(f"'{tensor.name}' has not the shape of this list", kept.span, notes=(wants, declared))


def hits_of(scope: Scope, equation: s.Assign, index: Mapping[str, Affine], declared: Declared) -> tuple[Expr, Hits]:
    """Whether a point is a hit of a list, and what is stored of it, and where. Raises SourceError."""
    kept, value = equation.kept, equation.value
    assert kept
    assert isinstance(value, s.Reduction)
    assert isinstance(value.body, s.Hit)
    hit, tensor = value.body, scope.tensors[kept.base.text]
    condition = value_of(scope, hit.condition)
    check_bool("if", condition, hit.condition.span)
    (place,) = (n for n, item in enumerate(kept.items) if isinstance(item, s.Subscript))
    places = [const(0) if n == place else affine_of(item, index, declared) for n, item in enumerate(kept.items)]
    places += [const(0)] if len(hit.items) > 1 else []
    items = tuple(_item(scope, item, tensor) for item in hit.items)
    return adapt(condition, "bool"), Hits(Access(tensor.name, tuple(places)), place, items, tensor.shape[place])


def _item(scope: Scope, item: s.Syntax, tensor: Tensor) -> Expr:
    value = adapt(value_of(scope, item), tensor.dtype)
    if value.dtype != tensor.dtype:
        notes = (f"cast it: {tensor.dtype}({item.span.text})",)
        raise SourceError(f"this is {value.dtype}, and '{tensor.name}' is {tensor.dtype}", item.span, notes=notes)
    return value
