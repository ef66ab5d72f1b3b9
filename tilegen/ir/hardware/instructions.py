"""Instructions of a GPU as data: what one computes, where each lane holds its operands, how it is written.

Nothing here knows an instruction by name. Each is declared in the language; `schedules/instructions.tg` has the stock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, ClassVar

from tilegen.errors import Span
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import DTYPE_BYTES, Equation, Kernel, Load, Op, Tensor
from tilegen.ir.walk import walk

UNITS = {"warp": 32, "warpgroup": 128}
"""What runs an instruction as one, and how many lanes it has."""

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
SPECIFIC_ARCHITECTURES = ("sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a")
"""Those whose own instructions no later architecture has."""

FORMATS = {"tf32": "f32"}
"""Formats of an operand that are no types of the language, and the type that holds such a value.

A tf32 value is an f32 whose last 13 bits are 0. An instruction computes with such values; it rounds nothing. The
function of the same name rounds to it.
"""

ROUNDINGS = {"tf32": "tf32", "tf32_rz": "tf32"}
"""The functions that round a number to a format, and the format."""

ROW_BYTES = 16
"""Of the piece of an operand in shared memory whose address one lane gives."""

PIECES = (128, 64, 32)
"""The bytes of a row of an operand with a descriptor that lie side by side, but for their swizzle: a power of two."""

PLACEHOLDER = re.compile(r"\{(\w+)\}")
"""An operand's name in the text of an instruction. Other braces are PTX's own: a scope, or a list of registers."""

PROTOCOLS = {"wgmma": ("warpgroup", "sm_90a")}
"""How the lanes wait for instructions that run on while they go on: by a word of the text's dialect. It is for one unit
and one architecture."""

Point = tuple[int, ...]


@dataclass(frozen=True)
class _Layout:
    """What all layouts have: the operand and the names of its indices."""

    operand: Tensor
    indices: tuple[str, ...]

    @property
    def shape(self) -> Point:
        """The extents of the operand, which are constant."""
        return tuple(extent.const for extent in self.operand.shape)

    def points(self) -> Iterator[Point]:
        """The elements of the operand, row by row."""
        return product(*map(range, self.shape))


@dataclass(frozen=True)
class _LaneLayout(_Layout):
    """One in which each element has a lane, and of that the place `within`.

    An operand in the `format` "tf32" holds values that this format has. `lanes`: how many hold it together.
    """

    PLACE: ClassVar[str]  # a lane and a place there in words

    lane: Affine
    within: Affine
    format: str | None = None
    lanes: int = UNITS["warp"]
    span: Span | None = field(default=None, compare=False, repr=False)

    def place(self, point: Sequence[Any]) -> tuple[Any, Any]:
        """The lane of element `point`, and its place there; arrays of them where it has an array for each index."""
        values = dict(zip(self.indices, point, strict=True))
        return self.lane.evaluate(values), self.within.evaluate(values)

    def elements(self) -> dict[tuple[int, int], Point]:
        """The element in each place. The layout is a bijection, so nothing is lost."""
        return {self.place(point): point for point in self.points()}


@dataclass(frozen=True)
class Fragment(_LaneLayout):
    """Where the elements of an operand lie: element `indices` in register `within` of lane `lane`.

    Registers count elements: 16-bit elements 2r and 2r + 1 fill the 32-bit register r, the even one low.
    """

    PLACE = "lane {}, register {}"

    @property
    def words(self) -> int:
        """The registers of a lane that the machine counts: of 32 bits, or 64 for f64 and i64."""
        size = DTYPE_BYTES[self.operand.dtype]
        return self.elements_of_a_lane * size // max(4, size)

    @property
    def elements_of_a_lane(self) -> int:
        return prod(self.shape) // self.lanes


@dataclass(frozen=True)
class SharedRows(_LaneLayout):
    """Where the elements of an operand in shared memory lie: in rows of 16 bytes, each at an address that a lane gives.

    Element `indices` is the element `within` of the row whose address lane `lane` gives. The rows are 1, 2, 4, ... or
    as many as there are `lanes`, and the lanes 0 to `rows` - 1 give their addresses; lane L beyond them gives that of
    lane L % `rows`, which the instruction does not read. Rows may lie anywhere in shared memory, each at a multiple of
    16 bytes.
    """

    PLACE = "the row of lane {}, element {}"

    @property
    def elements_of_a_row(self) -> int:
        return ROW_BYTES // DTYPE_BYTES[self.operand.dtype]

    @property
    def rows(self) -> int:
        return prod(self.shape) // self.elements_of_a_row


@dataclass(frozen=True)
class SharedMatrix(_Layout):
    """An operand in shared memory that one descriptor describes, for all lanes: a matrix in rows `along` an index.

    The rows are cut in pieces of 128 bytes, or of 64 or 32. Eight neighbouring rows lie one after the other, and their
    units of 16 bytes change places as `hardware_swizzle` says. The descriptor has the address of the first element,
    the distance of eight rows from the next eight, and that of a piece from the next one along the row. Only the start
    of the matrix along its rows may lie inside of a piece. Without a swizzle a piece is one unit of 16 bytes, and rows
    may overlap. PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
    """

    along: str
    format: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


Layout = Fragment | SharedRows | SharedMatrix


@dataclass(frozen=True)
class Summation:
    """How an instruction adds up floating-point numbers on `arch` and later ones, `terms` of its terms at a time.

    The terms and the accumulator are cut off, towards 0, `bits` binary places after the largest exponent among them,
    and added exactly; with `bits` None they are added as they are. What an element's exponent is, its type says, and
    the exponent of a product is the sum of its factors'. The sum is then brought into the type of the accumulator, or
    to as many fraction bits as are `kept` of it, towards 0 if it is `truncated`, else rounded to nearest. Terms go in
    the order of the indices, the last one fastest.
    """

    terms: int
    bits: int | None
    truncated: bool
    arch: str
    kept: int | None = None


@dataclass(frozen=True)
class Instruction:
    """What a unit of threads computes at once.

    Attributes:
        meaning: a kernel of one equation over the operands, of constant shapes.
        accumulates: the equation's value is added to the target, which is an operand that is read, too.
        operands: the layout of each operand, in registers or in shared memory, in the order of the head.
        unit: a key of UNITS.
        arch: the first architecture that has it; the only one, where that is one of SPECIFIC_ARCHITECTURES.
        ptx: its text, with `{A}` for the registers of the operand A, `[{A}]` for its address in shared memory, or `{A}`
            for its descriptor.
        protocol: a key of PROTOCOLS, of an instruction that runs on while its lanes go on; else "".
        summations: how it adds up, the oldest architecture first; none where it adds nothing, or exactly.
        doc: the comment above the declaration.
        text: the declaration as written.
    """

    name: str
    meaning: Kernel
    accumulates: bool
    operands: tuple[Layout, ...]
    unit: str
    arch: str
    ptx: str
    protocol: str = ""
    summations: tuple[Summation, ...] = ()
    doc: str = field(default="", compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    ptx_span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def equation(self) -> Equation:
        return self.meaning.equations[0]

    @property
    def is_copy(self) -> bool:
        """True if each element of the output is an element of an operand: it moves bits, whatever their type."""
        value, target = self.equation.value, self.meaning.tensor(self.equation.target)
        return (
            not self.accumulates and isinstance(value, Load) and value.fallback is None and value.dtype == target.dtype
        )

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The layouts of the operands in registers."""
        return tuple(operand for operand in self.operands if isinstance(operand, Fragment))

    @property
    def lanes(self) -> int:
        """How many threads run it as one."""
        return UNITS[self.unit]

    def layout(self, operand: str) -> Layout:
        """The layout of an operand; KeyError if there is none of that name."""
        for layout in self.operands:
            if layout.operand.name == operand:
                return layout
        raise KeyError(operand)

    def format_of(self, operand: str) -> str:
        """The format in which it computes with an operand: the one that it has, or is rounded to; else its type.

        Raises KeyError if there is no operand of that name.
        """
        layout = self.layout(operand)
        for node in walk(self.equation.value):
            match node:
                case Op(name, (Load(read),)) if read == operand and name in ROUNDINGS:
                    return ROUNDINGS[name]
        return layout.format or layout.operand.dtype

    @property
    def needs(self) -> str:
        """The architectures that have it, in words."""
        return f"{self.arch}, and no other" if self.arch in SPECIFIC_ARCHITECTURES else f"{self.arch} or later"

    def runs_on(self, arch: str) -> bool:
        """True if the architecture `arch` ("sm_90", "sm_90a") has it."""
        if self.arch in SPECIFIC_ARCHITECTURES:
            return arch == self.arch
        return arch_number(arch) >= arch_number(self.arch)


def arch_number(arch: str) -> int:
    """The number of an architecture: later ones have greater numbers."""
    return int(arch.removeprefix("sm_").rstrip("af"))
