"""Faults in what the blocks of a cluster share, put into a lowered program: each function gives launches with one."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_copy, is_event, is_meeting, is_release, is_start_of_copies
from tests.support.mutants.places import each, of
from tests.support.mutants.ring_faults import loops_changed
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Condition
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import BLOCK, CLUSTER, Barrier, StartBarriers


def shared(launch, change):
    """Each copy to several blocks replaced."""
    return each(launch, is_copy, lambda n: change(n) if n.blocks else [])


def wrong_mask(launch):
    """To one of the blocks, to itself alone, to none that there is."""
    return shared(launch, lambda n: [(replace(n, blocks=blocks),) for blocks in (0, 1, 2, 4, 7)])


def mask_of_all_copies(launch):
    """What each block has for itself goes to all."""
    return each(launch, is_copy, lambda n: [] if n.blocks else [(replace(n, blocks=launch.cluster.mask),)])


def share_missing(launch):
    """A block that sends nothing, or all send the first share."""
    first, last = (Condition(const(place) - var("ci"), equal=True) for place in (0, launch.cluster.blocks - 1))

    def change(node):
        yield ()
        yield (If((first,), (node,)),)
        yield (If((last,), (node,)),)

    return shared(launch, change)


@of(is_copy, lambda n: n.blocks)
def share_shifted(node, launch):
    """In the tensor, or in the buffer, or the wrong one of both, or the same one by all."""
    other = {"ci": const(launch.cluster.blocks - 1) - var("ci")}
    for values in (other, {"ci": const(0)}, {"ci": var("ci") + 1}):
        coordinates = tuple(c.substitute(values) for c in node.coordinates)
        place = Access(node.place.buffer, tuple(i.substitute(values) for i in node.place.index))
        yield (replace(node, coordinates=coordinates),)
        yield (replace(node, place=place),)
        if values is not other:
            yield (replace(node, coordinates=coordinates, place=place),)


@of(is_start_of_copies)
def bytes_of_one_share(node, launch):
    """Expected are those that the block's own copies bring."""
    found = [copy for copy in node.body if is_copy(copy) and copy.blocks]
    assert found
    size = 4 * launch.maps[-1].box[0] * launch.maps[-1].box[1]
    yield (replace(node, count=node.count - size),)
    yield (replace(node, count=node.count + size),)


@of(StartBarriers)
def arrivals_of_one_block(node, launch):
    """Those of the warps of one block, or of one more than there are."""
    for place, (name, arrivals) in enumerate(node.barriers):
        if name == "emptied":
            one = arrivals // launch.cluster.blocks
            for new in (one, arrivals + one):
                yield (replace(node, barriers=(*node.barriers[:place], (name, new), *node.barriers[place + 1 :])),)


@of(StartBarriers)
def arrivals_of_all_at_filled(node, launch):
    new = tuple((n, count * launch.cluster.blocks if n == "filled" else count) for n, count in node.barriers)
    yield (replace(node, barriers=new),)


def release_at_another_block(launch):
    """At one block alone, at its own, at one that there is not."""
    return each(launch, is_release, lambda n: [(replace(n, blocks=blocks),) for blocks in (0, 1, 2, 4, 6, 7)])


def release_by_one_block(launch):
    test = Condition(var("ci"), equal=True)
    return each(launch, is_release, lambda n: [(If((test,), (n,)),)])


def meeting_dropped(launch):
    """At the exit."""
    return each(launch, is_meeting, lambda n: [()])


def meeting_of_some(launch):
    """Under a test of the thread or the block, or before all else."""
    tests = (Condition(var(launch.tid) - 32), Condition(var("ci"), equal=True))
    yield from each(launch, is_meeting, lambda n: [(If((test,), (n,)),) for test in tests])
    start, *rest, end = launch.body
    yield replace(launch, body=(start, end, *rest))


def meeting_twice(launch):
    """In one of the roles, where the other one does not come by."""
    return loops_changed(launch, lambda n: [(n, Barrier(CLUSTER)), (Barrier(CLUSTER), n)])


def start_without_the_others(launch):
    return each(launch, StartBarriers, lambda n: [(replace(n, line=BLOCK),)])


def other_extent(launch):
    """A block of the cluster has one iteration more, or fewer, in one role or in both."""

    def more(node, by):
        return replace(node, extent=node.extent + by) if isinstance(node, For) else node

    for by in (var("ci"), -var("ci")):
        yield from loops_changed(launch, lambda n, by=by: [(more(n, by),)])
        yield replace(launch, body=_in_all_loops(launch.body, lambda n, by=by: more(n, by)))


def ring_by_some(launch):
    """The rings of one block of the cluster alone, in both roles."""
    test = Condition(var("ci"), equal=True)
    yield replace(launch, body=_in_all_loops(launch.body, lambda n: If((test,), (n,))))


def _in_all_loops(body, change):
    """`body` with each loop of a ring replaced."""
    out = []
    for node in body:
        if isinstance(node, If):
            node = replace(node, body=_in_all_loops(node.body, change), orelse=_in_all_loops(node.orelse, change))
        elif isinstance(node, For) and any(is_event(inner) for inner in node.body):
            node = change(node)
        elif isinstance(node, For):
            node = replace(node, body=_in_all_loops(node.body, change))
        out.append(node)
    return tuple(out)


def other_clusters(launch):
    """Of more blocks, of fewer, of others; or none; or of a grid that is no whole number of them."""
    cluster = launch.cluster
    yield replace(launch, cluster=None)
    yield replace(launch, cluster=replace(cluster, blocks=4))
    yield replace(launch, cluster=replace(cluster, blocks=1))
    yield replace(launch, cluster=replace(cluster, rank="bi"))
    yield replace(launch, cluster=replace(cluster, kind="block.x"))
    x, y, z = launch.grid
    yield replace(launch, grid=(x, Product(y.factors[::-1]), z))
    yield replace(launch, grid=(x, Product((*y.factors[:-1], const(3))), z))
