"""Operands in shared memory that a descriptor tells of: the hardware reads the elements that the nest does.

Theorem: for every element of the operand, the place where the hardware looks for it (descriptors.py) is where the
buffer has the element that the nest uses, counted from the element that the nest begins with. By enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir.affine import Affine
from tilegen.ir.descriptors import NotDescribed, described_form, start_fault
from tilegen.ir.instructions import SharedMatrix
from tilegen.ir.matching import inner_part
from tilegen.ir.nodes import Access, Buffer
from tilegen.poly.verdict import Refused


def check_described(
    buffer: Buffer, access: Access, layout: SharedMatrix, points: tuple[Affine, ...], extents: Mapping[str, int]
) -> None:
    """Refused where `access`, in a nest of these loops, is no operand of the layout; `points` are its elements."""
    name = layout.operand.name
    if buffer.space != "shared":
        way = f"cache_shared({buffer.name}, at=...) puts it there"
        raise Refused(f"the operand {name} lies in shared memory, and '{buffer.name}' does not", None, way, code="form")
    try:
        described_form(buffer, access, layout, points, extents)
    except NotDescribed as reason:
        notes = tuple(filter(None, (reason.witness, reason.way)))
        raise Refused(reason.sentence, None, *notes, code="form") from None
    if fault := start_fault(buffer, tuple(i - inner_part(i, extents.keys()) for i in access.index)):
        raise Refused(f"no descriptor tells of '{buffer.name}' as the operand {name}", None, fault, code="form")
