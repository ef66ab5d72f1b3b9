"""Are results right at the sizes that are timed? Of rows, columns, images and the like a few are held against the
reference, which would take hours for all; and all of them against what a library gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.errors import TilegenError
from tilegen.interpreter import Reference, reference
from tilegen.interpreter.dtypes import Array, to_values
from tilegen.ir.affine import const, var
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import FLOATS, Equation, Index, Kernel, Tensor
from tilegen.ir.tolerance import PLAIN, Tolerance
from tilegen.ir.walk import gathers, loads, walk
from tilegen.lab.accuracy import Accuracy, accuracy, as_numbers
from tilegen.lab.check import to_host
from tilegen.lab.sizes import points, power_sizes

_POINTS = 2**22  # of all loops of a sample together
_BYTES = 2**28
_SEED = 0
# What a library may round where the kernel does not, in units of its shortest type; and how much further off it may be.
_ROUNDINGS, _MORE, _MORE_IN_PLACES = 16, 4, 64
_APART = 0.5  # of an element and the mean: two results of random numbers that are farther apart are not one result


@dataclass(frozen=True)
class Sample:
    """A few places of each size whose places have nothing to do with one another: a small problem of its own.

    Attributes:
        sizes: of that problem.
        chosen: by size, the places in the large one.
    """

    sizes: Mapping[str, int]
    chosen: Mapping[str, Array]

    def of(self, xp: Any, tensor: Tensor, array: Any) -> Array:
        """The elements of an array of the large problem that the small one has."""
        names = [str(extent) for extent in tensor.shape]
        axes = [self.chosen.get(name, np.arange(n)) for name, n in zip(names, array.shape, strict=True)]
        return to_host(array[xp.ix_(*map(xp.asarray, axes))] if axes else array)


def sample_of(kernel: Kernel, sizes: Mapping[str, int]) -> Sample | None:
    """A sample of the problem at these sizes; None where it would be too large."""
    kernels = [kernel] if kernel.meant is None else [each for each in (kernel.meant, kernel.slack) if each]
    if any(memory_of(tensor.name) != tensor.name for tensor in kernel.tensors):
        return None  # each run has made of it what the next one reads
    free = [size for size in kernel.sizes if all(_is_free(size, each) for each in kernels)]
    fixed = {size: value for size, value in sizes.items() if size not in free}
    try:
        found = power_sizes(kernel, fixed, (_POINTS, _BYTES))
        while large := {size: sizes[size] for size in free if found[size] > sizes[size]}:
            found = power_sizes(kernel, fixed := fixed | large, (_POINTS, _BYTES))
    except TilegenError:  # no fewer of them are admitted
        return None
    if points(kernel, found) > 2 * _POINTS:
        return None
    rng = np.random.default_rng(_SEED)
    return Sample(found, {size: _places(rng, sizes[size], found[size]) for size in free if size not in fixed})


def _places(rng: np.random.Generator, all_of_them: int, count: int) -> Array:
    """So many of the places, in order: the last one, and if there are more the first one, are among them."""
    ends = [0, all_of_them - 1][-count:]
    inner = rng.choice(max(0, all_of_them - 2), count - len(ends), replace=False) + 1
    return np.sort(np.concatenate([ends, inner])).astype(np.int64)


def _is_free(size: str, kernel: Kernel) -> bool:
    """True if the kernel does with each of `size` places the same, whatever it does with the others."""
    whole = var(size)
    if any(size in extent.names() and extent != whole for t in kernel.tensors for extent in t.shape):
        return False
    return all(_is_free_in(size, equation, kernel) for equation in kernel.equations)


def _is_free_in(size: str, equation: Equation, kernel: Kernel) -> bool:
    whole, none = var(size), const(0)
    loops = {loop.name for loop in equation.loops if loop.extent == whole and loop.low == none}
    names = loops | {size}
    ranges = [r for r in (*equation.loops, *equation.reduced) if r.name not in loops]
    others = [*(r.extent for r in ranges), *(r.low for r in ranges), *(c.value for c in equation.conditions)]
    values = (equation.value, equation.arg, equation.first)
    others += [node.index for node in walk(values) if isinstance(node, Index)]
    if any(names & other.names() for other in others):
        return False
    if any(whole in kernel.tensor(gather.buffer).shape for gather in gathers(values)):
        return False
    reads = [(load.buffer, load.index) for load in loads(values)]
    for buffer, index in ((equation.target, equation.index), *reads):
        for place, extent in zip(index, kernel.tensor(buffer).shape, strict=True):
            alone = any(place == var(loop) for loop in loops)
            if alone != (extent == whole) or (names & place.names() and not alone):
                return False
    return True


class Agreement:
    """What results have to be on sets of arrays at given sizes."""

    def __init__(
        self,
        kernel: Kernel,
        xp: Any,
        sizes: Mapping[str, int],
        sets: Sequence[Mapping[str, Any]],
        *,
        errors: bool = False,
    ) -> None:
        """
        Args:
            kernel: as written.
            xp: numpy or cupy, whose arrays the sets have.
            errors: whether to measure how far products are from exact ones.
        """
        self.sizes, self.sets = sizes, sets
        self._kernel, self._xp, self._errors = kernel, xp, errors
        self._sample = sample_of(kernel, sizes)
        self._known: dict[tuple[int, Tolerance], Mapping[str, Reference]] = {}
        self._outputs = [tensor for tensor in kernel.tensors if tensor.role == "output"]
        self._places = {equation.target for equation in kernel.equations if equation.best}  # the nearest have several
        self.theirs: Sequence[Mapping[str, Any]] = []  # what a library gives on each set

    def _expected(self, number: int, tolerance: Tolerance) -> Mapping[str, Reference]:
        assert self._sample
        if (number, tolerance) not in self._known:
            given = {t.name: t for t in self._kernel.tensors if t.role == "input"}
            arrays = {name: self._sample.of(self._xp, t, self.sets[number][name]) for name, t in given.items()}
            arrays |= {scalar.name: self.sets[number][scalar.name] for scalar in self._kernel.scalars}
            self._known[number, tolerance] = reference(self._kernel, self._sample.sizes, arrays, tolerance)
        return self._known[number, tolerance]

    def clear(self) -> None:
        """Overwrites all results, so that a check sees whether they are computed again."""
        for arrays in self.sets:
            for tensor in self._outputs:
                arrays[tensor.name].fill(0 if tensor.dtype in FLOATS else -1)

    def accuracy(self, number: int, results: Mapping[str, Any]) -> Accuracy | None:
        """The errors of a product on a set; None unless they are measured."""
        (tensor, *_), kernel = self._outputs, self._kernel.meant_kernel
        return accuracy(kernel, self._xp, self.sets[number], results[tensor.name]) if self._errors else None

    def difference(self, number: int, results: Mapping[str, Any], tolerance: Tolerance = PLAIN) -> float:
        """How far a kernel's results on a set are from right ones, as a share of what is allowed.

        Results differ from those of a library, too, where that differs by as much as other numbers would.
        """
        shares = [0.0]
        if self._sample and number in (0, len(self.sets) - 1):
            shares += self._shares(results, self._expected(number, tolerance))
        for tensor in self._outputs if self.theirs else ():
            if tensor.name not in self._places:
                two = results[tensor.name], self.theirs[number][tensor.name]
                shares += [_apart(self._xp, tensor.dtype, *two) / _APART]
        return max(shares)

    def difference_of_library(self, number: int, results: Mapping[str, Any], epsilon: float) -> float:
        """The same of a library's results, which may be rounded to a type with this `epsilon` on the way."""
        if not self._sample or number not in (0, len(self.sets) - 1):
            return 0.0
        return max(self._shares(results, self._expected(number, PLAIN), epsilon))

    def _shares(
        self, results: Mapping[str, Any], expected: Mapping[str, Reference], epsilon: float = 0.0
    ) -> Iterator[float]:
        assert self._sample
        for tensor in self._outputs:
            wanted, got = expected[tensor.name], self._sample.of(self._xp, tensor, results[tensor.name])
            if wanted.gap is not None:
                yield float(wanted.gap(got).max(initial=0.0)) / (_MORE_IN_PLACES if epsilon else 1)
                continue
            allowed, value = wanted.bound, wanted.value
            if epsilon and tensor.dtype in FLOATS:
                finite = np.where(np.isfinite(value), value, 0.0)
                allowed = _MORE * allowed + _ROUNDINGS * epsilon * (abs(finite) + np.sqrt(np.mean(finite * finite)))
            numbers = to_values(got, tensor.dtype)
            with np.errstate(all="ignore"):
                share = abs(numbers - value) / allowed
            right = (numbers == value) | np.isinf(allowed) | (np.isnan(numbers) & np.isnan(value)) | ~wanted.written
            yield float(np.where(right, 0.0, np.where(np.isnan(share), np.inf, share)).max(initial=0.0))


def _apart(xp: Any, dtype: str, one: Any, other: Any) -> float:
    """The largest difference of two results, as a share of an element and the mean of all."""
    a, b = (as_numbers(xp, each, dtype) for each in (one, other))
    share = abs(a - b) / (abs(b) + xp.sqrt(xp.mean(b * b)) + 1e-30)
    share = xp.where((a == b) | (xp.isnan(a) & xp.isnan(b)), 0.0, share)
    return float(xp.where(xp.isnan(share), xp.inf, share).max())
