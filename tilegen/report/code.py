"""The schedule, the CUDA text and the machine code of a kernel, each line with the lines that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tilegen.backends.calls.origins import origins
from tilegen.backends.compiler import nvrtc, sass, toolkit
from tilegen.backends.compiler.architectures import compiled_architecture, instructions_of
from tilegen.backends.text import emit_lines
from tilegen.errors import DeviceError, Source, Span
from tilegen.lab.predict.explain import stages_by_line
from tilegen.lowering import lower_for_some_sizes
from tilegen.proof import demand, prove
from tilegen.schedule import Derivation


@dataclass(frozen=True)
class CodeLine:
    """A line of one of the three listings, or of machine code several instructions that come from the same lines.

    Attributes:
        number: in its listing; the lines that come from it say this.
        label: where it is written, or of machine code the line of CUDA that it is of.
        sources: numbers of the listing before this one, the most telling one first.
    """

    number: int
    label: str
    text: str
    sources: tuple[int, ...] = ()


@dataclass(frozen=True)
class Code:
    """The three listings. Without machine code `notes` say why, and what else is to be known."""

    arch: str
    source: tuple[CodeLine, ...]
    cuda: tuple[CodeLine, ...]
    sass: tuple[CodeLine, ...]
    notes: tuple[str, ...] = ()


def code_of(derivation: Derivation, arch: str, *, compiled: bool = True, unproved: bool = False) -> Code:
    """The listings of the text that `emit` writes.

    Args:
        compiled: False leaves the compiler out, and with it the machine code.
        unproved: True takes a text of which it is open whether it is the kernel.

    Raises:
        LimitError: it cannot be launched. ProofError: it is unproved, and that was not allowed.
    """
    tree = derivation.tree
    launches = lower_for_some_sizes(tree)
    proof = prove(tree.kernel, launches, tree.reassociated)
    demand(proof, derivation.kernel.name, unproved=unproved)
    lines = emit_lines(launches, title=derivation.title)
    source = tuple(_source_lines(derivation))
    numbers = {line.label: line.number for line in source}
    places = origins(lines, launches, derivation)
    cuda = tuple(
        CodeLine(n, "", line, _numbers(spans, numbers))
        for n, (line, spans) in enumerate(zip(lines, places, strict=True), 1)
    )
    target = compiled_architecture(instructions_of(launches), arch)
    notes = [] if proof.verdict == "proved" else [proof.verdict]
    try:
        code = tuple(_sass_lines("\n".join(lines) + "\n", target)) if compiled else ()
    except DeviceError as error:
        code, notes = (), [*notes, error.message, *error.notes]
    return Code(target, source, cuda, code, tuple(notes))


# -- what the user has written


def _source_lines(derivation: Derivation) -> Iterator[CodeLine]:
    """The lines of the kernel, then those of the steps in the order in which they are applied."""
    steps = [s.step.span for s in stages_by_line(derivation.stages) if s.step]
    lines = [(span, span.source.line(span.line)) for span in _kernel_spans(derivation)]
    lines += [(span, span.source.line(span.line).strip()) for span in steps if span]
    seen: set[str] = set()
    for span, text in lines:
        if (label := _label(span)) not in seen:
            seen.add(label)
            yield CodeLine(len(seen), label, text)


def _kernel_spans(derivation: Derivation) -> Iterator[Span]:
    """A place in each line of the kernel's text, from its head to its last equation."""
    kernel = derivation.kernel
    spans = [s for s in (kernel.span, *(t.span for t in kernel.tensors), *(e.span for e in kernel.equations)) if s]
    for source, of_source in groupby(spans, key=lambda span: span.source):
        lines = [span.line for span in of_source]
        yield from (Span(source, n, 1) for n in range(min(lines), max(lines) + 1) if _says_something(source, n))


def _says_something(source: Source, number: int) -> bool:
    return bool(source.line(number).partition("#")[0].strip())


def _label(span: Span) -> str:
    return f"{span.source.name}:{span.line}"


def _numbers(spans: Sequence[Span], numbers: Mapping[str, int]) -> tuple[int, ...]:
    """The numbers of the lines of these places, that of the last one first."""
    labels = dict.fromkeys(_label(span) for span in reversed(spans))
    return tuple(numbers[label] for label in labels if label in numbers)


# -- what the machine runs


def _sass_lines(text: str, arch: str) -> Iterator[CodeLine]:
    """The instructions of all kernels of a text, those side by side that come from the same lines as one."""
    if toolkit.nvdisasm() is None:
        raise DeviceError("there is no nvdisasm to read machine code with")
    number = 0
    for listing in sass.sass_of(nvrtc.compile_text(text, arch, lines=True)).values():
        at = {place: name for name, place in listing.labels.items()}
        named = [(at.get(place), each) for place, each in enumerate(listing.instructions)]
        for lines, group in groupby(named, key=lambda item: item[1].lines):
            number += 1
            label = str(lines[-1]) if lines else ""
            yield CodeLine(number, label, "\n".join(_instruction_lines(list(group))), tuple(reversed(lines)))


def _instruction_lines(group: Sequence[tuple[str | None, sass.SassInstruction]]) -> Iterator[str]:
    for label, instruction in group:
        if label:
            yield f"{label}:"
        yield f"  {instruction.text}"
