"""A scheduled kernel on a device: compiled when first needed, bound to arrays, launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tilegen.backends.arrays import check_layout, check_sizes, empty, infer_sizes, scratch, shape_of
from tilegen.backends.engine import BoundMap, Engine, Run
from tilegen.backends.memory import allocate
from tilegen.backends.scalars import passed_scalar, stored_scalar
from tilegen.backends.text import emit
from tilegen.errors import ArgumentError, LimitError, did_you_mean, integers
from tilegen.ir.defined import defines_all
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, Buffer, Tensor, Tree
from tilegen.lowering import GRID_LIMIT, Launch, fits, lower, unmet
from tilegen.proof import Proof, demand, prove


@dataclass(frozen=True)
class _TextVersion:
    loose: frozenset[str] = frozenset()
    whole: bool = False
    wide: bool | None = None  # None: where the kernel admits no smaller sizes


class Program:
    """A scheduled kernel on one device; call it with arrays.

    A vector access needs an alignment that not every size has: where a loop's is missing, there is a version that
    does without. There is one more for sizes that all tiles divide, and as many again for sizes that need integers of
    64 bits; each is compiled at its first use, and proven before: with `unproved`, it may be left open whether it is
    right.
    """

    def __init__(self, tree: Tree, engine: Engine, *, unproved: bool = False) -> None:
        self.tree = tree
        self.kernel = tree.kernel
        self.engine = engine
        self.unproved = unproved
        written = tree.kernel.written_kernel
        defined = {e.target for e in written.equations if defines_all(e, written.tensor(e.target))}
        self._partial = {t.name for t in written.tensors if t.role == "output"} - defined
        self._lowered: dict[_TextVersion, tuple[Launch, ...]] = {}
        self._entries: dict[_TextVersion, Mapping[str, Any]] = {}
        self._proofs: dict[_TextVersion, Proof] = {}

    # -- calling

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Runs the kernel on its inputs, in their order; returns its output, a tuple if there are several.

        An input is an array, or for a scalar a number of Python or numpy. By name: inputs too, outputs to write
        into (a fresh one is made for each that is not given), and integers for sizes that no array tells. The call
        returns when the work is queued on the stream.

        What is an input and an output is updated: the array is written into, and returned.

        An element that the kernel leaves out ("for j <= i") stays as it was, and is 0 in an output that is made here.

        Raises:
            ArgumentError: a wrong number, dtype, shape, layout or device of the arrays, a scalar that its type
                does not hold, or a wrong size.
            ProofError: the version for these arrays is unproved, and that was not allowed.
            DeviceError: the device refuses.
        """
        given, sizes = self._split_arguments(arrays, named)
        scalars = {s.name: stored_scalar(s, given.pop(s.name)) for s in self.kernel.scalars}
        adopted = {name: self.engine.adopt(value, self.kernel.tensor(name)) for name, value in given.items()}
        sizes = infer_sizes(self.kernel, {name: a.shape for name, a in adopted.items()}, sizes)
        for name, array in adopted.items():
            check_layout(self.kernel.tensor(name), array)
        outputs = [t for t in self.kernel.tensors if t.role == "output"]
        with self.engine.stream(list(given.values())):
            for tensor in outputs:
                if tensor.name not in adopted:
                    adopted[tensor.name] = self._fresh(tensor, sizes)
            self.bind(sizes, adopted | scalars)()
        came = list(given.values())
        results = [
            given[t.name] if t.name in given else self.engine.give_back(adopted[t.name], t, came) for t in outputs
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def bind(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Callable[[], None]:
        """A call without arguments that launches the kernel on arrays of `xp`, checked and prepared once.

        `arrays` has the scalars, too, as `stored_scalar` gives them.

        Raises:
            ArgumentError: a size that does not fit the kernel, or an output that overlaps another array.
            LimitError: more blocks than a grid has.
        """
        check_sizes(self.kernel, sizes)
        scalars = {s.name: passed_scalar(s, arrays[s.name]) for s in self.kernel.scalars}
        memory = {name: array for name, array in arrays.items() if name not in scalars}
        self._check_overlap(memory)
        for buffer in self.tree.buffers:
            if buffer.space == "global" and memory_of(buffer.name) not in memory:
                memory[buffer.name] = self._scratch(buffer, sizes)
        version = self._version(sizes, {name: self.engine.pointer(array) for name, array in memory.items()})
        launches = self._launches(version)
        every = (self._run(launch, sizes, memory, scalars) for launch in launches)
        runs = [run for run in every if min(run.grid) > 0]  # no device takes a launch of no blocks
        entries = self._entry(version)
        calls = [self.engine.enqueue(entries[run.name], run) for run in runs]

        def run() -> None:
            for call in calls:
                call()

        return run

    def launches(
        self, *, loose: frozenset[str] = frozenset(), whole: bool = False, wide: bool | None = None
    ) -> tuple[Launch, ...]:
        """The lowered launches of one version; `wide` as `lower` has it."""
        return self._launches(_TextVersion(loose, whole, wide))

    def launches_at(self, sizes: Mapping[str, int]) -> tuple[Launch, ...]:
        """The launches that run at `sizes` if the arrays are aligned: whole tiles or vectors where that goes."""
        return self._launches(self._version(sizes, {}))

    def proof(self, *, loose: frozenset[str] = frozenset(), whole: bool = False, wide: bool | None = None) -> Proof:
        """What was asked of one version; asked once."""
        version = _TextVersion(loose, whole, wide)
        if version not in self._proofs:
            self._proofs[version] = prove(self.kernel, self._launches(version), self.tree.reassociated)
        return self._proofs[version]

    @property
    def verdict(self) -> str:
        """`proved`, or what keeps it from being that: `unproved: ...`; with all vectors, and with none."""
        none = frozenset(loop for launch in self.launches() for loop in launch.needs)
        proofs = [self.proof(), self.proof(loose=none)]
        return next((p.verdict for p in proofs if p.verdict != "proved"), "proved")

    def source(self, *, wide: bool | None = None) -> str:
        """The text that is compiled for the device, in its language."""
        return emit(self.launches(wide=wide), self.engine.language)

    # -- parts

    def _split_arguments(self, arrays: tuple[Any, ...], named: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """(arrays and numbers by parameter, sizes by name) of a call."""
        inputs = self.kernel.parameters
        what = "arguments" if self.kernel.scalars else "arrays"
        outputs = [t.name for t in self.kernel.tensors if t.role == "output"]
        if len(arrays) > len(inputs):
            notes = (f"its inputs are {', '.join(inputs)}; an output is given by name: {outputs[0]}=...",)
            message = f"kernel '{self.kernel.name}' takes {len(inputs)} {what}, and {len(arrays)} are given"
            raise ArgumentError(message, notes=notes)
        given: dict[str, Any] = dict(zip(inputs, arrays, strict=False))
        sizes: dict[str, int] = {}
        for name, value in named.items():
            if name in given:
                raise ArgumentError(f"{name} is given twice")
            if name in inputs or name in outputs:
                given[name] = value
            elif name in self.kernel.sizes:
                sizes[name] = integers({name: value})[name]
            else:
                known = [*inputs, *outputs, *self.kernel.sizes]
                way = did_you_mean(name, known) or ("it has " + ", ".join(known),)
                raise ArgumentError(f"kernel '{self.kernel.name}' has no '{name}'", notes=way)
        for name in inputs:
            if name not in given:
                kind = "number" if name in {s.name for s in self.kernel.scalars} else "array"
                raise ArgumentError(f"kernel '{self.kernel.name}' needs the {kind} {name}")
        return given, sizes

    def _fresh(self, tensor: Tensor, sizes: Mapping[str, int]) -> Any:
        """An array for an output, 0 where the kernel leaves out elements."""
        shape = shape_of(tensor, sizes)
        bytes_ = prod(shape) * DTYPE_BYTES[tensor.dtype]
        array = allocate(lambda: empty(self.engine.xp, tensor, shape), bytes_, f"the output {tensor.name}", self.engine)
        if tensor.name in self._partial:
            array.fill(0)
        return array

    def _scratch(self, buffer: Buffer, sizes: Mapping[str, int]) -> Any:
        """Memory for what one launch writes and another one reads."""
        bytes_ = prod(extent.evaluate(sizes) for extent in buffer.shape) * DTYPE_BYTES[buffer.dtype]
        what = f"{buffer.name}, which is kept between launches,"
        return allocate(lambda: scratch(self.engine.xp, buffer, sizes), bytes_, what, self.engine)

    def _check_overlap(self, arrays: Mapping[str, Any]) -> None:
        spans = {}
        for name, array in arrays.items():
            start = self.engine.pointer(array)
            spans[name] = (start, start + array.size * array.dtype.itemsize)
        for tensor in self.kernel.tensors:
            if tensor.role != "output":
                continue
            low, high = spans[tensor.name]
            for other, (start, end) in spans.items():
                if other != tensor.name and start < high and low < end:
                    raise ArgumentError(f"{tensor.name} and {other} share memory, and {tensor.name} is written to")

    def _version(self, sizes: Mapping[str, int], addresses: Mapping[str, int]) -> _TextVersion:
        """The version that runs at these sizes, on tensors at these addresses; one without is aligned.

        Raises:
            LimitError: sizes that not even integers of 64 bits are enough for.
        """
        for wide in (False, True):
            version = self._choose_version(sizes, addresses, wide)
            if fits(self._launches(version), sizes):
                return version
        message = f"kernel '{self.kernel.name}' needs integers of more than 64 bits for {_sizes_text(sizes)}"
        raise LimitError(message, notes=("smaller sizes are the way out",))

    def _choose_version(self, sizes: Mapping[str, int], addresses: Mapping[str, int], wide: bool) -> _TextVersion:
        """Whole tiles where that goes, and vectors where they are aligned."""
        whole = self.launches(whole=True, wide=wide)
        met = all(c.holds(sizes) for launch in whole for c in launch.requires)
        if met and not unmet(whole, sizes, addresses):
            return _TextVersion(whole=True, wide=wide)
        return _TextVersion(unmet(self.launches(wide=wide), sizes, addresses), wide=wide)

    def _launches(self, version: _TextVersion) -> tuple[Launch, ...]:
        if version not in self._lowered:
            loose, whole, wide = version.loose, version.whole, version.wide
            cuda = self.engine.language == "cuda"
            self._lowered[version] = lower(self.tree, loose=loose, whole=whole, wide=wide, instructions=cuda)
        return self._lowered[version]

    def _entry(self, version: _TextVersion) -> Mapping[str, Any]:
        """The compiled launches of a version, by name."""
        if version not in self._entries:
            proof = self.proof(loose=version.loose, whole=version.whole, wide=version.wide)
            demand(proof, self.kernel.name, unproved=self.unproved)
            launches = self._launches(version)
            self._entries[version] = self.engine.build(emit(launches, self.engine.language), launches)
        return self._entries[version]

    def _run(
        self,
        launch: Launch,
        sizes: Mapping[str, int],
        memory: Mapping[str, Any],
        scalars: Mapping[str, Any],
    ) -> Run:
        x, y, z = (extent.evaluate(sizes) for extent in launch.grid)
        for axis, blocks, limit in zip("xyz", (x, y, z), GRID_LIMIT, strict=True):
            if blocks > limit:
                notes = ("bind the larger dimension to block.x, or make the tile larger",)
                message = (
                    f"{launch.name} needs {blocks} blocks along {axis} for {_sizes_text(sizes)}; {limit} are the limit"
                )
                raise LimitError(message, notes=notes)
        return Run(
            launch.name,
            (x, y, z),
            launch.launched_block,
            launch.shared_bytes,
            tuple(memory[name] for name in launch.tensors),
            tuple(scalars[scalar.name] for scalar in launch.scalars),
            tuple(sizes[name] for name in launch.sizes),
            launch.wide,
            tuple(BoundMap(each, memory[memory_of(each.buffer)], sizes) for each in launch.maps),
            launch.dependent,
        )


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def moved_bytes(tree: Tree, sizes: Mapping[str, int]) -> int:
    """Bytes of the kernel's inputs and outputs: each read or written once."""
    total = 0
    for tensor in tree.kernel.tensors:
        if tensor.role != "intermediate":
            count = 1
            for extent in shape_of(tensor, sizes):
                count *= extent
            total += count * DTYPE_BYTES[tensor.dtype]
    return total
