"""What a schedule says, before any of it is applied: calls with their arguments, as the text gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.ir.parameter_facts import Fact

LONGEST_NAME = 64  # kernels and tensors name entry points and files of compilers, which have limits of their own
WHAT_A_NAME_IS = f"a name has letters, digits and _, no digit first, {LONGEST_NAME} at most"
_NAME = re.compile(rf"[A-Za-z_][A-Za-z_0-9]{{0,{LONGEST_NAME - 1}}}")
_WORD = re.compile(rf"{_NAME.pattern}(\.[A-Za-z_0-9]{{1,{LONGEST_NAME}}})*")


def is_name(text: str) -> bool:
    """True of what the lexer takes for a NAME: the rule for names that come from Python or from a command."""
    return _NAME.fullmatch(text) is not None


def is_word(text: str) -> bool:
    """True of what the lexer takes for a WORD: `A.shared`, a name with the names or numbers of its parts."""
    return _WORD.fullmatch(text) is not None


def tensor_of_type(value: Setting) -> str:
    """Of `A.type` the tensor; empty where a parameter has another value."""
    found = re.fullmatch(rf"({_NAME.pattern})\.type", value) if isinstance(value, str) else None
    return found[1] if found else ""


@dataclass(frozen=True)
class Word:
    """A name: of a loop, a buffer (`A.shared`), a kind (`block.x`), a flag or a parameter."""

    text: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Number:
    """A number; `name` is that of the parameter that gave it."""

    value: int
    span: Span | None = field(default=None, compare=False, repr=False)
    name: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Arithmetic:
    """`left operator right` with operator one of + - * /; division must come out even."""

    operator: str
    left: Argument
    right: Argument
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Items:
    """A list in brackets."""

    items: tuple[Argument, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Dots:
    """The literal `...`: whatever is not named, as it is."""

    span: Span | None = field(default=None, compare=False, repr=False)


# The value of a parameter: a number, or a word that names a type or an instruction; A.type is the type of a tensor.
Setting = int | str
Argument = Word | Number | Arithmetic | Items | Dots


@dataclass(frozen=True)
class Keyword:
    name: str
    value: Argument
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class StepCall:
    """`word(arguments, name=value) -> results`.

    Attributes:
        text: the step as written, on one line.
        schedule: the name of the schedule in whose text it stands; another one may inherit it.
        composite: the step that this one is a part of, with the values of its arguments.
    """

    word: str
    arguments: tuple[Argument, ...]
    keywords: tuple[Keyword, ...] = ()
    results: tuple[Word, ...] = ()
    text: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
    schedule: str = field(default="", compare=False, repr=False)
    composite: StepCall | None = field(default=None, compare=False, repr=False)


def text_of_call(call: StepCall) -> str:
    """The call as a line of a schedule, with the values that its arguments have."""
    parts = [text_of_argument(a) for a in call.arguments]
    parts += [f"{k.name}={text_of_argument(k.value)}" for k in call.keywords]
    behind = f" -> {', '.join(r.text for r in call.results)}" if call.results else ""
    return f"{call.word}({', '.join(parts)}){behind}"


def text_of_argument(argument: Argument) -> str:
    match argument:
        case Word(text):
            return text
        case Number(value):
            return str(value)
        case Items(items):
            return f"[{', '.join(text_of_argument(i) for i in items)}]"
        case Dots():
            return "..."
        case Arithmetic(operator, left, right):
            sides = [
                f"({text_of_argument(a)})" if isinstance(a, Arithmetic) else text_of_argument(a) for a in (left, right)
            ]
            return f"{sides[0]} {operator} {sides[1]}"
        case _:
            raise TypeError(argument)


def names_in(argument: Argument) -> set[str]:
    """The words in what computes a number."""
    match argument:
        case Word(text):
            return {text}
        case Arithmetic(_, left, right):
            return names_in(left) | names_in(right)
        case _:
            return set()


def compute(argument: Argument, values: Mapping[str, Setting]) -> int:
    """The number that an argument is where names have these values.

    Raises SourceError where it has a name without a number, or a division does not come out even.
    """
    match argument:
        case Number(value):
            return value
        case Word(text, span):
            found = values.get(text)
            if not isinstance(found, int):
                notes = did_you_mean(text, values, "known are")
                raise SourceError(f"no number '{text}' is known here", span, notes=notes)
            return found
        case Arithmetic(operator, left, right, span):
            return apply_operator(operator, compute(left, values), compute(right, values), span)
        case _:
            raise TypeError(argument)


def apply_operator(operator: str, a: int, b: int, span: Span | None) -> int:
    """`a operator b`. Raises SourceError for a division that does not come out even."""
    if operator == "/":
        if b == 0 or a % b:
            raise SourceError(f"{a} / {b} does not come out even", span)
        return a // b
    return {"+": a + b, "-": a - b, "*": a * b}[operator]


@dataclass(frozen=True)
class Parameter:
    """A tunable number in a schedule's head, or a word: a type or an instruction.

    Attributes:
        default: of what is computed, the value that this gives for the kernel; 0 before the kernel is known.
        candidates: empty where only the default is meant.
        computed: how the value follows from others and from the types of tensors: 8 * V, 16 / A.bytes.
    """

    name: str
    default: Setting
    candidates: tuple[Setting, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    computed: Argument | None = None


@dataclass(frozen=True)
class Schedule:
    """`schedule name for kernel(parameters):` and its steps, the inherited ones among them.

    Attributes:
        kernels: all kernels that the text names; it gives one schedule for each.
        facts: what its candidates satisfy.
        form: of which schedule it has steps in other names, and what is called what: "gemm.across with M = T; i = t".
        differs: what tells its kernel from that of the schedule that it extends; empty where nothing does.
        bytes: of the elements of the kernel's tensors, as A.bytes, where a parameter is computed from them.
    """

    name: str
    kernel: str
    parameters: tuple[Parameter, ...]
    steps: tuple[StepCall, ...]
    doc: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
    kernel_span: Span | None = field(default=None, compare=False, repr=False)
    kernels: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    form: str = field(default="", compare=False)
    differs: str = field(default="", compare=False)
    bytes: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    def values(self, given: Mapping[str, Setting] = {}) -> dict[str, Setting]:
        """The values of all parameters: those that are given, and else the defaults, some of them computed from these.

        Raises SourceError where one cannot be computed.
        """
        computed = {p.name: p.computed for p in self.parameters if p.computed and p.name not in given}
        found = {p.name: given.get(p.name, p.default) for p in self.parameters if p.name not in computed}
        while computed:
            ready = (name for name, how in computed.items() if not names_in(how) & computed.keys())
            name = next(ready, next(iter(computed)))  # in a circle none is ready, and the first is reported
            found[name] = compute(computed.pop(name), {**self.bytes, **found})
        return {p.name: found[p.name] for p in self.parameters}

    def admits(self, values: Mapping[str, Setting]) -> bool:
        """True if these values of all parameters are as the `where` of the head wants them."""
        return all(fact.holds(values) for fact in self.facts)


@dataclass(frozen=True)
class Member:
    """`ping_pong(GROUP in {8, 16}) where K % 8 == 0`: a schedule, and the sizes that it is for.

    Attributes:
        parameters: values for parameters of the schedule, the first one as the default of each.
    """

    schedule: str
    parameters: tuple[Parameter, ...] = ()
    facts: tuple[Fact, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Family:
    """`family name for kernel:` and its members, of which sizes choose one.

    Attributes:
        kernels: all kernels that the text names; it gives one family for each.
    """

    name: str
    kernel: str
    members: tuple[Member, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Define:
    """`define word(parameters) -> results:` and its steps: a composite step."""

    word: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    steps: tuple[StepCall, ...]
    doc: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
