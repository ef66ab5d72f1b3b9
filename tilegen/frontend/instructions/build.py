"""From the declaration of an instruction to an `Instruction`, checked by enumeration: its operands are small."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from math import prod
from typing import cast

from tilegen.errors import SourceError, Span, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.build import build
from tilegen.frontend.equations.index import affine_of
from tilegen.frontend.instructions.enumerated import check_bijection, check_points
from tilegen.frontend.instructions.summations import build_summations
from tilegen.frontend.parsing.families import Family
from tilegen.ir.affine import var
from tilegen.ir.hardware.budgets import MOST
from tilegen.ir.hardware.instructions import (
    ARCHITECTURES,
    FORMATS,
    PLACEHOLDER,
    PROTOCOLS,
    ROW_BYTES,
    SPECIFIC_ARCHITECTURES,
    UNITS,
    Fragment,
    Instruction,
    Layout,
    SharedMatrix,
    SharedRows,
)
from tilegen.ir.nodes import DTYPE_BYTES, Kernel, Tensor
from tilegen.ir.printing.reserved_words import fresh

_LINES = "an instruction has one equation, one line 'A[i, k] in lane ..., register ...' for each operand, and one 'ptx'"


def build_instruction(decl: s.InstructionDecl) -> Instruction:
    """The instruction of a declaration.

    Raises:
        SourceError: an unknown unit, architecture or operand; a meaning that leaves an operand; a layout that does not
            put each element into a place of its own; a text that leaves out an operand or names another one; a sum that
            it does not say the additions of.
    """
    _check_machine(decl)
    _check_shapes(decl)
    meaning = _equation_kernel(decl)
    operands = tuple(_check_layout(decl, operand, meaning) for operand in decl.operands)
    _check_ptx(decl, operands)
    summations = build_summations(decl, meaning)
    return Instruction(
        decl.name.text,
        meaning,
        decl.accumulates,
        operands,
        decl.unit.text,
        decl.arch.text,
        decl.ptx.text,
        decl.protocol.text if decl.protocol else "",
        summations,
        decl.doc,
        decl.text,
        span=decl.name.span,
        ptx_span=decl.ptx.span,
    )


class DeclaredInstructions(Mapping[str, Instruction]):
    """The instructions of declarations, each built when it is asked for: enumeration takes its time.

    Args:
        families: by the names of all of their members.
        member: the declaration of a family's member by its name.
    """

    def __init__(
        self,
        declarations: Mapping[str, s.InstructionDecl],
        families: Mapping[str, Family],
        member: Callable[[Family, str], s.InstructionDecl],
    ) -> None:
        self._declarations, self._families, self._member = declarations, families, member
        self._built: dict[str, Instruction] = {}

    def __getitem__(self, name: str) -> Instruction:
        if name not in self._built:
            family = self._families.get(name)
            declared = self._member(family, name) if family else self._declarations[name]
            self._built[name] = build_instruction(declared)
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declarations or name in self._families

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain(self._declarations, self._families)))

    def __len__(self) -> int:
        return sum(1 for _ in self)  # a list of it would ask for the length

    def declarations(self) -> tuple[str, ...]:
        """The names as they are declared: those of families have their parameters in braces."""
        return tuple(dict.fromkeys((*self._declarations, *(f.name.text for f in self._families.values()))))

    def check(self) -> None:
        """Raises SourceError for a declaration that is none of an instruction; of a family, for its corners."""
        families = dict.fromkeys(self._families.values())
        for name in (*self._declarations, *chain.from_iterable(each.corners() for each in families)):
            self[name]


def chained(*several: Mapping[str, Instruction]) -> ChainMap[str, Instruction]:
    """All of these, of one name the first; what is not asked for is not built."""
    return ChainMap(*(cast(dict[str, Instruction], each) for each in several))


def _check_machine(decl: s.InstructionDecl) -> None:
    """Raises SourceError for a unit or an architecture that there is not, and for a name that no text can have."""
    operands = (operand.param.name for operand in decl.operands)
    for word, entry in ((decl.name, True), *((name, False) for name in operands)):
        if fresh(word.text, set(), entry=entry) != word.text:
            raise SourceError(f"'{word.text}' has a meaning in CUDA or OpenCL; take another name", word.span)
    unit, arch = decl.unit, decl.arch
    if unit.text not in UNITS:
        notes = did_you_mean(unit.text, UNITS, "what runs an instruction is:")
        raise SourceError(f"there is no unit '{unit.text}'", unit.span, notes=notes)
    if decl.protocol and decl.protocol.text not in PROTOCOLS:
        notes = did_you_mean(decl.protocol.text, PROTOCOLS, "known is")
        raise SourceError(f"nothing waits by '{decl.protocol.text}'", decl.protocol.span, notes=notes)
    if decl.protocol and (unit.text, arch.text) != PROTOCOLS[decl.protocol.text]:
        text = f"waits by {decl.protocol.text} are for a {' of '.join(PROTOCOLS[decl.protocol.text])} alone"
        note = "an instruction that has ended when its lanes go on says nothing of waits"
        raise SourceError(text, decl.protocol.span, notes=(note,))
    known, other = (ARCHITECTURES, SPECIFIC_ARCHITECTURES)[:: 1 if decl.and_later else -1]
    if arch.text in known:
        return
    if arch.text in other and decl.and_later:
        notes = (f"no later architecture has the instructions of {arch.text}: write 'for {arch.text}'",)
        raise SourceError(f"'{arch.text}' begins no line of architectures", arch.span, notes=notes)
    if arch.text in other:
        notes = (f"later architectures have them, too: write 'since {arch.text}'",)
        raise SourceError(f"'{arch.text}' has no instructions of its own", arch.span, notes=notes)
    notes = did_you_mean(arch.text, known, "the architectures are")
    raise SourceError(f"there is no architecture '{arch.text}'", arch.span, notes=notes)


def _check_shapes(decl: s.InstructionDecl) -> None:
    for operand in decl.operands:
        for extent in operand.param.shape or ():
            if not affine_of(extent, dict.fromkeys(decl.head().size_names(), var("n"))).is_const:
                raise SourceError(
                    f"'{extent.span.text}' is no number, and the shape of an instruction's operand is fixed",
                    extent.span,
                    notes=("an instruction for several shapes is several instructions",),
                )
        name, wanted = operand.param.name, operand.format
        if wanted is None:
            continue
        if wanted.text not in FORMATS:
            notes = did_you_mean(wanted.text, FORMATS, "the formats are:")
            raise SourceError(f"there is no format '{wanted.text}'", wanted.span, notes=notes)
        holder = FORMATS[wanted.text]
        if operand.param.type.text != holder:
            notes = (f"a value of the format {wanted.text} is kept in an {holder}",)
            raise SourceError(
                f"'{name.text}' is {operand.param.type.text}, which has no values in the format {wanted.text}",
                operand.param.type.span,
                notes=notes,
            )


# -- the meaning


def _equation_kernel(decl: s.InstructionDecl) -> Kernel:
    """The kernel that the equation is, over the operands. Raises SourceError."""
    if len(decl.equations) != 1:
        span = decl.equations[1].span if decl.equations else decl.name.span
        what = "has a second meaning" if decl.equations else "has no meaning"
        raise SourceError(f"the instruction '{decl.name.text}' {what}", span, notes=(_LINES,))
    written = decl.equations[0]
    if decl.accumulates and isinstance(written.value, s.Reduction) and written.value.word.text != "sum":
        raise SourceError(
            f"'+=' adds to '{written.target.base.text}', and {written.value.word.text}[...] is no sum",
            written.value.word.span,
            notes=("a meaning is C[i, j] = ..., or adds a term or a sum: C[i, j] += sum[k](...)",),
        )
    kernel = build(decl.head())
    if len(kernel.equations) > 1:
        raise SourceError("the meaning has a reduction inside of an expression", written.span, notes=(_LINES,))
    check_points(kernel, written.span)
    return kernel


# -- the layouts


def _check_layout(decl: s.InstructionDecl, operand: s.Operand, meaning: Kernel) -> Layout:
    """The layout of an operand, which puts each element into a place of its own. Raises SourceError."""
    name = operand.param.name
    tensor = meaning.tensor(name.text)
    for layout in decl.layouts:
        base = layout.element.base
        if base.text not in decl.names():
            raise _unknown_operand_error(decl, base.text, base.span)
    found = [layout for layout in decl.layouts if layout.element.base.text == name.text]
    if len(found) != 1:
        element = f"{name.text}[{_example(tensor)}]"
        notes = (
            f"say where its elements lie: {element} in lane ..., register ...",
            f"or, in shared memory: {element} in shared at lane ..., element ...",
            f"or: {element} in shared by descriptor, rows along ...",
        )
        span = found[1].span if found else operand.span
        what = "has a second layout" if found else "has no layout"
        raise SourceError(f"the operand '{name.text}' {what}", span, notes=() if found else notes)
    line, lanes = found[0], UNITS[decl.unit.text]
    indices = _indices(line, tensor)
    known = {index: var(index) for index in indices}
    form = operand.format.text if operand.format else None
    match line:
        case s.DescribedLayout():
            return _described(line, tensor, indices, form)
        case s.Layout():
            lane = affine_of(line.lane, known, decl.names())
            register = affine_of(line.register, known, decl.names())
            fragment = Fragment(tensor, indices, lane, register, form, lanes, span=line.span)
            _check_registers_are_full(fragment, lanes, operand.span)
            check_bijection(fragment, lanes, fragment.elements_of_a_lane)
            return fragment
        case s.RowsLayout():
            lane, within = (affine_of(each, known, decl.names()) for each in (line.lane, line.within))
            rows = SharedRows(tensor, indices, lane, within, form, lanes, span=line.span)
            _check_rows_are_full(rows, lanes, operand.span)
            check_bijection(rows, rows.rows, rows.elements_of_a_row)
            return rows


def _described(line: s.DescribedLayout, tensor: Tensor, indices: tuple[str, ...], form: str | None) -> SharedMatrix:
    if line.along.text not in indices or len(indices) != 2:
        notes = (f"rows run along one of two indices: {' or '.join(indices)}",)
        raise SourceError(f"'{tensor.name}' has no rows along '{line.along.text}'", line.along.span, notes=notes)
    rows, row = (tensor.shape[d].const for d in sorted((0, 1), key=lambda d: indices[d] == line.along.text))
    if rows % 8 or row * DTYPE_BYTES[tensor.dtype] % ROW_BYTES:
        message = f"'{tensor.name}' has {rows} rows of {row} elements, which are no whole blocks of 8 rows by 16 bytes"
        raise SourceError(message, line.span)
    return SharedMatrix(tensor, indices, line.along.text, form, span=line.span)


def _indices(layout: s.Layout | s.RowsLayout | s.DescribedLayout, tensor: Tensor) -> tuple[str, ...]:
    """The names of the element's indices: one for each dimension."""
    items = layout.element.items
    names = tuple(item.text for item in items if isinstance(item, s.Name))
    if len(set(names)) != len(items) or len(items) != len(tensor.shape):
        count = len(tensor.shape)
        raise SourceError(
            f"the element of a layout is written with one name for each of the {count} dimensions of '{tensor.name}'",
            layout.element.span,
            notes=(f"such as {tensor.name}[{_example(tensor)}]",),
        )
    return names


def _example(tensor: Tensor) -> str:
    """Names for its indices."""
    count = len(tensor.shape)
    return ", ".join("ijklmnop"[:count]) if count <= 8 else "..."


def _check_registers_are_full(fragment: Fragment, lanes: int, span: Span) -> None:
    name, elements = fragment.operand.name, prod(fragment.shape)
    if elements % lanes:
        message = f"'{name}' has {elements} elements, which {lanes} lanes cannot hold in equal parts"
        raise SourceError(message, span, notes=("each lane of the unit holds as many elements as any other",))
    size = DTYPE_BYTES[fragment.operand.dtype]
    if elements // lanes * size % 4:
        message = f"a lane holds {elements // lanes * size} bytes of '{name}', which fill no register of 4 bytes"
        raise SourceError(message, span, notes=("small elements fill registers: 2 of 16 bits, or 4 of 8 bits, each",))
    if (registers := elements // lanes * size // 4) > MOST:
        raise SourceError(f"a lane holds {registers} registers of '{name}', and has at most {MOST} in all", span)


def _check_rows_are_full(rows: SharedRows, lanes: int, span: Span) -> None:
    name, size = rows.operand.name, prod(rows.shape) * DTYPE_BYTES[rows.operand.dtype]
    counts = [2**power for power in range(lanes.bit_length())]
    if size not in [count * ROW_BYTES for count in counts]:
        raise SourceError(
            f"'{name}' has {size} bytes, which are not {_one_of(counts)} rows of {ROW_BYTES} bytes",
            span,
            notes=("each lane gives the address of a row; of R < 32 rows, lane L gives that of lane L % R",),
        )


def _one_of(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} or {numbers[-1]}"


# -- the text


def _check_ptx(decl: s.InstructionDecl, operands: tuple[Layout, ...]) -> None:
    """Raises SourceError unless the text names the operands, all of them and no other, and addresses as `[{S}]`."""
    if "wgmma.mma_async" in decl.ptx.text and not decl.protocol:
        notes = ("its lanes go on while it runs: write 'waits by wgmma'",)
        raise SourceError("the text starts what nothing waits for", decl.ptx.span, notes=notes)
    named = set()
    shared = {rows.operand.name for rows in operands if isinstance(rows, SharedRows)}
    for match in PLACEHOLDER.finditer(decl.ptx.text):
        place = decl.ptx.span
        span = place._replace(column=place.column + 1 + match.start(), width=len(match.group()))
        if match[1] not in decl.names():
            raise _unknown_operand_error(decl, match[1], span)
        around = decl.ptx.text[max(0, match.start() - 1) : match.end() + 1]
        if match[1] in shared and around != f"[{match.group()}]":
            notes = (f"its address stands in square brackets: [{match.group()}]",)
            raise SourceError(f"'{match[1]}' is in shared memory and has no registers", span, notes=notes)
        named.add(match[1])
    for operand in decl.operands:
        name = operand.param.name.text
        if name not in named:
            registers, address = f"{{{name}}} where its registers stand", f"[{{{name}}}] where its address stands"
            notes = (f"write {address if name in shared else registers}",)
            raise SourceError(f"the text does not name the operand '{name}'", decl.ptx.span, notes=notes)


def _unknown_operand_error(decl: s.InstructionDecl, name: str, span: Span) -> SourceError:
    notes = did_you_mean(name, decl.names(), "its operands are")
    return SourceError(f"'{decl.name.text}' has no operand '{name}'", span, notes=notes)
