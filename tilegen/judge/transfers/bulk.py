"""Bulk loops: what they copy is a box of a tensor, and lies in shared memory as the hardware writes it.

A bulk copy moves a box: of each dimension of a tensor, the fastest first, some neighbours. What is beyond the tensor
arrives as zeros. The elements of the box go to shared memory one after another, the fastest dimension first; with a
swizzle, the 16-byte units of each 128 bytes change places as bits 7 to 9 of their address say.

Theorem: a nest of bulk loops is such copies, one for each iteration of the loops outside of the box, if

- in the index of the tensor the loops inside of the box are digits: each dimension is a base, which they leave alone,
  plus a number below the extent of the box there whose digits they are;
- they move the place in the buffer by as many elements as they move the box's own number of an element;
- the buffer's swizzle is none, or that of the hardware for rows of its length, of which 8 begin at a multiple of 1024;
- it copies all elements of the box that are inside of the tensor, and what else is read there is zero;
- extents are at most 256, rows a multiple of 16 bytes long, and boxes put at multiples of 128 bytes.

No other statement writes the buffer: then no ordinary write has to be ordered with a bulk copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import copysign, prod

from tilegen.ir.affine import Affine, const
from tilegen.ir.facts.row_digits import count_rows
from tilegen.ir.hardware.limits import BOX_DIMENSIONS, BOX_LIMIT, BOX_PLACE, BOX_STEP_LIMIT
from tilegen.ir.hardware.matching import perfect_nest
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, THREAD_KINDS, Buffer, Condition, Load, Loop, Node, Stmt
from tilegen.ir.parts.swizzle import BULK_SPANS, BULK_UNIT, hardware_swizzle
from tilegen.ir.walk import loops, stmts, writes
from tilegen.judge.transfers.windows import check_windows
from tilegen.poly.instances import Projection
from tilegen.poly.system import example, negation_rows, rows_of, solvable
from tilegen.poly.verdict import NoForm, Words


@dataclass(frozen=True)
class BoxCopy:
    """What a nest of bulk loops copies.

    Attributes:
        nest: the name of the outermost loop.
        tensor, target: the buffers in global and in shared memory.
        stores: it goes from shared to global memory.
        index, place: of an element in the tensor and in the shared buffer.
        outside: the loops outside of the box, outermost first: each of their iterations is a copy.
        extents: of the box, the fastest dimension of the tensor first.
        steps: elements of the tensor from one of the box to the next, in the same order.
        swizzle: bytes of a swizzled row, or 0.
        stmt: the statement of the nest.
        inside: the names of the loops in the box.
        multicast: the loop of the blocks that copy a share each, to all of them; or nothing.
        step: the steps that made the nest and said how it runs.
    """

    nest: str
    tensor: str
    target: str
    outside: tuple[Loop, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int
    stmt: Stmt
    inside: frozenset[str]
    stores: bool
    index: tuple[Affine, ...]
    place: tuple[Affine, ...]
    multicast: str
    step: str


def check_bulk(program: Projection) -> None:
    """Refused where a nest of bulk loops is no copy of boxes, or something else writes what it fills."""
    for launch in program.tree.body:
        for path, box in boxes_in(launch, program.buffers):
            check_box(program, path, box)
            if not box.stores:
                _check_surroundings(program, launch, box)


def check_box(program: Projection, path: tuple[Loop, ...], box: BoxCopy) -> None:
    """Refused where a box of either direction, inside the loops `path`, is not as one thread can copy it."""
    for each in path:
        if each.kind in THREAD_KINDS:
            raise NoForm(f"a bulk copy is the work of one thread, and stands in '{each.name}'")
    _check_stages(program, box)
    _check_guard(program, box)


def boxes_in(launch: Node, buffers: Mapping[str, Buffer]) -> Iterator[tuple[tuple[Loop, ...], BoxCopy]]:
    """(the loops around, what it copies) for each nest of bulk loops."""
    for path, nest in _bulk_nests(launch, ()):
        yield path, box_copy(nest, buffers)


def _bulk_nests(node: Node, path: tuple[Loop, ...]) -> Iterator[tuple[tuple[Loop, ...], Loop]]:
    """(the loops around, nest) for each outermost bulk loop."""
    if isinstance(node, Loop) and node.kind == "bulk":
        yield path, node
    elif isinstance(node, Loop):
        for child in node.body:
            yield from _bulk_nests(child, (*path, node))


def box_copy(nest: Loop, buffers: Mapping[str, Buffer]) -> BoxCopy:
    """What the nest copies. Refused where that is no box, or not as the hardware copies one."""
    found = perfect_nest(nest)
    if found is None:
        raise NoForm(f"the bulk loops from '{nest.name}' on hold more than one copy")
    inner, stmt = found
    for each in inner:
        if each.kind != "bulk":
            raise NoForm(f"'{each.name}' runs as a {each.kind} loop, in the bulk loops from '{nest.name}' on")
    if not (stmt.is_copy and isinstance(stmt.value, Load) and stmt.reduce is None):
        raise NoForm(f"'{stmt.name}' does more than copy, in bulk loops")
    read, written = (stmt.value.buffer, stmt.value.index), (stmt.target.buffer, stmt.target.index)
    spaces = buffers[read[0]].space, buffers[written[0]].space
    if {*spaces} != {"global", "shared"}:
        raise NoForm(f"a bulk copy goes between global and shared memory, not from {spaces[0]} to {spaces[1]} memory")
    stores = spaces[1] == "global"
    (name, index), (home, place) = (written, read) if stores else (read, written)
    tensor, target = buffers[name], buffers[home]
    fallback = stmt.value.fallback
    if fallback is not None and (fallback.value != 0 or copysign(1, fallback.value) < 0):
        raise NoForm(
            f"outside of '{tensor.name}' the kernel reads {fallback.value}, and a bulk copy brings zeros",
            way="a read with `else 0` can be made so",
        )
    if len(tensor.shape) > BOX_DIMENSIONS or not tensor.shape:
        raise NoForm(f"a bulk copy takes a tensor of 1 to {BOX_DIMENSIONS} dimensions")
    swizzle = _swizzle_of(target)
    extents, steps, inside = _extents_of_box(inner, (index, place), tensor, target, swizzle, stores)
    _check_extents(tensor, target, extents, swizzle)
    outside = tuple(each for each in inner if each.name not in inside)
    _check_separate((*index, *place), inside)
    _check_places(place, target, inside)
    _check_pitch(tensor)
    check_windows(tensor, buffers, extents, steps)
    return BoxCopy(
        nest=nest.name,
        tensor=tensor.name,
        target=target.name,
        outside=outside,
        extents=extents,
        steps=steps,
        swizzle=swizzle,
        stmt=stmt,
        inside=inside,
        stores=stores,
        index=index,
        place=place,
        multicast=nest.multicast,
        step=nest.step,
    )


def _swizzle_of(target: Buffer) -> int:
    """The bytes of a swizzled row of the buffer, 0 where it has no swizzle."""
    if target.swizzle is None:
        return 0
    size, length = DTYPE_BYTES[target.dtype], target.shape[target.order[-1]].const + target.pad
    if target.swizzle != hardware_swizzle(length * size, size):
        ways = [f"swizzle({target.name}, {BULK_UNIT // size}{_more(span)})" for span in BULK_SPANS]
        panel = f"rows of 128 bytes, which cache_shared(..., panel={128 // size}) makes, can be swizzled"
        raise NoForm(
            f"the swizzle of '{target.name}' is {target.swizzle} in rows of {length * size} bytes, and no bulk copy "
            "permutes so",
            way=ways[BULK_SPANS.index(length * size)] + " is how it does" if length * size in BULK_SPANS else panel,
        )
    if count_rows(target) > 1 and count_rows(target) % 8:
        raise NoForm(
            f"'{target.name}' is swizzled and has {count_rows(target)} rows, and a bulk copy takes them 8 at a time",
            way="choose a tile with a multiple of 8 rows",
        )
    return length * size


def _more(span: int) -> str:
    """What the step has to say beyond the unit for rows of that number of bytes."""
    return "" if span == 128 else f", {span // BULK_UNIT}, {128 // span}"


def strides_in(buffer: Buffer) -> dict[int, int]:
    """By how many elements a step along each dimension moves a place in a buffer on the chip, its swizzle apart."""
    found, step = {}, 1
    for number, dim in enumerate(reversed(buffer.order)):
        found[dim] = step
        step *= buffer.shape[dim].const + (0 if number else buffer.pad)
    return found


def _step_of(index: tuple[Affine, ...], strides: Mapping[int, int], loop: str) -> int | None:
    """By how many elements an iteration of the loop moves the place; None if that is no number."""
    if not all(i.linear_in(loop) for i in index):
        return None
    return sum(i.coefficient(loop) * strides[d] for d, i in enumerate(index))


def _extents_of_box(
    inner: tuple[Loop, ...],
    of_element: tuple[tuple[Affine, ...], tuple[Affine, ...]],
    tensor: Buffer,
    target: Buffer,
    swizzle: int,
    stores: bool,
) -> tuple[tuple[int, ...], tuple[int, ...], frozenset[str]]:
    """The extents and steps of the largest box that the loops are digits of, and the loops in it. `of_element` is where
    an element is in the tensor and in the buffer."""
    index, place = of_element
    size, strides = DTYPE_BYTES[tensor.dtype], strides_in(target)
    moves = {each.name: _step_of(place, strides, each.name) for each in inner}
    extents: list[int] = []
    steps: list[int] = []
    inside: set[str] = set()
    for number, dim in enumerate(reversed(tensor.order)):
        extent, step = 1, 0
        most = swizzle // size if swizzle and not number else BOX_LIMIT
        # Only what is loaded, and not along the rows, may have gaps.
        widest = 1 if stores or not number else BOX_STEP_LIMIT
        before = prod(extents)
        while loop := next(
            (
                each
                for each in inner
                if each.name not in inside
                and each.extent.is_const
                and moves[each.name] == before * extent
                and 1 <= (wide := step or index[dim].coefficient(each.name)) <= widest
                and extent * each.extent.const * wide <= most
                and _is_digit(index, dim, each.name, extent * wide)
            ),
            None,
        ):
            inside.add(loop.name)
            step = step or index[dim].coefficient(loop.name)
            extent *= loop.extent.const
        extents.append(extent)
        steps.append(step or 1)
    return tuple(extents), tuple(steps), frozenset(inside)


def _is_digit(index: tuple[Affine, ...], dim: int, loop: str, weight: int) -> bool:
    """True if an iteration of the loop moves the index by `weight` in one dimension, and leaves the others alone."""
    if any(not i.linear_in(loop) for i in index):
        return False
    return all(i.coefficient(loop) == (weight if d == dim else 0) for d, i in enumerate(index))


def _check_extents(tensor: Buffer, target: Buffer, extents: tuple[int, ...], swizzle: int) -> None:
    size = DTYPE_BYTES[tensor.dtype]
    row = extents[0] * size
    if row % BULK_UNIT or (swizzle and row != swizzle):
        what = f"{swizzle} bytes, as they are swizzled" if swizzle else f"a multiple of {BULK_UNIT} bytes"
        raise NoForm(
            f"a bulk copy moves rows of {what}, and of a row of '{tensor.name}' {row} bytes lie side by side in "
            f"'{target.name}'",
            way="a wider tile, in the storage order of the tensor, has longer rows",
        )


def _check_separate(indices: tuple[Affine, ...], inside: frozenset[str]) -> None:
    """No index divides a loop of the box: the box begins where these are 0."""
    for index in indices:
        if not all(index.linear_in(name) for name in inside):
            raise NoForm(f"'{index}' divides a loop of a bulk copy")


def _check_places(place: tuple[Affine, ...], target: Buffer, inside: frozenset[str]) -> None:
    """Each box is at a multiple of 128 bytes of the buffer."""
    strides, size = strides_in(target), DTYPE_BYTES[target.dtype]
    for dim, index in enumerate(place):
        outer = [(atom, factor) for atom, factor in index.terms if atom not in inside]
        for atom, factor in (*outer, ("", index.const)):
            step = factor * strides[dim] * size
            if step % BOX_PLACE:
                where = f"a step of '{Affine(((atom, 1),))}'" if atom else "its begin"
                raise NoForm(
                    f"the boxes of bulk copies in '{target.name}' begin at multiples of {BOX_PLACE} bytes, and "
                    f"{where} is {step} bytes",
                    way=f"swizzle({target.name}, {BULK_UNIT // size}) parts banks without a pad"
                    if target.pad
                    else f"cache_shared(..., panel={128 // size}) makes rows that bulk copies fill",
                )


def _check_stages(program: Projection, box: BoxCopy) -> None:
    """So is each stage of a pipelined loop."""
    buffer = program.buffers[box.target]
    stages = max((each.stages for each in loops(program.tree.body) if each.name == buffer.scope), default=1)
    slowest = buffer.order[0]
    bytes_ = buffer.shape[slowest].const * strides_in(buffer)[slowest] * DTYPE_BYTES[buffer.dtype]
    if stages > 1 and bytes_ % BOX_PLACE:
        raise NoForm(
            f"a stage of '{buffer.name}' has {bytes_} bytes, and a bulk copy begins at a multiple of {BOX_PLACE}",
            way="choose a larger tile",
        )


def _check_pitch(tensor: Buffer) -> None:
    """Rows of the tensor begin at multiples of 16 bytes, or may do so: that is asked of the sizes of a call."""
    row, size = tensor.shape[tensor.order[-1]], DTYPE_BYTES[tensor.dtype]
    if len(tensor.shape) > 1 and row.is_const and row.const * size % BULK_UNIT:
        raise NoForm(
            f"a row of '{tensor.name}' has {row.const * size} bytes, and bulk copies take multiples of {BULK_UNIT}",
            way=f"cache_global({tensor.name}, ..., tiles=...) stores it in longer rows",
        )


def _check_surroundings(program: Projection, launch: Node, box: BoxCopy) -> None:
    for other in loops(launch):
        if other.peeled and program.buffers[box.target].scope == other.name:
            raise NoForm(
                f"'{box.target}' is filled by bulk copies in '{other.name}', whose last iteration is peeled",
                way=f"leave peel({other.name}) out",
            )
    bulk = {id(each.stmt) for _, each in boxes_in(launch, program.buffers)}
    for stmt in stmts(launch):
        for name, _ in writes(stmt):
            if name == box.target and id(stmt) not in bulk:
                raise NoForm(
                    f"'{box.target}' is filled by bulk copies, and '{stmt.name}' writes it, too",
                    way="keep what threads write in a buffer of its own",
                )
            if memory_of(name) == memory_of(box.tensor):
                raise NoForm(
                    f"'{box.tensor}' is written in the launch that copies it in bulk, and no fence orders the two",
                    way="leave what writes it in a launch of its own",
                )


def _check_guard(program: Projection, box: BoxCopy) -> None:
    """Whatever is inside of the tensor is copied: the bounds of the tensor are all that the guard says."""
    leaf = next(p.leaf for p in program.leaves if p.leaf.stmt is box.stmt)
    shape = program.buffers[box.tensor].shape
    inside = tuple(
        row
        for index, extent in zip(box.index, shape, strict=True)
        for condition in (Condition(index), Condition(extent - 1 - index))
        for row in rows_of(condition)
    )
    for condition in leaf.stmt.guard:
        for contrary in negation_rows(condition):
            question = (*program.original.context, *leaf.ranges, *inside, *contrary)
            if solvable(question):
                found = example(question, [*program.kernel.symbols, *leaf.names])
                assert found is not None
                words = Words(program.original, found)
                does = f"to '{box.tensor}' writes" if box.stores else f"of '{box.tensor}' brings"
                raise NoForm(
                    f"a bulk copy {does} a whole box, and some elements are left out",
                    f"{words.instance(leaf)} does not run{words.sizes}",
                    "leave this copy to all threads",
                )


def first_element(box: BoxCopy) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
    """(index in the tensor, index in the buffer) of the first element of the box, in the loops outside of it."""
    start = dict.fromkeys(box.inside, const(0))
    return tuple(i.substitute(start) for i in box.index), tuple(i.substitute(start) for i in box.place)
