"""Faults put into a tree, one at a time: each function gives the trees with its kind of fault."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tests.support.mutants import list_faults, warp_faults
from tests.support.mutants.places import each, edited, nodes, of, put
from tilegen.ir.affine import const, var
from tilegen.ir.facts.row_digits import count_rows
from tilegen.ir.nodes import THREAD_KINDS, Access, Condition, Load, Loop, Op, Stmt
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.ir.walk import loads, loops, rewrite, stmts, walk


def _statements(tree, change):
    """The trees that `change(stmt)` makes: it gives statements to stand in place of one."""
    return each(tree, Stmt, lambda node: [(s,) for s in change(node)])


def of_statements(change):
    """The same as a kind of fault, a function of a tree."""
    return of(Stmt)(lambda stmt, tree: [(s,) for s in change(stmt, tree)])


def _has_copy(loop):
    return any(s.is_copy for s in stmts(loop))


@of(Loop)
def bound_off_by_one(node, tree):
    if not _has_copy(node):
        yield (replace(node, extent=node.extent + 1),)
        yield (replace(node, extent=node.extent - 1),)


def copy_too_small(tree):
    def change(node):
        if isinstance(node, Loop) and all(s.is_copy for s in stmts(node)):
            yield (replace(node, extent=node.extent - 1),)

    yield from edited(tree, change)
    for n, b in enumerate(tree.buffers):
        if b.space != "global":
            for d in range(len(b.shape)):
                shape = (*b.shape[:d], b.shape[d] - 1, *b.shape[d + 1 :])
                yield replace(tree, buffers=(*tree.buffers[:n], replace(b, shape=shape), *tree.buffers[n + 1 :]))


@of_statements
def tail_guard_gone(stmt, tree):
    for n in range(len(stmt.guard)):
        yield replace(stmt, guard=(*stmt.guard[:n], *stmt.guard[n + 1 :]))


@of_statements
def guard_off_by_one(stmt, tree):
    for n, c in enumerate(stmt.guard):
        for step in (1, -1):
            moved = c._replace(value=c.value + step)
            yield replace(stmt, guard=(*stmt.guard[:n], moved, *stmt.guard[n + 1 :]))


def _indexes(tree, spaces, change):
    """Each access to a buffer in one of `spaces` with each of the indexes that `change` gives."""
    found = {b.name: b for b in tree.buffers if b.space in spaces}

    def one(stmt):
        accesses = [v for v in _accesses(stmt) if v.buffer in found and v.index]
        for access in dict.fromkeys(accesses):
            for index in change(access.index, found[access.buffer]):
                new = replace(access, index=index)
                yield rewrite(stmt, lambda v, a=access, new=new: new if v == a else v)

    return _statements(tree, one)


def _accesses(stmt):
    return [v for v in walk(stmt) if isinstance(v, Access | Load)]


def _shift_index(index, buffer):
    for d in range(len(index)):
        yield (*index[:d], index[d] + 1, *index[d + 1 :])
    if len(index) == 2 and index[0] != index[1]:
        yield index[::-1]


def wrong_shared_index(tree):
    return _indexes(tree, ("shared",), _shift_index)


def wrong_global_index(tree):
    return _indexes(tree, ("global",), _shift_index)


def missing_initialisation(tree):
    gone = {b.name for b in tree.buffers if b.role == "copy"}
    return edited(
        tree,
        lambda n: [()] if isinstance(n, Stmt) and (n.name.endswith(".init") or n.target.buffer in gone and n.is_copy)
        else [],
    )  # fmt: skip


def store_back_missing(tree):
    gone = {b.name for b in tree.buffers if b.role in ("output", "intermediate")}
    return edited(tree, lambda n: [()] if isinstance(n, Stmt) and n.is_copy and n.target.buffer in gone else [])


def doubled_reduction(tree):
    return edited(tree, lambda n: [(n, n)] if any(s.reduce for s in stmts((n,))) else [])


def register_element_shared(tree):
    threads = {loop.name for loop in loops(tree.body) if loop.kind in THREAD_KINDS}
    for b in tree.buffers:
        for name in sorted(threads) if b.space == "register" else ():

            def change(v, b=b, name=name):
                if isinstance(v, Access | Load) and v.buffer == b.name:
                    return replace(v, index=tuple(i.substitute({name: const(0)}) for i in v.index))
                return v

            body = rewrite(tree.body, change)
            if body != tree.body:
                yield replace(tree, body=body)


def vector_misaligned(tree):
    """A vector's place moved by one element, in all of its accesses; a vector of a loop that is none."""

    def shift(node):
        if not isinstance(node, Loop):
            return
        if node.kind == "vector":
            for s in stmts(node):
                for access in dict.fromkeys(_accesses(s)):
                    if any(node.name in i.names() for i in access.index):
                        index = tuple(i + 1 if node.name in i.names() else i for i in access.index)
                        new = replace(access, index=index)
                        yield rewrite((node,), lambda v, a=access, new=new: new if v == a else v)
        elif node.kind == "serial" and node.extent.is_const and node.extent.const in (2, 4):
            yield (replace(node, kind="vector"),)

    return edited(tree, shift)


def stale_buffer(tree):
    """A copy made before the loop whose every iteration needs its own."""
    for path, node in nodes(tree.body):
        if len(path) < 2 or not isinstance(node, Loop | Stmt) or not all(s.is_copy for s in stmts((node,))):
            continue
        outside = put(tree.body, path, ())
        above = path[:-1]
        parent = next(n for p, n in nodes(outside) if p == above)
        if parent.body:
            yield replace(tree, body=put(outside, above, (node, parent)))


def swapped(tree):
    """Neighbours in a body, or loops that are directly nested, the other way round."""
    for path, node in nodes(tree.body):
        if not isinstance(node, Loop):
            continue
        for n in range(len(node.body) - 1):
            body = (*node.body[:n], node.body[n + 1], node.body[n], *node.body[n + 2 :])
            yield replace(tree, body=put(tree.body, path, (replace(node, body=body),)))
        if len(node.body) == 1 and isinstance(node.body[0], Loop):
            inner = node.body[0]
            turned = replace(inner, body=(replace(node, body=inner.body),))
            yield replace(tree, body=put(tree.body, path, (turned,)))


def parallel_reduction(tree):
    """A serial loop run by threads or blocks at once."""
    taken = {loop.kind for loop in loops(tree.body)}
    free = next((k for k in THREAD_KINDS if k not in taken), "cooperative")

    def change(node):
        if isinstance(node, Loop) and node.kind in ("serial", "unrolled") and any(s.reduce for s in stmts(node)):
            yield (replace(node, kind=free),)

    return edited(tree, change)


@of_statements
def wrong_value(stmt, tree):
    if isinstance(stmt.value, Op) and len(stmt.value.args) == 2:
        other = "-" if stmt.value.name != "-" else "+"
        yield replace(stmt, value=replace(stmt.value, name=other))
    if hasattr(stmt.value, "value") and isinstance(stmt.value.value, int | float):
        yield replace(stmt, value=replace(stmt.value, value=stmt.value.value + 1))
    if stmt.reduce in ("sum", "argmin"):
        yield replace(stmt, reduce={"sum": "max", "argmin": "argmax"}[stmt.reduce])


@of_statements
def wrong_fallback(stmt, tree):
    """A copy that holds another value for what is outside of the tensor."""
    for load in dict.fromkeys(load for load in loads(stmt) if stmt.is_copy and load.fallback):
        other = replace(load, fallback=replace(load.fallback, value=load.fallback.value + 1))
        yield rewrite(stmt, lambda value, load=load, other=other: other if value == load else value)


def put_right_in_part(tree):
    """A copy that gets the element of an iteration as far from the end, and is put right in all but the first one."""
    extents = {loop.name: loop.extent for loop in loops(tree.body)}

    def change(stmt):
        names = [name for i in stmt.value.index for name in i.names()] if _is_fill(stmt) else ()
        for name in dict.fromkeys(n for n in names if n in extents and extents[n] != const(1)):
            far = {name: extents[name] - 1 - var(name)}
            source = replace(stmt.value, index=tuple(i.substitute(far) for i in stmt.value.index))
            element = stmt.element and tuple(i.substitute(far) for i in stmt.element)
            guard = tuple(c._replace(value=c.value.substitute(far)) for c in stmt.guard)
            right = replace(stmt, guard=(*stmt.guard, Condition(var(name) - 1)))
            yield stmt, replace(stmt, value=source, element=element, guard=guard), right

    return edited(tree, lambda node: change(node) if isinstance(node, Stmt) else [])


def _is_fill(stmt):
    return stmt.is_copy and isinstance(stmt.value, Load)


def plain_update(tree):
    """An update that others make at the same time is no longer one access."""
    return _statements(tree, lambda stmt: [replace(stmt, atomic=False)] if stmt.atomic else [])


def wrong_home(tree):
    """A buffer whose contents live for another loop's iterations."""
    names = list(dict.fromkeys(loop.name for loop in loops(tree.body)))
    for n, b in enumerate(tree.buffers):
        for name in names if b.scope else ():
            if name != b.scope and not name.startswith(b.name):
                moved = replace(b, scope=name)
                yield replace(tree, buffers=(*tree.buffers[:n], moved, *tree.buffers[n + 1 :]))


def wrong_pad(tree):
    """Rows shorter than what is in them: two elements share a place."""
    for n, b in enumerate(tree.buffers):
        for pad in (-1, -2) if b.space == "shared" else ():
            yield replace(tree, buffers=(*tree.buffers[:n], replace(b, pad=pad), *tree.buffers[n + 1 :]))


def wrong_swizzle(tree):
    """Elements beyond the end of a row: two share a place."""
    for n, b in enumerate(tree.buffers):
        if b.space == "shared" and count_rows(b) > 1:
            moved = replace(b, swizzle=Swizzle(1, 2 ** b.shape[b.order[-1]].const.bit_length()))
            yield replace(tree, buffers=(*tree.buffers[:n], moved, *tree.buffers[n + 1 :]))


def roles_swapped(tree):
    """Neighbouring roles each do their work in the other's iterations; or all of one in the first one's."""

    def change(loop):
        roles = loop.roles if isinstance(loop, Loop) else ()
        for one, two in pairwise(roles):
            tests = _tests_of(one, loop, roles), _tests_of(two, loop, roles)
            for mine, other in (tests, tests[::-1]):
                yield (_with_tests(loop, {mine: other}),)
            yield (_with_tests(loop, {tests[0]: tests[1], tests[1]: tests[0]}),)

    return edited(tree, change)


def _tests_of(role, loop, roles):
    begins, ends = Condition(role.since_start(loop.name)), Condition(role.until_end(loop.name))
    return tuple(c for c, there in ((begins, role != roles[0]), (ends, role != roles[-1])) if there)


def _with_tests(loop, becomes):
    def change(stmt):
        for old, new in becomes.items():
            if isinstance(stmt, Stmt) and set(old) <= set(stmt.guard) and len(old):
                return replace(stmt, guard=(*(c for c in stmt.guard if c not in old), *new))
        return stmt

    return rewrite(loop, change)


FAULTS = {
    "bound off by one": bound_off_by_one,
    "copy too small": copy_too_small,
    "tail guard gone": tail_guard_gone,
    "guard off by one": guard_off_by_one,
    "wrong shared index": wrong_shared_index,
    "wrong global index": wrong_global_index,
    "missing initialisation": missing_initialisation,
    "store-back missing": store_back_missing,
    "doubled reduction": doubled_reduction,
    "register element shared": register_element_shared,
    "vector misaligned": vector_misaligned,
    "stale buffer": stale_buffer,
    "swapped loops or statements": swapped,
    "parallel reduction": parallel_reduction,
    "wrong value": wrong_value,
    "wrong fallback": wrong_fallback,
    "put right in part": put_right_in_part,
    "atomic update made plain": plain_update,
    "wrong home of a buffer": wrong_home,
    "wrong pad": wrong_pad,
    "wrong swizzle": wrong_swizzle,
    "roles swapped": roles_swapped,
    **warp_faults.TREE_FAULTS,
    **list_faults.FAULTS,
}
