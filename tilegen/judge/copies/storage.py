"""What stands for the elements of a tensor: its own memory, its copies, and every access to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Buffer, Const, Load
from tilegen.ir.reductions.ragged import stored_value
from tilegen.poly.execution import ways_before
from tilegen.poly.instances import Placed, Projection, Use, with_divisions
from tilegen.poly.rows import Row
from tilegen.poly.system import Form
from tilegen.poly.verdict import Refused


@dataclass(frozen=True, eq=False)
class Touch:
    """One access of a leaf to what stands for an element of a tensor.

    Attributes:
        use: the access, at a place of a buffer.
        element: the element that the kernel means there, as an access to the tensor. Its fallback is what stands for
            elements outside of the tensor.
    """

    placed: Placed
    use: Use
    element: Use

    @property
    def is_copy(self) -> bool:
        return self.placed.leaf.stmt.is_copy

    @property
    def changes(self) -> bool:
        """True if the element gets a new value here; a copy hands on the one that it has."""
        return self.use.writes and not self.is_copy


@dataclass(frozen=True, eq=False)
class ByElement:
    """A touch, seen as an access to the element instead of the place."""

    placed: Placed
    use: Use


@dataclass(frozen=True, eq=False)
class Storage:
    """A tensor, and all accesses to what stands for its elements; equal ones of a leaf once.

    Attributes:
        beside: writes of copies where they hand over no element, and leave after what is none.
    """

    tensor: str
    program: Projection
    touches: tuple[Touch, ...]
    beside: tuple[Touch, ...] = ()

    @property
    def shape(self) -> tuple[Affine, ...]:
        """The shape of the tensor."""
        return self.program.kernel.tensor(self.tensor).shape

    @cached_property
    def readers(self) -> list[Touch]:
        return [t for t in self.touches if not t.use.writes]

    @cached_property
    def changes(self) -> list[Touch]:
        return [t for t in self.touches if t.changes]

    @cached_property
    def _writers(self) -> Mapping[str, list[Touch]]:
        found: dict[str, list[Touch]] = {}
        for touch in self.touches:
            if touch.use.writes:
                found.setdefault(touch.use.buffer, []).append(touch)
        return found

    def writers(self, buffer: str) -> list[Touch]:
        """The accesses that write the buffer, in program order."""
        return self._writers.get(buffer, [])

    def life(self, buffer: str, one: Placed, two: Placed) -> frozenset[str] | None:
        """The loops that two leaves are in the same iteration of if both find one content of the buffer.

        None if they cannot: the contents do not survive an iteration of the loop that the buffer lives in.
        """
        scope = self.program.buffers[buffer].scope
        if scope is None:
            return frozenset()
        if scope not in one.leaf.names:
            return None
        depth = one.leaf.names.index(scope) + 1
        return frozenset(one.leaf.names[:depth]) if one.common_depth(two) >= depth else None

    def before(self, buffer: str, one: Placed, two: Placed) -> Iterator[tuple[frozenset[str], tuple[Row, ...]]]:
        """The ways in which `one` comes before `two` (primed) in one life of the buffer, the nearest ones first."""
        life = self.life(buffer, one, two)
        if life is not None:
            yield from (way for way in reversed(list(ways_before(one, two))) if len(way[0]) >= len(life))


def storages(program: Projection, beside: Iterable[Placed] = ()) -> list[Storage]:
    """The tensors that have copies, with all accesses. Refused where it is not plain what a buffer holds.

    Args:
        beside: copies where they run and hand over no element.
    """
    found: dict[str, dict[object, Touch]] = {}
    others = [touch for placed in beside for touch in _touches(program, placed) if touch.use.writes]
    for placed in program.leaves:
        for touch in _touches(program, placed):
            key = (placed, touch.use.buffer, touch.use.index, touch.use.writes, touch.element.index)
            found.setdefault(touch.element.buffer, {}).setdefault(key, touch)
    return [
        Storage(tensor, program, tuple(touches.values()), tuple(t for t in others if t.element.buffer == tensor))
        for tensor, touches in found.items()
        if any(t.use.buffer != tensor for t in touches.values())
    ]


def _touches(program: Projection, placed: Placed) -> Iterable[Touch]:
    leaf = placed.leaf
    if leaf.stmt.is_copy:
        return _handed_over(program, placed)
    elements = program.original.elements(leaf)
    for use, element in zip(leaf.uses, elements, strict=True):
        if tensor_of(program.buffers, use.buffer) != element.buffer:
            raise Refused(f"'{leaf.stmt.name}' uses '{use.buffer}' where the kernel uses '{element.buffer}'")
        if use.buffer != element.buffer and use.fallback is not None:
            raise Refused(f"a read of the copy '{use.buffer}' has a fallback, which belongs to the copying")
    return [Touch(placed, use, element) for use, element in zip(leaf.uses, elements, strict=True)]


def _handed_over(program: Projection, placed: Placed) -> Iterable[Touch]:
    """Both accesses of a copy: they stand for one element."""
    stmt = placed.leaf.stmt
    value = stored_value(stmt)
    if not isinstance(value, Load) or stmt.best:
        raise Refused(f"'{stmt.name}' is a copy, and does more than copy")
    read = next(use for use in placed.leaf.uses if (use.buffer, use.index) == (value.buffer, value.index))
    write = placed.leaf.uses[-1]
    tensor = tensor_of(program.buffers, read.buffer)
    if tensor != tensor_of(program.buffers, write.buffer):
        raise Refused(
            f"'{write.buffer}' holds elements of '{tensor_of(program.buffers, write.buffer)}' and of '{tensor}'"
        )
    index = next((u.index for u in (read, write) if u.buffer == tensor), stmt.element)
    if index is None or len(index) != len(program.kernel.tensor(tensor).shape):
        raise Refused(f"it is not known which elements of '{tensor}' the copy '{stmt.name}' hands over")
    element = Use(tensor, index, False, read.fallback or value_beyond(program, read.buffer))
    return Touch(placed, read, element), Touch(placed, write, element)


def tensor_of(buffers: Mapping[str, Buffer], buffer: str) -> str:
    """The tensor of the kernel that the buffer says it holds elements of."""
    passed: list[str] = []
    while buffer in buffers and buffers[buffer].role == "copy" and buffer not in passed:
        passed.append(buffer)
        buffer = buffers[buffer].copy_of or buffer
    return buffer


def value_beyond(program: Projection, buffer: str, passed: tuple[str, ...] = ()) -> Const | None:
    """What a copy holds for elements outside of its tensor: the fallback of the reads that fill it, or of those that
    fill what it is filled from. Refused where they differ."""
    found: dict[Const, None] = {}
    for placed in program.leaves:
        stmt = placed.leaf.stmt
        if stmt.is_copy and stmt.target.buffer == buffer and isinstance(stmt.value, Load):
            source = stmt.value.buffer
            value = stmt.value.fallback
            if value is None and source not in passed:
                value = value_beyond(program, source, (*passed, buffer))
            if value is not None:
                found[value] = None
    if len(found) > 1:
        one, two = (const.value for const in list(found)[:2])
        raise Refused(f"outside of the tensor, '{buffer}' holds {one} and {two}")
    return next(iter(found), None)


def renamed_element(touch: Touch, names: Mapping[str, str], mark: str) -> tuple[Form, ...]:
    """The element where the loops of the leaf have these names; other divisions of them get the mark."""
    forms = touch.element.forms
    names = with_divisions(names, forms, mark)
    return tuple(f.rename(names) for f in forms)
