"""Faults in turns at a ring, put into a lowered program: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_pass, is_release, is_ring, is_take, is_turn, is_wait
from tests.support.mutants.places import each, of
from tests.support.mutants.ring_faults import of_roles, roles_changed
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Load
from tilegen.ir.walk import rewrite, rewrite_accesses
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import BLOCK, CONSUMERS, GROUP, Barrier, StartBarriers


def take_dropped(launch):
    return each(launch, is_take, lambda n: [()])


def takes_dropped(launch):
    yield _without(launch, is_take)


def pass_dropped(launch):
    return each(launch, is_pass, lambda n: [()])


def no_turns(launch):
    yield _without(launch, is_turn)


def take_of_the_other(launch):
    return each(launch, is_take, lambda n: [(replace(n, at=1 - n.at),)])


def pass_to_itself(launch):
    return each(launch, is_pass, lambda n: [(replace(n, at=1 - n.at),)])


def pass_twice(launch):
    return each(launch, is_pass, lambda n: [(n, n)])


def take_by_both(launch):
    return each(launch, If, lambda n: [n.body] if is_take(n.body[0]) else [])


def take_by_the_other(launch):
    other = Condition(var(_group(launch)) - 1), Condition(-var(_group(launch)))
    return each(
        launch,
        If,
        lambda n: [(replace(n, test=(other[other[0] == n.test[0]],)),)] if is_take(n.body[0]) else [],
    )


def turns_of_fewer(launch):
    return each(launch, is_turn, lambda n: [(replace(n, count=n.count // 2),)])


def pass_before_the_tile(launch):
    return _around_ring(launch, lambda take, ring, given: (take, given, ring))


def pass_before_the_last_wait(launch):
    def change(take, ring, given):
        last = If((Condition(1 + var(ring.name) - ring.extent),), (given,))
        return take, replace(ring, body=(last, *ring.body))

    return _around_ring(launch, change)


def take_behind_the_tile(launch):
    return _around_ring(launch, lambda take, ring, given: (ring, take, given))


def group_dropped(launch):
    yield from _with_group(launch, "", of_producer=False)


def group_of_the_producer(launch):
    """Its numbers are those of one group's runs."""
    yield from _with_group(launch, _group(launch), of_producer=True)


def other_group(launch):
    yield from _with_group(launch, launch.tid, of_producer=False)


def _with_group(launch, group, *, of_producer):
    def kind(node):
        return is_ring(node) and (node.ring.group == "") == of_producer

    return each(launch, kind, lambda n: [(replace(n, ring=replace(n.ring, group=group)),)])


@of(StartBarriers)
def arrivals_of_both(node, launch):
    names = [name for name, _ in node.barriers if name == "emptied"]
    return [(replace(node, barriers=tuple((n, c * (1 + (n in names))) for n, c in node.barriers)),)]


def releases_twice(launch):
    return each(launch, is_release, lambda n: [(n, n)])


def same_tile(launch):
    """Both do the first one's tile, or the producer fills the same one twice."""
    group = _group(launch)
    for turn in (f"{group}.turn", group):
        for number in (0, 1):

            def change(node, turn=turn, number=number):
                return node.substitute({turn: const(number)})

            yield replace(launch, body=_with_accesses_at(launch.body, change, turn))


def _with_accesses_at(body, change, turn):
    def of_one(value):
        if isinstance(value, Access | Load) and value.buffer == "C":
            return replace(value, index=tuple(change(i) for i in value.index))
        if hasattr(value, "coordinates"):
            return replace(value, coordinates=tuple(change(i) for i in value.coordinates))
        return value

    return rewrite(body, of_one)


def turns_exchanged(launch):
    """The producer fills for the second one first."""
    turn = f"{_group(launch)}.turn"
    yield replace(launch, body=rewrite(launch.body, lambda v: _with_other_turn(v, turn)))


def _with_other_turn(value, turn):
    if hasattr(value, "coordinates"):
        return replace(value, coordinates=tuple(i.substitute({turn: 1 - var(turn)}) for i in value.coordinates))
    return value


def other_turns(launch):
    turn = f"{_group(launch)}.turn"
    return each(
        launch, For, lambda n: [(replace(n, extent=n.extent + by),) for by in (1, -1)] if n.name == turn else []
    )


def staging_shared(launch):
    """Both use the first copy of a buffer."""
    staged = {b.name for b in launch.buffers.values() if b.space == "shared" and len(b.shape) == 3 and b.name == "Cs"}

    def change(access):
        return replace(access, index=(const(0), *access.index[1:])) if access.buffer in staged else access

    if staged:
        yield replace(launch, body=rewrite_accesses(launch.body, change))


def staging_once(launch):
    """There is one buffer for both."""
    buffers = {n: replace(b, shape=(const(1), *b.shape[1:])) if n == "Cs" else b for n, b in launch.buffers.items()}
    if "Cs" in buffers:
        yield replace(launch, buffers=buffers)


def barrier_of_the_block(launch):
    wider = ({"line": CONSUMERS, "at": None}, {"line": BLOCK, "at": None, "count": 0})
    return each(launch, Barrier, lambda n: [(replace(n, **w),) for w in wider] if n.line == GROUP else [])


def barrier_of_more(launch):
    return each(launch, Barrier, lambda n: [(replace(n, count=2 * n.count),)] if n.line == GROUP else [])


def other_roles(launch):
    group = _group(launch)
    return roles_changed(launch, lambda n: [(replace(n, test=(Condition(by - var(group)),)),) for by in (0, 2)])


@of_roles
def next_producer(node, launch):
    """The next thread, or each of its row."""
    (inner,) = node.orelse
    yield (replace(node, orelse=(replace(inner, test=(Condition(var(launch.tid) - 1, equal=True),)),)),)
    yield (replace(node, orelse=inner.body),)


def start_further(launch):
    """A place of its own for one of the roles."""
    return each(launch, is_ring, lambda n: [(replace(n, ring=replace(n.ring, number="other")),)])


def _group(launch):
    return next(name for name, kind, _ in launch.coordinates if kind == "thread.y")


def _without(launch, kind):
    def change(body):
        return tuple(
            replace(n, body=change(n.body), **({"orelse": change(n.orelse)} if isinstance(n, If) else {}))
            if isinstance(n, For | If)
            else n
            for n in body
            if not kind(n) and not (isinstance(n, If) and kind(n.body[0]))
        )

    return replace(launch, body=change(launch.body))


def _around_ring(launch, change):
    """The three nodes of a turn replaced: its test, the loop and what passes it on."""

    def of(node):
        body = node.body
        for n, ring in enumerate(body[:-1]):
            if isinstance(ring, For) and any(is_wait(each) for each in ring.body) and n:
                return [(replace(node, body=(*body[: n - 1], *change(*body[n - 1 : n + 2]), *body[n + 2 :])),)]
        return []

    return each(launch, For, of)
