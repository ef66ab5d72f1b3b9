"""Matrix loops: what an instruction performs is what the nest says, and each lane uses its own registers elsewhere.

Theorem: a nest may be performed by an instruction if its statement is the instruction's equation, operation by
operation, the nest's iterations are the points of the equation, each once, every operand's elements lie in the places
that the declaration says, and all iterations run or none. Conditions that speak of an element of the target alone may
stand, of a sum and of a copy to shared memory: what is written beside them lies where nobody reads. A row in shared
memory is 16 bytes side by side, at a multiple of 16. Where a descriptor tells of an operand, the place where the
hardware looks for each element (descriptors.py) is where the buffer has the one that the nest uses, counted from the
element that the nest begins with. What values an operand may have, formats.py says.

Places are compared by enumeration, for operands are small; the rest of an index is the same for the whole nest. What
runs over the elements of fragments beside the instructions has to be dealt out to lanes, each using its own registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from tilegen.ir.affine import Affine, Div, Mod, const, names_of_atom
from tilegen.ir.facts.choices import negations
from tilegen.ir.facts.row_digits import Digit, digits_of_row
from tilegen.ir.hardware.boxes import Box, first_of_equals
from tilegen.ir.hardware.descriptors import NotDescribed, described_form, start_fault
from tilegen.ir.hardware.fragments import deal_fragments, registers_of
from tilegen.ir.hardware.instructions import UNITS, Fragment, SharedMatrix, SharedRows
from tilegen.ir.hardware.lane_bits import NotDealt
from tilegen.ir.hardware.matching import inner_part, operand_accesses, operand_points, perfect_nest, rounded_operands
from tilegen.ir.nodes import DTYPE_BYTES, Access, Buffer, Condition, Loop, Node, Performed, Stmt
from tilegen.ir.printing.show import show_condition
from tilegen.ir.walk import accesses, constant_extents, leaves, loops
from tilegen.judge.instructions.formats import check_formats
from tilegen.poly.instances import Placed, Projection
from tilegen.poly.system import negation_rows, solvable
from tilegen.poly.verdict import Misplaced, NoForm, NoVector


def check_matrices(program: Projection) -> None:
    """Refused where an instruction does not compute its nest, or a lane would need another one's registers."""
    tree = program.tree
    if not any(b.fragment for b in tree.buffers) and not any(loop.kind == "matrix" for loop in loops(tree.body)):
        return
    for launch in tree.body:
        _check_lanes(program, launch)
        for loop in loops(launch):
            if loop.performed:
                _check_nest(program, loop, loop.performed)
    try:
        deal_fragments(tree)
    except NotDealt as reason:
        raise NoForm(reason.sentence, None, *filter(None, (reason.way,))) from None


def _check_lanes(program: Projection, launch: Node) -> None:
    """Lanes are the threads along x: no loop around a fragment runs over these, and a block has as many as a unit."""
    held = {b.name for b in program.buffers.values() if b.fragment}
    for path, stmt in leaves((launch,)):
        uses = held & {access.buffer for access in accesses(stmt)}
        inside = next((loop for loop in path if loop.kind == "thread.x"), None)
        if inside and (uses or any(loop.kind == "matrix" for loop in path)):
            raise Misplaced(
                f"all lanes of a warp compute '{stmt.target.buffer}' together, and '{inside.name}' runs over them",
                way=f"bind '{inside.name}' to thread.y: thread.x numbers the lanes of a warp",
            )
    unit = _unit_of(launch)
    for loop in loops(launch) if unit else ():
        if unit and loop.kind == "thread.x" and loop.extent != const(UNITS[unit]):
            lanes = UNITS[unit]
            raise Misplaced(
                f"'{loop.name}' has {loop.extent} threads along x, and a launch with instructions of a {unit} has "
                f"{lanes}",
                way=f"bind it to thread.y, or give it {lanes} iterations",
            )


def _unit_of(launch: Node) -> str:
    """What runs the instructions of a launch; "" where it has none."""
    found = {loop.performed.instruction.unit: loop.performed.instruction for loop in loops(launch) if loop.performed}
    if len(found) > 1:
        (unit, one), (other, two) = sorted(found.items())[:2]
        raise Misplaced(
            f"'{one.name}' is run by a {unit} and '{two.name}' by a {other}, and a launch has one of them",
            way="threads along x number the lanes, which are as many as the unit has",
        )
    return next(iter(found), "")


def _check_nest(program: Projection, loop: Loop, performed: Performed) -> None:
    instruction = performed.instruction
    found = perfect_nest(loop)
    operands = operand_accesses(performed, found[1]) if found else None
    if found is None or operands is None:
        raise NoForm(f"the nest of '{loop.name}' does not compute what '{instruction.name}' does")
    nest, stmt = found
    extents = {each.name: each.extent.const for each in nest if each.extent.is_const}
    if any(each.kind != "matrix" for each in nest) or not _are_all_points(performed, extents):
        raise NoForm(f"the loops around '{stmt.target.buffer}' are not the indices of '{instruction.name}'")
    outer = constant_extents(program.tree.body)
    for layout in instruction.operands:
        name = layout.operand.name
        access, points = operands[name], operand_points(performed, name)
        buffer = program.buffers[access.buffer]
        _check_separate(access, extents)
        match layout:
            case Fragment():
                _check_fragment(buffer, access, layout, points, extents, outer, instruction.name)
            case _ if buffer.space != "shared":
                sentence = f"the operand {name} lies in shared memory, and '{buffer.name}' does not"
                raise NoForm(sentence, way=f"cache_shared({buffer.name}, at=...) puts it there")
            case SharedRows():
                _check_rows(buffer, access, layout, points, extents, instruction.name)
            case SharedMatrix():
                _check_described(buffer, access, layout, points, extents)
    _check_guard(program, stmt, set(extents), instruction.name)
    _check_kept(performed, stmt)
    check_formats(program.tree, performed, stmt)


def _are_all_points(performed: Performed, extents: Mapping[str, int]) -> bool:
    """True if the iterations of loops with these extents are the points of the instruction's equation, each once."""
    equation = performed.instruction.equation
    ranges = (*equation.loops, *equation.reduced)
    names = [name for index in performed.indices for name in index.names()]
    if set(names) != set(extents) or len(names) != len(extents):
        return False  # an index has loops of its own: they run over its values, and no others do
    for index, reached in zip(performed.indices, ranges, strict=True):
        values = Box({name: extents[name] for name in sorted(index.names())}).at(index)
        if not np.array_equal(np.sort(values), np.arange(reached.extent.const)):
            return False
    return True


def _box(extents: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The values of loops in each iteration."""
    for point in product(*map(range, extents.values())):
        yield dict(zip(extents, point, strict=True))


def stores_beside(program: Projection) -> Iterator[Placed]:
    """What instructions store to shared memory in iterations that a test leaves out, for each test: they run whole."""
    for placed in program.leaves:
        stmt, kinds = placed.leaf.stmt, zip(placed.leaf.names, placed.leaf.kinds, strict=True)
        nest = {name for name, kind in kinds if kind == "matrix"}
        within = [c for c in stmt.guard if c.value.names() & nest]
        if not stmt.is_copy or program.buffers[stmt.target.buffer].space != "shared":
            continue
        for contrary in (each for condition in within for each in negations(condition)):
            left_out = replace(stmt, guard=(*(c for c in stmt.guard if c not in within), contrary))
            yield replace(placed, leaf=replace(placed.leaf, stmt=left_out))


def _check_guard(program: Projection, stmt: Stmt, nest: set[str], name: str) -> None:
    """A condition may speak of the element that the instruction changes, and of nothing else in the nest, unless it
    holds at all sizes that the kernel admits."""
    stores = program.buffers[stmt.target.buffer].space == "shared"
    element = {n for i in stmt.target.index for n in i.names()} if stmt.reduce or stores else set[str]()
    for condition in stmt.guard:
        if condition.value.names() & nest - element and not _is_certain(program, stmt, condition):
            way = "an input that cache_shared copies in whole tiles holds zeros there, and is read without a test"
            if stmt.reduce:
                way = "round_up(k, ...) makes a sum of whole tiles; then copies hold zeros beyond, and need no test"
            raise NoForm(
                f"'{name}' runs as a whole, and some iterations for '{stmt.target.buffer}' are left out at the border",
                None,
                f"the test is {show_condition(condition)}",
                way,
            )


def _is_certain(program: Projection, stmt: Stmt, condition: Condition) -> bool:
    leaf = next(p.leaf for p in program.leaves if p.leaf.stmt is stmt)
    return not any(solvable(program.original.context + leaf.ranges + rows) for rows in negation_rows(condition))


def _check_kept(performed: Performed, stmt: Stmt) -> None:
    """What is rounded on its way to an instruction has to stay there until that has read it."""
    rounded = rounded_operands(performed, stmt) if performed.instruction.protocol else ()
    if rounded:
        name = performed.instruction.name
        raise NoForm(
            f"'{name}' reads the operand {rounded[0]} while its lanes go on, and rounded values of it are kept nowhere",
            way="an equation of its own rounds them: compute_at and cache_register put its tensor into registers",
        )


def _check_separate(access: Access, nest: Mapping[str, int]) -> None:
    """Every index is a sum of a part that the nest's loops decide, and of one that is the same in all of it."""
    for index in access.index:
        for atom, _ in index.terms:
            names = names_of_atom(atom)
            if names & nest.keys() and not names <= nest.keys():
                sentence = f"'{index}', an index of '{access.buffer}', divides a loop of the nest"
                raise NoForm(sentence, None, *_ways_apart(atom, nest))


def _ways_apart(atom: str | Div | Mod, nest: Mapping[str, int]) -> Iterator[str]:
    """Which tiles would leave a loop of the nest whole, where their sizes are why it is divided."""
    if isinstance(atom, str):
        return
    for name in sorted(atom.arg.names() & nest.keys()):
        size, by = nest[name], atom.by
        if size % by and by % size:
            yield f"'{name}' has {size} iterations and is divided by {by}: choose tiles so that one divides the other"


def _check_fragment(
    buffer: Buffer,
    access: Access,
    layout: Fragment,
    points: tuple[Affine, ...],
    extents: Mapping[str, int],
    outer: Mapping[str, int],
    instruction: str,
) -> None:
    """Each element lies in the lane that the declaration says, the registers one after the other.

    The operand may be a part of a larger fragment: `outer` are the extents of the loops around the nest, which say
    which part, and with it the first register.
    """
    name = layout.operand.name
    if buffer.fragment is None:
        raise NoForm(f"the operand {name} lies in a fragment, and '{buffer.name}' does not")
    strides = _register_strides(buffer, access)
    around = {n for d in buffer.fragment_dims for n in access.index[d].names()} - extents.keys()
    if not around <= outer.keys():
        raise NoForm(f"'{buffer.name}' is used at an unknown place of its fragment by the operand {name}")
    inside = Box({n: e for n, e in extents.items() if any(n in i.names() for i in (*access.index, *points))})
    ats = [inside.at(p) for p in points]
    lanes, registers = map(inside.each, layout.place(ats))
    for start in _box({n: outer[n] for n in sorted(around)}):
        element = [inside.at(access.index[d], start) for d in buffer.fragment_dims]
        within = np.full(inside.count, True)
        for e, extent in zip(element, buffer.fragment.shape, strict=True):
            within &= (e >= 0) & (e < extent)
        lane, register = map(inside.each, buffer.fragment.place(element))
        register = register + sum(inside.at(inner_part(access.index[d], extents)) * n for d, n in strides.items())
        first = int(register[0] - registers[0])  # the register of the operand's own register 0
        right = (lane == lanes) & (register - first == registers) & (first % _elements_of_a_register(layout) == 0)
        if (within & right).all():
            continue
        number = int(np.argmin(within & right))
        if not within[number]:
            raise NoForm(f"'{buffer.name}' is used beyond one fragment by the operand {name}")
        at = tuple(int(each[number]) for each in ats)
        where = f"and is in lane {lane[number]}, register {register[number] - first}"
        raise NoForm(
            f"'{buffer.name}' has another layout than the operand {name} of '{instruction}'",
            f"{name}{list(at)} has to be in {layout.PLACE.format(*layout.place(at))}, {where}",
            "its layout is that of the instruction which made it a fragment; through shared memory it changes",
        )


def _elements_of_a_register(layout: Fragment) -> int:
    return max(1, 4 // DTYPE_BYTES[layout.operand.dtype])


def _register_strides(buffer: Buffer, access: Access) -> dict[int, int]:
    """How far apart a lane's registers of neighbours along each other dimension are; each thread has its own slice."""
    strides: dict[int, int] = {}
    step = registers_of(buffer)
    for d in reversed([d for d in range(len(buffer.shape)) if d not in buffer.fragment_dims]):
        strides[d] = step
        step *= buffer.shape[d].const
    return strides


def _check_rows(
    buffer: Buffer,
    access: Access,
    layout: SharedRows,
    points: tuple[Affine, ...],
    extents: Mapping[str, int],
    instruction: str,
) -> None:
    """The elements of a row are neighbours in shared memory, and the first is at a multiple of 16 bytes.

    Where rows of the buffer are shorter than that, and nothing is between them, the row goes on in the next ones.
    """
    name, width = layout.operand.name, layout.elements_of_a_row
    digits = digits_of_row(buffer, width)
    _check_starts(buffer, access, width, extents, instruction)
    box = Box(extents)
    lanes, elements = map(box.each, layout.place([box.at(p) for p in points]))
    places = [box.at(inner_part(index, extents)) for index in access.index]
    first = first_of_equals(lanes * width + elements)
    if any((place != place[first]).any() for place in places):
        raise NoForm(f"an element of {name} lies at two places of '{buffer.name}'")
    starts = np.zeros(layout.rows, int)  # the point that is element 0 of each row
    starts[lanes[elements == 0]] = np.flatnonzero(elements == 0)
    begin = starts[lanes]
    right = np.full(box.count, True)
    for d, place in enumerate(places):
        weight, count = digits.get(d, Digit(1, 1))
        right &= (place == place[begin] + elements // weight % count) & (place[begin] % count == 0)
    if not right.all():
        row = first_of_equals(lanes)
        number = int(min(np.flatnonzero(~right), key=lambda n: (row[n], n)))
        there, zero = ([int(place[n]) for place in places] for n in (number, begin[number]))
        raise NoVector(
            f"the rows of the operand {name} do not lie side by side in '{buffer.name}'",
            f"in the row of lane {lanes[number]}, element {elements[number]} is at {there}, and element 0 at {zero}",
            "the transposed form of the instruction takes the other storage order",
        )


def _check_starts(buffer: Buffer, access: Access, width: int, extents: Mapping[str, int], instruction: str) -> None:
    """Rows of `width` elements begin at multiples of their length in memory."""
    digits = digits_of_row(buffer, width)
    *_, (last, (weight, count)) = digits.items()
    pitch = buffer.shape[last].const * weight + buffer.pad
    outer = {d: access.index[d] - inner_part(access.index[d], extents) for d in digits}
    astray = next((outer[d] for d, digit in digits.items() if outer[d] % digit.extent != const(0)), None)
    if pitch % width or astray is not None:
        way = f"tiles of {width} elements along a row, and whole ones between tiles, keep them there"
        if pitch % width:
            missing = width - (pitch - buffer.pad) % width
            way = f"pad({buffer.name}, {missing}) keeps rows at multiples of {width} elements"
        if pitch % width and weight > 1:
            way = (
                f"the rows of {weight} elements go on in the next ones: a multiple of {count} of them keeps them there"
            )
        raise NoVector(
            f"the rows of '{buffer.name}' do not begin at multiples of 16 bytes, as '{instruction}' needs them",
            f"they have {pitch} elements" if pitch % width else f"one begins at column {astray}",
            way,
        )
    if buffer.swizzle and not buffer.swizzle.keeps(width):
        raise NoVector(
            f"the swizzle of '{buffer.name}' divides the rows of {width} elements that '{instruction}' takes",
            way=f"swizzle({buffer.name}, {width}) keeps them whole",
        )


def _check_described(
    buffer: Buffer, access: Access, layout: SharedMatrix, points: tuple[Affine, ...], extents: Mapping[str, int]
) -> None:
    """Refused where `access`, in a nest of these loops, is no operand of the layout; `points` are its elements."""
    try:
        described_form(buffer, access, layout, points, extents)
    except NotDescribed as reason:
        notes = tuple(filter(None, (reason.witness, reason.way)))
        raise NoForm(reason.sentence, None, *notes) from None
    if fault := start_fault(buffer, tuple(i - inner_part(i, extents.keys()) for i in access.index)):
        sentence = f"no descriptor tells of '{buffer.name}' as the operand {layout.operand.name}"
        raise NoForm(sentence, way=fault)
