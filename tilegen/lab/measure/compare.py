"""Several schedules of one kernel side by side: each checked first, then all timed in turns."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from tilegen.backends.calls.arrays import check_sizes
from tilegen.backends.calls.device_program import Program
from tilegen.backends.calls.engine import Engine
from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.architectures import compiled_architecture, instructions_of, require_instructions
from tilegen.backends.devices.devices import program
from tilegen.backends.text import emit
from tilegen.errors import ArgumentError, TilegenError, UsageError
from tilegen.ir.nodes import Tree
from tilegen.ir.printing.shown import ShownAsTable, Table, size_words
from tilegen.lab.checks.accuracy import Accuracy, describe_errors, has_accuracy
from tilegen.lab.measure.timing import CPU_NOTE, Progress, cells_of_time, time_programs
from tilegen.lab.measure.tried import Run, Tried
from tilegen.lab.measure.trust import doubts_of_conditions
from tilegen.lab.predict.cost import timing_outlook
from tilegen.lab.predict.explain import explain_tree
from tilegen.lab.predict.machine import Machine
from tilegen.lab.records.records import Conditions, Outcome, outcome_of
from tilegen.lowering import Launch


@dataclass(frozen=True)
class Row(Tried):
    """One schedule, or what it is compared with.

    `proof` is what the proof of its launches came to: `proved`, or `unproved: what`.
    `registers` of a thread, `shared` bytes of a block and `spills` in bytes are those of the launch that
    has most, as NVRTC reports them; None where there is no compiler or nothing to compile. A `dependent` one may begin
    while what stands before it still runs. `predicted` are the least milliseconds of a machine, where nothing is
    timed, for its `limit`.
    """

    name: str
    proof: str | None = None
    launches: int | None = None
    registers: int | None = None
    shared: int | None = None
    spills: int | None = None
    dependent: bool = False
    outcome: Outcome = "unmeasured"
    accuracy: Accuracy | None = None
    predicted: float | None = None
    limit: str | None = None

    def with_error(self, error: TilegenError) -> Row:
        return replace(super().with_error(error), outcome=outcome_of(error))

    @property
    def milliseconds(self) -> float | None:
        """Measured, or predicted."""
        return self.time.median if self.time else self.predicted


@dataclass(frozen=True, repr=False)
class Comparison(ShownAsTable):
    """A table: a row for each schedule, in their order, then the rival's, if there is one.

    `beside` says what the rival is, or why there is none; `steady` how many seconds a sample took, or 0; `doubts` why
    no time of the table is to be trusted, under the `conditions` that the GPU was in. Of a `machine` times are
    predicted, and nothing is timed.
    """

    kernel: str
    sizes: Mapping[str, int]
    device: str
    on_gpu: bool
    arch: str
    unit: str
    rival: str | None
    rows: tuple[Row, ...]
    beside: tuple[str, ...] = ()
    steady: float = 0.0
    conditions: Conditions | None = None
    doubts: tuple[str, ...] = ()
    machine: Machine | None = None

    @property
    def place(self) -> str:
        """Where it ran, for the head of a table; of a machine, for which times are predicted."""
        return f"for one {self.machine.name}, checked on {self.device}" if self.machine else f"on {self.device}"

    def table(self) -> Table:
        """A row for each schedule, and for what it is compared with."""
        first, rival = self.rows[0], next((row for row in self.rows if row.name == self.rival), None)
        heads = ["schedule", "check", "proof", "launches", "registers", "shared B", "spills B"]
        if self.machine:
            heads += ["predicted ms", "limit", f"{self.unit} at most", f"x {first.name}"]
        elif any(row.time for row in self.rows):
            heads += ["ms" if self.on_gpu else f"{self.device.split()[0]} ms", "p20..p80", self.unit, f"x {first.name}"]
            heads += [f"% of {rival.name}"] if rival else []
        rows = [(*_cells(row), *_times(row), _ratio(first, row), _ratio(rival, row, percent=True)) for row in self.rows]
        notes = [f"{row.name}: {row.error}" for row in self.rows if row.error]
        notes += [] if self.on_gpu or self.machine else [CPU_NOTE]
        title = f"{self.kernel}  {size_words(self.sizes)}  {self.place}"
        return Table(title, heads, [row[: len(heads)] for row in rows], (*self.beside, *notes))


def _cells(row: Row) -> tuple[str, ...]:
    counts = ("" if n is None else str(n) for n in (row.launches, row.registers, row.shared, row.spills))
    return (row.name, row.verdict, row.proof or "", *counts)


def _times(row: Row) -> tuple[str, ...]:
    if row.predicted is None:
        return cells_of_time(row.time, row.rate)
    return f"{row.predicted:.4g}", row.limit or "", f"{row.rate or 0:.4g}"


def _ratio(of: Row | None, row: Row, *, percent: bool = False) -> str:
    """The time of one row as a multiple of another's."""
    if of is None or not of.milliseconds or not row.milliseconds:
        return ""
    ratio = of.milliseconds / row.milliseconds
    return f"{100 * ratio:.1f}" if percent else f"{ratio:.2f}"


class ComparisonRun(Run):
    """A comparison under way: `result` gives the rows so far at any time, while `run` fills them.

    `outlook` is what to tell someone before it, if it takes long.
    """

    def __init__(
        self,
        trees: Mapping[str, Tree | TilegenError],
        engine: Engine,
        given: Mapping[str, int],
        progress: Progress = lambda what, done, total: None,
        *,
        unproved: bool = False,
        steady: float = 0.0,
        errors: bool = False,
        machine: Machine | None = None,
    ) -> None:
        """Chooses sizes; nothing is compiled yet.

        Args:
            trees: all of one kernel, by the names of their schedules, in the order of the rows; for a schedule that
                cannot be applied the error that says why. One tree at least.
            given: sizes to time at; the others are chosen. The checks are at small sizes of their own.
            progress: gets what is going on, how many parts of it are done, and of how many.
            unproved: True lets run what the proof leaves open.
            steady: seconds of a sample, of one schedule without a pause, after as much time untimed; 0 for short ones.
            errors: whether to measure how far products are from exact ones.
            machine: whose times are predicted; then nothing is timed.

        Raises:
            UsageError: sizes that the kernel does not admit. DeviceError: too little memory for them.
        """
        every = [tree for tree in trees.values() if not isinstance(tree, TilegenError)]
        super().__init__(every[0].kernel.meant_kernel, every, engine, given, progress, machine)
        trees = {name: self._at_sizes(tree) for name, tree in trees.items()}
        found = {name: tree for name, tree in trees.items() if not isinstance(tree, TilegenError)}
        self._rows = {
            name: Row(name).with_error(t) if isinstance(t, TilegenError) else Row(name) for name, t in trees.items()
        }
        self._programs = {name: program(tree, engine, unproved=unproved) for name, tree in found.items()}
        self.outlook = None if machine else timing_outlook(every, self._sizes, engine)
        self._arch = machine.arch if machine else str(getattr(engine, "arch", nvrtc.DEFAULT_ARCH))
        self._rival: str | None = None
        self._beside: tuple[str, ...] = ()
        self._steady, self._errors = steady, errors
        self._accuracy: Mapping[str, Accuracy] = {}
        if errors and not has_accuracy(self._kernel):
            notes = (f"'{self._kernel.name}' is none, or something follows it",)
            raise UsageError("errors are measured of plain matrix products of floats", notes=notes)

    def _at_sizes(self, tree: Tree | TilegenError) -> Tree | TilegenError:
        """The tree, or why the sizes are none that it is for."""
        try:
            if not isinstance(tree, TilegenError):
                check_sizes(tree.kernel, self._sizes)
        except ArgumentError as error:
            return error
        return tree

    def run(self) -> Comparison:
        """Checks all of them, then times those that are right, or predicts their times: the whole `result`.

        Raises:
            DeviceError: the device fails. A schedule that is wrong does not raise: its row says so.
        """
        # The compiler takes seconds for a large kernel: it runs during the checks, and nothing runs during the timing.
        with ThreadPoolExecutor(max_workers=1) as compiler:
            texts = {name: text for name, each in self._programs.items() if (text := self._emit_text(name, each))}
            launches = {name: self._launches(self._programs[name]) for name in texts}
            archs = {name: compiled_architecture(instructions_of(each), self._arch) for name, each in launches.items()}
            compiled = {name: compiler.submit(nvrtc.compile_text, text, archs[name]) for name, text in texts.items()}
            for name, found in self._check({name: self._programs[name] for name in texts}, str):
                row = Row(name).with_error(found) if isinstance(found, TilegenError) else Row(name, trials=found)
                self._rows[name] = replace(row, proof=_proof_verdict(self._programs[name]))
            for number, name in enumerate(texts):
                self._progress(f"compile {name}", number, len(texts))
                self._rows[name] = _with_resources(self._rows[name], launches[name], compiled[name])
        right = {name: self._programs[name] for name in texts if self._rows[name].error is None}
        if self._machine:
            self._predict(right, self._machine)
            return self.result()
        timed = (self._progress, self._samples, self._steady, self._watch)
        done = time_programs(right, self._engine, self._sizes, *timed, errors=self._errors)
        self._rival, self._beside, self._accuracy = done.rival, done.beside, done.accuracy
        for name, error in done.errors.items():
            self._rows[name] = self._rows[name].with_error(error)
        return self.result()

    def _predict(self, programs: Mapping[str, Program], machine: Machine) -> None:
        """Predicts times of the texts, without a compiler."""
        for number, (name, each) in enumerate(programs.items()):
            self._progress(f"predict {name}", number, len(programs))
            try:
                found = [launch.prediction for launch in explain_tree(each.tree, self._sizes, machine, compiled=False)]
            except TilegenError as error:
                self._rows[name] = self._rows[name].with_error(error)
                continue
            least = sum(prediction.milliseconds for prediction in found)
            limit = max(found, key=lambda prediction: prediction.milliseconds).limit
            reached = self._rate(least) if least else None
            self._rows[name] = replace(self._rows[name], predicted=least, limit=limit, rate=reached)

    def result(self) -> Comparison:
        """All rows, with the results so far."""
        rows = dict(self._rows)
        for name, samples in list(self._samples.items()):
            if samples:
                own = {"outcome": "measured", "accuracy": self._accuracy.get(name), **self._figures(samples)}
                rows[name] = replace(rows.get(name, Row(name)), **own)
        found, conditions = tuple(rows.values()), self._watch.conditions()
        named = (self._kernel.name, self._sizes, self._engine.name, self._engine.on_gpu, self._arch, self._unit)
        doubts = doubts_of_conditions(conditions, self._steady)
        beside = (*self._beside, *describe_errors({row.name: row.accuracy for row in found if row.accuracy}))
        return Comparison(*named, self._rival, found, beside, self._steady, conditions, doubts, self._machine)

    def _emit_text(self, name: str, each: Program) -> str | None:
        """The CUDA text of the version that is timed; None, with an error in the row, if it cannot be emitted."""
        try:
            launches = self._launches(each)
            if self._machine:
                target = compiled_architecture(instructions_of(launches), self._arch)
                require_instructions(launches, target, self._machine.name)
            return emit(launches, "cuda")
        except TilegenError as error:
            self._rows[name] = self._rows[name].with_error(error)
            return None

    def _launches(self, each: Program) -> tuple[Launch, ...]:
        """The launches that a GPU has for these sizes, with its instructions, which no other device runs."""
        return each.cuda.launches(each.cuda.choose(self._sizes, {}))


def _with_resources(row: Row, launches: tuple[Launch, ...], compiled: Future[nvrtc.Compiled]) -> Row:
    """`row` with the registers, shared memory and spills of its launches, if there is a compiler."""
    shared, dependent = max(each.shared_bytes for each in launches), any(each.dependent for each in launches)
    row = replace(row, launches=len(launches), shared=shared, dependent=dependent)
    try:
        found = compiled.result().resources.values()
    except TilegenError as error:
        refused = nvrtc.unavailable_reason() is None and not row.error
        return replace(row.with_error(error), outcome="refused") if refused else row
    registers = max((r.registers for r in found), default=None)
    return replace(row, registers=registers, spills=max((r.spills for r in found), default=None))


def _proof_verdict(each: Program) -> str | None:
    """The verdict of the proof; None if the program cannot be lowered."""
    try:
        return each.verdict
    except TilegenError:
        return None
