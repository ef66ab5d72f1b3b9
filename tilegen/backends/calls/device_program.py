"""A scheduled kernel on a device: compiled when first needed, bound to arrays, launched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import prod
from threading import Lock
from typing import Any

from tilegen.backends.calls.arrays import check_sizes, find_pitch, has_no_output, infer_sizes, shape_of, span_of
from tilegen.backends.calls.calls import Form, Plan, Prepared
from tilegen.backends.calls.engine import ALIGNMENT, BoundMap, Caller, Engine, Launcher, Run
from tilegen.backends.calls.memory import allocate
from tilegen.backends.calls.scalars import passed_scalar, stored_scalar
from tilegen.backends.calls.text_versions import TextVersion, TextVersions
from tilegen.backends.system.record import Record
from tilegen.backends.text import emit
from tilegen.backends.text.arrays import scratch_buffers, scratch_extents
from tilegen.errors import ArgumentError, did_you_mean, integers
from tilegen.ir.facts.defined import defines_all
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import DTYPE_BYTES, Buffer, Scalar, Tensor, Tree
from tilegen.lowering import Launch
from tilegen.lowering.integers.pitches import pitch_of
from tilegen.lowering.launch.grid import count_blocks
from tilegen.lowering.threads.fragments import without_instructions
from tilegen.proof import demand


class Program:
    """A scheduled kernel on one device; call it with arrays.

    A vector access needs an alignment that not every size has: where a loop's is missing, there is a version that
    does without. There is one more for sizes that all tiles divide, and as many again for sizes that need integers of
    64 bits, and for arrays whose rows are apart; each is compiled at its first use, and proven before: with
    `unproved`, it may be left open whether it is right.

    Attributes:
        tree: what runs. kernel: what it computes.
        versions: its texts in the language of the device.
    """

    def __init__(self, tree: Tree, engine: Engine, *, unproved: bool = False, record: Record | None = None) -> None:
        self.tree = tree
        self.kernel = tree.kernel.called_kernel
        self.engine = engine
        self.unproved = unproved
        defined = {e.target for e in self.kernel.equations if defines_all(e, self.kernel.tensor(e.target))}
        self._partial = {t.name for t in self.kernel.tensors if t.role == "output"} - defined
        record = record or Record()
        self.versions = TextVersions(tree, engine.language, record)
        is_cuda = engine.language == "cuda" or without_instructions(tree) == tree
        self.cuda = self.versions if is_cuda else TextVersions(tree, "cuda", record)
        self._entries: dict[tuple[TextVersion, Engine], Mapping[str, Any]] = {}
        self._forms: dict[tuple[int | str, ...], Form] = {}
        self._held: list[Sequence[Any]] = []
        self._planning = Lock()  # of several threads with the same first call one compiles

    def __repr__(self) -> str:
        return f"<Program of {self.kernel.name} on {self.device}>"

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: object) -> Program:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a program stays in its process: pickle the schedule, and compile it there")

    @property
    def device(self) -> str:
        """The name of the device that it was compiled for; calls go to that of their arrays."""
        return self.engine.name

    @property
    def on_gpu(self) -> bool:
        """True where it runs on a GPU."""
        return self.engine.on_gpu

    @property
    def xp(self) -> Any:
        """The library whose arrays it takes, beside those of others: the module cupy, or numpy."""
        return self.engine.xp

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
        plan, given, addresses, scalars, came = self._find_plan(arrays, named)
        return self._results(plan, plan.run(given, addresses, scalars), came)

    def prepare(self, /, *arrays: Any, **named: Any) -> Prepared:
        """A call without arguments that launches the kernel on these arrays each time, for what a launch alone costs.

        The arguments are those of a call; the values of scalars stay, too. Outputs that are not given are made here,
        and written into by each call. Nothing is launched yet.

            run = multiply.prepare(a, b)
            c = run()  # run.outputs is the same array

        Raises:
            ArgumentError, ProofError, DeviceError: as a call does.
        """
        plan, given, addresses, scalars, came = self._find_plan(arrays, named)
        memory, launch = plan.prepare(given, addresses, scalars)
        return Prepared(launch, self._results(plan, memory, came))

    def bind(self, sizes: Mapping[str, int], arrays: Mapping[str, Any], rounds: int = 1) -> Callable[[], None]:
        """A call without arguments that launches the kernel on arrays of `xp`, checked and prepared once.

        `arrays` has the outputs, and the scalars as `stored_scalar` gives them. Where tiles are dealt, so few blocks
        take them that one of them takes `rounds` or more, if there are enough.

        Raises:
            ArgumentError: a size that does not fit the kernel, or an output that overlaps another array.
            LimitError: more blocks than a grid has.
        """
        check_sizes(self.kernel, sizes)
        scalars = tuple(self._as_passed(s, arrays[s.name]) for s in self.kernel.scalars)
        given = {name: array for name, array in arrays.items() if name not in {s.name for s in self.kernel.scalars}}
        engine = self.engine.device_of(given)
        with self._planning:
            plan = self._plan(engine, engine.caller(list(given.values())), sizes, given, rounds)
        addresses = [engine.pointer(array) for array in given.values()]
        return plan.prepare(list(given.values()), addresses, scalars)[1]

    def launches(self, *, wide: bool | None = None) -> tuple[Launch, ...]:
        """The lowered launches of the version with vectors; `wide` as `lower` has it."""
        return self.versions.launches(TextVersion(wide=wide))

    def launches_at(self, sizes: Mapping[str, int]) -> tuple[Launch, ...]:
        """The launches that run at `sizes` if the arrays are aligned: whole tiles or vectors where that goes."""
        return self.versions.launches(self.versions.choose(sizes, {}))

    @property
    def verdict(self) -> str:
        """`proved`, or what keeps it from being that: `unproved: ...`.

        It is of the main versions of the CUDA program, wherever this one runs, and of all that has run so far.

        Raises:
            LimitError: there is no CUDA program.
        """
        proofs = (*map(self.cuda.proof, self.cuda.main()), *self.versions.asked)
        return next((p.verdict for p in proofs if p.verdict != "proved"), "proved")

    def demand_proof(self, sizes: Mapping[str, int]) -> None:
        """Asks for the proof of the CUDA program for `sizes`, wherever this one runs; it is asked once.

        Raises:
            ProofError: it is refused, or unproved and that was not allowed. LimitError: there is no such program.
        """
        demand(self.cuda.proof(self.cuda.choose(sizes, {})), self.kernel.name, unproved=self.unproved)

    def source(self, *, wide: bool | None = None) -> str:
        """The text that is compiled for the device, in its language."""
        return emit(self.launches(wide=wide), self.engine.language)

    # -- parts

    def _check_names(self, count: int, named: Collection[str]) -> None:
        """Raises ArgumentError where a call gives too many arrays, an unknown name, one twice, or not all inputs."""
        inputs = self.kernel.parameters
        what = "arguments" if self.kernel.scalars else "arrays"
        outputs = [t.name for t in self.kernel.tensors if t.role == "output"]
        if count > len(inputs):
            notes = (f"its inputs are {', '.join(inputs)}; an output is given by name: {outputs[0]}=...",)
            message = f"kernel '{self.kernel.name}' takes {len(inputs)} {what}, and {count} are given"
            raise ArgumentError(message, notes=notes)
        known = [*inputs, *outputs, *self.kernel.sizes]
        for name in named:
            if name in inputs[:count]:
                raise ArgumentError(f"{name} is given twice")
            if name not in known:
                way = did_you_mean(name, known, "it has")
                raise ArgumentError(f"kernel '{self.kernel.name}' has no '{name}'", notes=way)
        for name in inputs[count:]:
            if name not in named:
                kind = "number" if name in {s.name for s in self.kernel.scalars} else "array"
                raise ArgumentError(f"kernel '{self.kernel.name}' needs the {kind} {name}")

    def _find_plan(
        self, arrays: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Plan, Sequence[Any], list[int], tuple[Any, ...], Sequence[Any] | None]:
        """(plan, arrays, their addresses, scalars, the arrays as they came where some had to be adopted) of a call.

        What calls look like is remembered: all else is decided by the first one that looks so.
        """
        form = self._forms.get((len(arrays), *named)) or self._find_form(arrays, named)
        values = (*arrays, *named.values()) if named else arrays
        given: Sequence[Any] = values
        sizes: dict[str, int] = {}
        scalars: tuple[Any, ...] = ()
        if len(form.arrays) != len(values):
            given = [values[position] for position, _ in form.arrays]
            scalars = tuple(self._passed(scalar, values[position]) for position, scalar in form.scalars)
            sizes = integers({name: values[position] for position, name in form.sizes})
        facts, came = self.engine.facts(given), None
        if facts is None:
            came, given = given, self._adopt(form.names, given)
            facts = self.engine.facts(given)
            assert facts is not None
        key, addresses = facts
        if sizes:
            key = (key, *sizes.values())
        plan = form.plans.get(key)
        if plan is None:
            with self._planning:
                plan = form.plans.get(key) or self._check_and_plan(form.names, given, sizes)
                form.remember(key, plan)
        return plan, given, addresses, scalars, came

    def _find_form(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> Form:
        """Which values of such a call are arrays, scalars and sizes."""
        self._check_names(len(arrays), named.keys())
        names = [*self.kernel.parameters[: len(arrays)], *named]
        scalars = {scalar.name: scalar for scalar in self.kernel.scalars}
        sizes = set(self.kernel.sizes) & named.keys()
        form = Form(
            tuple((n, name) for n, name in enumerate(names) if name not in scalars and name not in sizes),
            tuple((names.index(name), scalar) for name, scalar in scalars.items()),
            tuple((n, name) for n, name in enumerate(names) if name in sizes),
        )
        return self._forms.setdefault((len(arrays), *named), form)

    def _adopt(self, names: Sequence[str], given: Sequence[Any]) -> list[Any]:
        """The arrays, those of other libraries than the engine's as arrays of `xp` on the same memory."""
        pairs = zip(names, given, strict=True)
        known = self.engine.facts
        return [a if known([a]) is not None else self.engine.adopt(a, self.kernel.tensor(name)) for name, a in pairs]

    def _check_and_plan(self, names: Sequence[str], given: Sequence[Any], sizes: Mapping[str, int]) -> Plan:
        pairs = zip(names, given, strict=True)
        adopted = {name: self.engine.adopt(value, self.kernel.tensor(name)) for name, value in pairs}
        engine = self.engine.device_of(adopted)
        sizes = infer_sizes(self.kernel, {name: array.shape for name, array in adopted.items()}, sizes)
        pitches = {
            pitch_of(name): pitch
            for value, (name, array) in zip(given, adopted.items(), strict=True)
            if (pitch := find_pitch(self.kernel.tensor(name), array, value))
        }
        return self._plan(engine, engine.caller(given), sizes | pitches, adopted)

    def _plan(
        self, engine: Engine, caller: Caller, sizes: Mapping[str, int], given: Mapping[str, Any], rounds: int = 1
    ) -> Plan:
        """What a call at `sizes` does with arrays like the `given` ones of `xp`; `caller` makes what is missing.

        Of arrays whose rows are apart, `sizes` has the pitches, too.
        """
        outputs = [tensor for tensor in self.kernel.tensors if tensor.role == "output"]
        fresh = [tensor for tensor in outputs if tensor.name not in given]
        tensors = (*given, *(tensor.name for tensor in fresh))
        nothing = has_no_output(self.kernel, sizes)
        between = () if nothing else self._scratch()
        names = (*tensors, *(buffer.name for buffer in between))
        makers = [self._output_maker(engine, caller, tensor, sizes) for tensor in fresh]
        makers += [_scratch_maker(engine, caller, buffer, sizes) for buffer in between]
        alignments = {name: engine.pointer(array) % ALIGNMENT for name, array in given.items()}
        written = {tensor.name for tensor in outputs}
        with engine.use():
            launchers = () if nothing else self._launchers(engine, sizes, names, alignments, rounds)
        return Plan(
            engine,
            caller,
            names,
            tuple(makers),
            tuple(map(span_of, given.values())),
            tuple(self._rows_of(name, array, sizes) for name, array in given.items()),
            tuple((n, m) for n, a in enumerate(given) if a in written for m in range(len(given)) if m != n),
            launchers,
            tuple(names.index(tensor.name) for tensor in outputs),
            len(between),
            self._held,
        )

    def _rows_of(self, name: str, array: Any, sizes: Mapping[str, int]) -> tuple[int, int]:
        """(bytes of a row, bytes from one to the next) of an array whose rows are apart, else 0."""
        if not (pitch := sizes.get(pitch_of(name))):
            return 0, 0
        item = array.dtype.itemsize
        return array.shape[self.kernel.tensor(name).order[-1]] * item, pitch * item

    def _launchers(
        self,
        engine: Engine,
        sizes: Mapping[str, int],
        names: Sequence[str],
        alignments: Mapping[str, int],
        rounds: int,
    ) -> tuple[Launcher, ...]:
        """The launches at `sizes`, of the version for arrays at such addresses, on memory in the order of `names`."""
        version = self.versions.choose(sizes, alignments)
        every = (self._run(launch, sizes, names, rounds) for launch in self.versions.launches(version))
        runs = [run for run in every if min(run.grid) > 0]  # no device takes a launch of no blocks
        entries = self._entry(version, engine)
        return tuple(engine.launcher(entries[run.name], run) for run in runs)

    def _passed(self, scalar: Scalar, value: Any) -> Any:
        return self._as_passed(scalar, stored_scalar(scalar, value))

    def _as_passed(self, scalar: Scalar, stored: Any) -> Any:
        """A scalar as a launch takes it."""
        return passed_scalar(scalar, stored)

    def _results(self, plan: Plan, memory: Sequence[Any], came: Sequence[Any] | None) -> Any:
        """The outputs, as arrays of the caller's library."""
        results = [memory[position] for position in plan.results]
        if came is not None:
            tensors = [self.kernel.tensor(plan.names[position]) for position in plan.results]
            triples = zip(plan.results, tensors, results, strict=True)
            results = [came[n] if n < len(came) else self.engine.give_back(a, t, came) for n, t, a in triples]
        return results[0] if len(results) == 1 else tuple(results)

    def _output_maker(
        self, engine: Engine, caller: Caller, tensor: Tensor, sizes: Mapping[str, int]
    ) -> Callable[[], Any]:
        """A call that makes an array for an output, 0 where the kernel leaves out elements."""
        shape = shape_of(tensor, sizes)
        make = caller.maker(tensor.dtype, shape, tensor.order, zeros=tensor.name in self._partial)
        bytes_ = prod(shape) * DTYPE_BYTES[tensor.dtype]
        return partial(allocate, make, bytes_, f"the output {tensor.name}", engine)

    def _scratch(self) -> tuple[Buffer, ...]:
        """What one launch writes and another one reads."""
        return scratch_buffers(self.tree)

    def _entry(self, version: TextVersion, engine: Engine) -> Mapping[str, Any]:
        """The compiled launches of a version on a device, by name."""
        if (version, engine) not in self._entries:
            text = self.versions.text(version, unproved=self.unproved)
            self._entries[version, engine] = engine.build(text, self.versions.launches(version))
        return self._entries[version, engine]

    def _run(self, launch: Launch, sizes: Mapping[str, int], names: Sequence[str], rounds: int) -> Run:
        scalars = [scalar.name for scalar in self.kernel.scalars]
        grid = count_blocks(launch.name, launch.grid, sizes, dealt=launch.dealt > 0)
        return Run(
            launch.name,
            grid,
            launch.launched_block,
            launch.shared_bytes,
            tuple(names.index(name) for name in launch.tensors),
            tuple((scalars.index(scalar.name), scalar.dtype) for scalar in launch.scalars),
            tuple(sizes[name] for name in launch.sizes),
            launch.wide,
            tuple(BoundMap(each, names.index(memory_of(each.buffer)), sizes) for each in launch.maps),
            launch.asks,
            -(-grid[0] // rounds) if launch.dealt else 0,
        )


def _scratch_maker(engine: Engine, caller: Caller, buffer: Buffer, sizes: Mapping[str, int]) -> Callable[[], Any]:
    """A call that makes flat memory for a global buffer that lives between two launches, its padding included."""
    elements = prod(extent.evaluate(sizes) for extent in scratch_extents(buffer))
    make = caller.maker(buffer.dtype, (elements,), (0,), zeros=buffer.role == "states")
    what = f"{buffer.name}, which is kept between launches,"
    return partial(allocate, make, elements * DTYPE_BYTES[buffer.dtype], what, engine)
