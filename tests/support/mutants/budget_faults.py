"""Faults in register budgets, put into a lowered program: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_budget
from tests.support.mutants.places import each
from tests.support.mutants.ring_faults import roles_changed
from tilegen.lowering.launch.timelines import Arrive, Await


def nobody_gives(launch):
    return _changed(launch, lambda n: [()] if isinstance(n, Arrive) else [])


def nobody_takes(launch):
    return _changed(launch, lambda n: [()] if isinstance(n, Await) else [])


def more_is_taken(launch):
    return _changed(launch, lambda n: [(replace(n, count=n.count + 8),)] if isinstance(n, Await) else [])


def less_is_given(launch):
    return _changed(launch, lambda n: [(replace(n, count=n.count + 8),)] if isinstance(n, Arrive) else [])


def no_such_budget(launch):
    return _changed(
        launch, lambda n: [(replace(n, count=n.count - 4),), (replace(n, count=16),), (replace(n, count=512),)]
    )


def taken_for_given(launch):
    return _changed(launch, lambda n: [((Arrive if isinstance(n, Await) else Await)(n.line, count=n.count),)])


def twice(launch):
    return _changed(launch, lambda n: [(n, n)])


def by_one_thread(launch):
    """The producer alone gives, and not its warpgroup."""

    def moved(node):
        budget, role = node.orelse
        return [(replace(node, orelse=(replace(role, body=(budget, *role.body)),)),)]

    return roles_changed(launch, moved)


def behind_the_role(launch):
    return roles_changed(launch, lambda n: [(replace(n, body=(*n.body[1:], n.body[0])),)])


def roles_exchanged(launch):
    return roles_changed(
        launch,
        lambda n: [(replace(n, body=(n.orelse[0], *n.body[1:]), orelse=(n.body[0], *n.orelse[1:])),)],
    )


def by_warps_left_out(launch):
    """The last warps of the producer's warpgroup are not launched."""
    return [replace(launch, left_out=left_out) for left_out in (32, 96)]


def _changed(launch, change):
    return each(launch, is_budget, change)
