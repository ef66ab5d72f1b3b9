"""Every place in a tree or a lowered program, and the program with another node there."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from inspect import isfunction


def nodes(body, path=()):
    """(path, node) for every node, parents first; a path is a list of (name of the body, place in it)."""
    yield from _in_list("body", body, path)


def _in_list(name, body, path):
    for place, node in enumerate(body):
        here = (*path, (name, place))
        yield here, node
        for inner in ("body", "orelse"):
            yield from _in_list(inner, getattr(node, inner, ()), here)


def put(body, path, new):
    """`body` with the nodes `new` in place of the one at `path`."""
    (_, place), *rest = path
    if rest:
        name = rest[0][0]
        new = (replace(body[place], **{name: put(getattr(body[place], name), rest, new)}),)
    return (*body[:place], *new, *body[place + 1 :])


def edited(launch, change):
    """The launch with each list of nodes that `change` gives in place of a node."""
    for path, node in nodes(launch.body):
        for new in change(node):
            yield replace(launch, body=put(launch.body, path, new))


def each(launch, kind, change):
    """`edited`, of the nodes of a kind: of a class, or what a function says of."""
    is_one = kind if isfunction(kind) else lambda node: isinstance(node, kind)
    return edited(launch, lambda node: change(node) if is_one(node) else [])


def of(kind, where=lambda node: True):
    """Makes a kind of fault, a function of a launch, of what is to stand in place of a node of this kind."""

    def make(change):
        @wraps(change)
        def fault(launch):
            return each(launch, kind, lambda node: change(node, launch) if where(node) else [])

        del fault.__wrapped__  # it is looked at for what it takes
        return fault

    return make
