"""Instructions of warps and warpgroups as the PTX ISA has them: who holds what, and what is computed, from their PTX.

Nothing is taken from a declaration but its text in PTX, so that a layout declared wrongly is another one than this.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

# Row and column of element `e` of a lane, as the PTX ISA writes them: g is groupID, t is threadID_in_group.
Place = Callable[[int, int, int], tuple[int, int]]
SIXTEEN: dict[str, Place] = {
    "A": lambda g, t, e: (g if e in (0, 1, 4, 5) else g + 8, t * 2 + (e & 1) + (8 if e >= 4 else 0)),
    "B": lambda g, t, e: (t * 2 + (e & 1) + (8 if e >= 2 else 0), g),
    "C": lambda g, t, e: (g if e < 2 else g + 8, t * 2 + (e & 1)),
}
# By the shape and the type of A.
LAYOUTS: dict[tuple[str, str], dict[str, Place]] = {
    ("m16n8k16", "bf16"): SIXTEEN,
    ("m16n8k16", "f16"): SIXTEEN,
    ("m16n8k8", "tf32"): {
        "A": lambda g, t, e: (g if e in (0, 2) else g + 8, t if e in (0, 1) else t + 4),
        "B": lambda g, t, e: (t if e == 0 else t + 4, g),
        "C": SIXTEEN["C"],
    },
    ("m16n8k32", "s8"): {
        "A": lambda g, t, e: (g if e < 4 or 8 <= e < 12 else g + 8, t * 4 + (e & 3) + (0 if e < 8 else 16)),
        "B": lambda g, t, e: (t * 4 + (e & 3) + (0 if e < 4 else 16), g),
        "C": SIXTEEN["C"],
    },
    ("m8n8k4", "f64"): {
        "A": lambda g, t, e: (g, t),
        "B": lambda g, t, e: (t, g),
        "C": lambda g, t, e: (g, t * 2 + (e & 1)),
    },
}
TYPES = {
    "bf16": "bf16",
    "f16": "f16",
    "tf32": "f32",
    "s8": "i8",
    "e4m3": "e4m3",
    "e5m2": "e5m2",
    "f64": "f64",
    "f32": "f32",
    "s32": "i32",
}
BYTES = {"bf16": 2, "f16": 2, "i8": 1, "e4m3": 1, "e5m2": 1, "f32": 4, "i32": 4, "f64": 8}
WARP, ROW = 32, 16  # lanes, and bytes of a row of ldmatrix
# It adds to D, for its predicate is true, with factors of 1.
_WGMMA = re.compile(
    r"\{ \.reg \.pred add; setp\.eq\.u32 add, 1, 1; "
    r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k(?P<k>\d+)\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+) "
    r"\{(?P<D>\w+)\}, \{(?P<A>\w+)\}, \{(?P<B>\w+)\}, add(?:, 1, 1(?P<transposed>(?:, [01]){1,2})?)?; \}"
)


@dataclass(frozen=True)
class Mma:
    """D = A B + C. `names` are the operands in the text for D, A, B and C, `types` those of the language for them.

    Of factors that are `cut_off` the last 13 bits are not read.
    """

    shape: tuple[int, int, int]
    names: tuple[str, str, str, str]
    types: tuple[str, str, str, str]
    layout: dict[str, Place]
    cut_off: bool

    def count(self, letter: str) -> int:
        """Elements of an operand that a lane has."""
        m, n, k = self.shape
        return {"A": m * k, "B": k * n, "C": m * n, "D": m * n}[letter] // WARP

    def places(self, letter: str) -> dict[tuple[int, int], tuple[int, int]]:
        """(lane, element): (row, column), for D as for C."""
        place = self.layout["C" if letter == "D" else letter]
        return {(lane, e): place(lane // 4, lane % 4, e) for lane in range(WARP) for e in range(self.count(letter))}


@dataclass(frozen=True)
class MoveMatrices:
    """ldmatrix, or stmatrix if it `stores`: so many 8 x 8 of 16 bits between rows in shared memory and registers."""

    stores: bool
    registers: str
    rows: str
    matrices: int
    transposed: bool

    def source(self, lane: int, byte: int) -> tuple[int, int]:
        """(the lane that gives the address, the byte after that) of a byte of a lane's registers.

        Lanes 8 m to 8 m + 7 give the rows of matrix m, which register m is for. A lane has two neighbours of 16 bits of
        row lane / 4; or, transposed, of column lane / 4.
        """
        matrix, byte = divmod(byte, 4)
        row, column = lane // 4, lane % 4 * 2 + byte // 2
        if self.transposed:
            row, column = column, row
        return matrix * 8 + row, column * 2 + byte % 2


# By the bytes of a swizzled row: how many bits of an address from 7 on are added, modulo 2, to those from 4 on.
SWIZZLED_BITS = {128: 3, 64: 2, 32: 1, 16: 0}


@dataclass(frozen=True)
class Wgmma:
    """D = A B + D by 128 lanes, A and B in shared memory by descriptor; `transposed` are those not in rows along k.

    A can lie in registers: `registers` is True if it has to, and None where only what is given tells. `names` are the
    operands in the text for D, A and B, `types` those of the language for them. Of factors that are `cut_off` the last
    13 bits are not read.
    """

    shape: tuple[int, int, int]
    names: tuple[str, str, str]
    types: tuple[str, str, str]
    transposed: tuple[bool, bool]
    cut_off: bool
    registers: bool | None

    def places_of_a(self, lane: int) -> list[tuple[int, int]]:
        """Row and column of each element of A that a lane has: the 16 rows of its warp are those of mma.sync."""
        warp, lane = divmod(lane, WARP)
        shape, dtype = {8: ("m16n8k8", "tf32"), 16: ("m16n8k16", "bf16"), 32: ("m16n8k32", "s8")}[self.shape[2]]
        place = LAYOUTS[shape, dtype]["A"]
        inside = (place(lane // 4, lane % 4, e) for e in range(16 * self.shape[2] // WARP))
        return [(16 * warp + row, column) for row, column in inside]

    def places(self, lane: int) -> list[tuple[int, int]]:
        """Row and column of each element of D that a lane has, in the order of its registers."""
        warp, lane = divmod(lane, WARP)
        count = self.shape[0] * self.shape[1] // (4 * WARP)
        return [(16 * warp + lane // 4 + 8 * (e // 2 & 1), 8 * (e // 4) + lane % 4 * 2 + (e & 1)) for e in range(count)]

    def row_and_byte(self, letter: str, row: int, k: int) -> tuple[int, int]:
        """Where A[row, k] or B[k, row] lies: in which row in shared memory, and at which byte of it."""
        size, transposed = BYTES[self.types["DAB".index(letter)]], self.transposed["AB".index(letter)]
        return (k, row * size) if transposed else (row, k * size)


def described_address(start: int, piece: int, stride: int, leading: int, row: int, byte: int) -> int:
    """The address of a byte of a matrix, "Asynchronous Warpgroup Level Matrix Shared Memory Layout": blocks of
    eight rows of `piece` bytes, `stride` from one to the next across the rows and `leading` along them; swizzled."""
    address = start + byte % piece + row % 8 * piece + row // 8 * stride + byte // piece * leading
    return address ^ (address >> 7 & (1 << SWIZZLED_BITS[piece]) - 1) << 4


def read(ptx: str) -> Mma | MoveMatrices | Wgmma:
    """What the PTX of a declaration does. Raises ValueError for what is not known here."""
    if found := _WGMMA.fullmatch(ptx):
        types = tuple(TYPES[found[each]] for each in ("d", "a", "b"))
        shape = (64, int(found["n"]), int(found["k"]))
        flags = [each == "1" for each in (found["transposed"] or ", 0, 0").removeprefix(", ").split(", ")]
        registers = len(flags) == 1 if found["transposed"] else None
        if shape[2] * BYTES[types[1]] != 32:
            raise ValueError(ptx)
        names = found["D"], found["A"], found["B"]
        of_a = len(flags) == 2 and flags[0]
        return Wgmma(shape, names, types, (of_a, flags[-1]), found["a"] == "tf32", registers)
    opcode, _, rest = ptx.partition(" ")
    word, *parts = opcode.split(".")
    names = tuple(re.findall(r"\{(\w+)\}", rest))
    if word == "mma" and parts[:2] == ["sync", "aligned"] and parts[3:5] == ["row", "col"]:
        shape, types = parts[2], tuple(TYPES[each] for each in parts[5:])
        m, n, k = map(int, re.findall(r"\d+", shape))
        return Mma((m, n, k), names, types, LAYOUTS[shape, parts[6]], parts[6] == "tf32")
    if (
        word in ("ldmatrix", "stmatrix")
        and parts[:3] == ["sync", "aligned", "m8n8"]
        and parts[-2:] == ["shared", "b16"]
    ):
        first, second = names
        stores = word == "stmatrix"
        if f"[{{{first if stores else second}}}]" not in rest:
            raise ValueError(ptx)
        registers, rows = (second, first) if stores else (first, second)
        return MoveMatrices(stores, registers, rows, int(parts[3].removeprefix("x")), "trans" in parts)
    raise ValueError(ptx)
