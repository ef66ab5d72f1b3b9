"""Faults in the rings of specialized loops, put into a lowered program: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.bulk_faults import moved
from tests.support.mutants.kinds import is_copy, is_event, is_release, is_start_of_copies, is_wait
from tests.support.mutants.places import each, nodes, of
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition, Load
from tilegen.ir.walk import rewrite_accesses
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import BLOCK, EMPTIED, FILLED, Barrier, Fence, StartBarriers


def _is_of_roles(node):
    return bool(node.orelse) and any(is_start_of_copies(n) for _, n in nodes(node.orelse))


def _says_something(loop):
    return any(is_event(inner) for inner in loop.body)


of_roles = of(If, _is_of_roles)  # the test of who does what
of_loops = of(For, _says_something)  # each loop of either role: those in which something is said at a barrier


def roles_changed(launch, change):
    return each(launch, If, lambda n: change(n) if _is_of_roles(n) else [])


def loops_changed(launch, change):
    return each(launch, For, lambda n: change(n) if _says_something(n) else [])


def wait_dropped(launch):
    return each(launch, is_wait, lambda n: [()])


@of(Fence, lambda n: n.line == BLOCK)
def loads_unfenced(node, launch):
    """Nothing holds the copies to a slot until those who have loaded from it have what they asked for."""
    yield ()


def phase_shifted(launch):
    """Of a wait: its parity flips. Of the others the phase is in no text, and still what the proof is told."""
    return each(launch, is_event, lambda n: [(replace(n, number=n.number + by),) for by in (1, -1, 2)])


def phase_of_each_iteration(launch):
    return loops_changed(
        launch, lambda n: [(replace(n, body=tuple(_rephased(inner, var(n.name)) for inner in n.body)),)]
    )


def _rephased(node, phase):
    return replace(node, number=phase) if is_wait(node) else node


def slot_shifted(launch):
    return each(launch, is_event, lambda n: [(replace(n, at=moved(n.barrier, 1, launch)),)])


def slot_the_first(launch):
    return each(launch, is_event, lambda n: [(replace(n, at=Access(n.barrier.buffer, (const(0),))),)])


def barriers_exchanged(launch):
    other = {"filled": "emptied", "emptied": "filled"}
    return each(launch, is_event, lambda n: [(replace(n, at=replace(n.barrier, buffer=other[n.barrier.buffer])),)])


def all_barriers_exchanged(launch):
    """Everywhere but at their start, whose arrivals are then the wrong ones."""
    other = {"filled": "emptied", "emptied": "filled"}

    def change(access):
        return replace(access, buffer=other.get(access.buffer, access.buffer))

    yield replace(launch, body=(launch.body[0], *rewrite_accesses(launch.body[1:], change)))


def wrong_bytes(launch):
    return each(launch, is_start_of_copies, lambda n: [(replace(n, count=n.count + by),) for by in (16, -16)])


@of(StartBarriers)
def wrong_arrivals(node, launch):
    for place, (name, arrivals) in enumerate(node.barriers):
        for by in (1, -1):
            new = (*node.barriers[:place], (name, arrivals + by), *node.barriers[place + 1 :])
            yield (replace(node, barriers=new),)


def barriers_not_started(launch):
    return each(launch, StartBarriers, lambda n: [(replace(n, barriers=(b,)),) for b in n.barriers] + [()])


def wait_twice(launch):
    return each(launch, is_wait, lambda n: [(n, n)])


def release_dropped(launch):
    return each(launch, is_release, lambda n: [()])


def release_twice(launch):
    return each(launch, is_release, lambda n: [(n, n)])


def release_by_some(launch):
    """Under a test of the thread, or in some iterations alone."""
    tests = (Condition(var(launch.tid) - 32), Condition(var("ko") - 1))
    return each(launch, is_release, lambda n: [(If((test,), (n,)),) for test in tests])


@of_loops
def release_early(node, launch):
    """Before any of what stands before it in the iteration."""
    found = [n for n, each in enumerate(node.body) if is_release(each)]
    for end in found:
        before, last, behind = node.body[:end], node.body[end], node.body[end + 1 :]
        for place in range(end):
            yield (replace(node, body=(*before[:place], last, *before[place:], *behind)),)


@of_loops
def release_behind_the_loop(node, launch):
    released = tuple(each for each in node.body if is_release(each))
    if released:
        yield (replace(node, body=tuple(each for each in node.body if each not in released)), *released)


@of_loops
def wait_late(node, launch):
    """After what it stands before."""
    if is_wait(node.body[0]):
        first, second, *rest = node.body
        yield (replace(node, body=(second, first, *rest)),)


def wait_by_some(launch):
    return each(launch, is_wait, lambda n: [(If((Condition(var(launch.tid) - 1, equal=True),), (n,)),)])


@of(lambda node: is_wait(node) or is_release(node))
def wait_names_others(node, launch):
    yield (replace(node, buffers=node.buffers[1:]),)


def wait_of_the_other_kind(launch):
    return each(launch, is_wait, lambda n: [(replace(n, line=EMPTIED if n.line == FILLED else FILLED),)])


@of_roles
def other_producer(node, launch):
    """The next thread, all of its row, or a consumer."""
    (inner,) = node.orelse
    (test,) = inner.test
    for by in (1, -1):
        yield (replace(node, orelse=(replace(inner, test=(Condition(test.value + by, equal=True),)),)),)
    yield (replace(node, orelse=inner.body),)
    yield (replace(node, orelse=(replace(inner, test=(Condition(var(launch.tid), equal=True),)),)),)


@of_roles
def other_consumers(node, launch):
    """A row of threads less, one more, or others."""
    (test,) = node.test
    for value in (test.value - 1, test.value + 1, -test.value):
        yield (replace(node, test=(Condition(value),)),)
    yield (replace(node, test=(Condition(test.value, equal=True),)),)


@of_roles
def roles_exchanged(node, launch):
    (inner,) = node.orelse
    yield (replace(node, body=inner.body, orelse=(replace(inner, body=node.body),)),)


def role_dropped(launch):
    return roles_changed(launch, lambda n: [(replace(n, orelse=()),), n.orelse, n.body])


def consumers_first(launch):
    """All threads do what the consumers do, and then the producer begins."""
    return roles_changed(launch, lambda n: [(replace(n, orelse=()), *n.orelse)])


def other_extent(launch):
    """In one role, by one; or one that is not the same for all threads."""
    more = (const(1), const(-1), var(launch.tid))
    return loops_changed(launch, lambda n: [(replace(n, extent=n.extent + by),) for by in more])


def thread_extent_in_both(launch):
    def change(node):
        return [(replace(node, extent=node.extent + var(launch.tid)),)]

    for one in loops_changed(launch, change):
        for two in loops_changed(one, change):
            extents = {n.extent for _, n in nodes(two.body) if isinstance(n, For) and n.name == "ko"}
            if len(extents) == 1:
                yield two


def barrier_in_a_role(launch):
    barrier = Barrier(claims=(Claim("WAR", "A.shared", "ko"),))
    yield from loops_changed(launch, lambda n: [(barrier, n), (n, barrier)])
    yield from loops_changed(launch, lambda n: [(replace(n, body=(*n.body, barrier)),)])


@of(For)
def slot_used_elsewhere(node, launch):
    """In a use another slot than the one that has been waited for."""
    if any(is_release(inner) for inner in node.body):
        yield (rewrite_accesses(node, lambda a: _in_slot(a, 1, launch)),)
        yield (rewrite_accesses(node, lambda a: _in_slot(a, -1, launch)),)


def _in_slot(access, by, launch):
    if isinstance(access, Load) and launch.buffers[access.buffer].space == "shared":
        stages = launch.buffers[access.buffer].shape[0].const
        return replace(access, index=((access.index[0] + by) % stages, *access.index[1:]))
    return access


@of_loops
def slot_used_outside(node, launch):
    """What is done in the loop is done after it, too."""
    inner = tuple(each for each in node.body if not (is_wait(each) or is_release(each)))
    if any(is_release(each) for each in node.body):
        yield (node, For(node.name, const(1), inner))
        yield (For(node.name, const(1), inner), node)


@of(is_copy)
def copy_to_another_slot(node, launch):
    stages = launch.buffers[node.place.buffer].shape[0].const
    first, *rest = node.place.index
    yield (replace(node, place=replace(node.place, index=((first + 1) % stages, *rest))),)


def copy_at_another_barrier(launch):
    return each(launch, is_copy, lambda n: [(replace(n, at=moved(n.barrier, 1, launch)),)])


@of(is_copy)
def copy_of_another_iteration(node, launch):
    """The box of the next tile: what arrives is not what is used."""
    for place, coordinate in enumerate(node.coordinates):
        new = (*node.coordinates[:place], coordinate + 8, *node.coordinates[place + 1 :])
        yield (replace(node, coordinates=new),)


@of_loops
def copies_before_the_wait(node, launch):
    first, second, *rest = node.body
    if is_start_of_copies(second):
        yield (replace(node, body=(second, first, *rest)),)


def copies_twice(launch):
    return each(launch, is_start_of_copies, lambda n: [(n, n), (replace(n, body=n.body * 2),)])


def copy_left_out(launch):
    return each(launch, is_start_of_copies, lambda n: [(replace(n, body=n.body[1:]),), (replace(n, body=n.body[:1]),)])


def fewer_slots(launch):
    """Of a buffer, or of the barriers."""
    for name in ("A.shared", "B.shared", "filled", "emptied"):
        buffer = launch.buffers[name]
        yield replace(
            launch, buffers={**launch.buffers, name: replace(buffer, shape=(buffer.shape[0] - 1, *buffer.shape[1:]))}
        )
