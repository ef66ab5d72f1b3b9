"""Faults in launches that begin early, put into a lowered program: each function gives launches with its kind."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.kinds import is_begin_of_next, is_wait_for_launches
from tests.support.mutants.places import each
from tests.support.mutants.ring_faults import roles_changed
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import LAUNCHES, Arrive, Await


def wait_dropped(launch):
    return each(launch, is_wait_for_launches, lambda n: [()])


def both_dropped(launch):
    """What the host asks for stays."""
    kept = tuple(n for n in launch.body if n not in (Await(LAUNCHES), Arrive(LAUNCHES)))
    return [replace(launch, body=kept)]


def wait_twice(launch):
    return each(launch, is_wait_for_launches, lambda n: [(n, n)])


def not_asked_for(launch):
    """The host lets it begin when all before are complete, and the text waits all the same."""
    return [replace(launch, asks=())]


def wait_behind_an_access(launch):
    """The wait, at each later place of the body."""
    rest = tuple(n for n in launch.body if n != Await(LAUNCHES))
    first = launch.body.index(Await(LAUNCHES)) + 1
    places = range(first, len(rest) + 1)
    return [replace(launch, body=(*rest[:at], Await(LAUNCHES), *rest[at:])) for at in places]


def access_ahead(launch):
    """Each node after the wait, before it."""
    at = launch.body.index(Await(LAUNCHES))
    for n in range(at + 1, len(launch.body)):
        moved = launch.body[n]
        yield replace(launch, body=(*launch.body[:at], moved, *(m for m in launch.body[at:] if m is not moved)))


def wait_on_one_path(launch):
    """By the threads alone that come by a branch, or in a loop that may have no iteration."""
    bare = replace(launch, body=tuple(n for n in launch.body if n != Await(LAUNCHES)))
    wait = Await(LAUNCHES)
    return [
        *each(bare, If, lambda n: [(replace(n, body=(wait, *n.body)),)]),
        *each(bare, For, lambda n: [(replace(n, body=(wait, *n.body)),)]),
    ]


def wait_in_one_role(launch):
    bare = replace(launch, body=tuple(n for n in launch.body if n != Await(LAUNCHES)))
    wait = Await(LAUNCHES)
    return roles_changed(bare, lambda n: [(replace(n, body=(wait, *n.body)),), (replace(n, orelse=(wait, *n.orelse)),)])


def next_never_begins(launch):
    return each(launch, is_begin_of_next, lambda n: [()])


def next_begins_on_one_path(launch):
    bare = replace(launch, body=tuple(n for n in launch.body if n != Arrive(LAUNCHES)))
    return each(bare, If | For, lambda n: [(replace(n, body=(Arrive(LAUNCHES), *n.body)),)])
