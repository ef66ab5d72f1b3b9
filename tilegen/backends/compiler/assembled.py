"""The PTX of declared instructions, put before the assembler: nothing else reads what a user has written there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilegen.backends.compiler import nvrtc
from tilegen.backends.compiler.architectures import instructions_of
from tilegen.backends.compiler.instructions import device_function, output_first, parameter
from tilegen.errors import DeviceError, SourceError
from tilegen.frontend.stock import stock_instructions
from tilegen.ir.hardware.instructions import Instruction
from tilegen.lowering import Launch


def assemble(launches: Sequence[Launch]) -> tuple[str, ...]:
    """Assembles each instruction of the launches that is none of the stock; names those that have no assembler here.

    Raises SourceError where the assembler refuses the text of one.
    """
    own = [each for each in instructions_of(launches) if stock_instructions().get(each.name) != each]
    if nvrtc.unavailable_reason():
        return tuple(each.name for each in own)
    for instruction in own:
        _assemble(instruction)
    return ()


def _assemble(instruction: Instruction) -> None:
    operands = output_first(instruction)
    parameters = ", ".join(parameter(o, constant=o is not operands[0]) for o in operands)
    call = f"    {instruction.name}({', '.join(o.operand.name for o in operands)});\n"
    text = f'{device_function(instruction)}\nextern "C" __global__ void assembled({parameters})\n{{\n{call * 2}}}\n'
    try:
        nvrtc.compile_text(text, instruction.arch)
    except DeviceError as error:
        said = re.split(r"\b(?:error|fatal)\s*:\s*", error.message)[-1]
        message = f"'{instruction.name}' cannot be assembled for {instruction.arch}: {said}"
        raise SourceError(message, instruction.ptx_span or instruction.span, notes=error.notes) from None


def title_with_remarks(title: str, verdict: str, launches: Sequence[Launch]) -> str:
    """The title of a text, with what is open of it, and with what no assembler has seen. Raises as `assemble`."""
    remarks = ("" if verdict == "proved" else verdict, unassembled_note(assemble(launches)))
    return "\n".join(filter(None, [title, *remarks]))


def unassembled_note(names: Sequence[str]) -> str:
    """What is to be said of instructions that have no assembler here; nothing of none."""
    return f"the PTX of {', '.join(names)} has been before no assembler: NVRTC is missing" if names else ""
