"""What is done with a hit of a list, as lines of C: `place = count[0]++`, and there it is stored below the capacity."""

from __future__ import annotations

from dataclasses import replace

from tilegen.backends.text.lines import under_head
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Stmt
from tilegen.ir.parts.lists import Hits

_PLACE = "the place of a hit"  # as no loop is called


def take_line(stmt: Stmt, writer: Writer, integer: str, whole: bool) -> str:
    """The line in which the count goes on by the number of `hits`, of a `whole` block or of one thread."""
    count = f"&{writer.element(stmt.target.buffer, stmt.target.index)}"
    if whole:
        return f"int places = take_places({count}, __popc(hits));"
    take = f"atomicAdd({count}, __popc(hits))" if writer.dialect is CUDA else f"atomic_add({count}, popcount(hits))"
    return f"{integer} place = {take};"


def list_lines(stmt: Stmt, hits: Hits, writer: Writer, integer: str, bit: tuple[str, str]) -> list[str]:
    """The lines of a list's statement; `integer` is the type of offsets. `bit` is of a loop that takes places together:
    whether it finds hits or stores them, by whole blocks or not, and its name."""
    if bit[0] == "find":
        return under_head(f"if ({writer.value(stmt.value, -1)})", [f"hits |= 1u << {bit[1]};"], braces=False)
    inside = replace(writer, names={**writer.names, _PLACE: "place"})
    place = writer.value(hits.rank) if hits.rank else _next_place(stmt, writer)
    stores = []
    for number, item in enumerate(hits.items):
        index = [var(_PLACE) if d == hits.place else i for d, i in enumerate(hits.access.index)]
        index[-1] = const(number) if len(hits.items) > 1 else index[-1]
        access = Access(hits.access.buffer, tuple(index))
        stores.append(f"{inside.element(access.buffer, access.index)} = {inside.store_value(item, access)};")
    test = f"if (0 <= place && place < {writer.index(hits.capacity, 5)})"
    kept = under_head(test, stores, braces=len(stores) > 1)
    if bit[0] == "store by blocks":
        return [f"const {integer} place = next_place(places, (hits >> {bit[1]}) & 1);", *kept]
    if bit[0]:
        return [f"if ((hits >> {bit[1]}) & 1) {{", *kept, "++place;", "}"]
    return [f"if ({writer.value(stmt.value, -1)}) {{", f"const {integer} place = {place};", *kept, "}"]


def _next_place(stmt: Stmt, writer: Writer) -> str:
    """Where the count has come to, which goes on by one."""
    count = writer.element(stmt.target.buffer, stmt.target.index)
    if not stmt.atomic:
        return f"{count}++"
    return f"atomicAdd(&{count}, 1)" if writer.dialect is CUDA else f"atomic_add(&{count}, 1)"
