"""CUDA text of declared instructions: a function with inline PTX for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap

from tilegen.ir.hardware.instructions import (
    FORMATS,
    PLACEHOLDER,
    ROW_BYTES,
    Fragment,
    Instruction,
    Layout,
    SharedMatrix,
    SharedRows,
)
from tilegen.ir.printing.reserved_words import fresh

# Of a lane's registers: their C type and the constraint of inline PTX. Smaller elements share unsigned ones.
REGISTERS = {"f32": ("float", "f"), "f64": ("double", "d"), "i32": ("int", "r"), "i64": ("long long", "l")}
PACKED = ("unsigned", "r")


def device_function(instruction: Instruction) -> str:
    """The instruction as a function over the registers of one lane, with its meaning in a line.

    Of an operand in shared memory it takes the address that the lane gives; a line says of which row.
    """
    output, arrays = instruction.equation.target, _names_of_registers(instruction)
    parameters = [parameter(o, constant=o.operand.name != output) for o in output_first(instruction)]
    numbers, written, read = _number_operands(instruction, arrays)
    text = instruction.ptx.replace("%", "%%").replace("\\", "\\\\")
    text = PLACEHOLDER.sub(lambda match: numbers[match[1]], text)
    lists = [", ".join(written), ", ".join(read)]
    if len(instruction.fragments) < len(instruction.operands):
        lists.append('"memory"')
    return (
        f"// {meaning_line(instruction)}\n"
        f"{''.join(map(_row_line, row_operands(instruction)))}"
        f"static __device__ __forceinline__ void {instruction.name}({', '.join(parameters)})\n"
        "{\n"
        f"{''.join(_packed_registers(instruction, arrays))}"
        f"    asm volatile({_in_lines(text)}\n" + "\n".join(f"        : {each}".rstrip() for each in lists) + ");\n"
        "}\n"
    )


def _names_of_registers(instruction: Instruction) -> dict[str, str]:
    """The array of the registers of each operand in registers: its own, or another name where elements share them."""
    taken = {layout.operand.name for layout in instruction.operands}
    names = [fragment.operand.name for fragment in instruction.fragments]
    packed = [fragment.operand.dtype not in REGISTERS for fragment in instruction.fragments]
    return {name: fresh(f"{name}_registers", taken) if own else name for name, own in zip(names, packed, strict=True)}


def _packed_registers(instruction: Instruction, names: Mapping[str, str]) -> Iterator[str]:
    """The registers of each operand whose elements share them."""
    for operand, array in names.items():
        if array != operand:
            kind = f"{'' if operand == instruction.equation.target else 'const '}{PACKED[0]}*"
            yield f"    {kind} {array} = static_cast<{kind}>({operand});\n"


def _mark_of_output(instruction: Instruction) -> str:
    """The mark of what is written: it has registers of its own where an input is read after the first write."""
    *inputs, output = (layout.operand.name for layout in instruction.operands)
    steps = instruction.ptx.split(";")
    writes = [at for at, step in enumerate(steps) if f"{{{output}}}" in step]
    reads = [at for at, step in enumerate(steps) if any(f"{{{name}}}" in step for name in inputs)]
    jumps = re.search(r"\bbra\b", instruction.ptx) is not None
    apart = jumps or min(writes) < max(reads, default=0)
    return ("+" if instruction.accumulates else "=") + "&" * apart


def _in_lines(text: str) -> str:
    """The text of an instruction as a string of C: a long one has its operands on a line of their own."""
    if len(text) < 80:
        return f'"{text}"'
    word, _, operands = text.partition(" ")
    lines = [f"{word} ", *wrap(operands, 88, drop_whitespace=False, break_long_words=False)]
    return "\n                 ".join(f'"{line}"' for line in lines)


def meaning_line(instruction: Instruction) -> str:
    """The equation as declared, who runs it, and since when."""
    equation = instruction.equation.span
    shapes = ", ".join(_shape(operand) for operand in instruction.operands)
    return f"{equation.text if equation else instruction.name}   by a {instruction.unit}; {shapes}"


def _shape(operand: Layout) -> str:
    where = "" if isinstance(operand, Fragment) else " in shared"
    return f"{operand.operand.name}: {operand.operand.dtype}{list(operand.shape)}{where}"


def _row_line(rows: SharedRows) -> str:
    """What the pointer to an operand in shared memory points to."""
    name, layout = rows.operand.name, rows.span.text if rows.span else f"one of {rows.rows}"
    return f"// {name} points to the {ROW_BYTES} bytes of this lane: {layout}\n"


def output_first(instruction: Instruction) -> tuple[Layout, ...]:
    *inputs, output = instruction.operands
    return (output, *inputs)


def parameter(operand: Layout, constant: bool) -> str:
    """An operand as a parameter: the registers of a lane, its address in shared memory, or a descriptor."""
    if isinstance(operand, SharedMatrix):
        return f"unsigned long long {operand.operand.name}"
    registers = isinstance(operand, Fragment) and operand.operand.dtype in REGISTERS
    kind = REGISTERS[operand.operand.dtype][0] if registers else "void"
    return f"{'const ' * constant}{kind}* {operand.operand.name}"


def row_operands(instruction: Instruction) -> tuple[SharedRows, ...]:
    return tuple(operand for operand in instruction.operands if isinstance(operand, SharedRows))


def _number_operands(instruction: Instruction, names: Mapping[str, str]) -> tuple[dict[str, str], list[str], list[str]]:
    """What stands for each operand in the text; then what is written and what is read, in the order of their numbers.

    Registers of the output are written. An address is read, whatever is done in memory.
    """
    texts: dict[str, str] = {}
    written: list[str] = []
    read: list[str] = []
    mark = _mark_of_output(instruction)
    for operand in output_first(instruction):
        name, first = operand.operand.name, len(written) + len(read)
        if isinstance(operand, SharedMatrix):
            texts[name] = f"%{first}"
            read.append(f'"l"({name})')
            continue
        if isinstance(operand, SharedRows):
            texts[name] = f"%{first}"
            read.append(f'"r"((unsigned)__cvta_generic_to_shared({name}))')
            continue
        texts[name] = "{" + ", ".join(f"%{first + r}" for r in range(operand.words)) + "}"
        values = _register_values(instruction, operand, names[name])
        if name == instruction.equation.target:
            written += [f'"{mark}{constraint}"({value})' for constraint, value in values]
        else:
            read += [f'"{constraint}"({value})' for constraint, value in values]
    return texts, written, read


def _register_values(instruction: Instruction, fragment: Fragment, array: str) -> list[tuple[str, str]]:
    """The constraint and the value of each register of an operand."""
    name = fragment.operand.name
    _, constraint = REGISTERS.get(fragment.operand.dtype, PACKED)
    values = [f"{array}[{r}]" for r in range(fragment.words)]
    if constraint != "f" or not (instruction.is_copy or instruction.format_of(name) in FORMATS):
        return [(constraint, value) for value in values]
    if name == instruction.equation.target:  # its registers are bits to the assembler
        return [("r", f"reinterpret_cast<unsigned&>({value})") for value in values]
    return [("r", f"__float_as_uint({value})") for value in values]
