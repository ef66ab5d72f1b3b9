"""CUDA text of declared instructions: a function with inline PTX for each, and a kernel that tries one by itself."""

from __future__ import annotations

from tilegen.ir.instructions import PLACEHOLDER, UNITS, Fragment, Instruction, Slot
from tilegen.ir.nodes import DTYPE_BYTES

# Of a lane's registers: their C type and the constraint of inline PTX. Smaller elements share unsigned ones.
_REGISTERS = {"f32": ("float", "f"), "f64": ("double", "d"), "i32": ("int", "r"), "i64": ("long long", "l")}
_PACKED = ("unsigned", "r")
# Elements in memory; those that share registers as bits.
_MEMORY = {"f16": "unsigned short", "bf16": "unsigned short", "i8": "unsigned char", "u8": "unsigned char"}


def device_function(instruction: Instruction) -> str:
    """The instruction as a function over the registers of one lane, with its meaning in a line."""
    output = instruction.equation.target
    parameters = [_parameter(f, constant=f.operand.name != output) for f in _output_first(instruction)]
    numbers, operands = _number_registers(instruction)
    text = instruction.ptx.replace("%", "%%").replace("\\", "\\\\")
    text = PLACEHOLDER.sub(lambda match: "{" + ", ".join(f"%{n}" for n in numbers[match[1]]) + "}", text)
    mark = "+" if instruction.accumulates else "="
    outputs = ", ".join(f'"{mark}{constraint}"({value})' for constraint, value in operands[output])
    inputs = ", ".join(f'"{c}"({value})' for name, each in operands.items() if name != output for c, value in each)
    return (
        f"// {meaning_line(instruction)}\n"
        f"static __device__ __forceinline__ void {instruction.name}({', '.join(parameters)})\n"
        "{\n"
        f'    asm volatile("{text}"\n'
        f"        : {outputs}\n"
        f"        : {inputs});\n"
        "}\n"
    )


def meaning_line(instruction: Instruction) -> str:
    """The equation as declared, who runs it, and since when."""
    equation = instruction.equation.span
    shapes = ", ".join(f"{f.operand.name}: {f.operand.dtype}{list(f.shape)}" for f in instruction.fragments)
    return f"{equation.text if equation else instruction.name}   by a {instruction.unit}; {shapes}"


def trial_kernel(instruction: Instruction) -> str:
    """A kernel `trial` that runs the instruction once a warp, made from its declaration alone.

    Its arguments are arrays of matrices, row by row, of each input in turn, and how many these are; then the matrices
    that the output starts from, how many, and the outputs; then the number of warps. Warp w takes the inputs of the
    number w in mixed radix, the last input fastest, start w modulo their number, and writes output w.
    """
    *inputs, output = instruction.fragments
    parameters = [f"const {_element(f)}* {f.operand.name}_all, int {f.operand.name}_count" for f in inputs]
    name = output.operand.name
    parameters += [f"const {_element(output)}* start, int start_count, {_element(output)}* result, int warps"]
    lines = [_table(f) for f in instruction.fragments]
    lines += [device_function(instruction)]
    lines += [f'extern "C" __global__ void trial({", ".join(parameters)})', "{"]
    lines += [
        f"    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / {UNITS[instruction.unit]};",
        f"    const int lane = threadIdx.x % {UNITS[instruction.unit]};",
        "    if (warp >= warps) return;",
        "    int rest = warp;",
    ]
    for fragment in reversed(inputs):
        lines += _load(fragment, f"{fragment.operand.name}_all", f"rest % {fragment.operand.name}_count")
        lines += [f"    rest /= {fragment.operand.name}_count;"]
    lines += _load(output, "start", "warp % start_count")
    lines += [f"    {instruction.name}({', '.join(f.operand.name for f in _output_first(instruction))});"]
    lines += _store(output, name)
    return "\n".join([*lines, "}", ""])


def _output_first(instruction: Instruction) -> tuple[Fragment, ...]:
    *inputs, output = instruction.fragments
    return (output, *inputs)


def _parameter(fragment: Fragment, constant: bool) -> str:
    kind, _ = _REGISTERS.get(fragment.operand.dtype, _PACKED)
    return f"{'const ' * constant}{kind} (&{fragment.operand.name})[{fragment.words}]"


def _number_registers(instruction: Instruction) -> tuple[dict[str, range], dict[str, list[tuple[str, str]]]]:
    """The numbers that the registers of each operand have in the text, and their constraints and values in order."""
    numbers: dict[str, range] = {}
    operands: dict[str, list[tuple[str, str]]] = {}
    first = 0
    for fragment in _output_first(instruction):
        name = fragment.operand.name
        _, constraint = _REGISTERS.get(fragment.operand.dtype, _PACKED)
        values = [f"{name}[{r}]" for r in range(fragment.words)]
        if fragment.format is not None:  # its registers are bits to the assembler
            constraint, values = "r", [f"__float_as_uint({value})" for value in values]
        operands[name] = [(constraint, value) for value in values]
        numbers[name] = range(first, first + fragment.words)
        first += fragment.words
    return numbers, operands


# -- the trial


def _element(fragment: Fragment) -> str:
    dtype = fragment.operand.dtype
    return _MEMORY.get(dtype) or _REGISTERS[dtype][0]


def _table(fragment: Fragment) -> str:
    """The offset of the element in each slot, of the matrix row by row: the layout, walked over."""
    name, lanes, count = fragment.operand.name, UNITS["warp"], fragment.elements_of_a_lane
    offsets = {fragment.slot(point): offset for offset, point in enumerate(fragment.points())}
    rows = (", ".join(str(offsets[Slot(lane, register)]) for register in range(count)) for lane in range(lanes))
    listed = ",\n".join(f"    {{{row}}}" for row in rows)
    return f"static __device__ const short {name}_at[{lanes}][{count}] = {{\n{listed}\n}};\n"


def _load(fragment: Fragment, array: str, number: str) -> list[str]:
    name, count, size = fragment.operand.name, fragment.elements_of_a_lane, DTYPE_BYTES[fragment.operand.dtype]
    kind, _ = _REGISTERS.get(fragment.operand.dtype, _PACKED)
    value = f"{name}_matrix[{name}_at[lane][r]]"
    shared = 4 // size
    put = (
        f"{name}[r] = {value}"
        if shared <= 1
        else f"{name}[r / {shared}] |= (unsigned){value} << {8 * size} * (r % {shared})"
    )
    return [
        f"    const {_element(fragment)}* {name}_matrix = {array} + (size_t)({number}) * {_size(fragment)};",
        f"    {kind} {name}[{fragment.words}] = {{}};",
        f"    for (int r = 0; r < {count}; ++r) {put};",
    ]


def _store(fragment: Fragment, name: str) -> list[str]:
    count, size = fragment.elements_of_a_lane, DTYPE_BYTES[fragment.operand.dtype]
    shared = 4 // size
    value = f"{name}[r]" if shared <= 1 else f"{name}[r / {shared}] >> {8 * size} * (r % {shared})"
    target = f"result[(size_t)warp * {_size(fragment)} + {name}_at[lane][r]]"
    return [f"    for (int r = 0; r < {count}; ++r) {target} = {value};"]


def _size(fragment: Fragment) -> int:
    return len(list(fragment.points()))
