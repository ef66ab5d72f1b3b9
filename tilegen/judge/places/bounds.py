"""Bounds: every access is inside its buffer.

Theorem: for each access without a fallback, each dimension and each iteration that runs the statement,
0 <= index < extent. Either side's contrary has to be an empty system; the interval of the index, loop by loop, settles
most. An index of a gather depends on data: it is tested at run time, or an expression holds it inside whatever
they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.affine import Affine
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.nodes import Condition
from tilegen.ir.printing.show import show_condition, show_expr
from tilegen.ir.walk import gathers
from tilegen.judge.places.gathers import stays_inside
from tilegen.poly.instances import Leaf, Projection, Use
from tilegen.poly.system import rows_of
from tilegen.poly.verdict import Refused, counterexample


def check_bounds(program: Projection) -> None:
    """Refused where an access of some instance is outside its buffer; reads with a fallback may be."""
    for placed in program.leaves:
        leaf = placed.leaf
        for use in leaf.uses:
            if use.fallback is None:
                _check_use(program, leaf, use)
    for placed in program.leaves:
        _check_gathers(program, placed.leaf)


def check_reads(program: Projection, leaf: Leaf) -> None:
    """Refused where a read of some instance of one leaf is outside its buffer."""
    for use in leaf.uses:
        if not use.writes and use.fallback is None:
            _check_use(program, leaf, use)
    _check_gathers(program, leaf)


def _check_gathers(program: Projection, leaf: Leaf) -> None:
    """Refused where an index that is not tested at run time may leave its dimension at a point of the leaf."""
    for gather in gathers(leaf.stmt):
        shape = program.buffers[gather.buffer].shape
        for dim, place in enumerate(gather.index):
            if dim in gather.tested or stays_inside(place, shape[dim], program.original.rows(leaf)):
                continue
            raise Refused(
                f"'{leaf.stmt.name}' may read outside '{gather.buffer}'",
                f"its index {show_expr(place)} is not held inside of {shape[dim]} elements",
            )


def _check_use(program: Projection, leaf: Leaf, use: Use) -> None:
    extents = {n: e.const for n, e in zip(leaf.names, leaf.extents, strict=True) if e.is_const}
    buffer = program.buffers[use.buffer]
    if len(buffer.shape) != len(use.index):
        raise Refused(f"'{use.buffer}' has {len(buffer.shape)} dimensions and is used with {len(use.index)}")
    for dim, (place, extent) in enumerate(zip(use.index, buffer.shape, strict=True)):
        if is_within(place, extent, extents):
            continue
        for inside in (Condition(place), Condition(extent - 1 - place)):
            outside = Condition(-1 - inside.value)
            if words := counterexample(program.original, program.original.rows(leaf) + rows_of(outside), leaf.names):
                size = extent.evaluate({s: max(1, words.point.get(s, 1)) for s in program.original.kernel.symbols})
                raise Refused(
                    f"an access is outside '{use.buffer}'",
                    f"{words.instance(leaf)} {'writes' if use.writes else 'reads'} {words.element(use)}, and "
                    f"dimension {dim} has {size} element{'s' * (size != 1)}{words.sizes}",
                    "a guard is missing"
                    if not leaf.stmt.guard
                    else f"its guard lets it through: {' and '.join(show_condition(c) for c in leaf.stmt.guard)}",
                )


def is_within(place: Affine, extent: Affine, extents: Mapping[str, int]) -> bool:
    """True if `place` is in 0 <= place < extent whatever the loops with these extents are."""
    ends = interval_of(place, extents)
    return ends is not None and ends[0] >= 0 and extent.is_const and ends[1] < extent.const
