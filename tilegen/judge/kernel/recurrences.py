"""What an equation reads has been defined before: by an equation above, or earlier in the loops of a recurrence.

A recurrence is one equation that reads its own target, or several that read each other's. They share their outermost
loops, which go in sequence. Theorem: the tree as written defines each element before it is read if, wherever two points
of equations are of one element, the one that defines it is of an equation above and of no recurrence of both; or it is
in an earlier iteration of the shared loops, or in the same one and of an equation above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from tilegen.errors import SourceError
from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.defined import conditions_on_left
from tilegen.ir.nodes import Equation, Kernel, Load, Range
from tilegen.ir.walk import loads, substitute
from tilegen.judge.kernel.equation_points import EquationPoints, mark_names, points_of
from tilegen.poly.rows import Row, rename
from tilegen.poly.system import Undecided, equal_rows, example, form, solvable
from tilegen.poly.verdict import Refused


@dataclass(frozen=True)
class _Read:
    """Points at which `reader` reads what `writer` defines at points with primes; it stands `above`, or does not."""

    reader: Equation
    writer: Equation
    load: Load
    above: bool
    rows: tuple[Row, ...]

    def apart(self, reader: str, writer: str, distance: int | None) -> _Read:
        """Where the writer is so far after in a loop of both, or farther; in the same iteration if that is None."""
        one, other = (1, -1) if distance is None or distance > 0 else (-1, 1)
        row: Row = (distance is None, ((f"{writer}'", one), (reader, other)), -abs(distance or 0))
        return replace(self, rows=(*self.rows, row))

    @property
    def exists(self) -> bool:
        return solvable(self.rows)


def _reads(kernel: Kernel, group: Sequence[Equation]) -> Iterator[_Read]:
    """What the equations of the group read of each other."""
    for place, reader in enumerate(group):
        for load in loads(reader):
            for other, writer in enumerate(group):
                if load.buffer == writer.target:
                    yield _read(kernel, reader, writer, load, other < place)


def _read(kernel: Kernel, reader: Equation, writer: Equation, load: Load, above: bool) -> _Read:
    written = points_of(kernel, writer.loops, conditions_on_left(writer))
    index = [form(i) for i in writer.index]
    names = mark_names(written, index, [r.name for r in writer.loops])
    place = equal_rows([f.rename(names) for f in index], [form(i) for i in load.index])
    here = points_of(kernel, (*reader.loops, *reader.reduced), reader.conditions)
    return _Read(reader, writer, load, above, here + rename(written, names) + place)


def check_defined_before(kernel: Kernel) -> None:
    """Refused where a kernel that steps have made reads what is not defined before."""
    for place, reader in enumerate(kernel.equations):
        for load in loads(reader):
            for other, writer in enumerate(kernel.equations):
                shared = writer.loops[: writer.carried]
                together = bool(shared) and shared == reader.loops[: reader.carried]
                if load.buffer in (writer.target, writer.best) and (together or other >= place):
                    _check_before(_read(kernel, reader, writer, load, other < place), shared if together else ())


def _check_before(read: _Read, shared: tuple[Range, ...]) -> None:
    for r in shared:
        if read.apart(r.name, r.name, 1).exists:
            break
        read = read.apart(r.name, r.name, None)
    else:
        if read.above or not read.exists:
            return
    raise Refused(f"'{read.reader.target}' reads elements of '{read.writer.target}' that are not defined before")


# -- the loops of a recurrence


def in_sequence(kernel: Kernel) -> Kernel:
    """The kernel with the loops along which its recurrences go outermost, and shared. SourceError where there are none.

    A loop goes down from its end where what is read comes from a higher index.
    """
    for group in _circles(kernel.equations):
        try:
            changed = _with_carried(kernel, group, _order(kernel, group))
        except Undecided:
            message = f"whether the recurrence of '{group[-1].target}' has an order is beyond the budget for one proof"
            raise SourceError(message, group[-1].span, code="unproved") from None
        kernel = replace(kernel, equations=tuple(changed.get(e.target, e) for e in kernel.equations))
    meant, slack = (other and in_sequence(other) for other in (kernel.meant, kernel.slack))
    return replace(kernel, meant=meant, slack=slack)


def _circles(equations: Sequence[Equation]) -> Iterator[tuple[Equation, ...]]:
    """The equations that are computed from their own targets, those of one circle together."""
    behind = {e.target: {load.buffer for load in loads(e)} for e in equations}
    for middle in behind:
        for reads in behind.values():
            reads |= behind[middle] if middle in reads else set()
    done: set[str] = set()
    for place, first in enumerate(equations):
        group = tuple(e for e in equations if e.target in behind[first.target] and first.target in behind[e.target])
        if not group or first.target in done:
            continue
        done |= {e.target for e in group}
        for e in equations[place : equations.index(group[-1])]:
            if e not in group:
                message = f"the equation of '{e.target}' stands between those of the recurrence of '{group[-1].target}'"
                raise SourceError(message, e.span, notes=("move it above them, or below",))
        yield group


def _order(kernel: Kernel, group: tuple[Equation, ...]) -> list[tuple[str, bool]]:
    """The index words of the loops that go in sequence, from the outermost, and whether each goes up."""
    found, left = _search(kernel, group)
    if left:
        raise _circular(kernel, group, min(left, key=lambda read: read.reader is not read.writer))
    return found


def _search(kernel: Kernel, group: tuple[Equation, ...]) -> tuple[list[tuple[str, bool]], list[_Read]]:
    """As much of such an order as there is, and the reads that it does not put after what they read."""
    left = [read for read in _reads(kernel, group) if read.exists]
    words = [(r.index, up) for r in group[-1].loops for up in (True, False) if _is_shared(r, group)]
    found: list[tuple[str, bool]] = []
    while open_ := [read for read in left if not read.above]:
        step = next((step for step in words if step not in found and _carries(left, *step)), None)
        if step is None:
            return found, open_
        found.append(step)
        left = [same for read in left if (same := read.apart(*_loops_of(read, step[0]), None)).exists]
    return found, []


def _is_shared(r: Range, group: tuple[Equation, ...]) -> bool:
    return all(any((r.index, r.extent, r.low) == (o.index, o.extent, o.low) for o in e.loops) for e in group)


def _loops_of(read: _Read, word: str) -> tuple[str, str]:
    of_reader, of_writer = (next(r.name for r in e.loops if r.index == word) for e in (read.reader, read.writer))
    return of_reader, of_writer


def _carries(reads: Sequence[_Read], word: str, up: bool) -> bool:
    """True if no read is of a later iteration of the loop, and one of what only an earlier one has defined."""
    later = 1 if up else -1
    if any(read.apart(*_loops_of(read, word), later).exists for read in reads):
        return False
    return any(read.apart(*_loops_of(read, word), -later).exists for read in reads if not read.above)


def _circular(kernel: Kernel, group: tuple[Equation, ...], read: _Read) -> SourceError:
    if read.reader is not read.writer and any(not _search(kernel, other)[1] for other in permutations(group)):
        text = f"'{read.writer.target}' is read before its equation"
        notes = (f"move the equation of '{read.writer.target}' above this one",)
        return SourceError(text, read.load.span or read.reader.span, notes=notes)
    points, other = EquationPoints(kernel, read.reader), EquationPoints(kernel, read.writer)
    ranges = (*read.reader.loops, *read.reader.reduced)
    point = example(read.rows, [*points.name_order(ranges), *(f"{r.name}'" for r in read.writer.loops)])
    assert point is not None
    there = point | {r.name: point.get(f"{r.name}'", 0) for r in read.writer.loops}
    element = points.element(kernel.tensor(read.load.buffer), read.load.index, point)
    note = "each element may be made of those before it along an index of the left side: y[i] of y[i - 1]"
    several = "equations that read each other go along an index that has one word and one range in all of them"
    return SourceError(
        f"the recurrence of '{group[-1].target}' is not well-founded: it runs along no index in one direction",
        read.load.span or read.reader.span,
        witness=f"{points.element_text(point, ranges)} reads {element}, which "
        f"{other.element_text(there, read.writer.loops)} defines{points.sizes_text(point)}",
        notes=(note, several) if len(group) > 1 else (note,),
    )


def _with_carried(
    kernel: Kernel, group: tuple[Equation, ...], order: Sequence[tuple[str, bool]]
) -> Mapping[str, Equation]:
    """The equations of the group, by target, with these loops outermost under the same names."""
    taken = {r.index for e in kernel.equations if e not in group for r in (*e.loops, *e.reduced)}
    last = {r.index: r for r in group[-1].loops}
    shared = []
    for word, up in order:
        own = f"{group[-1].target}.{word}" if word in taken else word
        shared.append(replace(last[word], name=own if len(group) > 1 else last[word].name, down=not up))
    return {e.target: _with_outermost(e, tuple(shared)) for e in group}


def _with_outermost(equation: Equation, shared: tuple[Range, ...]) -> Equation:
    places: dict[str, Affine] = {}
    for r in shared:
        old = next(o for o in equation.loops if o.index == r.index)
        places[old.name] = r.extent - 1 - var(r.name) if r.down else var(r.name)
    rest = tuple(r for r in substitute(equation.loops, places) if r.name not in places)
    return replace(substitute(equation, places), loops=(*shared, *rest), carried=len(shared))
