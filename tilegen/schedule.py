"""Applying a schedule: expand the composite steps, bind each call to its primitive, build, judge, record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from math import prod
from operator import attrgetter, index, is_
from typing import Any, SupportsIndex

from tilegen.errors import (
    LARGEST,
    IllegalStep,
    SourceError,
    StepError,
    TilegenError,
    UsageError,
    check_64_bits,
    did_you_mean,
    integers,
)
from tilegen.ir.nodes import Kernel, Loop, Node, Stmt, Tree
from tilegen.ir.printing.shown import counted
from tilegen.ir.steps import (
    WHAT_A_NAME_IS,
    Argument,
    Define,
    Dots,
    Items,
    Keyword,
    Number,
    Schedule,
    Setting,
    StepCall,
    Word,
    is_word,
    tensor_of_type,
    text_of_argument,
    text_of_call,
)
from tilegen.ir.verify import verify
from tilegen.ir.walk import find_loop, leaves, loops, nodes
from tilegen.ir.written import tree_of
from tilegen.judge import judge as judge_tree
from tilegen.primitives import Primitive
from tilegen.primitives.calling.call import Instructions, bind
from tilegen.primitives.calling.collapsed import loop_by_loop
from tilegen.primitives.calling.composite import expand, names_in
from tilegen.primitives.calling.named import named_after
from tilegen.primitives.fuse import Fuse
from tilegen.primitives.rewriting.tree import MissingLoop

Judge = Callable[["Stage"], "Stage"]  # raises where it refuses

DEEPEST = 64  # loops inside one another


@dataclass(frozen=True)
class Stage:
    """One step of a schedule and the tree after it. The first stage of a schedule has no step."""

    step: StepCall | None
    tree: Tree

    def __repr__(self) -> str:
        return f"<Stage {self.step.text if self.step else 'as written'}>"


@dataclass(frozen=True)
class Derivation:
    """A kernel, and the trees that the steps of a schedule have made of it, one after the other.

    Attributes:
        stages: the tree as written, then the tree after each primitive step.
        parameters: the values of the schedule's parameters.
        instructions: finds those that a step may name.
    """

    kernel: Kernel
    name: str
    stages: tuple[Stage, ...]
    parameters: Mapping[str, Setting] = field(default_factory=dict)
    doc: str = ""
    instructions: Instructions = dict

    @property
    def tree(self) -> Tree:
        return self.stages[-1].tree

    @property
    def as_schedule(self) -> Schedule:
        """The steps as a schedule without parameters: its text gives the same tree."""
        calls = (stage.step for stage in self.stages if stage.step)
        steps = (replace(call, text=text_of_call(call)) for call in calls)
        return Schedule(self.name, self.kernel.name, (), tuple(steps), self.doc, kernels=(self.kernel.name,))

    def __repr__(self) -> str:
        return f"<Derivation of {self.kernel.name} by {self.name}, {counted(self.stages[1:], 'step')}>"

    @property
    def title(self) -> str:
        """What a text made of it says at its head: the kernel, the schedule and its parameters."""
        values = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"kernel {self.kernel.name}, schedule {self.name}" + (f" ({values})" if values else "")

    def step(self, word: str, *arguments: object, into: object = (), **keywords: object) -> Derivation:
        """This with one more primitive step, judged. Names after `->` are given as `into`.

        Raises StepError where the step cannot be built, IllegalStep where the judge refuses it.
        """
        return self.then((call_of(word, arguments, into, keywords),))

    def then(self, calls: tuple[StepCall, ...], *, accepted: bool = False) -> Derivation:
        """This with more primitive steps, each judged unless the judge has accepted them before.

        Raises what `step` raises.
        """
        return replace(self, stages=_apply_calls(self.stages, calls, self.instructions, _judge_of(accepted)))

    def repeat(self, kernel: Kernel) -> Derivation:
        """The steps on a kernel that differs in what is fixed, without the judge. Raises what `step` raises."""
        calls = tuple(stage.step for stage in self.stages if stage.step)
        return start(kernel, self.instructions).then(calls, accepted=True)


def call_of(word: str, arguments: tuple[object, ...], into: object, keywords: Mapping[str, object]) -> StepCall:
    """A step given from Python. Raises StepError for a value that no step takes."""
    results = (into,) if isinstance(into, str) else into
    if not isinstance(results, tuple | list) or not all(isinstance(r, str) for r in results):
        raise StepError(f"into={into!r} is no name, and no list of names")
    for result in results:
        if not is_word(result):
            raise StepError(f"{result!r:.80} cannot be a name", notes=(WHAT_A_NAME_IS,))
    call = StepCall(
        word,
        tuple(_argument(a) for a in arguments),
        tuple(Keyword(name, _argument(value)) for name, value in keywords.items()),
        tuple(Word(r) for r in results),
    )
    return replace(call, text=text_of_call(call))


def start(kernel: Kernel, instructions: Instructions = dict) -> Derivation:
    """`kernel` with no step applied."""
    return Derivation(kernel, "unscheduled", (_start_stage(kernel),), instructions=instructions)


def apply(
    kernel: Kernel,
    schedule: Schedule,
    parameters: Mapping[str, Setting] | None = None,
    defines: Mapping[str, Define] | None = None,
    instructions: Instructions = dict,
    *,
    accepted: bool = False,
) -> Derivation:
    """`schedule` applied to `kernel`, every step judged.

    Args:
        parameters: values for parameters of the schedule's head, in place of their defaults.
        defines: the composite steps by their word.
        instructions: finds those that a step may name.
        accepted: the judge has accepted all of this before, and is not asked again.

    Raises:
        SourceError: an unknown step or parameter, or arguments that do not fit.
        StepError: a step that cannot be built.
        IllegalStep: a step that the judge refuses, with its witness.

    An error in a step that the schedule inherits says so, and so does one in a schedule that is for several kernels.
    """
    values, judge = _parameters(schedule, parameters or {}, kernel), _judge_of(accepted)
    ahead = {result.text for call in schedule.steps for result in call.results}
    stages: tuple[Stage, ...] = (judge(_start_stage(kernel)),)
    for call in schedule.steps:
        try:
            steps = expand(call, defines or {}, names_in(stages[-1].tree) | ahead, values)
            stages = _apply_calls(stages, steps, instructions, judge)
        except TilegenError as error:
            error.notes += _origin(call, schedule) + _inherited_alike(call, schedule)
            raise
    return Derivation(kernel, schedule.name, stages, values, schedule.doc, instructions)


def _origin(call: StepCall, schedule: Schedule) -> tuple[str, ...]:
    """What a message about a step of `schedule` says of where it is from and which kernel it is applied to."""
    notes = []
    if call.schedule not in ("", schedule.name):
        notes += [f"'{schedule.name}' inherits this step from '{call.schedule}'"]
        notes += [f"by form: {schedule.form}"] * bool(schedule.form) + [schedule.differs] * bool(schedule.differs)
    if len(schedule.kernels) > 1:
        notes += [f"'{schedule.name}' is applied to the kernel '{schedule.kernel}' here"]
    return tuple(notes)


def _inherited_alike(call: StepCall, schedule: Schedule) -> tuple[str, ...]:
    """Whether a step that `schedule` adds was to replace an inherited one of its word, with a name in common."""
    names = set(call.arguments)
    for other in schedule.steps:
        shared = any(isinstance(name, Word) and name in names for name in other.arguments)
        if call.schedule == schedule.name != other.schedule and call.word == other.word and shared:
            way = f"instead of {call.word}({text_of_argument(other.arguments[0])}):"
            return (f"is it to replace {other.text}, which '{schedule.name}' inherits? '{way}' does",)
    return ()


def _start_stage(kernel: Kernel) -> Stage:
    try:
        return Stage(None, _check_size(tree_of(kernel), when=""))
    except StepError as error:
        raise SourceError(error.message, kernel.span) from None


def judge_stage(stage: Stage) -> Stage:
    """`stage`, unless the judge refuses its tree: then IllegalStep at its step."""
    violation = judge_tree(verify(stage.tree))
    if violation is None:
        return stage
    step = stage.step
    message = f"{step.word}: {violation.sentence}" if step else violation.sentence
    span = step.span if step else stage.tree.kernel.span
    raise IllegalStep(message, span, witness=violation.witness, notes=violation.notes, code=violation.code)


def _judge_of(accepted: bool) -> Judge:
    return (lambda stage: stage) if accepted else judge_stage


def _apply_calls(
    stages: tuple[Stage, ...], calls: tuple[StepCall, ...], instructions: Instructions, judge: Judge
) -> tuple[Stage, ...]:
    for call in calls:
        before = stages[-1].tree
        try:
            step = loop_by_loop(bind(call, instructions), before)
            after = _mark_tree(_check_size(step.apply(before)), before, call)
            after = replace(after, named=named_after(before.named, step, call))
        except TilegenError as error:
            raise _with_history(error, stages).at(call.span) from None
        try:
            stages += (judge(Stage(call, after)),)
        except IllegalStep as error:
            error.notes += _other_ways(step, before)
            raise
    return stages


def _with_history(error: TilegenError, stages: tuple[Stage, ...]) -> TilegenError:
    """The error, with the step that has taken the loop where one is missing that was there."""
    if not isinstance(error, MissingLoop):
        return error
    for before, after in reversed([*pairwise(stages)]):
        if after.step and find_loop(before.tree, error.loop):
            error.message += f" any more: {after.step.text} has taken it"
            error.notes = error.notes[-1:]
            break
    return error


def _other_ways(step: Primitive, before: Tree) -> tuple[str, ...]:
    """What could stand in the place of a step that the judge refuses, and is tried."""
    wider = step.with_all_between(before) if isinstance(step, Fuse) else None
    try:
        legal = wider and judge_tree(verify(wider.apply(before))) is None
    except StepError:
        return ()
    return (f"fuse({', '.join(wider.loops)}) takes what stands between them, too",) if wider and legal else ()


def _check_size(tree: Tree, when: str = " after this step") -> Tree:
    """`tree`, if its loops are no deeper and no longer than all that works on trees can take. Raises StepError."""
    for path, _ in leaves(tree.body):
        if len(path) > DEEPEST:
            raise StepError(f"loops are nested {len(path)} deep{when}; {DEEPEST} is the limit")
        if prod(loop.extent.const for loop in path if loop.extent.is_const) > LARGEST:
            raise StepError(f"nested loops have more iterations{when} than 64 bits count")
    return tree


def _mark_tree(after: Tree, before: Tree, call: StepCall) -> Tree:
    """`after` with the step's text on every loop and statement that it made or bound, and on buffers."""
    old, found = {b.name for b in before.buffers}, [*loops(before.body)]
    was = dict(zip(map(_name_of, found), map(_way_of_running, found), strict=True))
    kept = set(map(id, nodes(before.body)))
    buffers = tuple(b if b.name in old else replace(b, step=call.text, span=call.span) for b in after.buffers)
    return replace(after, buffers=buffers, body=_mark_nodes(after.body, call, was, kept))


def _mark_nodes(body: tuple[Node, ...], call: StepCall, was: Mapping[str, object], kept: set[int]) -> tuple[Node, ...]:
    """`body` with the step's text where it is due; `kept` are nodes of the tree before, `was` how its loops ran."""
    return tuple([node if id(node) in kept else _mark_node(node, call, was, kept) for node in body])


def _mark_node(node: Node, call: StepCall, was: Mapping[str, object], kept: set[int]) -> Node:
    if isinstance(node, Stmt):
        return replace(node, step=call.text, span=call.span) if node.is_copy and not node.step else node
    body = _mark_nodes(node.body, call, was, kept)
    new: dict[str, Any] = {} if all(map(is_, body, node.body)) else {"body": body}
    if was.get(node.name) != _way_of_running(node):
        known = node.step.split("; ") if node.name in was and node.step else []
        new |= {"step": "; ".join(dict.fromkeys([*known, call.text])), "span": call.span or node.span}
    return replace(node, **new) if new else node


# How a loop runs, which a step can change; tensorize, which says what performs it, makes its kind another, too.
_name_of, _FLAGS = (
    attrgetter("name"),
    {f.name for f in fields(Loop) if f.compare} - {"name", "extent", "body", "performed"},
)
_way_of_running = attrgetter(*sorted(_FLAGS))


# -- parameters


def settings(values: Mapping[str, object]) -> dict[str, Setting]:
    """The values of parameters by their names: words as they are, numbers as integers of Python's.

    Raises:
        UsageError: a value is neither, or beyond 64 bits.
    """
    words = {name: value for name, value in values.items() if isinstance(value, str)}
    return words | integers({name: value for name, value in values.items() if name not in words})


def _parameters(schedule: Schedule, given: Mapping[str, Setting], kernel: Kernel) -> dict[str, Setting]:
    """The values of all parameters, in place of `A.type` the type of the kernel's A."""
    types = {tensor.name: tensor.dtype for tensor in kernel.tensors}
    found = dict[str, Setting]()
    known = [p.name for p in schedule.parameters]
    for parameter in schedule.parameters:
        value = given.get(parameter.name, parameter.default)
        if isinstance(value, str) != isinstance(parameter.default, str):
            kind = "a word" if isinstance(parameter.default, str) else "an integer"
            raise UsageError(f"the parameter '{parameter.name}' is {kind}, and not {value!r:.80}", parameter.span)
    for parameter, value in zip(schedule.parameters, schedule.values(given).values(), strict=True):
        tensor = tensor_of_type(value)
        if tensor and tensor not in types:
            notes = did_you_mean(tensor, types, "its tensors are")
            raise StepError(f"kernel '{kernel.name}' has no tensor '{tensor}'", parameter.span, notes=notes)
        found[parameter.name] = types[tensor] if tensor else value
    for name in given:
        if name not in known:
            notes = did_you_mean(name, known, "its parameters are")
            raise StepError(f"schedule '{schedule.name}' has no parameter '{name}'", schedule.span, notes=notes)
    return found


# -- steps given from Python


def _argument(value: object) -> Argument:
    match value:
        case bool():
            raise StepError(f"{value} is no argument of a step: names, numbers, lists and ... are")
        case SupportsIndex():
            return Number(check_64_bits("an argument", index(value)))
        case "...":
            return Dots()
        case str() if is_word(value):
            return Word(value)
        case list() | tuple():
            return Items(tuple(_argument(v) for v in value))
        case _ if value is Ellipsis:
            return Dots()
        case _:
            raise StepError(f"{value!r} is no argument of a step: names, numbers, lists and ... are")
