"""What lanes exchange for statements that read a target while they combine it, read back as that target.

    const float run_ahead = sum_ahead_of_lane<32>(run, total);        before = run;
    before = run_ahead;                                           ->  const float run_lanes = sum_of_lanes<32>(total);
    const float run_lanes = sum_of_lanes<32>(total);                  run += run_lanes;
    run += run_lanes;

Lane by lane, in sequence, the target has the terms of earlier lanes right before the update of each, and its own too
right after it. So a statement that stands right beside the update may read it as such, if the exchange for it is of
the same terms, and if it changes none of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile

from tilegen.ir.nodes import Access, Load, Stmt
from tilegen.ir.walk import loads, rewrite_accesses
from tilegen.lowering.launch.program import Combine, Declare, For, Spmd, with_body
from tilegen.poly import Refused


def read_running(body: tuple[Spmd, ...]) -> tuple[tuple[Spmd, ...], Mapping[int, Stmt]]:
    """`body` without such exchanges, and by the identity of each statement that reads a target so, the update."""
    found: dict[int, Stmt] = {}
    return _read(body, found), found


def _read(body: tuple[Spmd, ...], found: dict[int, Stmt]) -> tuple[Spmd, ...]:
    new: dict[int, Spmd] = {}
    for place, node in enumerate(body):
        if isinstance(node, For):
            new[id(node)] = with_body(node, _read(node.body, found))
        elif isinstance(node, Combine) and node.start:
            for stmt, update in _readers(node, body[place + 1 :]):
                new[id(stmt)] = read = _in_sequence(new.get(id(stmt), stmt), node)
                found[id(read)] = update
    return tuple(new.get(id(node), node) for node in body if not (isinstance(node, Combine) and node.start))


def _in_sequence(stmt: Spmd, exchange: Combine) -> Spmd:
    """The statement as one that reads the target itself."""

    def change(access: Access | Load) -> Access | Load:
        return exchange.start if access.buffer == exchange.name and exchange.start else access

    return rewrite_accesses(stmt, change)


def _readers(exchange: Combine, behind: tuple[Spmd, ...]) -> Iterator[tuple[Stmt, Stmt]]:
    """The statements that read what is exchanged, each with the update that it stands beside."""
    assert exchange.start
    near = [node for node in behind if not isinstance(node, Declare) and not getattr(node, "start", None)]
    ahead = list(takewhile(lambda node: _reads(node, exchange), near))
    total, update = (*near[len(ahead) : len(ahead) + 2], None, None)[:2]
    beside = ahead if not exchange.inclusive else list(takewhile(lambda node: _reads(node, exchange), near[2:]))
    same = isinstance(total, Combine) and exchange == replace(
        total, name=exchange.name, arg_name=exchange.arg_name, start=exchange.start, inclusive=exchange.inclusive
    )
    target = Access(exchange.start.buffer, exchange.start.index)
    if not same or not isinstance(update, Stmt) or update.target != target or (ahead and exchange.inclusive):
        raise Refused(f"what lanes exchange for '{exchange.name}' is not that of the update beside it")
    terms = {load.buffer for load in (*loads((exchange.value, exchange.arg)), exchange.start)}
    for stmt in beside:
        assert isinstance(stmt, Stmt)
        if stmt.target.buffer in terms or stmt.reduce or stmt.best:
            raise Refused(f"'{stmt.name}' changes the terms that lanes exchange for '{exchange.name}'")
        yield stmt, update


def _reads(node: Spmd, exchange: Combine) -> bool:
    return isinstance(node, Stmt) and any(load.buffer == exchange.name for load in loads(node))
