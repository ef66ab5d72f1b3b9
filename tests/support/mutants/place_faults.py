"""Faults in the places of rings whose loop runs several times: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_next
from tests.support.mutants.places import each, nodes
from tests.support.mutants.ring_faults import loops_changed
from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition
from tilegen.ir.walk import rewrite, substitute
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import Event, NextSlot, RingPlace, StartRing


def start_dropped(launch):
    return each(launch, StartRing, lambda n: [()])


def start_in_each_run(launch):
    place = next(n.place for _, n in nodes(launch.body) if isinstance(n, StartRing))
    return _around_rings(launch, lambda n: [(replace(n, body=(StartRing(place), *n.body)),)])


def next_dropped(launch):
    return each(launch, is_next, lambda n: [()])


def next_twice(launch):
    return each(launch, is_next, lambda n: [(n, n)])


def next_first(launch):
    return loops_changed(launch, lambda n: [(replace(n, body=(n.body[-1], *n.body[:-1])),)])


def next_behind_the_loop(launch):
    return loops_changed(launch, lambda n: [(replace(n, body=n.body[:-1]), n.body[-1])])


def next_by_some(launch):
    test = Condition(var(launch.tid), equal=True)
    return each(launch, is_next, lambda n: [(If((test,), (n,)),)])


def slots_miscounted(launch):
    return each(
        launch, NextSlot, lambda n: [(replace(n, place=replace(n.place, slots=n.place.slots + by)),) for by in (1, -1)]
    )


def slots_miscounted_alike(launch):
    yield replace(launch, body=rewrite(launch.body, _with_a_slot_more))


def _with_a_slot_more(value):
    return replace(value, slots=value.slots + 1) if isinstance(value, RingPlace) else value


def other_runs(launch):
    """One role has a run more, or less."""
    return _around_rings(launch, lambda n: [(replace(n, extent=n.extent + by),) for by in (1, -1)])


def slot_of_each_run(launch):
    """A role uses the slots as if each run began with the first."""

    def change(loop):
        place = loop.body[-1].place
        values = {place.number: var(loop.name)}
        return [(replace(loop, body=(*substitute(loop.body[:-1], values), loop.body[-1])),)]

    return loops_changed(launch, change)


def events_of_each_run(launch):
    """A role counts the phases of barriers as if each run began with the first."""

    def change(loop):
        values = {loop.body[-1].place.number: var(loop.name)}

        def said(value):
            counted = isinstance(value, Event) and value.line.has_phases
            return replace(value, number=substitute(value.number, values)) if counted else value

        return [(replace(loop, body=(*rewrite(loop.body[:-1], said), loop.body[-1])),)]

    return loops_changed(launch, change)


def _around_rings(launch, change):
    """Each loop replaced that has the loop of a ring in its body."""
    return each(launch, For, lambda n: change(n) if any(_is_of_a_ring(inner) for inner in n.body) else [])


def _is_of_a_ring(node):
    return isinstance(node, For) and is_next(node.body[-1])
