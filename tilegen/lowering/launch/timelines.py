"""Asynchronous work: few kinds of node over a table of timelines.

    Start(line, at, n, work)    what is in the body goes on beside the thread, and is part of event n
    Arrive(line, at, n)         the thread has done its part of event n
    Await(line, at, n)          the thread goes on when event n has happened
    Barrier(line, at)           the thread arrives, and goes on when all others have
    Fence(line)                 accesses so far, to memory or registers, are over for what is started next
    Box(line, ..)               work to start: a bulk copy, or a bulk store
    LookBack(line, ..)          the block waits for those of smaller numbers, and has what they hand on

A timeline counts events from 0. A row of the table says what makes one happen and who waits for it, and has the words
of the text. Of an array of barriers each is a timeline, and `at` says which. A new way of waiting is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, TypeGuard

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Access, Expr
from tilegen.ir.parts.windows import Windows
from tilegen.lowering.launch.claims import Claim, sentence

Arrivals = Literal["bytes", "warps", "threads", "block", "cluster", "grid", "blocks", "launches", "group"]


@dataclass(frozen=True)
class Timeline:
    """How events are counted, and what the text says.

    Words have what is the node's own in braces: `at` (the address of the barrier, or its number), `parity` (of the
    number), `ring` (where the thread is in the ring of the barrier), `count`, `blocks`, `left` (`earlier_` where any
    are), and in comments `have` (its buffers with a verb).

    Attributes:
        name: of the row.
        arrivals: what an event needs: the "bytes" that a thread has said will come; "warps" or "threads" to arrive; all
            threads of the "block", "cluster" or "grid"; "blocks" of smaller numbers, or all "launches" before; or an
            end of the "group" of what the thread itself, who alone may wait, has started.
        wait, waited: the call of a wait, and what it makes sure of.
        opens: the call before what is started.
        arrive, arrived: the call of an arrival, or after what is started, and what it says.
        arrive_at_blocks: the same at several blocks.
        box, box_of_blocks: the call of a bulk copy or store, for one block and for several.
        fence: the call of a fence.
        past_order: what is started touches memory past what orders the accesses of threads: a fence does.
        asks: which attributes a launch with such events is to have: each as the driver's CU_LAUNCH_ATTRIBUTE_ calls it,
            and its number there.
        in_registers: the text says which registers work has, until it has been waited for.
        only_cuda: OpenCL, in which what is started ends at once, has no words for it.
    """

    name: str
    arrivals: Arrivals
    wait: str
    waited: str = ""
    opens: str = ""
    arrive: str = ""
    arrived: str = ""
    arrive_at_blocks: str = ""
    box: str = ""
    box_of_blocks: str = ""
    fence: str = ""
    past_order: bool = False
    asks: tuple[tuple[str, int], ...] = ()
    in_registers: bool = False
    only_cuda: bool = False

    @property
    def has_phases(self) -> bool:
        """True of barriers in shared memory: an array, waited for by the parity of a number."""
        return self.arrivals in ("bytes", "warps")

    @property
    def writes_tensors(self) -> bool:
        """True of stores of boxes: a thread waits until they have read, and nobody for what they write."""
        return self.arrivals == "group" and bool(self.box)

    @property
    def counts_groups(self) -> bool:
        """True where a thread ends each group by an arrival, and a wait may leave the last ones."""
        return bool(self.arrive) and "{left}" in self.wait


FILLED = Timeline(
    "filled",
    "bytes",
    "wait_barrier({at}, {parity})",
    "{have} arrived",
    opens="expect_bytes({at}, {count})",
    box="copy_box_{rank}d({place}, {map}, {at}, {coordinates})",
    box_of_blocks="multicast_box_{rank}d({place}, {map}, {at}, {blocks}, {coordinates})",
    past_order=True,
)
EMPTIED = Timeline(
    "emptied",
    "warps",
    "wait_barrier({at}, {parity})",
    "{have} been read",
    arrive="arrive_once_a_warp({at})",
    arrived="{have} been read",
    arrive_at_blocks="release_in_cluster({at}, {blocks})",
)
# What the text says instead at the barriers of a ring.
IN_RING = {
    FILLED: replace(FILLED, wait="{ring}.wait_filled()", opens="{ring}.expect({count})"),
    EMPTIED: replace(EMPTIED, wait="{ring}.wait_emptied()", arrive="{ring}.release{previous}()"),
}
STORES = Timeline(
    "stores",
    "group",
    "wait_stores_read()",
    "{have} been read",
    arrive="end_stores()",
    box="store_box_{rank}d({map}, {place}, {coordinates})",
    past_order=True,
)
LAUNCHES = Timeline(
    "launches",
    "launches",
    "wait_for_earlier_launches()",
    arrive="let_next_launch_begin()",
    asks=(("PROGRAMMATIC_STREAM_SERIALIZATION", 6),),
    only_cuda=True,
)

TURNS = Timeline(
    "turns",
    "threads",
    "take_turn<{count}>({at})",
    "the operands of the tile before have arrived",
    arrive="pass_turn<{count}>({at})",
    arrived="the operands of this tile have arrived",
)
CLUSTER = Timeline(
    "cluster",
    "cluster",
    "wait_for_cluster()",
    "no block leaves before all have been copied to and released",
)
# Barriers of all threads of a block; of its first ones, the consumers; of groups of these, each by itself.
BLOCK = Timeline("block", "block", "__syncthreads()", "{reason}", fence="fence_async()")
CONSUMERS = replace(BLOCK, name="consumers", arrivals="threads", wait="wait_for_each_other<{count}>()")
GROUP = replace(CONSUMERS, name="group", wait="wait_for_group<{count}>({at})")
# Registers of a block: a warpgroup has `count` a thread from there on, when others have given up enough.
REGISTERS = Timeline("registers", "threads", "take_registers<{count}>()", arrive="give_registers<{count}>()")
# Blocks of one launch, by the numbers that they draw: each arrives with what it adds to a value.
STATES = Timeline(
    "states",
    "blocks",
    "{register} = {reduce}_of_blocks_before<{kind}>({states}, {block}, {register}, {value}{factor})",
    opens="draw_number({states})",
)
# Copies of a thread's own, by `cp.async`: it waits until at most that number of groups are left.
COPIES = Timeline("copies", "group", "wait_copies<{left}>()", arrive="end_copies()", only_cuda=True)


@cache
def products(protocol: str) -> Timeline:
    """Instructions of a protocol, which go on while their lanes do."""
    call = f"complete_{{earlier_}}{protocol}()"
    return Timeline(protocol, "group", call, fence=f"begin_{protocol}()", past_order=True, in_registers=True)


class _AtBarrier:
    """What has a barrier in shared memory, maybe."""

    at: Access | Affine | None

    @property
    def barrier(self) -> Access:
        assert isinstance(self.at, Access)
        return self.at


@dataclass(frozen=True)
class Event(_AtBarrier):
    """What is said of an event: its `number` on the timeline at `at`, which is a barrier in shared memory or the number
    of a barrier; there may be one of a kind.

    `buffers` are those that it is about: what has been filled, or has been read and can be filled again. `count` is
    that of the bytes that arrive, or of the threads.
    """

    line: Timeline
    at: Access | Affine | None = None
    number: Affine = Affine()
    buffers: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Arrive(Event):
    """A warp, a thread or a block arrives.

    With `blocks`, a bit for each block of the cluster, it does at this place of each of these.
    """

    blocks: int = 0


@dataclass(frozen=True)
class Await(Event):
    """Each thread waits until the event has happened; number -1 has from the beginning. Of groups it waits for all that
    the thread has started, but for the last ones that are `left`."""

    left: int = 0


@dataclass(frozen=True)
class Barrier(Event):
    """Threads wait for each other: all that the row says, or `count` of them; of several groups, that of number `at`.

    `claims` are the dependences that it is said to guard, `buffers` are complete after it.
    """

    line: Timeline = BLOCK
    claims: tuple[Claim, ...] = ()
    of_global: bool = False  # it orders accesses to global memory, too
    wait: int | None = None  # first wait until no more than these groups of asynchronous copies are on their way
    fence: bool = False  # accesses of threads before it are over for bulk copies and what reads by descriptor, too

    @property
    def reason(self) -> str:
        """The claims in words, as the text has them."""
        return sentence(self.claims)


@dataclass(frozen=True)
class Fence:
    """What the thread has written so far is there for what it starts after this; with register `buffers`, what is
    there is held: no compiler moves it past what stands after this."""

    line: Timeline
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Box(_AtBarrier):
    """A box of a tensor is copied to `place` in shared memory, one element after another, with zeros for what is
    beyond the tensor; or is stored from there, as far as the tensor has it. The row of `line` says which.

    `map` names the tensor map, which has the extents of the box; `coordinates` are those of its first element, that of
    the fastest dimension first. The bytes of a copy arrive at `at`. Where the tensor is itself a copy, `element` is
    what of its original an element of the box hands over; `box_place` names the places in the box.
    With `blocks`, a bit for each block of the cluster, the box goes to the same place in each of these, and its bytes
    arrive at the same barrier in each. The box may be one of `windows` of a tensor, which the map describes.
    """

    line: Timeline
    place: Access
    map: str
    coordinates: tuple[Affine, ...]
    at: Access | None = None
    blocks: int = 0
    windows: Windows | None = None
    element: tuple[Affine, ...] | None = field(default=None, compare=False, repr=False)
    step: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class LookBack:
    """The register `buffer` is what it is at this place of an iteration of the loop `block`, which are blocks.

    It has its start before that, and this block adds `value` to it, of a linear recurrence after it has multiplied it
    by `factor`. The blocks tell each other in `states`.
    """

    buffer: str
    reduce: str
    block: str
    blocks: Affine
    value: Expr
    states: str
    factor: Expr | None = None
    line: Timeline = STATES


def box_place(buffer: str, dimension: int) -> str:
    """The name of the place along a dimension of the box in a buffer, the fastest one being 0."""
    return f"{buffer}.box{dimension}"


@dataclass(frozen=True)
class StartBarriers:
    """One thread starts each barrier of these arrays, with its number of arrivals a phase; then all go on who wait for
    each other by `line`."""

    barriers: tuple[tuple[str, int], ...]
    line: Timeline = BLOCK


@dataclass(frozen=True)
class RingPlace:
    """Of a loop whose iterations use the slots of a ring in turn: which of them a thread is at.

    `number` is that of an iteration among those of all runs of the loop, from 0 on; after a run it is the next one.
    Where groups of threads take turns, each with a run, a thread has the runs of its own `group`, and numbers are those
    of the runs of all. The slot of an iteration is its number modulo `slots`, the phase the number divided by that.

    The text has the two in a `ring`, with the arrays of barriers `filled` and `emptied`; of the phase it has the
    parity, which is all that a wait asks for.
    """

    number: str
    slots: int
    filled: str
    emptied: str
    group: str = ""

    @property
    def ring(self) -> str:
        return f"{self.number}.ring"

    @property
    def slot(self) -> str:
        return f"{self.number}.slot"

    @property
    def phase(self) -> str:
        return f"{self.number}.phase"


# All of them, but for `Start`, which has a program in it.
OtherNode = Arrive | Await | Barrier | Fence | Box | LookBack | StartBarriers


def is_await(node: object, *lines: Timeline) -> TypeGuard[Await]:
    """True for a wait at one of these timelines; without any, at a barrier in shared memory."""
    return isinstance(node, Await) and (node.line in lines if lines else node.line.has_phases)


def is_event(node: object, *lines: Timeline) -> bool:
    """True for what is said of an event of one of these timelines."""
    return isinstance(node, Event) and node.line in lines


def integers_of(node: object) -> tuple[tuple[Access, ...], tuple[Affine, ...], tuple[Affine, ...]]:
    """(accesses, other integers, coordinates) that the text of a node computes itself."""
    match node:
        case Box(_, place, _, coordinates, at):
            return (place, at) if at else (place,), (), coordinates
        case Arrive(_, at, number) | Await(_, at, number) if isinstance(at, Access):
            return (at,), (number,), ()
        case Arrive(_, Affine() as value) | Await(_, Affine() as value):
            return (), (value,), ()
        case Event(_, Access() as at):
            return (at,), (), ()
        case _:
            return (), (), ()
