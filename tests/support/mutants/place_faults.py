"""Faults in the places of rings whose loop runs several times: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_ring
from tests.support.mutants.places import each
from tests.support.mutants.ring_faults import loops_changed
from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition
from tilegen.ir.walk import rewrite, substitute
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import Event, RingPlace

# In the text, of what counts: what is there, and what stands in its place.
TEXT_FAULTS = {
    "ring counted wrong": [
        (r"^ *Ring<.*\n", ""),
        (r"Ring<(\w+)>", r"Ring<\1 + 1>"),
        (r"(Ring<.*> \w+ = \{)(\w+), (\w+)", r"\1\3, \2"),
        (r"^ *\w+\.advance\(\);\n", ""),
        (r"^( *\w+\.advance\(\);\n)", r"\1\1"),
        (r"^( *\w+\.advance\(\);\n)( *\}\n)", r"\2\1"),
        (r"^( *)(\w+\.advance\(\);)", r"\1if (threadIdx.x == 0) \2"),
    ],
    "other runs left out": [
        (r"^ *\w+\.skip\(.*\n", ""),
        (r"^( *\w+\.skip\(.*\n)", r"\1\1"),
        (r"(\w+\.skip\()(.*)\);", r"\1\2 + 1);"),
        (r"^ *if \(.*\)\n( *\w+\.skip\()", r"\1"),
        (r"^ *if \(.*\)\n *\w+\.skip\(.*\n", ""),
        (r"^( *if \(\w+) >= 1(\)\n *\w+\.skip\()", r"\1 < 1\2"),
    ],
}


def ring_dropped(launch):
    return each(launch, is_ring, lambda n: [(replace(n, ring=None),)])


def ring_around(launch):
    """The loop around counts, or both do."""

    def change(loop):
        (ring,) = [inner.ring for inner in loop.body if is_ring(inner)]
        alone = tuple(replace(inner, ring=None) if is_ring(inner) else inner for inner in loop.body)
        return [(replace(loop, ring=ring),), (replace(loop, ring=ring, body=alone),)]

    return _around_rings(launch, change)


def ring_twice(launch):
    return each(launch, is_ring, lambda n: [(n, n)])


def ring_of_some(launch):
    test = Condition(var(launch.tid), equal=True)
    return each(launch, is_ring, lambda n: [(If((test,), (n,)),)])


def slots_miscounted(launch):
    return each(
        launch, is_ring, lambda n: [(replace(n, ring=replace(n.ring, slots=n.ring.slots + by)),) for by in (1, -1)]
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
        return [(replace(loop, body=substitute(loop.body, {loop.ring.number: var(loop.name)})),)]

    return loops_changed(launch, change)


def events_of_each_run(launch):
    """A role counts the phases of barriers as if each run began with the first."""

    def change(loop):
        values = {loop.ring.number: var(loop.name)}

        def said(value):
            counted = isinstance(value, Event) and value.line.has_phases
            return replace(value, number=substitute(value.number, values)) if counted else value

        return [(replace(loop, body=rewrite(loop.body, said)),)]

    return loops_changed(launch, change)


def _around_rings(launch, change):
    """Each loop replaced that has the loop of a ring in its body."""
    return each(launch, For, lambda n: change(n) if any(map(is_ring, n.body)) else [])
