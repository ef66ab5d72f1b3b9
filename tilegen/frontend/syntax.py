"""What a text says before names are resolved: the expressions and declarations of a kernel, with their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from tilegen.errors import Source, Span
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.parameter_facts import Fact
from tilegen.ir.steps import Define, Family, Parameter, Schedule, StepCall

# -- expressions


@dataclass(frozen=True)
class Num:
    value: int | float
    span: Span


@dataclass(frozen=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True)
class Subscript:
    """`base[items]`: an element of a tensor."""

    base: Name
    items: tuple[Syntax, ...]
    span: Span


@dataclass(frozen=True)
class Apply:
    """`function(args)`."""

    function: Name
    args: tuple[Syntax, ...]
    span: Span


@dataclass(frozen=True)
class Reduction:
    """`word[items](body)`."""

    word: Name
    items: tuple[Syntax, ...]
    body: Syntax
    span: Span


@dataclass(frozen=True)
class Within:
    """`name in low..high`: a half-open range."""

    name: Name
    low: Syntax
    high: Syntax
    span: Span


@dataclass(frozen=True)
class Fallback:
    """`read else value`."""

    read: Syntax
    value: Syntax
    span: Span


@dataclass(frozen=True)
class Choice:
    """`then if condition else other`."""

    then: Syntax
    condition: Syntax
    other: Syntax
    span: Span


@dataclass(frozen=True)
class Hit:
    """`(items) if condition`: what a list keeps of a point, and whether it does."""

    items: tuple[Syntax, ...]
    condition: Syntax
    span: Span


@dataclass(frozen=True)
class Unary:
    operator: str
    arg: Syntax
    span: Span


@dataclass(frozen=True)
class Binary:
    operator: str
    left: Syntax
    right: Syntax
    span: Span


Syntax = Num | Name | Subscript | Apply | Reduction | Within | Fallback | Choice | Hit | Unary | Binary


def parts_of(value: Syntax) -> Iterator[Syntax]:
    """The expressions that `value` is made of; tensor and function names are none."""
    for held in fields(value):
        if held.name not in ("base", "function", "word", "name"):
            part = getattr(value, held.name)
            yield from (item for item in (part if isinstance(part, tuple) else (part,)) if isinstance(item, Syntax))


def subexpressions(value: Syntax) -> Iterator[Syntax]:
    """`value` and every expression inside it, parents first."""
    yield value
    for part in parts_of(value):
        yield from subexpressions(part)


# -- declarations


@dataclass(frozen=True)
class Param:
    """`name: type[shape] storage = default`; shape, storage and default are None where absent."""

    name: Name
    type: Name
    shape: tuple[Syntax, ...] | None
    storage: StorageOrder | None
    default: Syntax | None
    span: Span


@dataclass(frozen=True)
class StorageOrder:
    """`col_major`, `row_major` or `order(2, 0, 1)`."""

    word: Name
    dims: tuple[Syntax, ...] | None
    span: Span


@dataclass(frozen=True)
class Assign:
    """`target[index] = value for condition`; of a list the target is what counts its hits, and `kept` the left side.

    With `rows`, a range that data give, each index of the left side takes its value from the row that it is in.
    """

    target: Subscript
    value: Syntax
    condition: Syntax | None
    span: Span
    kept: Subscript | None = None
    rows: Within | None = None


@dataclass(frozen=True)
class ClaimDecl:
    """`target[index] approximates value within slack`; slack is None where absent."""

    target: Subscript
    value: Syntax
    slack: Syntax | None
    span: Span


@dataclass(frozen=True)
class BesideLine:
    """`beside libraries texts with options`; the texts, which are one, have their quotes."""

    libraries: tuple[Name, ...]
    texts: tuple[Name, ...]
    options: tuple[Name, ...]
    span: Span


@dataclass(frozen=True)
class FunctionDecl:
    """`def name(parameters) = body`."""

    name: Name
    parameters: tuple[Name, ...]
    body: Syntax
    span: Span


@dataclass(frozen=True)
class KernelDecl:
    """A kernel as the text declares it; `build` turns it into a `Kernel`.

    `attributes` are its integer attributes and their defaults, None where there is none, `fractions` those of `float`.
    """

    name: str
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    variables: tuple[Param, ...]
    assumptions: tuple[Syntax, ...]
    equations: tuple[Assign, ...]
    claims: tuple[ClaimDecl, ...]
    attributes: Mapping[str, int | None]
    functions: Mapping[str, FunctionDecl]
    doc: str
    span: Span
    beside: tuple[BesideLine, ...] = ()
    fractions: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def constants(self) -> Mapping[str, float | None]:
        """The attributes of either kind, and their defaults."""
        return {**self.attributes, **self.fractions}

    def size_names(self) -> tuple[str, ...]:
        """The symbolic sizes in the order of their first use in a shape."""
        params = (*self.inputs, *self.outputs, *self.variables)
        inside = (part for param in params for dim in param.shape or () for part in subexpressions(dim))
        return tuple(dict.fromkeys(n.text for n in inside if isinstance(n, Name) and n.text not in self.attributes))


@dataclass(frozen=True)
class Change:
    """What a schedule says of the steps that it inherits.

    Attributes:
        where: "before", "after" or "instead of" `inherited` stand `steps`, or the schedule goes "without" it. None for
            a step alone, which replaces the inherited one of its word and first argument, or stands at the end.
        inherited: the word of an inherited step, and as many of its arguments as tell it from others.
    """

    where: str | None
    inherited: StepCall | None
    steps: tuple[StepCall, ...]


@dataclass(frozen=True)
class ScheduleDecl:
    """A schedule as its text has it: `schedule name for kernels extends base(parameters) where facts:` and its lines.

    Attributes:
        kernels: none where it is for those of `base`.
        base: `name`, a schedule of this text, or `file.name`, one of a stock file; None where all steps are written.
    """

    name: Name
    kernels: tuple[Name, ...]
    base: Name | None
    parameters: tuple[Parameter, ...]
    changes: tuple[Change, ...]
    doc: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Operand:
    """`name: type[shape] as format`; format is None where absent."""

    param: Param
    format: Name | None
    span: Span


@dataclass(frozen=True)
class Layout:
    """`element in lane expression, register expression`."""

    element: Subscript
    lane: Syntax
    register: Syntax
    span: Span


@dataclass(frozen=True)
class RowsLayout:
    """`element in shared at lane expression, element expression`; the last one is `within` the row of the lane."""

    element: Subscript
    lane: Syntax
    within: Syntax
    span: Span


@dataclass(frozen=True)
class DescribedLayout:
    """`element in shared by descriptor, rows along index`."""

    element: Subscript
    along: Name
    span: Span


@dataclass(frozen=True)
class SumLine:
    """`accumulates terms at a time with bits fraction bits, rounding to kept fraction bits, since arch`.

    `exactly` has none of these. Without `arch` it speaks of the architecture in the head.
    """

    terms: Num | None
    bits: Num | None
    rounding: str
    kept: Num | None
    arch: Name | None
    span: Span


@dataclass(frozen=True)
class InstructionDecl:
    """An instruction as the text declares it; `build_instruction` turns it into an `Instruction`.

    `operands` are the inputs and, last, the output. It runs on `arch` `and_later` ones, or on that alone. With a
    `protocol` its lanes go on while it runs.
    """

    name: Name
    operands: tuple[Operand, ...]
    unit: Name
    arch: Name
    and_later: bool
    equations: tuple[Assign, ...]
    accumulates: bool
    layouts: tuple[Layout | RowsLayout | DescribedLayout, ...]
    protocol: Name | None
    sums: tuple[SumLine, ...]
    ptx: Name
    doc: str
    text: str

    def names(self) -> dict[str, Operand]:
        """The operands by name."""
        return {operand.param.name.text: operand for operand in self.operands}

    def head(self) -> KernelDecl:
        """The kernel that the instruction computes."""
        *inputs, output = (operand.param for operand in self.operands)
        name, span = self.name.text, self.name.span
        return KernelDecl(name, tuple(inputs), (output,), (), (), self.equations, (), {}, {}, self.doc, span)


@dataclass(frozen=True)
class Module:
    """A file: its kernels and its instructions by name, its schedules and composite steps in order; the texts of the
    files whose schedules it extends; its families of schedules."""

    kernels: Mapping[str, KernelDecl]
    schedules: tuple[Schedule, ...]
    defines: tuple[Define, ...]
    source: Source = field(compare=False)
    instructions: Mapping[str, Instruction] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    families: tuple[Family, ...] = ()
