"""What lowering makes: one program for each thread of a launch, ready to be printed.

The body of a `Launch` (`launch.py`) is a list of `Spmd` nodes. Thread and block loops are gone: their names stand for
the thread's own coordinates. What remains are loops that every thread runs, tests, barriers, declarations and
statements whose guards have become tests around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, TypeVar

from tilegen.ir.affine import Affine
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.nodes import (
    DTYPE_BYTES,
    Access,
    Condition,
    Const,
    Expr,
    Load,
    Loop,
    Op,
    Stmt,
)
from tilegen.ir.reductions.ragged import Bounds, only_where
from tilegen.lowering.launch.product_nodes import Described
from tilegen.lowering.launch.timelines import Event, OtherNode, RingPlace


@dataclass(frozen=True)
class For:
    """for name in 0 .. extent-1, by every thread. `kind` is serial, unrolled or vector.

    Of kind "tiles" it is the loop over the tiles that the block is dealt, whose coordinates along block.x have values
    inside of it; a launch decides how many, and the extent says nothing. Iterations of kind "handed" are blocks.
    Of kind "ragged" it runs between its `ends`, which are data. With a `ring`, iterations are numbered from run to run.
    """

    name: str
    extent: Affine
    body: tuple[Spmd, ...]
    kind: str = "serial"
    step: str = ""
    ends: Bounds | None = None
    ring: RingPlace | None = None

    @property
    def decided_by(self) -> frozenset[str]:
        """The loops and sizes that decide which iterations run."""
        return self.extent.names() | (self.ends.names if self.ends else frozenset())


@dataclass(frozen=True)
class If:
    """`body` where every condition of `test` holds, else `orelse`: a version of it, or other work where the two have
    names of `roles`. `flag` names a test made before, of some of its conditions or of all."""

    test: tuple[Condition, ...]
    body: tuple[Spmd, ...]
    orelse: tuple[Spmd, ...] = ()
    flag: str = ""
    roles: tuple[str, ...] = ()

    @property
    def decided_by(self) -> frozenset[str]:
        """The loops and sizes that decide which branch runs."""
        return frozenset().union(*(condition.value.names() for condition in self.test))


@dataclass(frozen=True)
class Flag:
    """const bool name = test."""

    name: str
    test: tuple[Condition, ...]


@dataclass(frozen=True)
class Let:
    """const int name = value, for the rest of the list."""

    name: str
    value: Affine


@dataclass(frozen=True)
class Declare:
    """A register buffer comes to life; `start` is its first value where that is known at once, of all elements.

    `origin` is the statement that gave this value, of an array in loops over its dimensions.
    """

    buffer: str
    start: Expr | None = None
    origin: Stmt | For | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class VectorLoad:
    """`width` neighbours of `source`, lane 0 first, into a vector variable called `name`."""

    name: str
    dtype: str
    width: int
    source: Access


@dataclass(frozen=True)
class VectorStore:
    """The vector variable `name` into `width` neighbours of `target`.

    With `update`, the word of a reduction, each of them is updated atomically with its lane. With `where`, a test of
    data, they are stored only where that holds.
    """

    name: str
    dtype: str
    width: int
    target: Access
    update: str = ""
    where: Expr | None = None


@dataclass(frozen=True)
class VectorDeclare:
    """A vector variable without a value yet: its lanes are assigned one by one."""

    name: str
    dtype: str
    width: int


@dataclass(frozen=True)
class VectorCopy:
    """`width` neighbours of `source` into as many of `target`, at once; asynchronously if so marked.

    With `inside`, a test of places, `source` is read only where that holds, and zeros are written elsewhere. With
    `where`, a test of data, `target` is written only where that holds.
    `origin` is the statement that this does for each value of `lane`.
    """

    dtype: str
    width: int
    target: Access
    source: Access
    asynchronous: bool = False
    inside: Expr | None = None
    where: Expr | None = None
    origin: Stmt | None = field(default=None, compare=False, repr=False)
    lane: str = field(default="", compare=False, repr=False)

    def value(self, source: Access) -> Expr:
        """What the lane that reads `source` writes."""
        element = Load(source.buffer, source.index, self.dtype)
        if self.where:
            return only_where(self.where, element)
        return Op("select", (self.inside, element, Const(0, self.dtype)), self.dtype) if self.inside else element

    @property
    def bytes(self) -> int:
        """What is moved at once."""
        return self.width * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Combine:
    """The values of `lanes` neighbouring threads of a warp, combined: each of these has the result in `name`.

    `lane` numbers the threads along x. One for which a condition of `test` does not hold puts in the neutral element.
    Every thread runs it. For argmax and argmin, `arg` goes with the value, and `arg_name` with the result, the lower
    one of equals; of linear steps they are the factors. With a `start`, a lane has what this and the values of the
    lanes before it come to, with `inclusive` its own, too.
    """

    name: str
    reduce: str
    lanes: int
    lane: Affine
    value: Expr
    dtype: str
    test: tuple[Condition, ...] = ()
    arg: Expr | None = None
    arg_name: str = ""
    arg_dtype: str = ""
    start: Load | None = None
    inclusive: bool = False


@dataclass(frozen=True)
class Perform:
    """All lanes of a warp or warpgroup run an instruction together.

    `operands` are in the order of its declaration: of one in registers the lane's first, of one in shared memory the
    row whose address it gives, or the whole matrix. Those of `rounded` are rounded to their format. With `where`, a
    test of data, they run it only where that holds. `origin` is the nest that this does.
    """

    operands: tuple[Access | Described, ...]
    origin: Loop = field(compare=False, repr=False)
    rounded: tuple[str, ...] = ()
    where: Expr | None = None

    @property
    def instruction(self) -> Instruction:
        assert self.origin.performed
        return self.origin.performed.instruction


@dataclass(frozen=True)
class Function:
    """Statements for each `Call` in the rest of the list; they see what is declared in front of them.

    `parameters` are integers; `unprinted` are those of which only instances of statements speak, and no text.
    """

    name: str
    parameters: tuple[str, ...]
    unprinted: tuple[str, ...]
    body: tuple[Spmd, ...]


@dataclass(frozen=True)
class Call:
    """The statements of `function`, whose parameters have these values."""

    function: str
    arguments: tuple[Affine, ...]
    unprinted: tuple[Affine, ...] = ()


@dataclass(frozen=True)
class Start(Event):
    """One thread starts what is in `body`, and by that arrives: when it has ended, the event has happened."""

    body: tuple[Spmd, ...] = ()


TimelineNode = Start | OtherNode
Spmd = (
    For | If | Flag | Let | Declare | VectorLoad | VectorStore | VectorDeclare | VectorCopy
    | Combine | Perform | TimelineNode | Function | Call | Stmt
)  # fmt: skip


Holder = TypeVar("Holder", bound=For | If)


_AROUND = (For, Function, Start, If)  # what has a body; a union is slower to ask


def nodes(body: Iterable[Spmd]) -> list[Spmd]:
    """Every node of a program in its order, loops, tests and functions before what is in them."""
    found: list[Spmd] = []
    _collect(body, found)
    return found


def _collect(body: Iterable[Spmd], found: list[Spmd]) -> None:
    for node in body:
        found.append(node)
        if isinstance(node, _AROUND):
            _collect(node.body, found)
            if isinstance(node, If):
                _collect(node.orelse, found)


def rings(body: Iterable[Spmd]) -> list[tuple[RingPlace, Affine]]:
    """Of the loops that go through a ring, where they are in it, and how many numbers a run has."""
    return [(node.ring, node.extent) for node in nodes(body) if isinstance(node, For) and node.ring]


def with_body(node: Holder, body: tuple[Spmd, ...], orelse: tuple[Spmd, ...] | None = None) -> Holder:
    """`node` with these lists inside; itself where they are what it has: what is known of it is found again."""
    if isinstance(node, For) or orelse is None or _is_identical(node.orelse, orelse):
        return node if _is_identical(node.body, body) else replace(node, body=body)
    return replace(node, body=body, orelse=orelse)


def with_lists(node: Spmd, change: Callable[[tuple[Spmd, ...]], tuple[Spmd, ...]]) -> Spmd:
    """`node` with `change` made to the lists inside of a loop or a test; any other node is itself."""
    match node:
        case For():
            return with_body(node, change(node.body))
        case If():
            return with_body(node, change(node.body), change(node.orelse))
        case _:
            return node


def _is_identical(old: tuple[Spmd, ...], new: tuple[Spmd, ...]) -> bool:
    return len(old) == len(new) and all(map(is_, old, new))


def names_in(values: Iterable[Any]) -> frozenset[str]:
    """Every loop, coordinate and size that the index expressions among `values` speak of."""
    return frozenset().union(*map(Affine.names, set(filter(Affine.__instancecheck__, values))))
