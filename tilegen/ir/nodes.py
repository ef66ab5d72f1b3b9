"""The nodes: what a kernel says (`Kernel`, `Equation`), and the loop tree of it (`Tree`, `Loop`, `Stmt`).

All of them are frozen values compared by structure; spans and the text of the step that made a node
ride along and take no part in equality. A loop's name is its identity: where a loop has been
distributed over several nests, all of them carry its name, extent and kind, and none is inside another.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tilegen.errors import Span
from tilegen.ir.affine import Affine, factors_of
from tilegen.ir.parts.beside import Beside
from tilegen.ir.parts.condition import Condition as Condition
from tilegen.ir.parts.derived import Derived
from tilegen.ir.parts.index_range import Range as Range
from tilegen.ir.parts.lists import LISTS, Hits
from tilegen.ir.parts.named import Named
from tilegen.ir.parts.role import Role
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.ir.parts.windows import Windows
from tilegen.ir.printing.shown import counted, listing

if TYPE_CHECKING:
    from tilegen.ir.hardware.instructions import Fragment, Instruction
    from tilegen.ir.reductions.ragged import Bounds

BYTE_FLOATS = ("e4m3", "e5m2")  # stored and cast, and nothing else
SHORT_FLOATS = ("f16", "bf16", *BYTE_FLOATS)  # computed with in f32
FLOATS, INTEGERS = ("f64", "f32", *SHORT_FLOATS), ("i64", "i32", "i8", "u8")
DTYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1}
DTYPE_BYTES |= {"i64": 8, "i32": 4, "i8": 1, "u8": 1, "bool": 1}

BLOCK_KINDS = ("block.x", "block.y", "block.z")
THREAD_KINDS = ("thread.x", "thread.y", "thread.z")
# Lowered, threads of a block share out cooperative loops, and one starts the copy of a box that a bulk loop is.
# Of scatter loops the one iteration runs that has a term, of ragged ones those between two ends that data give.
_PLAIN_KINDS = ("serial", "unrolled", "vector", "cooperative", "bulk", "matrix", "scatter", "ragged")
LOOP_KINDS = (*_PLAIN_KINDS, *BLOCK_KINDS, *THREAD_KINDS)
PARALLEL = frozenset((*BLOCK_KINDS, *THREAD_KINDS, "vector", "cooperative", "bulk"))  # their iterations run at once

REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "argmin", *LISTS)
ONLY = "only"  # of terms of which exactly one has a value, by a promise, that one: nothing starts it


# -- data expressions; each knows its dtype, one of DTYPE_BYTES


@dataclass(frozen=True)
class Const:
    value: float | int
    dtype: str


class Nothing(Const):
    """No value, 0 where it is computed with: what the other iterations give to an element that has one term only."""


@dataclass(frozen=True)
class Index:
    """An integer index expression used as a value."""

    index: Affine
    dtype: str = "i32"


@dataclass(frozen=True)
class Load:
    """Element `index` of `buffer`. With a fallback, an index outside the buffer reads the fallback."""

    buffer: str
    index: tuple[Affine, ...]
    dtype: str
    fallback: Const | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Gather:
    """Element `index` of an input, integers of 64 bits that data decide or that are not affine.

    Where one of the dimensions `tested` is left it reads the fallback; the others are inside whatever the data are.
    """

    buffer: str
    index: tuple[Expr, ...]
    dtype: str
    fallback: Expr | None = None
    tested: tuple[int, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Op:
    """A scalar operation; `name` is a key of operations.OPERATIONS."""

    name: str
    args: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True)
class Cast:
    arg: Expr
    dtype: str


@dataclass(frozen=True)
class Scalar:
    """A number that a call gives, the same at every point: a parameter of a kernel without a shape."""

    name: str
    dtype: str


Expr = Const | Index | Load | Gather | Op | Cast | Scalar


# -- the kernel as written


@dataclass(frozen=True)
class Tensor:
    """A named array of a kernel. `order` lists the dimensions from the slowest to the fastest in memory.

    An input that has `windows` is no array of a call: these say which element of another one each of its own is.
    """

    name: str
    dtype: str
    shape: tuple[Affine, ...]
    role: str  # "input", "output" or "intermediate"
    order: tuple[int, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    windows: Windows | None = None


@dataclass(frozen=True)
class Equation:
    """`target[index] = reduce[reduced](value)`, for every point of `loops` that satisfies `conditions`.

    `loops` are the ranges of the left side, `reduced` those of the reduction (empty where `reduce` is None).
    `conditions` restrict the points, those of the reduction included. For argmax and argmin the `value` is what is
    compared, the target receives `arg`, and `best` names the intermediate tensor that holds the best value so far (same
    index as the target). The target starts with `first`, the first index of the range.

    With `running`, the value reads that reduction while it runs: in each iteration of the outermost loop that it
    reduces, before the terms there or, if `inclusive`, after them. Steps make such equations; none is written so.
    A list counts in its target the points at which its value, a condition, is true, and stores `hits` there. Without
    `reduce`, hits are stored at their rank, which others count.

    The outermost `carried` loops are those along which a recurrence goes: what is read of the target was defined in an
    earlier iteration of these. Equations that read each other stand together, and share them.
    """

    target: str
    index: tuple[Affine, ...]
    loops: tuple[Range, ...]
    value: Expr
    reduce: str | None = None
    reduced: tuple[Range, ...] = ()
    conditions: tuple[Condition, ...] = ()
    best: str | None = None
    arg: Expr | None = None
    first: Expr | None = None
    running: str | None = None
    inclusive: bool = False
    carried: int = 0
    hits: Hits | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Kernel:
    """A kernel as written; the tree is made from it, and every later tree is judged against it.

    `sizes` are symbolic integers, at least 1, in the order of their first use; `assumptions` are what `where` says of
    them; no two elements of a `different` input are equal, and a `rising` one goes from 0 to what stands beside it and
    never falls. `tensors` lists the parameters in order, then the outputs, then intermediates; `scalars` the parameters
    without a shape; `parameters` names both in the order that a call gives them. A step that divides or rounds a
    reduction, or computes values several times, makes a kernel of its own, with `origin` and how it was `derived`: it
    is judged, too, and what is right is still what the kernel as written says. Where that approximates something, the
    kernel `meant` computes this, and `slack`, a kernel with some of the outputs, how much further off results may be
    than those of `meant`. `beside` is what its text sets beside it.
    """

    name: str
    sizes: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    equations: tuple[Equation, ...]
    assumptions: tuple[Condition, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    parameters: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    rising: tuple[tuple[str, Affine], ...] = ()
    origin: Kernel | None = None
    derived: Derived | None = None
    meant: Kernel | None = None
    slack: Kernel | None = None
    beside: tuple[Beside, ...] = field(default=(), compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The integers that the solver knows: the sizes, and the products of sizes that dimensions are as long as."""
        named = frozenset[str]().union(*(extent.symbols() for tensor in self.tensors for extent in tensor.shape))
        return (*self.sizes, *sorted(name for name in named if len(factors_of(name)) > 1))

    @property
    def written_kernel(self) -> Kernel:
        """The kernel as written, which this one has been derived from."""
        return self.origin.written_kernel if self.origin else self

    @property
    def called_kernel(self) -> Kernel:
        """The kernel as calls see it: arrays as written, with all that steps ask of sizes."""
        return replace(self.written_kernel, assumptions=self.assumptions)

    @property
    def meant_kernel(self) -> Kernel:
        """The kernel that the one as written approximates, or that itself."""
        return self.written_kernel.meant or self.written_kernel

    def __hash__(self) -> int:
        return hash((self.name, self.sizes))  # which one of those it is, equality tells

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`; KeyError if there is none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)


# -- the tree


@dataclass(frozen=True)
class Buffer:
    """Memory of a tree. A tensor of the kernel is a global buffer of the same name.

    `copy_of` names the buffer that a copy was made from, or None. `scope` is the loop in whose body a
    shared or register buffer lives: its contents do not survive from one iteration to the next. `pad`
    elements are added to each row of the fastest dimension, and `swizzle` permutes what is in it. `order` is as
    in `Tensor`. The rows of a tensor of a call lie `pitch` elements apart, or one after another where that is None.
    A register buffer may have dimensions that run over thread loops; each thread keeps its own slice.
    `joined` says, of a copy, which dimensions of the original each of its own consists of, where not of one. In
    `panels`, it has one dimension more than the original, the first: the number of the panel, a part of each row.
    What is loaded of a `streamed` one need not stay in a cache. A shared one begins at a multiple of `align` bytes: of
    16, which are the most that a thread takes at once, or of more where an instruction asks for that.
    With a `fragment`, the registers of a warp's lanes hold it together: the dimensions `fragment_dims` are the indices
    of the fragment, in its order, and each element of the others has such a block of its own. What has `windows` is not
    stored.
    """

    name: str
    dtype: str
    shape: tuple[Affine, ...]
    space: str  # "global", "shared" or "register"
    order: tuple[int, ...]
    role: str = "copy"  # "input", "output", "intermediate", "copy", or "states": 0 before the first launch
    copy_of: str | None = None
    scope: str | None = None
    pad: int = 0
    pitch: Affine | None = None
    swizzle: Swizzle | None = None
    joined: tuple[tuple[int, ...], ...] = ()
    panels: bool = False
    streamed: bool = False
    align: int = 16
    fragment: Fragment | None = None
    fragment_dims: tuple[int, ...] = ()
    windows: Windows | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    step: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Access:
    buffer: str
    index: tuple[Affine, ...]


@dataclass(frozen=True)
class Stmt:
    """One assignment or reduction step, executed where every condition of `guard` holds.

    `name` says which statement of the kernel this is: "C" for the equation of C (its update, if it reduces), "C.init"
    for the start of its reduction ("C.best.init" for the companion of an arg reduction); `instance` is the point of
    that statement that runs here, one entry for each of its loops. A copy has `instance` None and the name of the
    buffer it fills; which element of a tensor it hands over is plain if it has that, and stands in `element` if not.
    With `term` it stores the element only where that instance has its only term.

    With `reduce`, the target is updated: target = target (reduce) value. For argmax and argmin, `best` is the access to
    the best value and `arg` the index that goes with `value`; a strictly better value replaces, so the first of equals
    wins. An `arg` that is loaded goes with the best value of a part: there the lower index of equals wins, in whatever
    order the parts come. A list counts in the target where its value is true, and puts `hits` where that stood before;
    without `reduce` it puts them at their rank. An `atomic` update is one access to memory, so that parallel iterations
    may make theirs to one element.
    """

    name: str
    target: Access
    value: Expr
    instance: tuple[Affine, ...] | None = None
    guard: tuple[Condition, ...] = ()
    reduce: str | None = None
    best: Access | None = None
    arg: Expr | None = None
    atomic: bool = False
    hits: Hits | None = None
    element: tuple[Affine, ...] | None = None
    term: tuple[Affine, ...] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    step: str = field(default="", compare=False, repr=False)

    @property
    def is_copy(self) -> bool:
        return self.instance is None


@dataclass(frozen=True)
class Performed:
    """What runs a nest of loops as one.

    `indices` are the indices of the instruction's equation, in the nest's loops: those of its left side, then those
    that it reduces.
    """

    instruction: Instruction
    indices: tuple[Affine, ...]


@dataclass(frozen=True)
class Loop:
    """for name in 0 .. extent-1. The extent is affine in the sizes alone; once lowered, loops around may tell it, too.

    With `stages` above 1, the copies to shared memory at the start of the body are made that many less one iterations
    ahead when the tree is lowered; the loop means the same. With `across`, the name of a loop around it, those for its
    first iterations are made in its last ones, an iteration of that loop before. The last iteration of a `peeled` loop
    stands after the loop. Of a block loop, `resident` is the least number of blocks on a multiprocessor at a time;
    a `dealt` one runs over tiles, in groups of rows. The bulk copies of a `specialized` loop are started by
    threads that do nothing else, and the others have `registers` each, if that is not 0; those of an
    `overlapped` one leave products running while the next iteration waits for its operands. With `turns`, the name of a
    block loop, two blocks along it are one, and take turns at what one producer copies. Of `multicast` bulk loops the
    blocks of a cluster, the iterations of the loop of that name, copy a share each to all. `roles` name works that
    stand side by side in it. Iterations are blocks where `handed` names the register that they hand on. Nested ones are
    `collapsed` that have this name together. Those of a
    "matrix" loop are made by the lanes of a warp together: by an
    instruction where the loop, or one around it, is `performed` by one, else each by the lane that holds the element of
    the fragments in it. Of a ragged one, lowered, those between its `ends` run, which are data. `step` is the
    text of the schedule step that made the loop, `span` its place.
    """

    name: str
    extent: Affine
    body: tuple[Node, ...]
    kind: str = "serial"
    stages: int = 1
    across: str = ""
    peeled: bool = False
    resident: int = 1
    dealt: int = 0
    specialized: bool = False
    overlapped: bool = False
    registers: int = 0
    multicast: str = ""
    turns: str = ""
    roles: tuple[Role, ...] = ()
    handed: str = ""
    collapsed: str = ""
    performed: Performed | None = None
    ends: Bounds | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    step: str = field(default="", compare=False, repr=False)


Node = Loop | Stmt


@dataclass(frozen=True)
class Tree:
    """A program: its buffers, and one node for each kernel launch, in order.

    `reassociated` names the reductions whose terms may be combined in any order, because a step said so;
    `approximate` the operations that the text may take from the hardware's approximations, in order of their
    names. The meaning of the tree stays exact: what it may be off by is wider. With `dependent`, each launch may begin
    while the one before it on the stream still runs. `named` are numbers that parameters gave, for who prints them.
    """

    kernel: Kernel
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    reassociated: tuple[str, ...] = ()
    approximate: tuple[str, ...] = ()
    dependent: bool = False
    named: tuple[Named, ...] = field(default=(), compare=False, repr=False)

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`; KeyError if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)

    def __repr__(self) -> str:
        return f"<Tree of {self.kernel.name}: {counted(self.body, 'launch')}, {counted(self.buffers, 'buffer')}>"

    def __str__(self) -> str:
        """The whole tree as text: its buffers, its loops and statements."""
        from tilegen.ir.printing.show import show

        return show(self)

    def _repr_html_(self) -> str:
        return listing(str(self))
