"""Are two kernels one computation? Their own names and those of their loops may differ, all else has to be the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from tilegen.ir.affine import var
from tilegen.ir.nodes import Equation, Kernel, Range, Scalar, Tensor
from tilegen.ir.walk import substitute


def find_difference(one: Kernel, other: Kernel) -> str | None:
    """What tells `one` from `other` for someone who calls them or reads them; None if nothing does."""
    return next(chain(_declared(one, other), _computed(one, other)), None)


def _declared(one: Kernel, other: Kernel) -> Iterator[str]:
    """Differences in the names, types and shapes of what is declared."""
    of_one, of_other = _by_name(one), _by_name(other)
    for name in dict.fromkeys((*of_one, *of_other)):
        if name not in of_one or name not in of_other:
            yield f"one of them has '{name}', the other has not"
        elif (a := _text(of_one[name])) != (b := _text(of_other[name])):
            yield f"'{name}' is {a} in one and {b} in the other"
    if one.parameters != other.parameters:
        yield f"one is called with {', '.join(one.parameters)}, the other with {', '.join(other.parameters)}"
    if set(one.assumptions) != set(other.assumptions):
        yield "one of them assumes something of its sizes that the other does not"
    if set(one.different) != set(other.different) or set(one.rising) != set(other.rising):
        yield "one of them is promised something of its data that the other is not"


def _by_name(kernel: Kernel) -> dict[str, Tensor | Scalar]:
    tensors: dict[str, Tensor | Scalar] = {tensor.name: tensor for tensor in kernel.tensors}
    return tensors | {scalar.name: scalar for scalar in kernel.scalars}


def _text(declared: Tensor | Scalar) -> str:
    if isinstance(declared, Scalar):
        return f"a scalar {declared.dtype}"
    rows = declared.order == tuple(range(len(declared.shape)))
    order = "" if rows else f" in the order {', '.join(map(str, declared.order))}"
    return f"an {declared.role} {declared.dtype}[{', '.join(map(str, declared.shape))}]{order}"


def _computed(one: Kernel, other: Kernel) -> Iterator[str]:
    """Differences in the equations, which stand in the same order in both."""
    if [e.target for e in one.equations] != [e.target for e in other.equations]:
        yield "their equations stand in another order"
    for first, second in zip(one.equations, other.equations, strict=False):
        if _without_names(first) != _without_names(second):
            yield f"the equations of '{first.target}' are not the same"


def _without_names(equation: Equation) -> Equation:
    """The equation with loops that are called by their number."""
    names = {r.name: f"loop {n}" for n, r in enumerate((*equation.loops, *equation.reduced))}
    renamed = substitute(equation, {old: var(new) for old, new in names.items()})

    def numbered(ranges: Iterable[Range]) -> tuple[Range, ...]:
        return tuple(replace(r, name=names[r.name], index="") for r in ranges)

    return replace(renamed, loops=numbered(renamed.loops), reduced=numbered(renamed.reduced))
