"""What a thread does about bulk copies: it starts barriers, starts copies that arrive at one, and waits; or it starts
copies out of shared memory, and waits until they have read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Access

if TYPE_CHECKING:
    from tilegen.lowering.program import Spmd


@dataclass(frozen=True)
class StartBarriers:
    """One thread starts each barrier of these arrays, with so many arrivals a phase; then all of the block go on.

    In a `cluster`, all of its blocks do.
    """

    barriers: tuple[tuple[str, int], ...]
    cluster: bool = False


@dataclass(frozen=True)
class MeetCluster:
    """All threads of the blocks of a cluster wait for each other."""


@dataclass(frozen=True)
class BulkCopy:
    """A box of a tensor goes to `target`, one element behind another; zeros for what is beyond the tensor.

    `map` names the tensor map, which has the extents of the box; `coordinates` are those of its first element, that of
    the fastest dimension first. The bytes arrive at `barrier`. Where the tensor is itself a copy, `element` is what of
    its original an element of the box hands over; `box_place` names the places in the box.
    With `blocks`, a bit for each block of the cluster, the box goes to the same place in each of these, and its bytes
    arrive at the same barrier in each.
    """

    target: Access
    map: str
    barrier: Access
    coordinates: tuple[Affine, ...]
    blocks: int = 0
    element: tuple[Affine, ...] | None = field(default=None, compare=False, repr=False)
    step: str = field(default="", compare=False, repr=False)


def box_place(target: str, dimension: int) -> str:
    """The name of the place along a dimension of the box, the fastest one being 0."""
    return f"{target}.box{dimension}"


@dataclass(frozen=True)
class BulkCopies:
    """One thread arrives at `barrier`, where it says how many bytes will come, and starts the copies in `body`.

    When these have arrived, too, the phase is complete: the one of this number, counted from 0.
    """

    barrier: Access
    phase: Affine
    bytes: int
    body: tuple[Spmd, ...]


@dataclass(frozen=True)
class BulkWait:
    """Each thread waits until this phase of `barrier` is complete; the text has its parity.

    `buffers` are what has been filled then; or, with no `arrival`, what has been read, phase -1 being over from the
    beginning.
    """

    barrier: Access
    phase: Affine
    buffers: tuple[str, ...]
    arrival: bool = True


@dataclass(frozen=True)
class RingPlace:
    """Where a thread is in a ring of so many slots: `number` counts the iterations of its loop, of all runs, from 0.

    The slot of an iteration is this number modulo `slots`, the phase the number divided by that. The text has the two
    in integers called `slot` and `phase`; of the phase it has the parity, which is all that a wait asks for.
    """

    number: str
    slots: int

    @property
    def slot(self) -> str:
        return f"{self.number}.slot"

    @property
    def phase(self) -> str:
        return f"{self.number}.phase"


@dataclass(frozen=True)
class StartRing:
    """Each thread that comes by is at number 0."""

    place: RingPlace


@dataclass(frozen=True)
class NextSlot:
    """Each thread that comes by goes on to the next number."""

    place: RingPlace


@dataclass(frozen=True)
class SkipSlots:
    """Each thread that comes by leaves so many numbers to others, as by so many times `NextSlot`."""

    place: RingPlace
    count: Affine


@dataclass(frozen=True)
class TakeTurn:
    """The threads of a group wait until it is their turn; `threads` are those of both groups."""

    group: Affine
    threads: int


@dataclass(frozen=True)
class PassTurn:
    """The threads of a group say that it is the turn of `group`, and go on; `threads` are those of both."""

    group: Affine
    threads: int


@dataclass(frozen=True)
class Release:
    """Each warp arrives at `barrier`: it has read what of this phase was in `buffers`, which can be filled again.

    With `blocks`, a bit for each block of the cluster, it arrives at that barrier in each of these.
    """

    barrier: Access
    phase: Affine
    buffers: tuple[str, ...]
    blocks: int = 0


@dataclass(frozen=True)
class BulkStore:
    """The elements that lie one behind another from `source` on go to a box of a tensor, as far as that has them.

    `map`, `coordinates` and `element` are those of a `BulkCopy`; `box_place` names the places by `source`.
    """

    source: Access
    map: str
    coordinates: tuple[Affine, ...]
    element: tuple[Affine, ...] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class BulkStores:
    """One thread starts the stores in `body`, which are one group."""

    body: tuple[Spmd, ...]


@dataclass(frozen=True)
class StoresRead:
    """The thread waits until all stores that it has started have read shared memory: `buffers`."""

    buffers: tuple[str, ...]


TurnNode = SkipSlots | TakeTurn | PassTurn
BulkNode = StartBarriers | BulkCopies | BulkCopy | BulkWait | Release | StartRing | NextSlot | MeetCluster | TurnNode
StoreNode = BulkStores | BulkStore | StoresRead


def integers_of(node: BulkNode | StoreNode) -> tuple[tuple[Access, ...], tuple[Affine, ...], tuple[Affine, ...]]:
    """(accesses, other integers, coordinates) that the text of a node computes itself."""
    match node:
        case BulkCopies(barrier):
            return (barrier,), (), ()
        case BulkCopy(target, _, barrier, coordinates):
            return (target, barrier), (), coordinates
        case BulkStore(source, _, coordinates):
            return (source,), (), coordinates
        case BulkWait(barrier, phase) | Release(barrier, phase):
            return (barrier,), (phase,), ()
        case SkipSlots(_, count):
            return (), (count,), ()
        case TakeTurn(group) | PassTurn(group):
            return (), (group,), ()
        case _:
            return (), (), ()
