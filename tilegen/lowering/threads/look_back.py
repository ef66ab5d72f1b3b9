"""Loops whose iterations hand on a value: each is a block, and finds what the value is before it where it is needed.

float run = 0;                             float run = 0;
for (int c = 0; c < n; ++c) {              const int c = draw_number(states);
    ...                                    ...
    ahead = run;                           run = sum_of_blocks_before(states, c, run, total);
    run += total;                          ahead = run;
                                           run += total;
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Loop, Stmt, Tree
from tilegen.ir.reductions.linear import words_of_blocks
from tilegen.ir.walk import accesses, loops
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    For,
    If,
    Spmd,
    nodes,
    with_body,
)
from tilegen.lowering.launch.timelines import LookBack

_SHARED_BYTES = 24  # of the numbers of the block and of its launch, what is before it, and gaps at boundaries


def with_look_back(launch: Launch, tree: Tree) -> Launch:
    """`launch` with blocks for the iterations of its loop that hands on a value, if it has one."""
    loop = next((each for each in loops(launch.distributed) if each.handed), None)
    if loop is None:
        return launch
    found = [node for node in nodes(launch.body) if isinstance(node, For) and node.name == loop.name]
    (extent,) = {each.extent for each in found}
    loop = replace(loop, extent=extent)
    body = _hand_on(launch.body, loop, launch)
    node = next(each for each in nodes(body) if isinstance(each, LookBack))
    states = replace(tree.buffer(node.states), shape=(words_of_blocks(loop.extent, node.reduce),))
    grid = (Product((loop.extent,)), *launch.grid[1:])
    return replace(
        launch,
        body=body,
        grid=grid,
        shared_bytes=launch.shared_bytes + _SHARED_BYTES,
        tensors=(*launch.tensors, states.name),
        buffers={**launch.buffers, states.name: states},
    )


def _hand_on(body: tuple[Spmd, ...], loop: Loop, launch: Launch) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        if isinstance(node, For):
            inner = _with_node(node.body, loop, launch) if node.name == loop.name else _hand_on(node.body, loop, launch)
            node = replace(node, body=inner, kind="handed" if node.name == loop.name else node.kind)
        out.append(node)
    return tuple(out)


def _with_node(body: tuple[Spmd, ...], loop: Loop, launch: Launch) -> tuple[Spmd, ...]:
    """The iteration, or a version of it, with what finds the value before all that uses it."""
    name = loop.handed
    place, user = next((n, node) for n, node in enumerate(body) if any(a.buffer == name for a in accesses(node)))
    update = next((n for n in body[place:] if isinstance(n, Stmt) and n.target.buffer == name), None)
    if update is None:
        assert isinstance(user, If)  # the update is under no test, but in each version
        either = (_with_node(each, loop, launch) for each in (user.body, user.orelse))
        return (*body[:place], with_body(user, *either), *body[place + 1 :])
    assert update.reduce
    found = LookBack(name, update.reduce, loop.name, loop.extent, update.value, f"{name}.states", update.arg)
    return (*body[:place], found, *body[place:])
