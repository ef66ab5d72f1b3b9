"""Faults put into a lowered program, one at a time: each function gives the bodies or launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants import list_faults, ragged_faults, warp_faults
from tests.support.mutants.places import each, edited, nodes, of, put
from tilegen.ir.affine import Affine, Mod, const, var
from tilegen.ir.facts.row_digits import count_rows
from tilegen.ir.nodes import Access, Condition, Const, Load, Stmt
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.program import (
    Call,
    Combine,
    Declare,
    For,
    Function,
    If,
    VectorCopy,
    VectorLoad,
    VectorStore,
)
from tilegen.lowering.launch.timelines import Barrier


def barrier_dropped(launch):
    return each(launch, Barrier, lambda n: [()])


def barrier_moved(launch):
    """Past the node before it, past the one after it, into the loop before it, out of the loop around it."""
    for path, node in nodes(launch.body):
        if not isinstance(node, Barrier):
            continue
        place = path[-1][1]
        without = put(launch.body, path, ())
        for step in (-1, 1):
            if place + step < 0:
                continue
            beside = (*path[:-1], (path[-1][0], place - 1 if step < 0 else place))
            other = _node_at(without, beside)
            if other is not None:
                moved = (node, other) if step < 0 else (other, node)
                yield replace(launch, body=put(without, beside, moved))
            if isinstance(other, For) and step < 0:
                yield replace(launch, body=put(without, beside, (replace(other, body=(*other.body, node)),)))
        if len(path) > 1:
            outer = _node_at(without, path[:-1])
            if outer is not None:
                yield replace(launch, body=put(without, path[:-1], (outer, node)))


def _node_at(body, path):
    return next((node for here, node in nodes(body) if here == path), None)


def barrier_under_a_test(launch):
    """Only the first half of the threads reach it."""
    names = [name for name, kind, _ in launch.coordinates if kind.startswith("thread")]
    tests = [(Condition(const(0) - var(name)),) for name in names[:1]]
    return each(launch, Barrier, lambda n: [(If(t, (n,)),) for t in tests])


@of(Barrier)
def copies_not_waited_for(node, launch):
    if node.wait is not None:
        yield (replace(node, wait=None),)
        yield (replace(node, wait=node.wait + 1),)


@of(For)
def bound_off_by_one(node, launch):
    yield (replace(node, extent=node.extent + 1),)
    yield (replace(node, extent=node.extent - 1),)


@of(If)
def tail_guard_gone(node, launch):
    if not node.flag:
        if not node.orelse and not any(isinstance(v, Barrier) for v in walk(node.body)):
            yield node.body
        if len(node.test) > 1:
            for n in range(len(node.test)):
                yield (replace(node, test=(*node.test[:n], *node.test[n + 1 :])),)


def guard_off_by_one(launch):
    def change(node):
        for n, c in enumerate(node.test if isinstance(node, If) else ()):
            for step in (1, -1):
                moved = c._replace(value=c.value + step)
                yield (replace(node, test=(*node.test[:n], moved, *node.test[n + 1 :])),)

    return edited(launch, change)


LEAVES = (Stmt, VectorCopy, VectorLoad, VectorStore)


def _indexes(launch, spaces, step):
    def change(node):
        if not isinstance(node, LEAVES):
            return
        for access in dict.fromkeys(v for v in walk(node) if isinstance(v, Access | Load)):
            buffer = launch.buffers[access.buffer]
            for d in range(len(access.index)) if buffer.space in spaces else ():
                index = (*access.index[:d], access.index[d] + step, *access.index[d + 1 :])
                new = replace(access, index=index)
                yield (rewrite(node, lambda v, a=access, new=new: new if v == a else v),)

    return edited(launch, change)


def wrong_shared_index(launch):
    return _indexes(launch, ("shared",), 1)


def wrong_global_index(launch):
    return _indexes(launch, ("global",), 1)


def vector_misaligned(launch):
    """A vector that begins one element later; what alignment asks of sizes and addresses, forgotten."""

    def change(node):
        fields = {VectorCopy: ("source", "target"), VectorLoad: ("source",), VectorStore: ("target",)}
        for name in fields.get(type(node), ()):
            access = getattr(node, name)
            buffer = launch.buffers[access.buffer]
            if buffer.order:
                d = buffer.order[-1]
                index = (*access.index[:d], access.index[d] + 1, *access.index[d + 1 :])
                yield (replace(node, **{name: replace(access, index=index)}),)

    yield from edited(launch, change)
    for n in range(len(launch.requires)):
        yield replace(launch, requires=(*launch.requires[:n], *launch.requires[n + 1 :]))
    for name in launch.alignment:
        yield replace(launch, alignment={k: v for k, v in launch.alignment.items() if k != name})


@of(LEAVES)
def stale_buffer(node, launch):
    """Another of the copies that a pipeline keeps of a buffer."""
    for access in dict.fromkeys(v for v in walk(node) if isinstance(v, Access | Load)):
        for d, index in enumerate(access.index):
            if len(index.terms) == 1 and isinstance(atom := index.terms[0][0], Mod):
                other = Affine(((Mod(atom.arg + 1, atom.by), 1),))
                new = replace(access, index=(*access.index[:d], other, *access.index[d + 1 :]))
                yield (rewrite(node, lambda v, a=access, new=new: new if v == a else v),)


def narrowed_offset(launch):
    """Tests that are true for the same numbers, and whose sides have more than 32 bits long before the sizes do."""

    def change(node):
        for n, c in enumerate(node.test if isinstance(node, If) else ()):
            larger = c._replace(value=c.value * 2**12)
            yield (replace(node, test=(*node.test[:n], larger, *node.test[n + 1 :])),)

    return edited(launch, change)


def wrong_exchange(launch):
    """Fewer lanes, more of them, another reduction, a lane's value where it has none; zeros where there is a value."""

    def change(node):
        if isinstance(node, Combine):
            yield (replace(node, lanes=node.lanes // 2),)
            yield (replace(node, lanes=node.lanes * 2),)
            yield (replace(node, reduce="min" if node.reduce != "min" else "max"),)
            if node.start:
                yield (replace(node, inclusive=not node.inclusive),)
                yield (replace(node, value=Const(0, node.dtype)),)
            if node.test:
                yield (replace(node, test=()),)
        if isinstance(node, VectorCopy) and node.inside is not None:
            yield (replace(node, inside=None),)

    return edited(launch, change)


def wrong_pad(launch):
    """Rows of another length than the vectors were laid out for, or shorter than what is in them."""
    for name, b in launch.buffers.items():
        for pad in (b.pad + 1, -1) if b.space == "shared" else ():
            yield replace(launch, buffers={**launch.buffers, name: replace(b, pad=pad)})


def wrong_swizzle(launch):
    """Places beyond the end of a row; units smaller than vectors; numbers that are no powers of two."""
    for name, b in launch.buffers.items():
        if b.space == "shared" and count_rows(b) > 1:
            length = b.shape[b.order[-1]].const
            far = 2 ** length.bit_length()
            for swizzle in (Swizzle(far // 2, 2), Swizzle(1, far), Swizzle(1, 2), Swizzle(1, 3)):
                yield replace(launch, buffers={**launch.buffers, name: replace(b, swizzle=swizzle)})


def missing_initialisation(launch):
    yield from edited(
        launch,
        lambda n: [(replace(n, start=None),)] if isinstance(n, Declare) and n.start is not None else [],
    )
    yield from edited(launch, lambda n: [()] if isinstance(n, Stmt) and n.name.endswith(".init") else [])


def doubled_reduction(launch):
    return edited(launch, lambda n: [(n, n)] if isinstance(n, Stmt) and n.reduce else [])


def plain_update(launch):
    """What was one access is a read and a write, which another thread can come between."""

    def change(node):
        if isinstance(node, Stmt) and node.atomic:
            yield (replace(node, atomic=False),)
        if isinstance(node, VectorStore) and node.update:
            yield (replace(node, update=""),)

    return edited(launch, change)


def store_back_missing(launch):
    outputs = {n for n, b in launch.buffers.items() if b.role in ("output", "intermediate")}

    def change(node):
        target = getattr(node, "target", None)
        if isinstance(node, Stmt | VectorStore | VectorCopy) and target.buffer in outputs:
            yield ()

    return edited(launch, change)


def swapped(launch):
    """Neighbours in a list the other way round, barriers apart: what they order is moved by another fault."""
    for path, node in nodes(launch.body):
        for name in ("body", "orelse"):
            items = getattr(node, name, ())
            for n in range(len(items) - 1):
                if isinstance(items[n], Barrier | Declare) or isinstance(items[n + 1], Barrier):
                    continue
                turned = (*items[:n], items[n + 1], items[n], *items[n + 2 :])
                yield replace(launch, body=put(launch.body, path, (replace(node, **{name: turned}),)))


def wrong_call(launch):
    """An argument one further, one of another place, another function of as many parameters."""
    functions = [v for v in walk(launch.body) if isinstance(v, Function)]

    def change(node):
        if not isinstance(node, Call):
            return
        for n, argument in enumerate(node.arguments):
            for other in {argument + 1, argument - 1, *node.arguments} - {argument}:
                yield (replace(node, arguments=(*node.arguments[:n], other, *node.arguments[n + 1 :])),)
        for function in functions:
            if function.name != node.function and len(function.parameters) == len(node.arguments):
                yield (replace(node, function=function.name),)

    return edited(launch, change)


def copy_too_small(launch):
    for name, b in launch.buffers.items():
        for d in range(len(b.shape)) if b.space in ("shared", "register") else ():
            shape = (*b.shape[:d], b.shape[d] - 1, *b.shape[d + 1 :])
            yield replace(launch, buffers={**launch.buffers, name: replace(b, shape=shape)})


def _one_less(blocks):
    return replace(blocks, factors=(blocks.factors[0] - 1, *blocks.factors[1:]))


def wrong_coordinate(launch):
    """Two coordinates exchanged; a block or a grid of another size."""
    where = launch.coordinates
    for n in range(len(where)):
        for m in range(n + 1, len(where)):
            if where[n][1][0] == where[m][1][0]:
                turned = list(where)
                turned[n] = (where[n][0], where[m][1], where[n][2])
                turned[m] = (where[m][0], where[n][1], where[m][2])
                if where[n][1] == where[m][1]:  # digits of one number
                    turned[n], turned[m] = where[m], where[n]
                if turned != list(where):
                    yield replace(launch, coordinates=tuple(turned))
    for axis in range(3):
        if launch.block[axis] > 1:
            for step in (1, -1):
                block = tuple(b + step * (a == axis) for a, b in enumerate(launch.block))
                yield replace(launch, block=block)
        if launch.grid[axis] != Product((const(1),)):
            yield replace(launch, grid=tuple(_one_less(g) if a == axis else g for a, g in enumerate(launch.grid)))


@of(If)
def roles_swapped(node, launch):
    """Each role's work under the other's test; one role that nobody has."""
    if node.roles and node.orelse:
        yield (replace(node, body=node.orelse, orelse=node.body),)
        yield (replace(node, orelse=()),)
        yield (*node.body, *node.orelse)


FAULTS = {
    "barrier dropped": barrier_dropped,
    "barrier moved": barrier_moved,
    "barrier under a test": barrier_under_a_test,
    "copies not waited for": copies_not_waited_for,
    "bound off by one": bound_off_by_one,
    "tail guard gone": tail_guard_gone,
    "guard off by one": guard_off_by_one,
    "wrong shared index": wrong_shared_index,
    "wrong global index": wrong_global_index,
    "vector misaligned": vector_misaligned,
    "wrong pad": wrong_pad,
    "wrong swizzle": wrong_swizzle,
    "stale buffer": stale_buffer,
    "narrowed offset": narrowed_offset,
    "wrong exchange of lanes": wrong_exchange,
    "missing initialisation": missing_initialisation,
    "doubled reduction": doubled_reduction,
    "atomic update made plain": plain_update,
    "store-back missing": store_back_missing,
    "swapped loops or statements": swapped,
    "wrong call": wrong_call,
    "copy too small": copy_too_small,
    **list_faults.FAULTS,
    **ragged_faults.FAULTS,
    "wrong coordinate": wrong_coordinate,
    "roles swapped": roles_swapped,
    **warp_faults.LAUNCH_FAULTS,
}
