"""Each leaf computes what the kernel's statement computes at the instance that it runs.

Theorem: under the leaf's map to instances, its expression is the kernel's, operation by operation; indices that are
values are equal numbers at every iteration; and its accesses are to the kernel's elements. An access to a copy stands
for an element of the tensor that is copied, and which one it holds is asked in `copies`.
"""

from __future__ import annotations

from dataclasses import fields

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Expr, Index, Load
from tilegen.ir.parts.lists import Hits
from tilegen.poly.instances import Leaf, Projection
from tilegen.poly.system import Row, form
from tilegen.poly.verdict import Refused, counterexample


def check_shape(program: Projection) -> None:
    """Refused where an expression, a reduction or an element used in place is not the kernel's."""
    copies = frozenset(b.name for b in program.buffers.values() if b.role == "copy")
    kept = {e.hits.access.buffer for e in program.kernel.equations if e.hits}
    for placed in program.leaves:
        leaf = placed.leaf
        for use in leaf.uses:
            if use.buffer in kept and not leaf.stmt.hits:
                raise Refused(f"'{use.buffer}' keeps a list, and '{leaf.stmt.name}' touches it, too")
            if use.writes and program.buffers[use.buffer].role == "input":
                raise Refused(f"the input '{use.buffer}' is written")
        if not leaf.stmt.is_copy:
            _check_leaf(program, leaf, copies)


def _check_leaf(program: Projection, leaf: Leaf, copies: frozenset[str]) -> None:
    origin = program.original.statements[leaf.stmt.name].leaf
    stmt, kernel = leaf.stmt, origin.stmt
    values = dict(zip(origin.names, stmt.instance or (), strict=True))
    alike = (stmt.reduce, stmt.best is None, stmt.arg is None) == (
        kernel.reduce,
        kernel.best is None,
        kernel.arg is None,
    )
    if not alike or not _is_same(program, leaf, kernel.value, stmt.value, values):
        raise Refused(f"a statement does not compute what '{leaf.stmt.name}' does in the kernel")
    _check_hits(program, leaf, kernel.hits, values)
    if kernel.arg is not None and stmt.arg is not None:
        what = "the index that goes with a best value"
        if not _is_same(program, leaf, kernel.arg, stmt.arg, values, what):
            raise Refused(f"{what} in '{leaf.stmt.name}' is not the kernel's")
    for use, element in zip(leaf.uses, program.original.elements(leaf), strict=True):
        if use.buffer in copies:
            continue  # the check of values follows it
        # Without a fallback the index has to be inside, which the check of bounds asks.
        if use.buffer != element.buffer or use.fallback not in (None, element.fallback):
            raise Refused(f"'{stmt.name}' uses '{use.buffer}' where the kernel uses '{element.buffer}'")
        for found, wanted in zip(use.index, element.index, strict=True):
            _check_equal(program, leaf, wanted, found, f"an index of '{use.buffer}'")


def _check_hits(program: Projection, leaf: Leaf, wanted: Hits | None, values: dict[str, Affine]) -> None:
    """What is stored of a hit, and at how many places at most, is what the kernel says."""
    found = leaf.stmt.hits
    if wanted is None or found is None:
        alike = found is wanted
    else:
        same = (found.place, found.capacity, len(found.items)) == (wanted.place, wanted.capacity, len(wanted.items))
        pairs = zip((*wanted.items, wanted.rank), (*found.items, found.rank), strict=False)
        alike = same and all(one == two if one is None or two is None else _is_same(program, leaf, one, two, values)
                             for one, two in pairs)  # fmt: skip
    if not alike:
        raise Refused(f"the list of '{leaf.stmt.name}' does not keep what it does in the kernel")


def _is_same(
    program: Projection,
    leaf: Leaf,
    kernel: Expr,
    found: Expr,
    values: dict[str, Affine],
    what: str = "an index used as a value",
) -> bool:
    """Structurally the same, where any load matches any load and indexes are equal as numbers."""
    if type(kernel) is not type(found):
        return False
    if isinstance(kernel, Load):
        return kernel.dtype == found.dtype
    if isinstance(kernel, Index) and isinstance(found, Index):
        _check_equal(program, leaf, kernel.index.substitute(values), found.index, what)
        return kernel.dtype == found.dtype
    for f in (each for each in fields(kernel) if each.compare):
        one, two = getattr(kernel, f.name), getattr(found, f.name)
        parts = one if isinstance(one, tuple) else (one,)
        others = two if isinstance(two, tuple) else (two,)
        if len(parts) != len(others):
            return False
        for a, b in zip(parts, others, strict=True):
            if hasattr(a, "dtype"):
                if not _is_same(program, leaf, a, b, values):
                    return False
            elif a != b or type(a) is not type(b):
                return False
    return True


def _check_equal(program: Projection, leaf: Leaf, wanted: Affine, found: Affine, what: str) -> None:
    if wanted == found:
        return
    original = program.original
    for difference in (form(wanted).minus(form(found), 1), form(found).minus(form(wanted), 1)):
        rows: tuple[Row, ...] = (*original.context, *leaf.domain, *difference.nonnegative())
        if words := counterexample(original, rows, leaf.names):
            raise Refused(
                f"{what} in '{leaf.stmt.name}' is not the kernel's",
                f"{words.instance(leaf)} has {words.value(found)} where the kernel has "
                f"{words.value(wanted)}{words.sizes}",
            )
