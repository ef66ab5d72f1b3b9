"""How an instruction adds up, from the lines `accumulates ...` of its declaration."""

from __future__ import annotations

from math import prod

from tilegen.errors import SourceError, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.ir.hardware.instructions import ARCHITECTURES, SPECIFIC_ARCHITECTURES, Summation, arch_number
from tilegen.ir.nodes import FLOATS, Kernel

_EXACT = "accumulates exactly"
_IN_BLOCKS = "accumulates 8 terms at a time with 24 fraction bits, truncated, since sm_80"
MOST_BITS = 64  # of a line; no accumulator is wider


def build_summations(decl: s.InstructionDecl, meaning: Kernel) -> tuple[Summation, ...]:
    """How the instruction adds up on each architecture. SourceError where its lines leave that open, or contradict."""
    name, equation = decl.name, meaning.equations[0]
    if not decl.accumulates and equation.reduce != "sum":
        if decl.sums:
            raise SourceError(f"'{name.text}' adds nothing up", decl.sums[0].span)
        return ()
    is_float = meaning.tensor(equation.target).dtype in FLOATS
    if not decl.sums:
        note = f"such as: {_IN_BLOCKS}" if is_float else f"write: {_EXACT}"
        notes = ("checks take the bound of its error from there", note)
        raise SourceError(f"the instruction '{name.text}' does not say how it adds up", name.span, notes=notes)
    for line in decl.sums:
        if is_float != (line.terms is not None):
            what = "numbers of a floating-point type are rounded" if is_float else "integers are added exactly"
            raise SourceError(what, line.span, notes=(f"such as: {_IN_BLOCKS}" if is_float else f"write: {_EXACT}",))
    if not is_float:
        if len(decl.sums) > 1:
            raise SourceError(f"'{name.text}' says twice how it adds up", decl.sums[1].span)
        return ()
    count = prod(each.extent.const for each in equation.reduced)
    found = tuple(_summation(line, line.arch or decl.arch, count) for line in decl.sums)
    _check_architectures(decl)
    return found


def _summation(line: s.SumLine, arch: s.Name, count: int) -> Summation:
    assert line.terms
    terms, bits, kept = line.terms.value, _bits(line.bits), _bits(line.kept)
    if not isinstance(terms, int) or terms < 1 or count % terms:
        message = f"{terms} terms at a time are no part of the {count} that are added up"
        raise SourceError(message, line.terms.span, notes=("it adds the same number of terms each time",))
    return Summation(terms, bits, line.rounding == "truncated", arch.text, kept)


def _bits(number: s.Num | None) -> int | None:
    if number is None:
        return None
    if not (isinstance(number.value, int) and 1 <= number.value <= MOST_BITS):
        raise SourceError(f"{number.value} is no number of bits from 1 to {MOST_BITS}", number.span)
    return number.value


def _check_architectures(decl: s.InstructionDecl) -> None:
    """Raises SourceError unless the lines begin with the architecture of the head, and each later one follows."""
    known = (*ARCHITECTURES, *SPECIFIC_ARCHITECTURES)
    archs = [line.arch or decl.arch for line in decl.sums]
    for arch in archs:
        if arch.text not in known:
            notes = did_you_mean(arch.text, known, "the architectures are")
            raise SourceError(f"there is no architecture '{arch.text}'", arch.span, notes=notes)
    if archs[0].text != decl.arch.text:
        message = f"'{decl.name.text}' begins with {decl.arch.text}, and how it adds up with {archs[0].text}"
        raise SourceError(message, archs[0].span)
    for before, after, line in zip(archs, archs[1:], decl.sums[1:], strict=False):
        if arch_number(after.text) <= arch_number(before.text):
            raise SourceError(
                f"{after.text} does not come after {before.text}",
                line.span,
                notes=("a line speaks of an architecture and all later ones, up to the next line",),
            )
