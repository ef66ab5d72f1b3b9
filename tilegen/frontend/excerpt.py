"""Parts of a text as they are written: a kernel, a schedule, and a text that holds one of each with all they need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilegen.errors import Span
from tilegen.frontend.syntax import FunctionDecl, KernelDecl, Module
from tilegen.frontend.unparse import text_of_schedule
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.steps import Define, Schedule, StepCall

# What begins a kernel, a schedule, ... or the comment above it: all else belongs to the item before.
_ITEM = re.compile(r"(#|(kernel|schedule|family|define|def|instruction)\b)")


def written(span: Span, comment: bool = True) -> str:
    """The item of a text whose head is on the line of `span`, with the comment above it, without blank lines around."""
    lines = span.source.text.replace("\r\n", "\n").split("\n")
    first = last = span.line - 1
    while comment and first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    while last + 1 < len(lines) and not _ITEM.match(lines[last + 1]):
        last += 1
    return "\n".join(lines[first : last + 1]).strip("\n")


def title(module: Module) -> str:
    """The comment that a text begins with, up to a blank line, on one line; empty where there is none."""
    found = re.match(r"\s*((?:#.*(?:\n|$))+)", module.source.text)
    lines = [line.lstrip("#").strip() for line in found[1].splitlines()] if found else []
    return " ".join(" ".join(lines).split())


def signature(kernel: KernelDecl) -> str:
    """The head of a kernel on one line, without its colon."""
    head = ""
    for line in written(kernel.span, comment=False).split("\n"):
        head = f"{head} {line.partition('#')[0].strip()}"
        if head.endswith(":"):
            break
    return head.removesuffix(":").strip()


def self_contained(module: Module, schedule: Schedule, standard: Iterable[str]) -> str:
    """A text of `schedule`, with all of its steps, and its kernel, which needs no other text.

    Args:
        standard: the words of composite steps that every text has.
    """
    return _with_kernel(module, schedule.kernel, [schedule], [text_of_schedule(schedule)], standard)


def kernel_alone(module: Module, kernel: str) -> str:
    """A text of a kernel, which needs no other text."""
    return _with_kernel(module, kernel, [], [], ())


def as_written(module: Module, schedules: Sequence[Schedule], standard: Iterable[str]) -> str:
    """A text of schedules of one kernel as written, with those of the same text that they extend, and the kernel."""
    wanted = {name for schedule in schedules for name in _with_bases(module, schedule)}
    spans = {s.name: s.span for s in module.schedules if s.name in wanted and s.span}
    return _with_kernel(module, schedules[0].kernel, schedules, [written(span) for span in spans.values()], standard)


def _with_bases(module: Module, schedule: Schedule) -> Iterator[str]:
    """The names of a schedule and of those that it extends, itself first, as far as they stand in the text."""
    spans = {s.name: s.span for s in module.schedules}
    name: str | None = schedule.name
    while name and (span := spans.get(name)):
        yield name
        found = re.match(r"schedule[^(:]*?\bextends\s+([\w.]+)", written(span, comment=False))
        name = found[1] if found else None


def _with_kernel(
    module: Module, name: str, schedules: Sequence[Schedule], texts: Sequence[str], standard: Iterable[str]
) -> str:
    """The texts after that of their kernel, with all functions, composite steps and instructions that these need."""
    kernel = module.kernels[name]
    own = {d.word: d for d in module.defines if d.word not in set(standard)}
    defines = _used_defines([step for schedule in schedules for step in schedule.steps], own)
    parts = [written(function.span) for function in _used_functions(kernel)]
    parts += [_text_of_instruction(each) for each in _used_instructions(module, [*schedules, *defines])]
    parts += [written(kernel.span), *(written(d.span) for d in defines if d.span), *texts]
    return "\n\n".join(parts) + "\n"


def _used_functions(kernel: KernelDecl) -> list[FunctionDecl]:
    """The functions that a kernel calls, and those that they call, in the order of their text."""
    texts, found = [written(kernel.span)], dict[str, FunctionDecl]()
    for text in texts:
        words = set(re.findall(r"\w+", text))
        new = {name: f for name, f in kernel.functions.items() if name in words and name not in found}
        found |= new
        texts += [written(f.span, comment=False) for f in new.values()]
    return [f for name, f in kernel.functions.items() if name in found]


def _used_defines(steps: Sequence[StepCall], own: Mapping[str, Define]) -> list[Define]:
    """Those of the composite steps `own` that the steps stand for, in the order of their text."""
    calls, found = list(steps), set[str]()
    for call in calls:
        if call.word in own and call.word not in found:
            found.add(call.word)
            calls += own[call.word].steps
    return [define for word, define in own.items() if word in found]


def _used_instructions(module: Module, users: Sequence[Schedule | Define]) -> list[Instruction]:
    """The instructions of the text that steps name; of a name with parameters in braces, all that it may be."""
    texts = [step.text for user in users for step in user.steps]
    words = {word for text in texts for word in re.findall(r"[\w{}]+", text)}
    patterns = [re.compile(re.sub(r"\{\w+\}", r"\\w+", word)) for word in words if "{" in word]
    used = [name for name in module.instructions if name in words or any(p.fullmatch(name) for p in patterns)]
    return [module.instructions[name] for name in used]


def _text_of_instruction(instruction: Instruction) -> str:
    comment = [f"# {line}".rstrip() for line in instruction.doc.split("\n")] if instruction.doc else []
    return "\n".join([*comment, instruction.text])
