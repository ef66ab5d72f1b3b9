"""The tree of a kernel as written: one nest for each equation, before any step. And kernels with other equations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from tilegen.errors import Span
from tilegen.ir.affine import var
from tilegen.ir.facts.defined import conditions_on_left
from tilegen.ir.nodes import ONLY, Access, Buffer, Equation, Expr, Kernel, Loop, Node, Range, Stmt, Tensor, Tree
from tilegen.ir.parts.derived import Anchored, BestOfTiles, Ranked, Regrouped
from tilegen.ir.reductions.initial import init_value


def tree_of(kernel: Kernel) -> Tree:
    """The tree of the kernel as written: one nest for each equation, in order."""
    return Tree(kernel, tuple(map(buffer_of, kernel.tensors)), tuple(_nests(kernel)))


def buffer_of(tensor: Tensor) -> Buffer:
    """The tensor in global memory."""
    what = tensor.name, tensor.dtype, tensor.shape, "global", tensor.order, tensor.role
    return Buffer(*what, windows=tensor.windows, span=tensor.span)


def derive(
    kernel: Kernel, made: Regrouped | Ranked | Anchored | BestOfTiles, places: Mapping[str, tuple[Equation, ...]]
) -> Kernel:
    """The kernel with other equations in the place of those of the targets in `places`.

    What they define that is no tensor yet is an intermediate one, as long as the loops of its index; an intermediate
    tensor that nothing defines any more is gone.
    """
    equations = tuple(new for old in kernel.equations for new in places.get(old.target, (old,)))
    defined = {name for e in equations for name in (e.target, e.best)}
    kept = tuple(t for t in kernel.tensors if t.role != "intermediate" or t.name in defined)
    known = {t.name for t in kept}
    added = tuple(_intermediate(e) for group in places.values() for e in group if e.target not in known)
    return replace(kernel, tensors=kept + added, equations=equations, origin=kernel, derived=made)


def _intermediate(equation: Equation) -> Tensor:
    extents = {r.name: r.extent for r in equation.loops}
    shape = tuple(extents[str(i)] for i in equation.index)
    order = tuple(range(len(shape)))
    return Tensor(equation.target, equation.value.dtype, shape, "intermediate", order, equation.span)


def _nests(kernel: Kernel) -> Iterator[Node]:
    """One nest for each equation that reads none while it runs, and one for each recurrence."""
    for _, group in groupby(kernel.equations, lambda e: e.loops[: e.carried] or e.target):
        body: tuple[Node, ...] = ()
        for equation in group:
            body = _joined(body, (nest_of(kernel, equation),) if equation.running is None else ())
        yield from body


def _joined(one: tuple[Node, ...], other: tuple[Node, ...]) -> tuple[Node, ...]:
    """Nests in one, as far as their outermost loops are the same."""
    match one, other:
        case (Loop() as first,), (Loop() as second,) if first.name == second.name:
            return (replace(first, body=_joined(first.body, second.body)),)
        case _:
            return (*one, *other)


def nest_of(kernel: Kernel, equation: Equation) -> Node:
    """The loops and statements of one equation, and of those that read it while it runs."""
    inner: tuple[Node, ...] = _init(kernel, equation) if equation.reduce not in (None, ONLY) else ()
    readers = [e for e in kernel.equations if e.running == equation.target]
    ahead, behind = ([_statement(e) for e in readers if e.inclusive is when] for when in (False, True))
    terms = _loop_nest(equation.reduced[1:], (_statement(equation),), equation.span)
    inner += _loop_nest(equation.reduced[:1], (*ahead, *terms, *behind), equation.span)
    (nest,) = _loop_nest(equation.loops, inner, equation.span)
    return nest


def _statement(equation: Equation) -> Stmt:
    """What is done at each point of the equation's loops."""
    return Stmt(
        equation.target,
        Access(equation.target, equation.index),
        equation.value,
        instance=tuple(var(r.name) for r in (*equation.loops, *equation.reduced)),
        guard=equation.conditions,
        reduce=equation.reduce,
        best=Access(equation.best, equation.index) if equation.best else None,
        arg=equation.arg,
        hits=equation.hits,
        span=equation.span,
    )


def _init(kernel: Kernel, equation: Equation) -> tuple[Node, ...]:
    """The statements that start a reduction, at each point of the left side's loops."""
    assert equation.reduce
    point, guard = tuple(var(r.name) for r in equation.loops), conditions_on_left(equation)
    tensors = [kernel.tensor(name) for name in (equation.target, equation.best) if name]
    values = [init_value(equation.reduce, tensor.dtype) for tensor in tensors]
    starts: list[tuple[Tensor, Expr]] = list(zip(tensors, values, strict=True))
    if equation.best:
        assert equation.first is not None
        starts[0] = (tensors[0], equation.first)
    return tuple(
        Stmt(f"{t.name}.init", Access(t.name, equation.index), value, instance=point, guard=guard, span=equation.span)
        for t, value in starts
    )


def _loop_nest(ranges: tuple[Range, ...], body: tuple[Node, ...], span: Span | None) -> tuple[Node, ...]:
    for r in reversed(ranges):
        body = (Loop(r.name, r.extent, body, span=span),)
    return body
