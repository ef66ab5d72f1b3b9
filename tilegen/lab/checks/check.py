"""Is a kernel right? Small integers to the bit, random numbers within a proven bound, borders untouched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen import interpreter
from tilegen.backends.calls.arrays import GUARD_VALUE, NUMPY_NAME, Guarded, empty, guarded_array, shape_of
from tilegen.backends.calls.device_program import Program
from tilegen.errors import NothingCompared, WrongResult
from tilegen.interpreter.dtypes import to_values
from tilegen.ir.comparison.tolerance import PLAIN, Tolerance, tolerance_of
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Kernel, Tensor, Tree
from tilegen.lab.checks import inputs

# A kind of inputs is taken at once if more than this share of the results are finite and have a bound.
_ENOUGH = 0.9
# Where tiles are dealt, some block takes this number of them: it goes on from one to the next on every device.
_ROUNDS = 2


@dataclass(frozen=True)
class Case:
    """Inputs at given sizes, and the results of the kernel as written.

    `data` is "integers" (the result has to be right to the bit) or "random" (within the bound).
    """

    sizes: Mapping[str, int]
    data: str
    arrays: Mapping[str, Any]
    expected: Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """A case in which a kernel has shown no fault.

    `error` is its largest error as a share of what the bound allows; `unbounded` the share of elements of which
    nothing can be said: an approximation is out of its documented range, or a number may be too large for its type.
    Where that is all of them, nothing was `compared`.
    """

    sizes: Mapping[str, int]
    data: str
    error: float
    unbounded: float = 0.0

    @property
    def compared(self) -> bool:
        return self.unbounded < 1


def cases(
    kernel: Kernel, sizes: Sequence[Mapping[str, int]], tolerance: Tolerance = PLAIN, seed: int = 0
) -> list[Case]:
    """The cases of a check at each of `sizes`: random numbers, and integers where they stay exact.

    Args:
        tolerance: what the bound allows for.
    """
    found = []
    for each in sizes:
        both = (_exact_case(kernel, each, tolerance, seed), _random_case(kernel, each, tolerance, seed))
        found += [c for c in both if c]
    return found


def cases_of(tree: Tree, tried: Sequence[Case]) -> list[Case]:
    """Those at sizes that the tree is for."""
    return [case for case in tried if all(fact.holds(case.sizes) for fact in tree.kernel.assumptions)]


def cases_by_tolerance(
    kernel: Kernel, trees: Iterable[Tree], sizes: Sequence[Mapping[str, int]]
) -> dict[Tolerance, list[Case]]:
    """The cases for each tolerance that one of `trees`, all of them of `kernel`, has."""
    return {each: cases(kernel, sizes, each) for each in dict.fromkeys(map(tolerance_of, trees))}


def check(program: Program, tried: Sequence[Case], done: Callable[[], None] = lambda: None) -> tuple[Trial, ...]:
    """Runs the program on each case that it is for; calls `done` after each.

    Raises:
        WrongResult: an element is not what the kernel as written gives, or lies outside the outputs.
        ProofError: it is not proved, or, where it runs without a GPU, the CUDA program is not.
        LimitError: there is no CUDA program.
        NothingCompared: of no element in any case it is known what it has to be.
    """
    trials = []
    for case in cases_of(program.tree, tried):
        trials += [check_case(program, case)]
        done()
    require_compared(trials)
    return tuple(trials)


def require_compared(trials: Sequence[Trial]) -> None:
    """Raises NothingCompared where there are trials, and none of them compared anything."""
    if trials and not any(trial.compared for trial in trials):
        notes = (
            f"the last sizes that were tried: {', '.join(f'{n} = {v}' for n, v in trials[-1].sizes.items())}",
            "sums in 16 bits have a bound if they have few terms, approximations for arguments of their range",
        )
        message = "nothing was compared: no inputs were found for which an element of the result has a finite bound"
        raise NothingCompared(message, notes=notes)


def _exact_case(kernel: Kernel, sizes: Mapping[str, int], tolerance: Tolerance, seed: int) -> Case | None:
    """Integers with as many values as possible such that every sum is exact in its type; None if there are none."""
    if not all(inputs.maps_integers_to_integers(each) for each in (kernel, tolerance.claimed) if each):
        return None
    for magnitude, share in inputs.INTEGER_RANGES:
        arrays = inputs.integers(np, kernel, sizes, magnitude, share, seed)
        expected = interpreter.reference(kernel, sizes, arrays, tolerance)
        # All partial results are integers: an error below 1/2 is none.
        if all(float(np.max(r.bound, initial=0)) < 0.5 for r in expected.values()):
            return Case(sizes, "integers", arrays, expected)
    return None


def _random_case(kernel: Kernel, sizes: Mapping[str, int], tolerance: Tolerance, seed: int) -> Case:
    """Random numbers of the kind for which most results are finite: where the kernel's functions are defined."""
    best, most = None, -1.0
    for draw in inputs.draw_kinds(kernel):
        arrays = inputs.random(np, kernel, sizes, seed, draw)
        case = Case(sizes, "random", arrays, interpreter.reference(kernel, sizes, arrays, tolerance))
        if (share := _finite_share(case.expected)) > most:
            best, most = case, share
        if share > _ENOUGH:
            break
    assert best is not None
    return best


def _finite_share(expected: Mapping[str, interpreter.Reference]) -> float:
    """The share of the defined elements that are finite and have a bound."""
    known = [np.isfinite(r.value) & r.known for r in expected.values()]
    known = [k | ~np.asarray(r.written) for k, r in zip(known, expected.values(), strict=True)]
    return sum(float(np.sum(k)) for k in known) / max(1, sum(k.size for k in known))


def check_case(program: Program, case: Case) -> Trial:
    """Runs the program on a case with guard zones around its outputs, and compares every element.

    Raises what `check` does.
    """
    program.demand_proof(case.sizes)
    engine = program.engine
    outputs = [t for t in program.kernel.tensors if t.role == "output"]
    arrays, zones = arrays_with_zones(program, case)
    program.bind(case.sizes, arrays, _ROUNDS)()
    engine.synchronize()
    error = 0.0
    for tensor in outputs:
        if side := zones[tensor.name].touched_border():
            raise WrongResult(f"{tensor.name} is written to {side} its memory", notes=(note_of_case(case),))
        error = max(error, _largest_error(tensor, to_host(zones[tensor.name].array), case))
    return Trial(case.sizes, case.data, error, _unbounded_share([case.expected[t.name] for t in outputs]))


def arrays_with_zones(program: Program, case: Case) -> tuple[dict[str, Any], dict[str, Guarded]]:
    """(what a call of the program takes on the inputs of a case, by name; each output with its guard zones)."""
    xp = program.engine.xp
    outputs = [t for t in program.kernel.tensors if t.role == "output"]
    zones = {t.name: guarded_array(xp, t, shape_of(t, case.sizes)) for t in outputs}
    arrays = {scalar.name: case.arrays[scalar.name] for scalar in program.kernel.scalars}
    arrays |= {name: zone.array for name, zone in zones.items()}
    for tensor in (t for t in program.kernel.tensors if t.role == "input"):
        name = memory_of(tensor.name)
        value = case.arrays[name]
        if name not in zones:
            arrays[name] = empty(xp, tensor, value.shape)
        arrays[name][...] = xp.asarray(value)
    return arrays, zones


def _unbounded_share(expected: Sequence[interpreter.Reference]) -> float:
    """The share of the defined elements of which nothing is known."""
    defined = sum(int(np.sum(r.written)) for r in expected)
    return sum(int(np.sum(~r.known & r.written)) for r in expected) / max(1, defined)


def to_host(array: Any) -> np.ndarray[Any, Any]:
    """A numpy or cupy array in numpy."""
    result: np.ndarray[Any, Any] = array.get() if hasattr(array, "get") else array
    return result


def _largest_error(tensor: Tensor, got: np.ndarray[Any, Any], case: Case) -> float:
    """The largest error of an output as a share of its bound. Raises WrongResult at a wrong element."""
    expected = case.expected[tensor.name]
    value, written = np.asarray(expected.value), np.asarray(expected.written)
    numbers = to_values(got, tensor.dtype)  # of which the difference from the reference is exact
    untouched = np.frombuffer(bytes([GUARD_VALUE]) * got.dtype.itemsize, NUMPY_NAME[tensor.dtype])[0]
    with np.errstate(invalid="ignore"):
        off = np.abs(numbers - value)
        allowed = np.zeros(value.shape) if case.data == "integers" else np.asarray(expected.bound)
        right = (off <= allowed) | (numbers == value) | ~np.isfinite(allowed)
        # Any NaN equals any other.
        right |= np.isnan(numbers) & np.isnan(value)
    bounded = written & (allowed > 0) & np.isfinite(allowed) & (off > 0)
    shares = np.divide(off, allowed, out=np.zeros(off.shape), where=bounded)
    if expected.gap is not None:
        # An index of an argmax is right if the value there may be the best; it need not be the expected index.
        shares, allowed = np.asarray(expected.gap(got)), np.zeros(value.shape)
        right = shares <= 1
    # Elements that the kernel does not write still have the guard value that the array was filled with.
    right = np.where(written, right, got == untouched)
    if not right.all():
        raise _wrong_result(tensor, numbers, value, allowed, right, case)
    return float(shares.max(initial=0.0))


def _wrong_result(
    tensor: Tensor,
    got: np.ndarray[Any, Any],
    value: np.ndarray[Any, Any],
    allowed: np.ndarray[Any, Any],
    right: np.ndarray[Any, Any],
    case: Case,
) -> WrongResult:
    """The error for the first wrong element, with how many there are."""
    where = tuple(int(i) for i in np.argwhere(~right)[0])
    share = f"{int((~right).sum())} of {right.size} elements are wrong"
    place = f"{tensor.name}[{', '.join(map(str, where))}]"
    off = f", off by {abs(got[where] - value[where]):.3g} where {allowed[where]:.3g} is allowed"
    witness = f"{place} is {got[where]:.9g} and has to be {value[where]:.9g}{off if allowed[where] else ''}"
    return WrongResult(f"{tensor.name} is wrong: {share}", witness=witness, notes=(note_of_case(case),))


def note_of_case(case: Case) -> str:
    """What a message says of a case."""
    return f"with {', '.join(f'{n} = {v}' for n, v in case.sizes.items())} and {case.data} as inputs"
