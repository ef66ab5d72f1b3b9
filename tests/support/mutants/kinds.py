"""Kinds of nodes on timelines, as tests of a node."""

from __future__ import annotations

from tilegen.lowering.launch.program import For, Start
from tilegen.lowering.launch.timelines import (
    CLUSTER,
    EMPTIED,
    FILLED,
    LAUNCHES,
    REGISTERS,
    STORES,
    TURNS,
    Arrive,
    Await,
    Barrier,
    Box,
    Fence,
    products,
)


def _on(kind, *lines):
    return lambda node: isinstance(node, kind) and node.line in lines


is_event = _on(Start | Arrive | Await, FILLED, EMPTIED)
is_wait = _on(Await, FILLED, EMPTIED)
is_start_of_copies = _on(Start, FILLED)
is_copy = _on(Box, FILLED)
is_release = _on(Arrive, EMPTIED)
is_start_of_stores = _on(Start, STORES)
is_store = _on(Box, STORES)
is_wait_for_stores = _on(Await, STORES)
is_take = _on(Await, TURNS)
is_turn = _on(Await | Arrive, TURNS)
is_pass = _on(Arrive, TURNS)
is_meeting = _on(Barrier, CLUSTER)
is_budget = _on(Arrive | Await, REGISTERS)
is_wait_for_launches = _on(Await, LAUNCHES)
is_begin_of_next = _on(Arrive, LAUNCHES)
is_wait_for_products = _on(Await, products("wgmma"))


def is_begin_of_products(node):
    return node == Fence(products("wgmma"))


def is_hold(node):
    return isinstance(node, Fence) and bool(node.buffers)


def is_ring(node):
    return isinstance(node, For) and bool(node.ring)
