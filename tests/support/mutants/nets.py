"""The nets that a mutant has to get through, in the order in which a kernel meets them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from tests.support.enumeration.runs import verdict
from tests.support.simulator.threads import faults
from tests.support.stored import drawn
from tilegen.errors import TilegenError
from tilegen.interpreter import NUMPY, reference, run
from tilegen.interpreter.dtypes import to_values
from tilegen.ir.verify import verify
from tilegen.ir.walk import loops
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.proof import prove

# What catches a mutant before anything runs, then what has to run it.
BEFORE = ("the tree's form", "the judge", "lowering", "the proof", "unproved", "the text read back", "the compiler")
AFTER = ("the interpreter", "the simulation", "Oclgrind", "a wrong result")
EQUIVALENT = "equivalent"


@dataclass(frozen=True)
class Base:
    """A right program to put faults into: a stock schedule with small tiles, and sizes around these tiles."""

    name: str
    tree: object
    sizes: tuple


def caught_tree(base, tree):
    """The first net that refuses the mutant `tree`; EQUIVALENT, or None if it gets through all of them."""
    try:
        verify(tree)
    except AssertionError:
        return "the tree's form"
    except KeyError:
        return "the tree's form"
    if judge(tree) is not None:
        return "the judge"
    try:
        versions = [lower(tree, vector=vector) for vector in (True, False)]
    except (TilegenError, AssertionError):
        return "lowering"
    if any(prove(tree.kernel, launches, tree.reassociated).violation for launches in versions):
        return "the proof"
    if any(_is_wrong_interpreted(tree, sizes) for sizes in base.sizes):
        return "the interpreter"
    if any(verdict(tree, sizes) for sizes in base.sizes):
        return None
    return EQUIVALENT if find_simulated_fault(base, versions) is None else "the simulation"


def caught_launches(base, launches):
    """The same for mutant launches, one version of the base's tree."""
    tree = base.tree
    proof = prove(tree.kernel, launches, tree.reassociated)
    if proof.violation is not None:
        return "the proof"
    if proof.verdict != "proved":  # as every base is: an index that may leave 32 bits, a wait that is not told
        return "unproved"
    return "the simulation" if find_simulated_fault(base, [launches]) else EQUIVALENT


def find_simulated_fault(base, versions):
    """The first fault that the simulation of any version shows, at the sizes of the base that it admits."""
    for launches in versions:
        for sizes in base.sizes:
            if is_admitted(launches, sizes):
                wrong = faults(launches, base.tree, sizes)
                if wrong:
                    return wrong
    return None


def is_admitted(launches, sizes):
    """True if these sizes are such as the launches require."""
    return all(_holds(c, sizes) for launch in launches for c in launch.requires)


def _holds(condition, sizes):
    value = condition.value.evaluate(sizes)
    return value == 0 if condition.equal else value >= 0


def _is_wrong_interpreted(tree, sizes):
    """True if the interpreter stops, or the result is not the reference's."""
    kernel = tree.kernel.called_kernel
    arrays = drawn(kernel, sizes, partial(np.random.default_rng(1).uniform, 0.5, 2.0))
    arrays |= {scalar.name: NUMPY[scalar.dtype].type(1) for scalar in kernel.scalars}
    try:
        result = run(tree, sizes, arrays)
    except TilegenError:
        return True
    expected = reference(kernel, sizes, arrays)
    for name, want in expected.items():
        stored = kernel.tensor(name).dtype
        if name not in result:
            continue
        off, allowed = np.abs(to_values(result[name], stored) - want.value), want.bound
        if want.gap is not None:
            off, allowed = want.gap(result[name]), np.ones(off.shape)
        if not np.all(off[want.written] <= allowed[want.written]):
            return True
    return False


def boundary_sizes(tree):
    """Sizes around the tiles: 1, T-1, T, T+1, 2T-1 for the first tile size, and 2T, for each size alike or mixed."""
    tiles = sorted({loop.extent.const for loop in loops(tree.body) if loop.extent.is_const and loop.extent.const > 1})
    tile = tiles[-1] if tiles else 4
    names = tree.kernel.sizes
    if len(names) > 4:  # a convolution: more would take minutes; in the last there are vectors
        return rotate_sizes(tree, ((1,), (3,), (1, 2), (2, 1, 3), (1, 3, 3, 4, 4)))
    values = sorted({max(1, v) for v in (1, tile - 1, tile, tile + 1, 2 * tile - 1, 2 * tile) if v <= 9})
    values = values if len(values) > 1 else [1, 5, 8]
    few = [values[0], values[len(values) // 2], values[-1]]
    mixed = list(product(few, repeat=len(names)))[1 :: max(1, 3 ** len(names) // 5)]
    alike = [(v,) * len(names) for v in values]
    return tuple(dict(zip(names, v, strict=True)) for v in dict.fromkeys([*alike, *mixed]))


def rotate_sizes(tree, choices):
    """Sizes of the tree for each of `choices`, whose values the sizes take in turn."""
    names = tree.kernel.sizes
    return tuple({name: values[n % len(values)] for n, name in enumerate(names)} for values in choices)
