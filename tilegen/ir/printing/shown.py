"""What Python shows of a result: a line at a prompt, a table as text for print, a table as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Table:
    """A title, the heads of columns, and rows of cells; numbers stand to the right."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def text(self) -> str:
        """The table with its columns below one another."""
        lines = [self.heads, *self.rows]
        columns = [self._aligned(number, cells) for number, cells in enumerate(zip(*lines, strict=True))]
        return "\n".join([self.title, *("  ".join(row).rstrip() for row in zip(*columns, strict=True)), *self.notes])

    def html(self) -> str:
        """The table for a notebook."""
        heads = "".join(f"<th>{escape(head)}</th>" for head in self.heads)
        rows = "".join(f"<tr>{''.join(map(self._cell, range(len(row)), row))}</tr>" for row in self.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><caption>{escape(self.title)}</caption><tr>{heads}</tr>{rows}</table>{notes}"

    def _aligned(self, column: int, cells: Sequence[str]) -> list[str]:
        width = max(map(len, cells))
        return [cell.rjust(width) if self._is_numeric(column) else cell.ljust(width) for cell in cells]

    def _cell(self, column: int, cell: str) -> str:
        align = "right" if self._is_numeric(column) else "left"
        return f'<td style="text-align:{align}">{escape(cell)}</td>'

    def _is_numeric(self, column: int) -> bool:
        cells = [row[column] for row in self.rows if row[column]]
        return bool(cells) and all(cell.lstrip("x -")[:1].isdigit() for cell in cells)


class ShownAsTable:
    """A result whose rows a table shows."""

    def table(self) -> Table:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.table().title}>"

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def size_words(values: Mapping[str, object]) -> str:
    """Sizes, or other values, as options of a command take them: `M=64 N=64`."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def counted(things: Sequence[object], word: str) -> str:
    """`1 launch`, `2 launches`."""
    plural = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"{len(things)} {word if len(things) == 1 else plural}"


def listing(text: str) -> str:
    """A text in which columns matter, for a notebook."""
    return f'<pre style="line-height:1.2">{escape(text)}</pre>'
