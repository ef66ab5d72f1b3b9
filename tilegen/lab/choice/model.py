"""A model of time for choices: what a tree costs at any sizes, as formulas that are evaluated in microseconds.

It counts on the tree what the multiprocessor with most work does, so that partial tiles and half empty waves count
as whole ones. By how much a part falls short of the machine's figures, coefficients say, which measurements fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any

from tilegen.ir.affine import Affine, Div, Mod
from tilegen.ir.nodes import BLOCK_KINDS, DTYPE_BYTES, THREAD_KINDS, Buffer, Loop, Node, Op, Stmt, Tree
from tilegen.ir.walk import leaves, reads, walk, writes
from tilegen.lab.counts.metric import operations_per_point
from tilegen.lab.counts.tensor_cores import operations_of
from tilegen.lab.predict.machine import Machine
from tilegen.lowering.launch.memory import bytes_of

_FUNCTIONS = 8  # results of special functions that take as long as multiply-adds do of a lane, two operations each
_SIMPLE = {"+", "-", "*", "max", "min", "fma", "neg", "select"}
_SERIAL = ("serial",)
_TOGETHER = 4  # of what goes on at once, the slowest part counts most: the norm of the parts with this exponent


@dataclass(frozen=True)
class Coefficients:
    """How a schedule fares beside the figures of the machine.

    Attributes:
        launch: microseconds that each launch takes whatever it does.
        wave: microseconds for each round of blocks, one after the other on a multiprocessor.
        round_: microseconds for each iteration of a serial loop that waits for global memory.
        compute, load, memory, store: times as long as the figures say of arithmetic, of loads from the L2, of the
            bytes of memory, and of stores.
    """

    launch: float = 2.5
    wave: float = 1.0
    round_: float = 0.6
    compute: float = 1.3
    load: float = 1.3
    memory: float = 1.15
    store: float = 1.5


@dataclass(frozen=True)
class Parts:
    """Microseconds of one launch by the machine's figures, and counts of what these do not tell.

    `waves` and `rounds` are counts; `compute`, `load` and `store` the times of the multiprocessor with most blocks,
    `memory` that of the whole machine.
    """

    waves: float
    rounds: float
    compute: float
    load: float
    store: float
    memory: float

    def microseconds(self, by: Coefficients) -> float:
        """The time of the launch."""
        together = (by.compute * self.compute, by.load * self.load, by.memory * self.memory, by.round_ * self.rounds)
        slowest: float = sum(part**_TOGETHER for part in together) ** (1 / _TOGETHER)
        return by.launch + by.wave * self.waves + by.store * self.store + slowest


PARTS = ("compute", "load", "memory", "store")  # those of `Parts` that are times


class Model:
    """The costs of a tree on a machine, at any sizes of its kernel."""

    def __init__(self, tree: Tree, machine: Machine) -> None:
        names = tree.kernel.written_kernel.sizes
        counts = ", ".join(f"({_text_of_launch(tree, node, machine)})" for node in tree.body)
        self.formula = sha256(counts.encode()).hexdigest()[:12]  # the same for trees that cost the same at all sizes
        self._machine = machine
        self._count: Callable[..., Sequence[tuple[Any, ...]]] = eval(  # noqa: S307, of integers that are printed here
            f"lambda {', '.join(names)}: ({counts},)", {"min": min, "max": max}
        )

    def parts(self, sizes: Mapping[str, int]) -> list[Parts]:
        """Of each launch, in order."""
        return [self._parts(*counted) for counted in self._count(**sizes)]

    def microseconds(self, sizes: Mapping[str, int], by: Coefficients) -> float:
        """The time of all launches."""
        return sum(part.microseconds(by) for part in self.parts(sizes))

    def _parts(
        self, blocks: int, resident: int, rounds: float, compute: float, load: float, store: float, memory: float
    ) -> Parts:
        sms, machine = self._machine.sms, self._machine
        most = -(-blocks // sms)  # blocks of the multiprocessor that has most
        cache = (machine.second_level or 3 * machine.copy) / sms * 1e6  # bytes a microsecond, of one multiprocessor
        waves = -(-most // resident)
        return Parts(
            waves,
            waves * rounds,
            most * compute * sms,
            most * load / cache,
            most * store / cache,
            memory / (machine.copy * 1e6),
        )


def _text_of_launch(tree: Tree, launch: Node, machine: Machine) -> str:
    """What `Model._parts` takes, as Python in the sizes."""
    every = list(leaves((launch,)))
    around = {loop.name: loop for loops, _ in every for loop in loops}
    blocks = [loop for loop in around.values() if loop.kind in BLOCK_KINDS]
    threads = prod(loop.extent.evaluate({}) for loop in around.values() if loop.kind in THREAD_KINDS)
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    moved: dict[tuple[str, bool], list[str]] = {}
    compute, rounds = ["0"], ["0"]
    for loops, stmt in every:
        inner = [loop for loop in loops if loop.kind not in BLOCK_KINDS]
        compute.append(f"{_product(inner)}*{_microseconds(inner, stmt, machine)!r}")
        waits, each = False, "1"
        for store, accesses in ((False, reads(stmt)), (True, writes(stmt))):
            for name, index in accesses:
                if name in buffers and buffers[name].space == "global":
                    bytes_ = DTYPE_BYTES[buffers[name].dtype]
                    single = _single(inner, buffers[name])
                    moved.setdefault((name, store), []).append(f"{_product(_moving(inner, index))}*{bytes_}")
                    waits |= not store
                    each = each if store else single
        if waits:
            serial = [loop for loop in inner if loop.kind in _SERIAL]
            ahead = max([1, *(loop.stages - 1 for loop in inner)])
            rounds.append(f"{_product(serial)}*{each}/{ahead}")
    grid = _product(blocks)
    sums = [
        " + ".join(["0", *(text for (_, s), texts in moved.items() if s is store for text in texts)])
        for store in (False, True)
    ]
    memory = [f"min({grid}*({' + '.join(texts)}), {_size(buffers[name])})" for (name, _), texts in moved.items()]
    resident = _resident(tree, list(around.values()), threads, machine)
    parts = (
        grid,
        str(resident),
        f"max({', '.join(rounds)}, 0)",
        " + ".join(compute),
        *sums,
        " + ".join(["0", *memory]),
    )
    return ", ".join(parts)


def _single(loops: Sequence[Loop], buffer: Buffer) -> str:
    """How many accesses a vector takes: as many as it has elements where the rows of the buffer are not aligned."""
    width = next((loop.extent.const for loop in loops if loop.kind == "vector"), 1)
    return f"(1 if ({text_of(buffer.shape[buffer.order[-1]])}) % {width} == 0 else {width})" if width > 1 else "1"


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
    stages = {loop.name: loop.stages for loop in loops}
    shared = sum(
        bytes_of(b) * stages.get(b.scope or "", 1) for b in tree.buffers if b.space == "shared" and b.scope in stages
    )
    limits = machine.limits
    return max(
        1,
        min(limits.blocks, limits.threads // max(32, threads), limits.shared // (shared + limits.shared_reserved + 1)),
    )


def _size(buffer: Buffer) -> str:
    return "*".join([str(DTYPE_BYTES[buffer.dtype]), *(f"({text_of(extent)})" for extent in buffer.shape)])


def _product(loops: Sequence[Loop]) -> str:
    return "*".join([f"({text_of(loop.extent)})" for loop in loops] or ["1"])


def text_of(value: Affine) -> str:
    """The value as Python writes it."""
    terms = [str(value.const)] if value.const or not value.terms else []
    for atom, times in value.terms:
        match atom:
            case str():
                text = atom
            case Div(arg, by):
                text = f"(({text_of(arg)})//{by})"
            case Mod(arg, by):
                text = f"(({text_of(arg)})%{by})"
            case _:
                raise TypeError(atom)
        terms.append(f"{times}*{text}" if times != 1 else text)
    return " + ".join(terms)
