"""Are results right at the sizes that are timed? Of rows, columns, images and the like a few are held against the
reference, which would take hours for all. Every element is held against what a library gives: where the two are farther
apart than their bounds are at those places, the reference decides about the element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.errors import TilegenError
from tilegen.interpreter import Reference, reference
from tilegen.interpreter.dtypes import Array, to_values
from tilegen.ir.affine import const, var
from tilegen.ir.comparison.tolerance import PLAIN, Tolerance
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import FLOATS, Equation, Index, Kernel, Tensor
from tilegen.ir.walk import gathers, loads, walk
from tilegen.lab.checks.accuracy import Accuracy, accuracy, as_numbers
from tilegen.lab.checks.check import to_host
from tilegen.lab.checks.sizes import points, power_sizes

_POINTS = 2**22  # of all loops of a sample together
_BYTES = 2**28
_SEED = 0
# What a library may round where the kernel does not, in units of its shortest type; and how much further off it may be.
_ROUNDINGS, _MORE, _MORE_IN_PLACES = 16, 4, 64
# Of an element and the mean: two results of random numbers that are farther apart are not one result.
_APART = 0.5
_SUSPECTS = 64  # the elements that are farthest apart, of which the reference decides


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

    def at(self, tensor: Tensor, places: Array) -> Sample:
        """A sample of the same sizes that has these elements of a tensor, the first ones if there is no room for all.

        Args:
            places: a row for each element, the important ones first.
        """
        wanted = {str(extent): places[:, n] for n, extent in enumerate(tensor.shape)}
        chosen = {}
        for name, others in self.chosen.items():
            found = dict.fromkeys(np.concatenate([wanted.get(name, others), others]).tolist())
            chosen[name] = np.sort(np.array(list(found)[: len(others)], np.int64))
        return Sample(self.sizes, chosen)


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
    """This number of the places, in order: the last one, and if there are more the first one, are among them."""
    ends = [0, all_of_them - 1][-count:]
    inner = rng.choice(max(0, all_of_them - 2), count - len(ends), replace=False) + 1
    return np.sort(np.concatenate([ends, inner])).astype(np.int64)


def _is_free(size: str, kernel: Kernel) -> bool:
    """True if the kernel does with each of `size` places the same, whatever it does with the others."""
    whole = var(size)
    if any(size in extent.names() and extent != whole for t in kernel.tensors for extent in t.shape):
        return False
    if any(size in e.hits.capacity.names() for e in kernel.equations if e.hits):
        return False
    return all(_is_free_in(size, equation, kernel) for equation in kernel.equations)


def _is_free_in(size: str, equation: Equation, kernel: Kernel) -> bool:
    whole, none = var(size), const(0)
    loops = {loop.name for loop in equation.loops if loop.extent == whole and loop.low == none}
    names = loops | {size}
    ranges = [r for r in (*equation.loops, *equation.reduced) if r.name not in loops]
    others = [*(r.extent for r in ranges), *(r.low for r in ranges), *(c.value for c in equation.conditions)]
    values = (equation.value, equation.arg, equation.first, equation.hits)
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
        self._theirs: Sequence[Mapping[str, Any]] = []
        self._noise: dict[str, float] = {}

    @property
    def is_whole(self) -> bool:
        """True if the sample is all of the problem, on all sets."""
        return self._sample is not None and self._sample.sizes == self.sizes and len(self.sets) <= 2

    def hold(self, theirs: Sequence[Mapping[str, Any]]) -> None:
        """Takes what a library gives on each set, which is right; not of what is updated in place."""
        if any(memory_of(tensor.name) != tensor.name for tensor in self._kernel.tensors):
            return
        self._theirs, sample = theirs, self._sample
        self._noise = {tensor.name: 0.0 for tensor in self._outputs}
        if sample is None:
            return
        for number in {0, len(theirs) - 1} if theirs else ():
            for name, wanted in self._expected(number, PLAIN).items():
                tensor = self._kernel.tensor(name)
                got = to_values(sample.of(self._xp, tensor, theirs[number][name]), tensor.dtype)
                self._noise[name] = max(self._noise[name], float(_apart(np, got, wanted.value).max(initial=0)))

    def _expected(self, number: int, tolerance: Tolerance) -> Mapping[str, Reference]:
        assert self._sample
        if (number, tolerance) not in self._known:
            self._known[number, tolerance] = self._reference(self._sample, number, tolerance)
        return self._known[number, tolerance]

    def _reference(self, sample: Sample, number: int, tolerance: Tolerance) -> Mapping[str, Reference]:
        given = {t.name: t for t in self._kernel.tensors if t.role == "input"}
        arrays = {name: sample.of(self._xp, t, self.sets[number][name]) for name, t in given.items()}
        arrays |= {scalar.name: self.sets[number][scalar.name] for scalar in self._kernel.scalars}
        return reference(self._kernel, sample.sizes, arrays, tolerance)

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
        """How far a kernel's results on a set are from right ones, as a share of what is allowed."""
        shares = [0.0]
        if self._sample and number in (0, len(self.sets) - 1):
            shares += self._shares(self._sample, results, self._expected(number, tolerance))
        if self._theirs and not self.is_whole:
            shares += [self._share_of_suspects(tensor, number, results, tolerance) for tensor in self._outputs]
        return max(shares)

    def _share_of_suspects(
        self, tensor: Tensor, number: int, results: Mapping[str, Any], tolerance: Tolerance
    ) -> float:
        """The same where a result is farther from the library's than both may be."""
        if tensor.name in self._places and not self._sample:
            return 0.0
        xp, limit = self._xp, self._limit(tensor, tolerance)
        two = results[tensor.name], self._theirs[number][tensor.name]
        off = _apart(xp, *(as_numbers(xp, each, tensor.dtype) for each in two)).ravel()
        suspects = xp.flatnonzero(off > limit)
        if not suspects.size or not self._sample:
            return float(off.max()) / limit if suspects.size else 0.0
        worst = suspects[xp.argsort(-off[suspects])[:_SUSPECTS]]
        places = np.stack(np.unravel_index(to_host(worst), results[tensor.name].shape), axis=1)
        sample = self._sample.at(tensor, places)
        return max(self._shares(sample, results, self._reference(sample, number, tolerance)))

    def _limit(self, tensor: Tensor, tolerance: Tolerance) -> float:
        """How far apart the kernel's result and the library's may be, as `_apart` has it, by their bounds at the
        sampled places; places of extrema have to be the same."""
        if tensor.name in self._places or not self._sample:
            return 0.0 if tensor.name in self._places else _APART
        wanted = self._expected(0, tolerance)[tensor.name]
        bounds = (wanted.bound / _scale(np, wanted.value))[wanted.written]
        return min(_APART, float(bounds.max(initial=0)) + 2 * self._noise[tensor.name])

    def difference_of_library(self, number: int, results: Mapping[str, Any], epsilon: float) -> float:
        """The same of a library's results, which may be rounded to a type with this `epsilon` on the way."""
        if not self._sample or number not in (0, len(self.sets) - 1):
            return 0.0
        return max(self._shares(self._sample, results, self._expected(number, PLAIN), epsilon))

    def _shares(
        self, sample: Sample, results: Mapping[str, Any], expected: Mapping[str, Reference], epsilon: float = 0.0
    ) -> Iterator[float]:
        for tensor in self._outputs:
            wanted, got = expected[tensor.name], sample.of(self._xp, tensor, results[tensor.name])
            if wanted.gap is not None:
                yield float(wanted.gap(got).max(initial=0.0)) / (_MORE_IN_PLACES if epsilon else 1)
                continue
            allowed, value = wanted.bound, wanted.value
            if epsilon and tensor.dtype in FLOATS:
                allowed = _MORE * allowed + _ROUNDINGS * epsilon * _scale(np, value)
            numbers = to_values(got, tensor.dtype)
            with np.errstate(all="ignore"):
                share = abs(numbers - value) / allowed
            right = (numbers == value) | np.isinf(allowed) | (np.isnan(numbers) & np.isnan(value)) | ~wanted.written
            yield float(np.where(right, 0.0, np.where(np.isnan(share), np.inf, share)).max(initial=0.0))


def _scale(xp: Any, values: Any) -> Any:
    """An element and the mean, for each element."""
    finite = xp.where(xp.isfinite(values), values, 0.0)
    return abs(finite) + xp.sqrt(xp.mean(finite * finite)) + 1e-30


def _apart(xp: Any, one: Any, other: Any) -> Any:
    """The differences of two results, as shares of the `_scale` of the other."""
    with np.errstate(all="ignore"):
        share = abs(one - other) / _scale(xp, other)
    share = xp.where((one == other) | (xp.isnan(one) & xp.isnan(other)), 0.0, share)
    return xp.where(xp.isnan(share), xp.inf, share)
