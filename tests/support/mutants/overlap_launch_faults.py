"""Faults in launches that begin early, put into a lowered program: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.places import each
from tests.support.mutants.ring_faults import roles_changed
from tilegen.lowering.launch_nodes import AwaitLaunches, LetNextBegin
from tilegen.lowering.program import For, If


def wait_dropped(launch):
    return each(launch, AwaitLaunches, lambda n: [()])


def both_dropped(launch):
    """What the host asks for stays."""
    kept = tuple(n for n in launch.body if not isinstance(n, AwaitLaunches | LetNextBegin))
    return [replace(launch, body=kept)]


def wait_twice(launch):
    return each(launch, AwaitLaunches, lambda n: [(n, n)])


def not_asked_for(launch):
    """The host lets it begin when all before are complete, and the text waits all the same."""
    return [replace(launch, dependent=False)]


def wait_behind_an_access(launch):
    """The wait, at each later place of the body."""
    rest = tuple(n for n in launch.body if not isinstance(n, AwaitLaunches))
    first = launch.body.index(AwaitLaunches()) + 1
    places = range(first, len(rest) + 1)
    return [replace(launch, body=(*rest[:at], AwaitLaunches(), *rest[at:])) for at in places]


def access_ahead(launch):
    """Each node behind the wait, ahead of it."""
    at = launch.body.index(AwaitLaunches())
    for n in range(at + 1, len(launch.body)):
        moved = launch.body[n]
        yield replace(launch, body=(*launch.body[:at], moved, *(m for m in launch.body[at:] if m is not moved)))


def wait_on_one_path(launch):
    """By the threads alone that come by a branch, or in a loop that may have no iteration."""
    bare = replace(launch, body=tuple(n for n in launch.body if not isinstance(n, AwaitLaunches)))
    wait = AwaitLaunches()
    return [
        *each(bare, If, lambda n: [(replace(n, body=(wait, *n.body)),)]),
        *each(bare, For, lambda n: [(replace(n, body=(wait, *n.body)),)]),
    ]


def wait_in_one_role(launch):
    bare = replace(launch, body=tuple(n for n in launch.body if not isinstance(n, AwaitLaunches)))
    wait = AwaitLaunches()
    return roles_changed(bare, lambda n: [(replace(n, body=(wait, *n.body)),), (replace(n, orelse=(wait, *n.orelse)),)])


def next_never_begins(launch):
    return each(launch, LetNextBegin, lambda n: [()])


def next_begins_on_one_path(launch):
    bare = replace(launch, body=tuple(n for n in launch.body if not isinstance(n, LetNextBegin)))
    return each(bare, If | For, lambda n: [(replace(n, body=(LetNextBegin(), *n.body)),)])
