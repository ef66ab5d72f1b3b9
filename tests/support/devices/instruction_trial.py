"""A kernel that tries one declared instruction by itself, for tests that hold the declaration against the hardware."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilegen.backends.compiler.instructions import PACKED, REGISTERS, device_function, output_first, row_operands
from tilegen.backends.text.helpers import helpers
from tilegen.backends.text.values.dialect import CUDA
from tilegen.ir.hardware.descriptors import ROWS
from tilegen.ir.hardware.instructions import PIECES, ROW_BYTES, Fragment, Instruction, Layout, SharedMatrix, SharedRows
from tilegen.ir.nodes import DTYPE_BYTES

TRIAL_THREADS = 128
"""Of a block of a trial: as many warps or warpgroups as these are."""

# Elements in memory; those that share registers as bits.
_MEMORY = dict.fromkeys(("f16", "bf16"), "unsigned short") | dict.fromkeys(
    ("e4m3", "e5m2", "i8", "u8"), "unsigned char"
)


def trial_kernel(instruction: Instruction) -> str:
    """A kernel `trial` that runs the instruction once a unit, a warp or a warpgroup, made from its declaration alone.

    Its arguments are arrays of matrices, row by row, of each input in turn, and how many these are; then the matrices
    that the output starts from, how many, and the outputs; then the number of units. Unit w takes the inputs of the
    number w in mixed radix, the last input fastest, start w modulo their number, and writes output w. A block has
    TRIAL_THREADS threads. The rows of an operand in shared memory lie there in no order of the lanes.
    """
    *inputs, output = instruction.operands
    parameters = [f"const {_element_type(o)}* {o.operand.name}_all, int {o.operand.name}_count" for o in inputs]
    parameters += [f"const {_element_type(output)}* start, int start_count, {_element_type(output)}* result, int units"]
    matrices = [operand for operand in instruction.operands if isinstance(operand, SharedMatrix)]
    lines = [_slot_table(operand) for operand in instruction.operands if not isinstance(operand, SharedMatrix)]
    lines += [device_function(instruction)]
    lines += [f'extern "C" __global__ void trial({", ".join(parameters)})', "{"]
    lines += [*map(_shared_rows, row_operands(instruction)), *map(_shared_pieces, matrices)]
    lines += [
        f"    const int unit = (blockIdx.x * blockDim.x + threadIdx.x) / {instruction.lanes};",
        f"    const int lane = threadIdx.x % {instruction.lanes};",
        "    if (unit >= units) return;",
        "    int rest = unit;",
    ]
    for operand in reversed(inputs):
        lines += _load_function(operand, f"{operand.operand.name}_all", f"rest % {operand.operand.name}_count")
        lines += [f"    rest /= {operand.operand.name}_count;"]
    lines += _load_function(output, "start", "unit % start_count")
    waits = ["    __syncwarp();"] if row_operands(instruction) else []
    waits = ["    fence_async();", "    __syncthreads();"] if matrices else waits
    call = f"    {instruction.name}({', '.join(o.operand.name for o in output_first(instruction))});"
    lines += [*waits, *_completed(call, instruction), *waits]
    lines += _store(output)
    text = "\n".join([*lines, "}", ""])
    return f"{helpers(text, CUDA)}\n{text}"


def _completed(call: str, instruction: Instruction) -> list[str]:
    """The call, and the wait for an instruction that goes on."""
    if not instruction.protocol:
        return [call]
    held = [f"    hold<{fragment.words}>({fragment.operand.name});" for fragment in instruction.fragments]
    return [*held, f"    begin_{instruction.protocol}();", call, f"    complete_{instruction.protocol}();", *held]


def _element_type(operand: Layout) -> str:
    dtype = operand.operand.dtype
    return _MEMORY.get(dtype) or REGISTERS[dtype][0]


def _slots(operand: Fragment | SharedRows) -> tuple[int, int]:
    """How many lanes have a place, and how many places each of them."""
    if isinstance(operand, SharedRows):
        return operand.rows, operand.elements_of_a_row
    return operand.lanes, operand.elements_of_a_lane


def _slot_table(operand: Fragment | SharedRows) -> str:
    """The offset of the element in each place, of the matrix row by row: the layout, walked over."""
    lanes, count = _slots(operand)
    offsets: dict[tuple[int, int], int] = {operand.place(point): at for at, point in enumerate(operand.points())}
    rows = (", ".join(str(offsets[lane, within]) for within in range(count)) for lane in range(lanes))
    listed = ",\n".join(f"    {{{row}}}" for row in rows)
    return f"static __device__ const short {operand.operand.name}_at[{lanes}][{count}] = {{\n{listed}\n}};\n"


def _shared_rows(rows: SharedRows) -> str:
    """The rows of each unit of the block, and the place of row r among them."""
    name, element, size = rows.operand.name, _element_type(rows), f"[{rows.rows}][{rows.elements_of_a_row}]"
    return (
        f"    __shared__ __align__({ROW_BYTES}) {element} {name}_rows[{TRIAL_THREADS // rows.lanes}]{size};\n"
        f"    {element} (&{name}_mine){size} = {name}_rows[threadIdx.x / {rows.lanes}];"
    )


def _shared_pieces(matrix: SharedMatrix) -> str:
    """The pieces of the rows of a matrix, those at one place of the row one after the other.

    There is room for those of rows that run the other way, too: an instruction declared wrong reads no further.
    """
    rows, pieces, width = _pieces(matrix)
    other = next(index for index in matrix.indices if index != matrix.along)
    turned = prod(_pieces(replace(matrix, along=other))[:2])
    size = f"[{max(pieces, -(-turned // rows))}][{rows}][{width}]"
    return f"    __shared__ __align__({ROWS * PIECES[0]}) {_element_type(matrix)} {matrix.operand.name}_pieces{size};"


def _pieces(matrix: SharedMatrix) -> tuple[int, int, int]:
    """(rows, pieces of each, elements of a piece)."""
    along = matrix.indices.index(matrix.along)
    width = PIECES[0] // DTYPE_BYTES[matrix.operand.dtype]
    return matrix.shape[1 - along], -(-matrix.shape[along] // width), width


def _load_matrix(matrix: SharedMatrix, lines: list[str]) -> list[str]:
    """Each element to its piece, in the swizzle of 128 bytes, and the descriptor."""
    name, along = matrix.operand.name, matrix.indices.index(matrix.along)
    rows, pieces, width = _pieces(matrix)
    length, unit = matrix.shape[along], ROW_BYTES // DTYPE_BYTES[matrix.operand.dtype]
    offset = f"r * {length} + c" if along == 1 else f"c * {rows} + r"
    leading = rows * PIECES[0] if pieces > 1 else 0
    return [
        *lines,
        f"    for (int at = lane; at < {rows * length}; at += {TRIAL_THREADS}) {{",
        f"        const int r = at / {length}, c = at % {length};",
        f"        {name}_pieces[c / {width}][r][c % {width} ^ r % {ROWS} * {unit}] = {name}_matrix[{offset}];",
        "    }",
        f"    const auto {name} = describe_{PIECES[0]}<{ROWS * PIECES[0]}, {leading}>({name}_pieces);",
    ]


def _load_function(operand: Layout, array: str, number: str) -> list[str]:
    name, element = operand.operand.name, _element_type(operand)
    lines = [f"    const {element}* {name}_matrix = {array} + (size_t)({number}) * {_fragment_size(operand)};"]
    if isinstance(operand, SharedMatrix):
        return _load_matrix(operand, lines)
    if isinstance(operand, SharedRows):
        lines += _each_row(operand, f"{name}_mine[{_row(operand, 'r')}][e] = {name}_matrix[{name}_at[r][e]]")
        return [*lines, f"    void* {name} = {name}_mine[{_row(operand, f'(lane % {operand.rows})')}];"]
    count, size = operand.elements_of_a_lane, DTYPE_BYTES[operand.operand.dtype]
    kind, _ = REGISTERS.get(operand.operand.dtype, PACKED)
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
        "    #pragma unroll",
        f"    for (int r = 0; r < {count}; ++r) {put};",
    ]


def _store(operand: Layout) -> list[str]:
    assert not isinstance(operand, SharedMatrix), "a descriptor tells of what is read"
    name, size = operand.operand.name, DTYPE_BYTES[operand.operand.dtype]
    matrix = f"result[(size_t)unit * {_fragment_size(operand)} + {name}_at"
    if isinstance(operand, SharedRows):
        return _each_row(operand, f"{matrix}[r][e]] = {name}_mine[{_row(operand, 'r')}][e]")
    shared = 4 // size
    value = f"{name}[r]" if shared <= 1 else f"{name}[r / {shared}] >> {8 * size} * (r % {shared})"
    loop = f"    for (int r = 0; r < {operand.elements_of_a_lane}; ++r) {matrix}[lane][r]] = {value};"
    return ["    #pragma unroll", loop]


def _each_row(rows: SharedRows, body: str) -> list[str]:
    return [
        f"    for (int r = lane; r < {rows.rows}; r += {rows.lanes})",
        f"        for (int e = 0; e < {rows.elements_of_a_row}; ++e) {body};",
    ]


def _row(rows: SharedRows, number: str) -> str:
    """Where a row lies: mixed up, so that an address derived from another lane's is wrong."""
    return f"({number} * 5 + 3) % {rows.rows}"


def _fragment_size(operand: Layout) -> int:
    return len(list(operand.points()))
