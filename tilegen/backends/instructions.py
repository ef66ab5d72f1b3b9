"""CUDA text of declared instructions: a function with inline PTX for each, and a kernel that tries one by itself."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir.instructions import PLACEHOLDER, ROW_BYTES, UNITS, Fragment, Instruction, SharedRows
from tilegen.ir.nodes import DTYPE_BYTES

# Of a lane's registers: their C type and the constraint of inline PTX. Smaller elements share unsigned ones.
_REGISTERS = {"f32": ("float", "f"), "f64": ("double", "d"), "i32": ("int", "r"), "i64": ("long long", "l")}
_PACKED = ("unsigned", "r")
TRIAL_WARPS = 4
"""As many warps a block of a trial has at most."""

# Elements in memory; those that share registers as bits.
_MEMORY = {"f16": "unsigned short", "bf16": "unsigned short", "i8": "unsigned char", "u8": "unsigned char"}


def device_function(instruction: Instruction) -> str:
    """The instruction as a function over the registers of one lane, with its meaning in a line.

    Of an operand in shared memory it takes the address that the lane gives; a line says of which row.
    """
    output = instruction.equation.target
    parameters = [_parameter(o, constant=o.operand.name != output) for o in _output_first(instruction)]
    numbers, written, read = _number_operands(instruction)
    text = instruction.ptx.replace("%", "%%").replace("\\", "\\\\")
    text = PLACEHOLDER.sub(lambda match: numbers[match[1]], text)
    lists = [", ".join(written), ", ".join(read)]
    if _shared_operands(instruction):
        lists.append('"memory"')
    return (
        f"// {meaning_line(instruction)}\n"
        f"{''.join(map(_row_line, _shared_operands(instruction)))}"
        f"static __device__ __forceinline__ void {instruction.name}({', '.join(parameters)})\n"
        "{\n"
        f"{''.join(_packed_registers(instruction))}"
        f"    asm volatile({_in_lines(text)}\n" + "\n".join(f"        : {each}".rstrip() for each in lists) + ");\n"
        "}\n"
    )


def _packed_registers(instruction: Instruction) -> Iterator[str]:
    """The registers of each operand whose elements share them."""
    for fragment in instruction.fragments:
        name = fragment.operand.name
        if fragment.operand.dtype not in _REGISTERS:
            kind = f"{'' if name == instruction.equation.target else 'const '}{_PACKED[0]}*"
            yield f"    {kind} {name}_registers = static_cast<{kind}>({name});\n"


def _in_lines(text: str) -> str:
    """The text of an instruction as a string of C: a long one has its operands on a line of their own."""
    word, _, operands = text.partition(" ")
    return f'"{text}"' if len(text) < 80 else f'"{word} "\n                 "{operands}"'


def meaning_line(instruction: Instruction) -> str:
    """The equation as declared, who runs it, and since when."""
    equation = instruction.equation.span
    shapes = ", ".join(_shape(operand) for operand in instruction.operands)
    return f"{equation.text if equation else instruction.name}   by a {instruction.unit}; {shapes}"


def _shape(operand: Fragment | SharedRows) -> str:
    where = " in shared" if isinstance(operand, SharedRows) else ""
    return f"{operand.operand.name}: {operand.operand.dtype}{list(operand.shape)}{where}"


def _row_line(rows: SharedRows) -> str:
    """What the pointer to an operand in shared memory points to."""
    name, layout = rows.operand.name, rows.span.text if rows.span else f"one of {rows.rows}"
    return f"// {name} points to the {ROW_BYTES} bytes of this lane: {layout}\n"


def trial_kernel(instruction: Instruction) -> str:
    """A kernel `trial` that runs the instruction once a warp, made from its declaration alone.

    Its arguments are arrays of matrices, row by row, of each input in turn, and how many these are; then the matrices
    that the output starts from, how many, and the outputs; then the number of warps. Warp w takes the inputs of the
    number w in mixed radix, the last input fastest, start w modulo their number, and writes output w. A block has
    TRIAL_WARPS warps at most. The rows of an operand in shared memory lie there in no order of the lanes.
    """
    *inputs, output = instruction.operands
    parameters = [f"const {_element_type(o)}* {o.operand.name}_all, int {o.operand.name}_count" for o in inputs]
    parameters += [f"const {_element_type(output)}* start, int start_count, {_element_type(output)}* result, int warps"]
    lines = [_slot_table(operand) for operand in instruction.operands]
    lines += [device_function(instruction)]
    lines += [f'extern "C" __global__ void trial({", ".join(parameters)})', "{"]
    lines += [_shared(rows) for rows in _shared_operands(instruction)]
    lines += [
        f"    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / {UNITS[instruction.unit]};",
        f"    const int lane = threadIdx.x % {UNITS[instruction.unit]};",
        "    if (warp >= warps) return;",
        "    int rest = warp;",
    ]
    for operand in reversed(inputs):
        lines += _load_function(operand, f"{operand.operand.name}_all", f"rest % {operand.operand.name}_count")
        lines += [f"    rest /= {operand.operand.name}_count;"]
    lines += _load_function(output, "start", "warp % start_count")
    waits = ["    __syncwarp();"] if _shared_operands(instruction) else []
    call = f"    {instruction.name}({', '.join(o.operand.name for o in _output_first(instruction))});"
    lines += [*waits, call, *waits]
    lines += _store(output)
    return "\n".join([*lines, "}", ""])


def _output_first(instruction: Instruction) -> tuple[Fragment | SharedRows, ...]:
    *inputs, output = instruction.operands
    return (output, *inputs)


def _parameter(operand: Fragment | SharedRows, constant: bool) -> str:
    registers = isinstance(operand, Fragment) and operand.operand.dtype in _REGISTERS
    kind = _REGISTERS[operand.operand.dtype][0] if registers else "void"
    return f"{'const ' * constant}{kind}* {operand.operand.name}"


def _shared_operands(instruction: Instruction) -> tuple[SharedRows, ...]:
    return tuple(operand for operand in instruction.operands if isinstance(operand, SharedRows))


def _number_operands(instruction: Instruction) -> tuple[dict[str, str], list[str], list[str]]:
    """What stands for each operand in the text; then what is written and what is read, in the order of their numbers.

    Registers of the output are written. An address is read, whatever is done in memory.
    """
    texts: dict[str, str] = {}
    written: list[str] = []
    read: list[str] = []
    mark = "+" if instruction.accumulates else "="
    for operand in _output_first(instruction):
        name, first = operand.operand.name, len(written) + len(read)
        if isinstance(operand, SharedRows):
            texts[name] = f"%{first}"
            read.append(f'"r"((unsigned)__cvta_generic_to_shared({name}))')
            continue
        texts[name] = "{" + ", ".join(f"%{first + r}" for r in range(operand.words)) + "}"
        values = _register_values(instruction, operand)
        if name == instruction.equation.target:
            written += [f'"{mark}{constraint}"({value})' for constraint, value in values]
        else:
            read += [f'"{constraint}"({value})' for constraint, value in values]
    return texts, written, read


def _register_values(instruction: Instruction, fragment: Fragment) -> list[tuple[str, str]]:
    """The constraint and the value of each register of an operand."""
    name = fragment.operand.name
    _, constraint = _REGISTERS.get(fragment.operand.dtype, _PACKED)
    array = name if fragment.operand.dtype in _REGISTERS else f"{name}_registers"
    values = [f"{array}[{r}]" for r in range(fragment.words)]
    if constraint != "f" or not (instruction.is_copy or fragment.format):
        return [(constraint, value) for value in values]
    if name == instruction.equation.target:  # its registers are bits to the assembler
        return [("r", f"reinterpret_cast<unsigned&>({value})") for value in values]
    return [("r", f"__float_as_uint({value})") for value in values]


# -- the trial


def _element_type(operand: Fragment | SharedRows) -> str:
    dtype = operand.operand.dtype
    return _MEMORY.get(dtype) or _REGISTERS[dtype][0]


def _slots(operand: Fragment | SharedRows) -> tuple[int, int]:
    """How many lanes have a slot, and how many slots each of them."""
    if isinstance(operand, SharedRows):
        return operand.rows, operand.elements_of_a_row
    return UNITS["warp"], operand.elements_of_a_lane


def _slot_table(operand: Fragment | SharedRows) -> str:
    """The offset of the element in each slot, of the matrix row by row: the layout, walked over."""
    lanes, count = _slots(operand)
    offsets: dict[tuple[int, int], int] = {operand.slot(point): at for at, point in enumerate(operand.points())}
    rows = (", ".join(str(offsets[lane, within]) for within in range(count)) for lane in range(lanes))
    listed = ",\n".join(f"    {{{row}}}" for row in rows)
    return f"static __device__ const short {operand.operand.name}_at[{lanes}][{count}] = {{\n{listed}\n}};\n"


def _shared(rows: SharedRows) -> str:
    """The rows of each warp of the block, and the place of row r among them."""
    name, element, size = rows.operand.name, _element_type(rows), f"[{rows.rows}][{rows.elements_of_a_row}]"
    return (
        f"    __shared__ __align__({ROW_BYTES}) {element} {name}_rows[{TRIAL_WARPS}]{size};\n"
        f"    {element} (&{name}_mine){size} = {name}_rows[threadIdx.x / {UNITS['warp']}];"
    )


def _load_function(operand: Fragment | SharedRows, array: str, number: str) -> list[str]:
    name, element = operand.operand.name, _element_type(operand)
    lines = [f"    const {element}* {name}_matrix = {array} + (size_t)({number}) * {_fragment_size(operand)};"]
    if isinstance(operand, SharedRows):
        lines += _each_row(operand, f"{name}_mine[{_row(operand, 'r')}][e] = {name}_matrix[{name}_at[r][e]]")
        return [*lines, f"    void* {name} = {name}_mine[{_row(operand, f'(lane % {operand.rows})')}];"]
    count, size = operand.elements_of_a_lane, DTYPE_BYTES[operand.operand.dtype]
    kind, _ = _REGISTERS.get(operand.operand.dtype, _PACKED)
    value = f"{name}_matrix[{name}_at[lane][r]]"
    shared = 4 // size
    put = (
        f"{name}[r] = {value}"
        if shared <= 1
        else f"{name}[r / {shared}] |= (unsigned){value} << {8 * size} * (r % {shared})"
    )
    return [
        *lines,
        f"    {kind} {name}[{operand.words}] = {{}};",
        f"    for (int r = 0; r < {count}; ++r) {put};",
    ]


def _store(operand: Fragment | SharedRows) -> list[str]:
    name, size = operand.operand.name, DTYPE_BYTES[operand.operand.dtype]
    matrix = f"result[(size_t)warp * {_fragment_size(operand)} + {name}_at"
    if isinstance(operand, SharedRows):
        return _each_row(operand, f"{matrix}[r][e]] = {name}_mine[{_row(operand, 'r')}][e]")
    shared = 4 // size
    value = f"{name}[r]" if shared <= 1 else f"{name}[r / {shared}] >> {8 * size} * (r % {shared})"
    return [f"    for (int r = 0; r < {operand.elements_of_a_lane}; ++r) {matrix}[lane][r]] = {value};"]


def _each_row(rows: SharedRows, body: str) -> list[str]:
    return [
        f"    for (int r = lane; r < {rows.rows}; r += {UNITS['warp']})",
        f"        for (int e = 0; e < {rows.elements_of_a_row}; ++e) {body};",
    ]


def _row(rows: SharedRows, number: str) -> str:
    """Where a row lies: mixed up, so that an address derived from another lane's is wrong."""
    return f"({number} * 5 + 3) % {rows.rows}"


def _fragment_size(operand: Fragment | SharedRows) -> int:
    return len(list(operand.points()))
