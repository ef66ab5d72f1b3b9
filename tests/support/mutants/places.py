"""Every place in a tree or a lowered program, and the program with another node there."""

from __future__ import annotations

from dataclasses import replace


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


def at(body, path):
    """The node at `path`."""
    node = body[path[0][1]]
    for name, place in path[1:]:
        node = getattr(node, name)[place]
    return node
