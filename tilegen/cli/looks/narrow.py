"""Tables on narrow terminals: what does not fit side by side stands one below the other, whole and readable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

_TEXT = 24  # characters that a column of several words has at least, if it is so long
_NAMES, _LEAST = 0.55, 10  # share of the terminal that the names of rows may take; characters that they have at least


@dataclass(frozen=True)
class _Sized:
    """A column, how many characters it needs, and how many it takes where there is room."""

    column: Column
    least: int
    most: int


def parts_of(table: Table, console: Console) -> list[Table]:
    """`table` alone if it fits; else tables of some of its columns each, all of them with the names of the rows."""
    room, unlimited = console.options.max_width, console.options.update(width=10_000)
    if not table.columns or Measurement.get(console, unlimited, table).maximum <= room:
        return [table]
    names, *others = (_sized(column, console) for column in table.columns)
    others = [each for each in others if each.most]
    beside = max((each.least for each in others), default=0)
    left = min(int(room * _NAMES), _room_beside(table, room, beside))
    names = replace(names, least=min(names.most, max(left, _LEAST)))
    groups = list(_groups(table, names, others, room))
    return [_with_columns(table, group, room, with_title=group is groups[0]) for group in groups]


def _sized(column: Column, console: Console) -> _Sized:
    """The head may wrap between words, and long texts, too, but no number and no formula."""
    unlimited = console.options.update(width=10_000)
    head = Measurement.get(console, unlimited, column.header)
    measured = [Measurement.get(console, unlimited, cell) for cell in column.cells]
    longest_word = max((m.minimum for m in measured), default=0)
    longest = max((m.maximum for m in measured), default=0)
    return _Sized(column, max(head.minimum, longest_word, min(longest, _TEXT)), max(head.minimum, longest))


def _groups(table: Table, names: _Sized, others: Sequence[_Sized], room: int) -> Iterator[list[_Sized]]:
    """Columns that fit side by side, the names of the rows first in each group."""
    group = [names]
    for each in others:
        each = replace(each, least=max(1, min(each.least, _room_beside(table, room, names.least))))
        if len(group) > 1 and _width(table, [one.least for one in (*group, each)]) > room:
            yield group
            group = [names]
        group.append(each)
    yield group


def _room_beside(table: Table, room: int, width: int) -> int:
    """Characters that are left for a column beside one of this number."""
    return room - _width(table, [width, 0])


def _width(table: Table, widths: Sequence[int]) -> int:
    """Characters that columns of these widths take with all around them."""
    _, right, _, left = table.padding
    padding = len(widths) * (left + right) - (0 if table.pad_edge else left + right)
    lines = len(widths) - 1 + 2 * table.show_edge if table.box else 0
    return sum(widths) + padding + lines


def _with_columns(table: Table, group: Sequence[_Sized], room: int, with_title: bool) -> Table:
    """A table with the looks and the rows of `table`, and the columns of a group."""
    widths = [each.least for each in group]
    for number, each in enumerate(group):  # what is left goes to texts
        widths[number] += max(0, min(each.most - each.least, room - _width(table, widths)))
    part = Table(
        box=table.box,
        padding=table.padding,
        pad_edge=table.pad_edge,
        header_style=table.header_style,
        title=table.title if with_title else None,
        title_justify=table.title_justify,
    )
    part.columns = [
        replace(each.column, _index=number, width=width, min_width=None, max_width=None, overflow="fold")
        for number, (each, width) in enumerate(zip(group, widths, strict=True))
    ]
    part.rows = table.rows
    return part
