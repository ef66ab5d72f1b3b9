"""The copies of cache_register: statements that fill registers and write them back, and loops around them."""

from __future__ import annotations

from tilegen.errors import StepError
from tilegen.ir.affine import const, var
from tilegen.ir.facts.ranges import simplify
from tilegen.ir.nodes import THREAD_KINDS, Access, Buffer, Condition, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import in_loops, rewrite_indices, substitute
from tilegen.primitives.rewriting.elements import element_copied
from tilegen.primitives.rewriting.region import Point, Region
from tilegen.primitives.rewriting.terms_alone import stored_where_computed


def load_and_store(
    tree: Tree, region: Region, copy: Buffer, place: Point, source: Point, guard: tuple[Condition, ...]
) -> tuple[Stmt | None, Stmt | None]:
    """The statements that fill the registers and that write them back, each None where not needed."""
    name = region.buffer.name
    load = Load(name, source, copy.dtype, region.fallback)
    back = Load(copy.name, place, copy.dtype)
    element = element_copied(tree, region, source)
    store = Stmt(copy.name, Access(name, source), back, guard=guard, element=element)
    return (
        Stmt(copy.name, Access(copy.name, place), load, guard=guard, element=element) if region.loads else None,
        stored_where_computed(tree, region, store, source) if region.stores else None,
    )


def copy_nest(headers: list[Loop], stmt: Stmt | None, copy: Buffer, vector: int) -> tuple[Node, ...]:
    """The copying loops around `stmt`, the innermost cut into vectors; nothing where there is no statement."""
    if stmt is None:
        return ()
    if vector != 1:
        headers, stmt = _in_vectors(headers, stmt, copy, vector)
    return (in_loops(headers, stmt),)


def _in_vectors(headers: list[Loop], stmt: Stmt, copy: Buffer, width: int) -> tuple[list[Loop], Stmt]:
    """The innermost loop cut into vectors, with names of the copy's own."""
    extent = headers[-1].extent.const if headers else 1
    if width < 1 or extent % width or headers[-1].kind in THREAD_KINDS:
        raise StepError(f"vectors of {width} do not divide the {extent} registers of a row of '{copy.name}'")
    last, word = headers[-1], "lane" if headers[-1].name == "v" else "v"
    lane = Loop(f"{copy.name}.{word}", const(width), (), "vector")
    row = Loop(f"{copy.name}.{last.name}", const(extent // width), (), "unrolled")
    place = var(row.name) * width + var(lane.name) if extent > width else var(lane.name)
    kept = [*headers[:-1], row] if extent > width else headers[:-1]
    extents = {row.name: extent // width, lane.name: width}
    moved = substitute(stmt, {last.name: place})
    return [*kept, lane], rewrite_indices(moved, lambda index: simplify(index, extents))
