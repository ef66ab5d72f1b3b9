"""Instructions in a text, read back: what their functions tell the assembler, and what each call hands over."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.values import Mismatch, Values
from tests.support.simulator.ptx_isa import BYTES
from tilegen.ir.affine import const
from tilegen.ir.hardware.instructions import SharedMatrix, SharedRows
from tilegen.ir.hardware.memory import bytes_of
from tilegen.ir.nodes import Access

_FUNCTION = re.compile(
    r"^static __device__ __forceinline__ void (\w+)\(([^{]*)\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
_PACKED = re.compile(r" *(const )?unsigned\* (\w+) = static_cast<(const )?unsigned\*>\((\w+)\);\n")
_ASM = re.compile(r' *asm volatile\(((?:"[^"]*"\s*)+)\n *:(.*?)\n *:(.*?)(?:\n *:(.*?))?\);\n', re.DOTALL)
_OPERAND = re.compile(r'"([=+]?&?\w)"\(((?:[^()]|\([^()]*\))*)\)')
_REGISTER = re.compile(r"(?:reinterpret_cast<unsigned&>\(|__float_as_uint\()?(\w+)\[(\d+)\]\)?")
_DESCRIPTOR = re.compile(r"\w+")
_ADDRESS = re.compile(r"\(unsigned\)__cvta_generic_to_shared\((\w+)\)")
_TYPES = {"f32": ("float", "f"), "f64": ("double", "d"), "i32": ("int", "r")}


@dataclass(frozen=True)
class WarpFunction:
    """A function with inline PTX: (type, name) of each parameter, the text with what stands for each number."""

    name: str
    parameters: tuple
    ptx: str
    written: tuple  # (constraint, operand, register)
    read: tuple
    touches_memory: bool


def warp_functions(text):
    """The functions with inline PTX of a text, by name. Raises Mismatch for one that cannot be read."""
    found = {}
    for name, parameters, body in _FUNCTION.findall(text):
        packed = {array: pointer for _, array, _, pointer in _PACKED.findall(body)}
        asm = _ASM.fullmatch(_PACKED.sub("", body))
        if asm is None:
            raise Mismatch(f"the body of {name}")
        written, read = (tuple(_operands(part, packed)) for part in asm.groups()[1:3])
        template = "".join(re.findall(r'"([^"]*)"', asm[1]))
        each = [f"{operand}.{register}" for _, operand, register in (*written, *read)]
        ptx = re.sub(r"%(\d+)", lambda match, each=each: each[int(match[1])], template)
        split = tuple(part.rpartition(" ")[::2] for part in " ".join(parameters.split()).split(", "))
        found[name] = WarpFunction(name, split, ptx, written, read, '"memory"' in (asm[4] or ""))
    return found


def _operands(text, packed):
    """(constraint, operand, register); an address is the register "row", a descriptor the register "matrix"."""
    for constraint, value in _OPERAND.findall(text):
        if address := _ADDRESS.fullmatch(value):
            yield constraint, address[1], "row"
        elif register := _REGISTER.fullmatch(value):
            yield constraint, packed.get(register[1], register[1]), register[2]
        elif constraint == "l" and _DESCRIPTOR.fullmatch(value):
            yield constraint, value, "matrix"
        else:
            raise Mismatch(f"{value} is no register")


class Instructions(Values):
    """`of_warps` are the functions of the text by name."""

    def perform(self, node, texts):
        """The call of an instruction: its output first."""
        if node.where:
            text = self._take(texts, c_text.If)
            same(self.term(text.test), self._value(node.where), "where an instruction runs")
            texts = list(text.body)
        call = self._take(texts, c_text.Call).call
        instruction = node.instruction
        same(call[1:3], (instruction.name, ()), "an instruction")
        function = self.of_warps.get(instruction.name)
        if function is None:
            raise Mismatch(f"'{instruction.name}' is no function")
        check_function(function, instruction)
        same(len(call[3]), len(function.parameters), "the arguments of an instruction")
        given = dict(zip((name for _, name in function.parameters), call[3], strict=True))
        for layout, access in zip(instruction.operands, node.operands, strict=True):
            text = given[layout.operand.name]
            if isinstance(layout, SharedMatrix):
                form = access.form
                same(
                    text[:3],
                    ("call", f"describe_{form.piece}", (str(form.stride), str(form.leading))),
                    f"the descriptor of {layout.operand.name}",
                )
                ((sign, place),) = text[3]
                same(sign, "&", f"the address of {layout.operand.name}")
                same(self.place(place), self.place_of(access.start), f"the start of {layout.operand.name}")
                continue
            if layout.operand.name in node.rounded:
                text = unrounded(text, layout)
            if isinstance(layout, SharedRows) or text[0] == "&":
                same(text[0], "&", f"the address of {layout.operand.name}")
                text = text[1]
            else:  # a row of registers is the address of its first one
                text = ("at", text, ("number", 0))
            same(self.place(text), self.place_of(access), f"the operand {layout.operand.name} of {instruction.name}")

    def hold(self, names, texts):
        """All of the registers of these buffers."""
        for name in names:
            buffer = self.launch.buffers[name]
            call = self._take(texts, c_text.Call).call
            same(call[:3], ("call", "hold", (str(bytes_of(buffer) // 4),)), f"the registers of {name}")
            first_of, ((sign, first),) = Access(name, (const(0),) * len(buffer.shape)), call[3]
            same(sign, "&", f"the registers of {name}")
            same(self.place(first), self.place_of(first_of), f"the first register of {name}")


def unrounded(text, layout):
    """The registers that a call rounds to the format of an operand on their way."""
    match text:
        case ("field", ("call", word, (count,), (registers,)), "values"):
            same((word, count), (f"{layout.format}_fragment", str(layout.elements_of_a_lane)), "what is rounded")
            return registers
        case _:
            raise Mismatch(f"the operand {layout.operand.name} is not rounded to {layout.format}")


def check_function(function, instruction):
    """Raises Mismatch unless the function is the PTX of the declaration, on the registers of its parameters."""
    *inputs, output = instruction.operands
    described = [o.operand.name for o in instruction.operands if isinstance(o, SharedMatrix)]
    shared = [o.operand.name for o in instruction.operands if isinstance(o, SharedRows)]
    kinds = []
    for o in (output, *inputs):
        kind = "void" if o.operand.name in shared else _TYPES.get(o.operand.dtype, ("void",))[0]
        kind = f"{'const ' * (o is not output)}{kind}*"
        kinds += [("unsigned long long" if o.operand.name in described else kind, o.operand.name)]
    same(function.parameters, tuple(kinds), f"parameters of {function.name}")
    registers, constraints = {}, {}
    for o in instruction.operands:
        name, size = o.operand.name, BYTES[o.operand.dtype]
        count = 1
        for extent in o.operand.shape:
            count *= extent.const
        if name in described:
            registers[name], constraints[name] = f"{name}.matrix", [("l", name, "matrix")]
            continue
        lanes = {"warp": 32, "warpgroup": 128}[instruction.unit]
        words = ["row"] if name in shared else [str(n) for n in range(count // lanes * size // max(4, size))]
        registers[name] = f"{name}.row" if name in shared else f"{{{', '.join(f'{name}.{word}' for word in words)}}}"
        # What the PTX calls tf32 is bits to it.
        bits = name in shared or instruction.is_copy or (".tf32." in instruction.ptx and o is not output)
        letter = "r" if bits else _TYPES.get(o.operand.dtype, ("", "r"))[1]
        constraints[name] = [(letter, name, word) for word in words]
    wanted = re.sub(r"\{(\w+)\}", lambda match: registers[match[1]], instruction.ptx)
    same(function.ptx, wanted, f"the PTX of {function.name}")
    mark = "+" if instruction.accumulates else "="
    target = output.operand.name
    # Registers that are written before a step that reads an input may not be those of the input.
    behind = instruction.ptx.partition(f"{{{target}}}")[2].partition(";")[2]
    mark += "&" * any(f"{{{o.operand.name}}}" in behind for o in inputs)
    written = tuple((mark + letter, name, word) for letter, name, word in constraints[target] if name not in shared)
    same(function.written, written, f"what {function.name} writes")
    read = [each for o in (output, *inputs) for each in constraints[o.operand.name]]
    same(
        function.read,
        tuple(each for each in read if each[1] != target or target in shared),
        f"what {function.name} reads",
    )
    same(function.touches_memory, bool(shared or described), f"whether {function.name} touches memory")
