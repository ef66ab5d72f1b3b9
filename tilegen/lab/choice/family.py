"""The choice among the members of a family: by times of tuning where there are some, and else by a model of time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import product
from typing import Any

from tilegen.backends.compiler.architectures import HOPPER, compiled_architecture
from tilegen.backends.text.arrays import scratch_buffers
from tilegen.errors import IllegalStep, LimitError, StepError, UsageError
from tilegen.ir.affine import const
from tilegen.ir.hardware.instructions import Instruction, arch_number
from tilegen.ir.hardware.limits import SHARED_LIMIT
from tilegen.ir.hardware.memory import row_of
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, Kernel, Loop, Tree
from tilegen.ir.parameter_facts import Fact, Formula, Operation, formula_of, python_of
from tilegen.ir.parts.swizzle import BULK_UNIT
from tilegen.ir.printing.show import show_fact
from tilegen.ir.printing.shown import ShownAsTable, Table, size_words
from tilegen.ir.steps import Family, Member, Schedule, Setting
from tilegen.ir.walk import leaves, loops, reads
from tilegen.lab.choice.model import PARTS, Coefficients, Model, shared_bytes
from tilegen.lab.choice.traced import compiled
from tilegen.lab.predict.machine import Machine
from tilegen.lowering import lower_for_some_sizes
from tilegen.lowering.sync.waits import ASYNCHRONOUS

_SHARE = 1 / 32  # of the memory, for parts of sums


@dataclass(frozen=True)
class Candidate:
    """A schedule that may serve a kernel, with its parameters.

    Attributes:
        scheduled: applies it to the kernel, judged.
        facts: the sizes that it is for.
        scale: how far a time of tuning, at the sizes `measured_at`, is above the one that the model gives.
        refused: why the machine cannot run it; empty where it can.
    """

    name: str
    schedule: str
    parameters: Mapping[str, Setting]
    facts: tuple[Fact, ...]
    tree: Tree
    model: Model
    coefficients: Coefficients
    scheduled: Callable[[], Any]
    scale: float = 1.0
    refused: str = ""
    measured_at: Mapping[str, int] | None = None

    def serves(self, sizes: Mapping[str, int]) -> bool:
        """True if it is for these sizes."""
        return not self.refused and all(fact.holds(sizes) for fact in self.facts)

    def microseconds(self, sizes: Mapping[str, int]) -> float:
        """The time that the model predicts."""
        return self.scale * self.model.microseconds(sizes, self.coefficients)


@dataclass(frozen=True, repr=False)
class Choice(ShownAsTable):
    """What a family has chosen at some sizes: `predicted` microseconds of each member, or why it does not serve."""

    family: str
    sizes: Mapping[str, int]
    machine: Machine
    chosen: Candidate
    predicted: Sequence[tuple[Candidate, float | str]]

    def table(self) -> Table:
        """A row for each member, those that serve first, by their times."""
        rows = []
        for candidate, found in self.predicted:
            mark = "chosen" if candidate is self.chosen else ""
            time = found if isinstance(found, str) else f"{found:.4g}"
            parts = candidate.model.parts(self.sizes) if isinstance(found, float) else []
            shown = [f"{sum(getattr(part, word) for part in parts):.4g}" if parts else "" for word in ("waves", *PARTS)]
            rows.append((candidate.name, time, mark, *shown))
        title = f"family {self.family}  {size_words(self.sizes)}  for one {self.machine.name}"
        heads = ["member", "predicted us", "", "waves", *PARTS]
        return Table(title, heads, rows)

    def to_json(self) -> dict[str, Any]:
        """The name, the member chosen, and microseconds of each, or why it does not serve."""
        members = {candidate.name: found for candidate, found in self.predicted}
        return {"name": self.family, "chosen": self.chosen.name, "members": members}


class Chooser:
    """Candidates of one kernel on one machine; `choose` takes one of them by sizes."""

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        candidates: Sequence[Candidate],
        machine: Machine,
        values: Mapping[str, int],
        known: bool = True,
    ) -> None:
        """`values` are those of the kernel's constants, which facts may speak of, too.

        Args:
            known: the schedules are known to be applicable. Else what is chosen is applied first, and one that the
                judge refuses, or that is too large for a GPU, is left out.
        """
        self.name, self.kernel, self.candidates = name, kernel, tuple(candidates)
        self.machine, self.values = machine, values
        self._known = known
        self._facts = {python_of(fact.formula): fact for each in candidates for fact in each.facts}
        self._alike = dict[frozenset[str], list[int]]()  # the places of those that can run, by their facts
        for place, each in enumerate(candidates):
            if not each.refused:
                self._alike.setdefault(frozenset(python_of(f.formula) for f in each.facts), []).append(place)
        self._measured = [place for place, each in enumerate(candidates) if each.measured_at]
        self._faults: dict[str, str] = {}

    def choose(self, **sizes: int) -> Candidate:
        """The candidate whose time is the least at these sizes, all of the kernel's.

        Raises:
            UsageError: no member is for these sizes.
        """
        known, times = {**self.values, **sizes}, self.times(**sizes)
        there = self._serving(known)
        while there:
            measured = [p for p in self._measured if p in there and self.candidates[p].measured_at == sizes]
            place = min(measured or there, key=times.__getitem__)
            found = self.candidates[place]
            if not self.fault(found):
                return found
            there.remove(place)
        notes = tuple(dict.fromkeys(f"{each.name}: {self._reason(each, known)}" for each in self.candidates))
        raise UsageError(f"no member of the family '{self.name}' is for {size_words(sizes)}", notes=notes)

    def _serving(self, known: Mapping[str, int]) -> list[int]:
        """The places of the candidates that serve; each fact is asked once."""
        broken = {text for text, fact in self._facts.items() if not fact.holds(known)}
        return [place for needs, places in self._alike.items() if not needs & broken for place in places]

    def times(self, **sizes: int) -> list[float]:
        """The microseconds that are predicted of all candidates, those that do not serve included."""
        return self._times(*(sizes[name] for name in self.kernel.sizes))

    @cached_property
    def _times(self) -> Callable[..., list[float]]:
        return compiled(self.kernel.sizes, lambda sizes: [each.microseconds(sizes) for each in self.candidates])

    def fault(self, candidate: Candidate) -> str:
        """Why a candidate cannot be applied to this kernel; empty where it can."""
        if candidate.name not in self._faults and not self._known:
            try:
                lower_for_some_sizes(candidate.scheduled().tree)
                self._faults[candidate.name] = ""
            except (StepError, IllegalStep, LimitError) as error:
                self._faults[candidate.name] = error.message
        return self._faults.get(candidate.name, "")

    def explain(self, **sizes: int) -> Choice:
        """The choice with what has led to it. Raises what `choose` raises."""
        known, chosen = {**self.values, **sizes}, self.choose(**sizes)
        reasons = [(each, self._reason(each, known)) for each in self.candidates]
        served = sorted(
            ((each, each.microseconds(sizes)) for each, reason in reasons if not reason), key=lambda pair: pair[1]
        )
        return Choice(
            self.name, sizes, self.machine, chosen, [*served, *((e, reason) for e, reason in reasons if reason)]
        )

    def deterministic(self) -> Chooser:
        """This with members alone that add up in one order, so that sizes do not change a bit of a result.

        Raises:
            UsageError: those that serve all sizes have none.
        """
        orders: dict[object, list[Candidate]] = {}
        for each in self.candidates:
            if not each.refused:
                orders.setdefault(order_of(each.tree), []).append(each)
        whole = [some for order, some in orders.items() if order is not None and any(not each.facts for each in some)]
        if not whole:
            raise UsageError(f"no members of '{self.name}' that serve all sizes add up in one order")
        return Chooser(self.name, self.kernel, max(whole, key=len), self.machine, self.values, self._known)

    def _reason(self, candidate: Candidate, sizes: Mapping[str, int]) -> str:
        broken = (f"not {fact.text}" for fact in candidate.facts if not fact.holds(sizes))
        return candidate.refused or next(broken, self._faults.get(candidate.name, ""))


def parameters_of(member: Member, schedule: Schedule) -> Iterator[tuple[str, dict[str, Setting]]]:
    """A name and the parameters for each combination of values that a member names and its schedule admits."""
    for values in product(*(p.candidates for p in member.parameters)):
        given = {p.name: value for p, value in zip(member.parameters, values, strict=True)}
        if schedule.admits(schedule.values(given)):
            words = ", ".join(f"{name}={value}" for name, value in given.items())
            yield (f"{member.schedule}({words})" if words else member.schedule), given


@cache
def _fits(arch: str) -> Mapping[str, Any]:
    path = files("tilegen") / "lab" / "choice" / "fitted" / f"{arch}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"families": {}, "device": ""}
    return found


def fitted_on(machine: Machine) -> str:
    """The name of the GPU of this architecture whose times the coefficients come from; empty if there is none."""
    return str(_fits(machine.arch)["device"])


def fitted_to_formulas(machine: Machine) -> dict[str, Coefficients]:
    """The coefficients of the schedules that were measured on it, by the formulas of their models."""
    return _by_formulas(machine.arch)


@cache
def _by_formulas(arch: str) -> dict[str, Coefficients]:
    families = _fits(arch)["families"].values()
    return {each["formula"]: _coefficients(each) for members in families for each in members.values()}


def fitted(family: Family, machine: Machine) -> dict[str, Coefficients]:
    """The coefficients that measurements on a machine of this architecture have given.

    They go by the name of a member, in a stock family that was measured; by the formula of its model, in all of them;
    "split_k *" has what members of that schedule have in common, "*" all of the family.
    """
    families = _fits(machine.arch)["families"]
    own = families.get(f"{family.span.source.name}: {family.kernel}" if family.span else "", {})
    return {**fitted_to_formulas(machine), **{name: _coefficients(each) for name, each in own.items()}}


def _coefficients(value: Mapping[str, Any]) -> Coefficients:
    return Coefficients(**{word: each for word, each in value.items() if word != "formula"})


def target_of(tree: Tree, arch: str) -> str:
    """What a tree is compiled for, to run on GPUs of an architecture: "sm_90a" for "sm_90" where it needs that."""
    return compiled_architecture(_instructions(tree), arch)


def _instructions(tree: Tree) -> set[Instruction]:
    return {loop.performed.instruction for loop in loops(tree.body) if loop.performed}


def refusal(tree: Tree, arch: str) -> str:
    """Why GPUs of an architecture cannot launch a tree; empty where they can."""
    target = target_of(tree, arch)
    for instruction in sorted(_instructions(tree), key=lambda each: each.name):
        if not instruction.runs_on(target):
            return f"{instruction.name} needs {instruction.needs}"
    in_bulk = tree.dependent or any(loop.kind == "bulk" for loop in loops(tree.body))
    if in_bulk and arch_number(arch) < arch_number(HOPPER):
        return f"bulk copies and dependent launches need {HOPPER}"
    shared = max((shared_bytes(tree, loops((launch,))) for launch in tree.body), default=0)
    if shared > SHARED_LIMIT:
        return f"a block needs {shared} bytes of shared memory, and a GPU has {SHARED_LIMIT} at most"
    return ""


def at_their_best(candidates: Sequence[Candidate], machine: Machine) -> list[Candidate]:
    """The candidates for sizes alone at which the model holds and memory does, if one of them is for all sizes then.

    Where none would be, copies of results in bulk may fall apart, and then vectors of a thread's own copies.
    """
    for copies in (("inputs", "vectors", "results"), ("inputs", "vectors"), ("inputs",)):
        wanted = [(*aligned(each.tree, copies), *room(each.tree, machine)) for each in candidates]
        if not all(each.facts or wishes for each, wishes in zip(candidates, wanted, strict=True)):
            return [
                replace(each, facts=tuple({fact.text: fact for fact in (*each.facts, *wishes)}.values()))
                for each, wishes in zip(candidates, wanted, strict=True)
            ]
    return list(candidates)


def aligned(tree: Tree, copies: Sequence[str]) -> Iterator[Fact]:
    """That tensors copied while threads go on have rows of whole vectors: of 16 bytes where "inputs" or "results" are
    copied in bulk, and of threads' own "vectors" where one element is too short for such a copy. Where they have not,
    threads wait for each element."""
    tensors = {buffer.name: buffer for buffer in tree.buffers if buffer.space == "global" and len(buffer.shape) > 1}
    found: dict[str, Fact] = {}
    for around, stmt in leaves(tree.body):
        in_bulk = any(loop.kind == "bulk" for loop in around)
        names = [name for name, _ in reads(stmt) if in_bulk or "vectors" in copies]
        names += [stmt.target.buffer] if in_bulk and "results" in copies else []
        for name in (name for name in names if name in tensors):
            row, bytes_ = row_of(tensors[name]), DTYPE_BYTES[tensors[name].dtype]
            units = BULK_UNIT // bytes_ if in_bulk else _vector_in_flight(around, bytes_)
            if row % units != const(0):
                formula = Operation("==", (Operation("%", (formula_of(row), units)), 0))
                found.setdefault(name, Fact(f"{row} % {units} == 0", formula))
    yield from found.values()


def _vector_in_flight(around: Sequence[Loop], bytes_: int) -> int:
    """The elements of a vector that is copied while its thread goes on; 1 for none, and if an element does as well."""
    vector = next((loop.extent.const for loop in around if loop.kind == "vector"), 1)
    return vector if bytes_ < min(ASYNCHRONOUS) and any(loop.stages > 1 for loop in around) else 1


def room(tree: Tree, machine: Machine) -> Iterator[Fact]:
    """That each tensor which steps have added between launches, as parts of sums, is a small share of the memory."""
    most = int((machine.memory or 0) * 2**30 * _SHARE)
    written = {tensor.name for tensor in tree.kernel.written_kernel.tensors}
    for buffer in scratch_buffers(tree):
        if most and buffer.role == "intermediate" and buffer.name not in written:
            bytes_: Formula = DTYPE_BYTES[buffer.dtype]
            for extent in buffer.shape:
                bytes_ = Operation("*", (bytes_, formula_of(extent)))
            yield Fact(f"{buffer.name} of at most {most / 2**30:g} GiB", Operation("<=", (bytes_, most)))


def limits(tree: Tree) -> Iterator[Fact]:
    """What steps such as `at_most` want of the sizes, beside what the kernel as written wants."""
    for condition in tree.kernel.assumptions[len(tree.kernel.written_kernel.assumptions) :]:
        yield Fact(show_fact(condition), Operation(">=", (formula_of(condition.value), 0)))


def order_of(tree: Tree) -> object:
    """What tells one order of summation from another: of each reduction the instruction that adds, and its loops over
    terms where a step has combined these in another order. None where that is not the same at each run."""
    found = []
    written = {equation.target: len(equation.loops) for equation in tree.kernel.equations}
    dtypes = {buffer.name: buffer.dtype for buffer in tree.buffers}
    for around, stmt in leaves(tree.body):
        # Of other types and reductions all orders give the same.
        rounds = stmt.reduce in ("sum", "prod") and dtypes.get(stmt.target.buffer) in FLOATS
        if stmt.atomic and (rounds or stmt.hits):
            return None
        if rounds and stmt.instance:
            by = next((loop.performed.instruction for loop in around if loop.performed), None)
            adds = by and (by.summations, tuple(str(each.extent) for each in by.equation.reduced))
            places = stmt.instance[written[stmt.name] :]
            over = [
                (str(p.coefficient(loop.name)), str(loop.extent), loop.kind)
                for p in places
                for loop in around
                if loop.name in p.names()
            ]
            found.append((stmt.name, adds, tuple(over) if tree.reassociated else ()))
    return tuple(dict.fromkeys(found))
