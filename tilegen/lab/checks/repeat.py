"""Does a program give the same bits each time? Many runs on the same inputs, each held against the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.backends.calls.arrays import GUARD_BYTES, laid_out, shape_of
from tilegen.backends.calls.device_program import Program
from tilegen.errors import WrongResult
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, Tensor, Tree
from tilegen.ir.walk import stmts
from tilegen.lab.checks.check import Case, arrays_with_zones, note_of_case, to_host


@dataclass(frozen=True)
class Difference:
    """An element of an output that has other bits in a run, counted from 1, than in the first run."""

    tensor: str
    index: tuple[int, ...]
    run: int
    first: str
    then: str

    def __str__(self) -> str:
        place = f"{self.tensor}[{', '.join(map(str, self.index))}]" if self.index else self.tensor
        return f"{place} has the bits {self.first} in run 1 and {self.then} in run {self.run}"


@dataclass(frozen=True)
class Repetition:
    """What `runs` runs on the inputs of one case came to.

    `different` of them have other bits than the first, and `difference` is the first place where one has, with None
    where all are the same. `sums` are the buffers to which the program adds floats by atomic updates, in any order.
    """

    sizes: Mapping[str, int]
    runs: int
    different: int
    difference: Difference | None
    sums: tuple[str, ...]


def repeat(program: Program, case: Case, runs: int, done: Callable[[int], None] = lambda number: None) -> Repetition:
    """Runs the program `runs` times on the inputs of `case`; calls `done` with the number of each run after it.

    Before each run all of the outputs' memory is as it was before the first.

    Raises:
        WrongResult: a run has other bits than the first, and no atomic sums of floats explain it.
    """
    engine, outputs = program.engine, [t for t in program.kernel.tensors if t.role == "output"]
    arrays, zones = arrays_with_zones(program, case)
    memory = {tensor.name: zones[tensor.name].memory[GUARD_BYTES:-GUARD_BYTES] for tensor in outputs}
    start = {name: each.copy() for name, each in memory.items()}
    run = program.bind(case.sizes, arrays)
    first: dict[str, Any] = {}
    different, difference = 0, None
    for number in range(1, runs + 1):
        for name, each in memory.items():
            each[...] = start[name]
        run()
        engine.synchronize()
        first = first or {name: each.copy() for name, each in memory.items()}
        changed = [tensor for tensor in outputs if bool((memory[tensor.name] != first[tensor.name]).any())]
        different += bool(changed)
        if changed and difference is None:
            bits = (first[changed[0].name], memory[changed[0].name])
            difference = _find_difference(changed[0], shape_of(changed[0], case.sizes), *bits, number)
        done(number)
    sums = find_unordered_sums(program.tree)
    if difference and not sums:
        message = f"{different:,} of {runs:,} runs on the same inputs have other bits than the first"
        raise WrongResult(message, witness=str(difference), notes=(note_of_case(case),))
    return Repetition(case.sizes, runs, different, difference, sums)


def repeat_cases(program: Program, tried: Sequence[Case], runs: int) -> tuple[Repetition, ...]:
    """`repeat` on each case of random numbers: the order in which these are added up decides the bits."""
    return tuple(repeat(program, case, runs) for case in tried if case.data == "random")


def find_unordered_sums(tree: Tree) -> tuple[str, ...]:
    """The buffers to which atomic updates add floats: in any order, which decides the last bits."""
    dtypes = {buffer.name: buffer.dtype for buffer in tree.buffers}
    updated = (stmt.target.buffer for stmt in stmts(tree.body) if stmt.atomic and stmt.reduce == "sum")
    return tuple(dict.fromkeys(name for name in updated if dtypes[name] in FLOATS))


def _find_difference(tensor: Tensor, shape: tuple[int, ...], first: Any, then: Any, run: int) -> Difference:
    """The first element that is not the same in two memories of one output, which differ."""
    size = DTYPE_BYTES[tensor.dtype]
    before, after = (laid_out(to_host(each).view(f"u{size}"), shape, tensor.order) for each in (first, then))
    index = tuple(int(i) for i in np.argwhere(before != after)[0])
    bits = (f"{int(values[index]):#0{2 + 2 * size}x}" for values in (before, after))
    return Difference(tensor.name, index, run, *bits)
