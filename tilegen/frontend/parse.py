"""From a text to its declarations: lark parses it, and the functions here turn the parse tree into values."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from threading import Lock

from lark import Lark, Token
from lark.exceptions import UnexpectedInput
from lark.indenter import DedentError, Indenter

from tilegen.errors import Collected, Source, SourceError, join_errors
from tilegen.frontend.build import build_with_defaults
from tilegen.frontend.data import data_folder, stock_source
from tilegen.frontend.extend import Texts, flat_schedules
from tilegen.frontend.files import read_file
from tilegen.frontend.instructions.build import DeclaredInstructions, chained
from tilegen.frontend.kernels import kernel
from tilegen.frontend.parsing import calls, machine
from tilegen.frontend.parsing.complain import complain, misaligned_error
from tilegen.frontend.parsing.expressions import convert, name
from tilegen.frontend.parsing.families import Family, family
from tilegen.frontend.parsing.place import Branch, Place, branch, branches, rule
from tilegen.frontend.parsing.scan import check_text
from tilegen.frontend.parsing.serving import families_of_schedules
from tilegen.frontend.syntax import (
    FunctionDecl,
    InstructionDecl,
    KernelDecl,
    Module,
    Name,
    ScheduleDecl,
)
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.nodes import DTYPE_BYTES, REDUCTIONS, Kernel
from tilegen.ir.parts.operations import OPERATIONS
from tilegen.ir.steps import Define, Schedule
from tilegen.ir.steps import Family as ScheduleFamily

# What the functions below and in other modules recurse over stays well inside Python's own limit.
_DEEPEST = 120


class _Misaligned(Exception):
    """A line that goes back to an indentation that no open block has."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self.token = token


class _Lines(Indenter):
    """Blocks by indentation; line ends inside brackets mean nothing."""

    NL_type = "_NL"
    OPEN_PAREN_types = ["LPAR", "LSQB", "LBRACE"]
    CLOSE_PAREN_types = ["RPAR", "RSQB", "RBRACE"]
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8

    def handle_NL(self, token: Token) -> Iterator[Token]:
        try:
            yield from super().handle_NL(token)
        except DedentError:
            raise _Misaligned(token) from None


# What can follow is compiled by lark when it comes there first, which takes longer than to read a schedule: this goes
# to where ordinary texts go.
_ORDINARY = """
kernel k(A: f32[M, N], B: f32[N]) -> C: f32[M]:
    C[i] = sum[j](A[i, j] * B[j])
schedule s for k(T=1):
    tile(i, T) -> o, t
    cache(A, at=o, layout=[i, j], vector=4)
"""


@cache
def _parser() -> Lark:
    grammar = (data_folder("grammar") / "tilegen.lark").read_text(encoding="utf-8")
    parser = Lark(grammar, parser="lalr", lexer="contextual", postlex=_Lines(), keep_all_tokens=True)
    parser.parse(_ORDINARY)
    return parser


_ITEM = re.compile(r"(kernel|schedule|family|define|def|instruction)\b")  # what a line begins with that begins an item

_one_at_a_time = Lock()  # the indenter keeps its state in the parser


def parse(source: Source) -> Module:
    """The kernels, schedules and composite steps of a text. Raises SourceError.

    A schedule that extends `gemm.across` extends the schedule `across` of the stock file `gemm`, or, where there is no
    stock file of that name, of the file gemm.tg in the folder of this one.
    """
    module = _parse(source, ())
    _declared(module).check()
    return module


def parse_instructions(source: Source) -> DeclaredInstructions:
    """The instructions of a text by name, each built where somebody asks for it. SourceError may come as late."""
    return _declared(_parse(source, ()))


def _declared(module: Module) -> DeclaredInstructions:
    """Those of the text itself, which come before those of other files."""
    assert isinstance(module.instructions, ChainMap)
    own = module.instructions.maps[0]
    assert isinstance(own, DeclaredInstructions)
    return own


def _parse(source: Source, around: tuple[str, ...]) -> Module:
    """`parse`; `around` are files that wait for this one, because their schedules extend some of it."""
    if source.text.startswith("\ufeff"):
        source = Source(source.name, source.text[1:])
    place = Place(source, check_text(source))
    try:
        with _one_at_a_time:
            tree = _parser().parse(place.text)
    except UnexpectedInput as error:
        raise join_errors([complain(place, error), *_errors_behind(place, error)]) from None
    except _Misaligned as error:
        raise misaligned_error(place, error.token) from None
    _check_depth(place, tree)
    return _module(place, tree, around)


def _errors_behind(place: Place, first: UnexpectedInput) -> Iterator[SourceError]:
    """The syntax errors of the items after that of the first error, each read by itself.

    None where that item, read by itself, has no error or another one: then the error was not its own, as where a
    bracket of it is open.
    """
    lines, at = place.text.split("\n"), _line_of(first)
    starts = [number for number, line in enumerate(lines) if _ITEM.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        if at is None or end < at:
            continue
        alone = "\n".join([*[""] * start, *lines[start:end], ""])
        error = _syntax_error(alone)
        if start < at <= end:
            if error is None or _line_of(error) != at:
                return
        elif isinstance(error, UnexpectedInput):
            yield complain(Place(place.source, alone), error)


def _line_of(error: UnexpectedInput) -> int | None:
    line = getattr(error, "line", None)
    return line if isinstance(line, int) and line > 0 else None


def _syntax_error(text: str) -> UnexpectedInput | None:
    try:
        with _one_at_a_time:
            _parser().parse(text)
    except UnexpectedInput as error:
        return error
    except _Misaligned:
        return None
    return None


def _check_depth(place: Place, tree: Branch) -> None:
    if _height(tree) <= _DEEPEST:
        return
    depths: dict[int, int] = {}
    for node in tree.iter_subtrees():
        depth = max((depths[id(c)] for c in branches(node.children)), default=0) + (rule(node) != "bracketed")
        depths[id(node)] = depth
        if depth > _DEEPEST:
            raise SourceError(
                f"this expression is nested more than {_DEEPEST} deep",
                place.of(node),
                notes=("split it into several equations with 'var'",),
            )


def _height(tree: Branch) -> int:
    """How many branches are inside one another at most."""
    level: list[Branch] = [tree]
    height = 0
    while level:
        height += 1
        level = branches(chain.from_iterable([node.children for node in level]))
    return height


def _module(place: Place, tree: Branch, around: tuple[str, ...]) -> Module:
    functions: dict[str, FunctionDecl] = {}
    kernels: dict[str, KernelDecl] = {}
    schedules: list[ScheduleDecl] = []
    serving: list[ScheduleFamily] = []
    defines: list[Define] = []
    instructions: dict[str, InstructionDecl] = {}
    families: dict[str, Family] = {}
    collected = Collected()
    items = branches(tree.children)
    for item in items:
        if rule(item) == "function":
            with collected:
                function = _new_function(place, item, functions)
                functions[function.name.text] = function
    for item in items:
        with collected:
            match rule(item):
                case "kernel":
                    declared = kernel(place, item, functions)
                    _check_new(Name(declared.name, declared.span), kernels, "kernel")
                    kernels[declared.name] = declared
                case "schedule" | "extension":
                    schedule = calls.schedule(place, item)
                    _check_new(schedule.name, {s.name.text for s in schedules}, "schedule")
                    schedules.append(schedule)
                case "serving":
                    serving += families_of_schedules(place, item)
                case "define":
                    define = calls.define(place, item)
                    assert define.span
                    _check_new(Name(define.word, define.span), {d.word for d in defines}, "step")
                    defines.append(define)
                case "instruction":
                    instruction = machine.instruction(place, item)
                    _check_new(instruction.name, instructions, "instruction")
                    instructions[instruction.name.text] = instruction
                case "family":
                    several = family(place, item)
                    for member in several.members:
                        _check_new(replace(several.name, text=member), {*instructions, *families}, "instruction")
                    families |= dict.fromkeys(several.members, several)
                case "function":
                    pass
                case _:
                    raise TypeError(item.data)
    collected.raise_any()
    own = DeclaredInstructions(instructions, families, _member)
    module = _flatten(kernels, schedules, defines, own, place.source, around)
    return replace(module, families=tuple(serving))


def _member(several: Family, name: str) -> InstructionDecl:
    """The declaration of a member of a family."""
    source = several.member(name)
    place = Place(source, check_text(source))
    try:
        with _one_at_a_time:
            tree = _parser().parse(place.text)
    except UnexpectedInput as error:
        raise complain(place, error) from None
    (item,) = branches(tree.children)
    return machine.instruction(place, item)


def _flatten(
    kernels: dict[str, KernelDecl],
    schedules: list[ScheduleDecl],
    defines: list[Define],
    instructions: Mapping[str, Instruction],
    source: Source,
    around: tuple[str, ...],
) -> Module:
    """The module of these, each schedule with all of its steps.

    What schedules inherit from another file may be for its kernels and use its composite steps and instructions: these
    come with it.
    """
    extended: dict[str, Module] = {}

    def stock(file: str) -> tuple[Schedule, ...]:
        module = extended.get(file) or (None if file in around else _other_module(file, (*around, file), source.name))
        extended.update({file: module} if module else {})
        return module.schedules if module else ()

    @cache
    def kernel_of(file: str, name: str) -> Kernel | None:
        of_file = {**_example_kernels(file), **extended[file].kernels} if file else kernels
        return build_with_defaults(of_file[name]) if name in of_file else None

    def defines_of(file: str) -> Mapping[str, Define]:
        return {each.word: each for each in (extended[file].defines if file else defines)}

    flat = flat_schedules(schedules, texts := Texts(stock, kernel_of, defines_of))
    wanted = {schedule.kernel for schedule in flat}
    inherited = {n: k for module in extended.values() for n, k in module.kernels.items() if n in wanted}
    words = (
        {d.word: d for module in extended.values() for d in module.defines}
        | {d.word: d for d in defines}
        | texts.renamed
    )
    others_texts = [text for module in extended.values() for text in (module.source.text, *module.texts)]
    known = chained(instructions, *(module.instructions for module in extended.values()))
    return Module(inherited | kernels, flat, tuple(words.values()), source, known, tuple(others_texts))


def _other_module(file: str, around: tuple[str, ...], beside: str) -> Module | None:
    """The stock file of this name, or the one in the folder of the file `beside`; None where there is neither."""
    if module := stock_schedules(file):
        return module
    path = Path(beside).with_name(f"{file}.tg")
    text = read_file(str(path))
    return None if text is None else _parse(Source(str(path), text), around)


@cache
def stock_schedules(file: str) -> Module | None:
    """What schedules/ holds under this name; None where there is no such file."""
    there = (data_folder("schedules") / f"{file}.tg").is_file()
    return parse(stock_source("schedules", file)) if there else None


@cache
def _example_kernels(file: str) -> Mapping[str, KernelDecl]:
    """The kernels of a stock file whose schedules lie in another folder."""
    there = (data_folder("examples") / f"{file}.tg").is_file()
    return _parse(stock_source("examples", file), ()).kernels if there else {}


def _check_new(word: Name, known: object, what: str) -> None:
    assert isinstance(known, (dict, set))
    if word.text in known:
        raise SourceError(f"the {what} '{word.text}' is defined twice", word.span)


def _new_function(place: Place, tree: Branch, known: Mapping[str, FunctionDecl]) -> FunctionDecl:
    function = _function(place, tree)
    _check_new(function.name, known, "function")
    if function.name.text in (*OPERATIONS, *REDUCTIONS, *DTYPE_BYTES):
        text = f"'{function.name.text}' has a meaning already; take another name"
        raise SourceError(text, function.name.span)
    return function


def _function(place: Place, tree: Branch) -> FunctionDecl:
    _, word, _, parameters, _, _, body, _ = tree.children
    names = tuple(name(place, p) for p in branch(parameters).children[::2])
    seen: set[str] = set()
    for parameter in names:
        _check_new(parameter, seen, "parameter")
        seen.add(parameter.text)
    return FunctionDecl(name(place, word), names, convert(place, branch(body)), place.of(tree))
