"""What a lowered program does beside the statements of a tree, as statements of another kind: it starts copies, arrives
at barriers and waits there."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from tilegen.ir.nodes import Stmt
from tilegen.poly.instances import Placed, Projection

Kind = Literal[
    "",  # a statement as trees have it
    "asynchronous",  # a copy that is complete when its group has been waited for
    "bulk copy",  # of a box, whose bytes arrive at a barrier
    "bulk copy in a ring",  # to a slot, whose users have waited for it by themselves
    "bulk store",
    "arrival",  # at a barrier, with the bytes that are expected
    "release",  # the same by each warp, of what it has read
    "wait",  # for a phase of a barrier
    "pass",  # a turn is passed on to another group
    "take",  # a wait for the turn of a group
    "read by stores",  # a wait until bulk stores have read
    "product",  # by an instruction that runs on while its lanes do
    "hold",  # of a buffer in registers: what is written there by now
    "begin",  # of products
    "complete",  # a wait for all products
    "complete earlier",  # for all but the last group
]


BULK_COPIES: tuple[Kind, ...] = ("bulk copy", "bulk copy in a ring")


@dataclass(frozen=True)
class Special(Stmt):
    """A statement of a kind; one of another kind is another statement."""

    kind: Kind = ""


def kind_of(node: object) -> Kind:
    """The kind of a statement; "" for other nodes, too."""
    return node.kind if isinstance(node, Special) else ""


def with_kind(stmt: Stmt, kind: Kind) -> Special:
    """The statement, of this kind."""
    return Special(**{f.name: getattr(stmt, f.name) for f in fields(Stmt)}, kind=kind)


def leaves_of_kind(program: Projection, kind: Kind) -> list[Placed]:
    """The leaves of the program whose statements are of this kind."""
    return [placed for placed in program.leaves if kind_of(placed.leaf.stmt) == kind]
