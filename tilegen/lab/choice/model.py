"""A model of time for choices: what a tree costs at any sizes, as formulas that are evaluated in microseconds.

It counts on the tree what the multiprocessor with most work does, so that partial tiles and half empty waves count
as whole ones. By how much a part falls short of the machine's figures, coefficients say, which measurements fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import prod, sqrt
from typing import Any

from tilegen.ir.affine import Affine, const
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, THREAD_KINDS, Buffer, Loop, Node, Op, Stmt, Tree
from tilegen.ir.walk import leaves, reads, walk, writes
from tilegen.lab.choice.traced import smaller, traced
from tilegen.lab.counts.metric import operations_per_point
from tilegen.lab.counts.tensor_cores import operations_of
from tilegen.lab.predict.machine import Machine

_FUNCTIONS = 8  # results of special functions that take as long as multiply-adds do of a lane, two operations each
_SIMPLE = {"+", "-", "*", "max", "min", "fma", "neg", "select"}
_SERIAL = ("serial",)
_SIZE = "n_{}".format  # the name that a size has
_SECTOR = 32  # bytes that the L2 gives at once
_sqrt: Callable[[float], float] = traced(sqrt)


@dataclass(frozen=True)
class Coefficients:
    """How a schedule fares beside the figures of the machine.

    Attributes:
        launch: microseconds that each launch takes whatever it does.
        wave: microseconds for each round of blocks, one after the other on a multiprocessor.
        round_: microseconds for each iteration of a serial loop that waits for global memory.
        compute, load, shared, memory, store: times as long as the figures say of arithmetic, of loads into a
            multiprocessor, of those of all from the L2, of the bytes of memory, and of stores.
        beyond: the same of what copies in bulk bring as zeros from beyond a tensor, which hinders all others.
    """

    launch: float = 2.3
    wave: float = 0.75
    round_: float = 0.5
    compute: float = 1.1
    load: float = 0.8
    shared: float = 0.9
    memory: float = 0.95
    store: float = 1.4
    beyond: float = 0.4


@dataclass(frozen=True)
class Parts:
    """Microseconds of one launch by the machine's figures, and counts of what these do not tell.

    `waves` and `rounds` are counts; `compute` and `load` are the time of the multiprocessor with most blocks, `shared`
    and `beyond` that of the L2 for all blocks, `store` is the mean of both, `memory` the time of the whole machine.
    """

    waves: float
    rounds: float
    compute: float
    load: float
    shared: float
    store: float
    memory: float
    beyond: float

    def microseconds(self, by: Coefficients) -> float:
        """The time of the launch. Of what goes on at once, the slowest part counts most: squares add up."""
        compute, load, shared = by.compute * self.compute, by.load * self.load, by.shared * self.shared
        memory, rounds = by.memory * self.memory, by.round_ * self.rounds
        together = compute * compute + load * load + shared * shared + memory * memory + rounds * rounds
        return by.launch + by.wave * self.waves + by.store * self.store + by.beyond * self.beyond + _sqrt(together)


PARTS = ("compute", "load", "shared", "memory", "store", "beyond")  # those of `Parts` that are times


class Model:
    """The costs of a tree on a machine, at any sizes of its kernel."""

    def __init__(self, tree: Tree, machine: Machine) -> None:
        self._sizes = tree.kernel.written_kernel.sizes
        names = ", ".join(f"n_{name}" for name in self._sizes)
        counts = ", ".join(f"({_text_of_launch(tree, node, machine)})" for node in tree.body)
        self.counts = f"({counts},)"  # of each launch what `_parts` takes, as Python
        places = {f"n_{name}": f"n{place}" for place, name in enumerate(self._sizes)}
        unnamed = re.sub(r"\bn_\w+", lambda found: places[found[0]], self.counts)
        # The same for trees that cost the same, whatever their sizes are called.
        self.formula = sha256(unnamed.encode()).hexdigest()[:12]
        cache = (machine.second_level or 3 * machine.copy) / machine.sms * 1e6
        # Bytes a microsecond: a multiprocessor's share of the L2, of memory.
        self.figures = (machine.sms, cache, machine.copy * 1e6)
        functions = {"min": smaller, "max": traced(max)}
        self._count: Callable[..., Sequence[tuple[Any, ...]]] = eval(  # noqa: S307, of integers that are printed here
            f"lambda {names}: {self.counts}", functions
        )

    def parts(self, sizes: Mapping[str, int]) -> list[Parts]:
        """Of each launch, in order."""
        return [self._parts(*counted) for counted in self._count(*(sizes[name] for name in self._sizes))]

    def microseconds(self, sizes: Mapping[str, int], by: Coefficients) -> float:
        """The time of all launches."""
        total = 0.0
        for part in self.parts(sizes):
            total += part.microseconds(by)
        return total

    def _parts(
        self,
        blocks: int,
        resident: int,
        rounds: float,
        compute: float,
        load: float,
        store: float,
        memory: float,
        beyond: float,
    ) -> Parts:
        sms, cache, whole = self.figures
        most = -(-blocks // sms)  # blocks of the multiprocessor that has most
        waves, mean = -(-most // resident), blocks / sms
        return Parts(
            waves,
            waves * rounds,
            most * (compute * sms),
            most * (load / cache),
            mean * (load / cache),
            (mean + most) * (store / (2 * cache)),
            memory / whole,
            mean * (beyond / cache),
        )


def _text_of_launch(tree: Tree, launch: Node, machine: Machine) -> str:
    """What `Model._parts` takes, as Python in the sizes."""
    every = list(leaves((launch,)))
    turns = {loop.turns for loops, _ in every for loop in loops if loop.turns}
    # What takes turns is one block, with one tile after the other.
    every = [
        (tuple(replace(loop, kind="serial") if loop.name in turns else loop for loop in loops), s) for loops, s in every
    ]
    around = {loop.name: loop for loops, _ in every for loop in loops}
    blocks = [loop for loop in around.values() if loop.kind in BLOCK_KINDS]
    threads = prod(loop.extent.evaluate({}) for loop in around.values() if loop.kind in THREAD_KINDS)
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    moved: dict[tuple[str, bool], list[tuple[float, str]]] = {}
    walks: dict[tuple[str, tuple[Affine, ...]], dict[int, tuple[float, str]]] = {}  # by the loop that is walked
    compute, loads, beyond = (list[tuple[float, str]]() for _ in range(3))
    rounds = ["0"]
    for loops, stmt in every:
        inner = [loop for loop in loops if loop.kind not in BLOCK_KINDS]
        compute.append(_product(inner, _microseconds(inner, stmt, machine)))
        waits, each = False, "1"
        # Those into shared memory are begun one after the other, and waited for once.
        at_once = stmt.target.buffer in buffers and buffers[stmt.target.buffer].space == "shared"
        for store, accesses in ((False, reads(stmt)), (True, writes(stmt))):
            for name, index in accesses:
                if name in buffers and buffers[name].space == "global":
                    bytes_ = _product(_moving(inner, index), DTYPE_BYTES[buffers[name].dtype])
                    moved.setdefault((name, store), []).append(bytes_)
                    if not store:
                        walked = next((id(loop) for loop in reversed(inner) if loop.kind in _SERIAL), 0)
                        walks.setdefault((name, tuple(index)), {})[walked] = bytes_
                        loads.append(_loaded(inner, index, buffers[name], around))
                        if any(loop.kind == "bulk" for loop in inner):
                            beyond.append(_beyond(loads[-1], loops, index, buffers[name]))
                    waits |= not store
                    each = each if store or at_once else _single(inner, buffers[name])
        if waits:
            serial = [loop for loop in inner if loop.kind in _SERIAL]
            ahead = max([1, *(loop.stages - 1 for loop in inner)])
            rounds.append(f"{_sum([_product(serial)])}*{each}/{ahead}")
    grid = _sum([_product(blocks)])
    stores = [term for (_, store), terms in moved.items() if store for term in terms]
    sizes = {b.name: _size(buffers[b.windows.tensor] if b.windows else b) for b in tree.buffers}
    memory = [f"min({grid}*({_sum(terms)}), {sizes[name]})" for (name, _), terms in moved.items()]
    resident = _resident(tree, list(around.values()), threads, machine)
    for walked_by in walks.values():
        memory += _again(grid, [*walked_by.values()], resident, machine)
    most = f"max({', '.join(dict.fromkeys(rounds))})" if len(rounds) > 1 else "0"
    moves = (_sum(loads), _sum(stores), " + ".join(memory or ["0"]), _sum(beyond))
    return ", ".join((grid, str(resident), most, _sum(compute), *moves))


def _again(grid: str, walks: Sequence[tuple[float, str]], resident: int, machine: Machine) -> list[str]:
    """The bytes that come from memory again where blocks walk along the same elements several times: what is more than
    the share of the L2 that a block has beside all that run at once."""
    if len(walks) < 2 or machine.second_level_size is None:
        return []
    most = machine.second_level_size * 2**20
    shares = f"max({most!r}, {most / (resident * machine.sms)!r}*{grid})"
    return [f"{len(walks) - 1}*max(0, {grid}*({_sum(walks[:1])}) + -1*{shares})"]


def _single(loops: Sequence[Loop], buffer: Buffer) -> str:
    """How many accesses a vector takes: as many as it has elements where the rows of the buffer are not aligned."""
    width = next((loop.extent.const for loop in loops if loop.kind == "vector"), 1)
    row = buffer.shape[buffer.order[-1]].in_python(_SIZE)
    return f"min({width}, 1 + {width}*(({row}) % {width}))" if width > 1 else "1"


def _loaded(
    loops: Sequence[Loop], index: Sequence[Affine], buffer: Buffer, around: Mapping[str, Loop]
) -> tuple[float, str]:
    """The bytes that a block takes from the L2: whole sectors, and a share of what its cluster shares."""
    moving, bytes_ = _moving(loops, index), DTYPE_BYTES[buffer.dtype]
    number, text = _product(moving, bytes_)
    for loop in moving:
        if loop.multicast:
            number /= around[loop.multicast].extent.evaluate({})
    sectors = _sectors(moving, index[buffer.order[-1]], buffer.shape[buffer.order[-1]], bytes_)
    return number, "*".join(filter(None, (text, sectors)))


def _beyond(
    loaded: tuple[float, str], loops: Sequence[Loop], index: Sequence[Affine], buffer: Buffer
) -> tuple[float, str]:
    """Of the bytes that are loaded those that are no element of the tensor: zeros beyond its last rows and columns."""
    shares = []
    for place, size in zip(index, buffer.shape, strict=True):
        along = [loop for loop in loops if loop.name in place.names()]
        if not size.is_const and all(place.linear_in(loop.name) for loop in along):
            reached = const(1)
            for loop in along:
                reached += (loop.extent - 1) * abs(place.coefficient(loop.name))
            if reached != size:
                shares.append(f"min(1, ({size.in_python(_SIZE)})/({reached.in_python(_SIZE)}))")
    number, text = loaded
    return (number if shares else 0), "*".join(filter(None, (text, f"(1 + -1*{'*'.join(shares)})")))


def _sectors(loops: Sequence[Loop], index: Affine, row: Affine, bytes_: int) -> str:
    """How many sectors a part of a row takes, per one that begins with a sector: one more where it begins within."""
    part = bytes_
    for loop in reversed(loops):
        if loop.kind in _SERIAL or loop.name not in index.names() or not loop.extent.is_const:
            break
        part *= loop.extent.const
    if part % _SECTOR or row.is_const:
        return ""
    return f"(1 + {_SECTOR / part}*min(1, {bytes_}*({row.in_python(_SIZE)}) % {_SECTOR}))"


def _moving(loops: Sequence[Loop], index: Sequence[Affine]) -> list[Loop]:
    """The loops whose iterations move elements: serial ones, and of those that run at once what the index tells."""
    named = {name for each in index for name in each.names()}
    return [loop for loop in loops if loop.kind in _SERIAL or loop.name in named]


def _microseconds(loops: Sequence[Loop], stmt: Stmt, machine: Machine) -> float:
    """Of one point of a statement, if all multiprocessors compute such points."""
    by = next((loop.performed.instruction for loop in loops if loop.performed), None)
    if by is not None:
        rate = machine.tensor.rate(by.format_of(by.operands[0].operand.name), by.unit)
        return operations_per_point(by.equation) / (rate * 1e6) if operations_of(by) and rate else 0.0
    names = [each.name for each in walk(stmt.value) if isinstance(each, Op)]
    simple = sum(name in _SIMPLE for name in names) + (stmt.reduce is not None)
    counted = simple + _FUNCTIONS * (len(names) - sum(name in _SIMPLE for name in names))
    return counted / (machine.multiply_adds * 1e6) * machine.slower(getattr(stmt.value, "dtype", "f32"))


def _resident(tree: Tree, loops: Sequence[Loop], threads: int, machine: Machine) -> int:
    """Blocks that a multiprocessor holds at once, as far as threads and shared memory tell."""
    limits, shared = machine.limits, shared_bytes(tree, loops)
    return max(
        1,
        min(limits.blocks, limits.threads // max(32, threads), limits.shared // (shared + limits.shared_reserved + 1)),
    )


def shared_bytes(tree: Tree, loops: Iterable[Loop]) -> int:
    """Bytes of shared memory that a block takes for the buffers of these loops, as many times as they are pipelined."""
    stages = {loop.name: loop.stages for loop in loops}
    return sum(
        bytes_of(b) * stages.get(b.scope or "", 1) for b in tree.buffers if b.space == "shared" and b.scope in stages
    )


def _size(buffer: Buffer) -> str:
    return _sum([_product_of(buffer.shape, DTYPE_BYTES[buffer.dtype])])


def _product(loops: Sequence[Loop], times: float = 1) -> tuple[float, str]:
    return _product_of([loop.extent for loop in loops], times)


def _product_of(factors: Sequence[Affine], times: float) -> tuple[float, str]:
    """A number, and the product of what depends on sizes."""
    text = "*".join(f"({each.in_python('n_{}'.format)})" for each in factors if not each.is_const)
    return prod((each.const for each in factors if each.is_const), start=times), text


def _sum(products: Sequence[tuple[float, str]]) -> str:
    """The sum, products that differ in their numbers alone as one."""
    found: dict[str, float] = {}
    for number, text in products:
        found[text] = found.get(text, 0) + number
    terms = ["*".join(filter(None, ("" if n == 1 and text else repr(n), text))) for text, n in found.items() if n]
    return " + ".join(terms or ["0"])
