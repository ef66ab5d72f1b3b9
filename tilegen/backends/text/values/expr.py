"""Expressions in C: indices, conditions and values, in CUDA's words or OpenCL's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tilegen.backends.text.values.dialect import CUDA, OPENCL
from tilegen.backends.text.values.gather import offset_of, tests_of
from tilegen.backends.text.values.indices import ATOM, IndexWriter
from tilegen.backends.text.values.numbers import BITS, brought_back, decimal, divides, of_one_type, saturating_helper
from tilegen.backends.text.values.pointers import Pointers
from tilegen.backends.text.values.wrapping import may_wrap, wrapping_op
from tilegen.ir.affine import Affine, Mod, const, var
from tilegen.ir.facts.row_digits import row_number
from tilegen.ir.hardware.memory import stored_extents
from tilegen.ir.nodes import (
    BYTE_FLOATS,
    DTYPE_BYTES,
    FLOATS,
    SHORT_FLOATS,
    Access,
    Buffer,
    Cast,
    Condition,
    Const,
    Expr,
    Gather,
    Index,
    Load,
    Op,
    Scalar,
)
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.ir.walk import loads, walk

_OF_BITS = {"tf32": "round_tf32", "tf32_rz": "cut_off_tf32", "power_of_two": "power_of_two"}
_BINARY = {
    "or": ("||", 1), "and": ("&&", 2), "==": ("==", 3), "!=": ("!=", 3), "<": ("<", 4), "<=": ("<=", 4),
    ">": (">", 4), ">=": (">=", 4), "+": ("+", 5), "-": ("-", 5), "*": ("*", 6), "/": ("/", 6),
}  # fmt: skip
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_UNARY = 7
_AT_ONCE = {"or": ("|", 1), "and": ("&", 2)}
_QUICK = ("select", "min", "max", "abs", "neg", "not", "and", "or", "+", "-", "*", *_COMPARISONS)
# operations that C calls differently for floating point; CUDA adds an f for f32
_FLOAT_WORDS = {"abs": "fabs", "min": "fmin", "max": "fmax", "round": "rint", "pow": "pow", "fma": "fma"}


@dataclass(frozen=True)
class Writer(IndexWriter):
    """Writes the expressions of one launch."""

    buffers: Mapping[str, Buffer]
    wide: bool
    approximate: Collection[str] = ()
    pointers: Pointers = field(default_factory=Pointers)

    # -- memory

    def lengths(self, buffer: Buffer, extents: Iterable[int], dims: Iterable[int]) -> list[str]:
        """The lengths of an array, each with the name that there is for it; `dims` are those of the buffer."""
        found = []
        for dim, extent in zip(dims, extents, strict=True):
            text, more = self.parameters.lengths.get((buffer.name, dim), ("", 0))
            more += extent - buffer.shape[dim].const if text else 0
            found.append((f"{text} + {more}" if more else text) if text else str(extent))
        return found

    def element(self, buffer: str, index: tuple[Affine, ...]) -> str:
        """The element as an lvalue."""
        text = self._texts.get((buffer, index))
        if text is None:
            text = self._texts[buffer, index] = self._element(buffer, index)
        return text

    def _element(self, buffer: str, index: tuple[Affine, ...]) -> str:
        memory, name = self.buffers[buffer], self.names[buffer]
        if memory.space in ("register", "lanes"):
            return name + "".join(f"[{self.index(i)}]" for i in index)
        if memory.space == "vector":
            return self.lane(name, memory, index[0].const)
        places = tuple(index[d] for d in memory.order)
        if memory.space == "shared":
            inner = [self.index(i) for i in places or (const(0),)]
            if memory.swizzle:
                inner[-1] = self.swizzle(memory.swizzle, row_number(memory, index), places[-1])
            return name + "".join(f"[{i}]" for i in inner)
        if memory.windows:
            writer, place = self.through(memory.windows, index)
            return writer.element(memory.windows.tensor, place)
        name, places = self.pointers.from_tile(name, places)
        return f"{name}[{self.offset(memory, places)}]"

    def swizzle(self, swizzle: Swizzle, row: Affine, column: Affine) -> str:
        """The place of `column` in a row. Multiples of all that changes places stand outside of the exclusive or."""
        span, around = swizzle.span, swizzle.rows * swizzle.count
        high = Affine(tuple((a, f) for a, f in column.terms if f % span == 0), column.const // span * span)
        low = column - high
        row = _without_multiples(row, around)
        if row.is_const and (low.is_const or swizzle.column(row.const, 0) == 0):
            return self.index(high + swizzle.column(row.const, low.const) if low.is_const else column)
        if row.is_const:
            moved = str(swizzle.column(row.const, 0))
        else:
            moved = (
                f"({self.index(row, ATOM)} >> {swizzle.rows.bit_length() - 1})"
                if swizzle.rows > 1
                else self.index(row, ATOM)
            )
            moved = f"({moved} & {swizzle.count - 1})"
            moved = f"({moved} << {swizzle.unit.bit_length() - 1})" if swizzle.unit > 1 else moved
        text = moved if low == const(0) else f"{self.index(low, ATOM)} ^ {moved}"
        return text if high == const(0) else f"{self.index(high)} + ({text})"

    def offset(self, memory: Buffer, places: Iterable[Affine]) -> str:
        """The distance from the first element, nested as Horner has it: (n * C + c) * H + y."""
        text, level, zero = "0", ATOM, True
        for place, extent in zip(places, stored_extents(memory), strict=True):
            if not zero and extent != const(1):
                inner = f"({text})" if level < 6 else text
                text, level = f"{inner} * {self.index(extent, 7)}", 6
            if place == const(0):
                continue
            if zero:
                text, level, zero = self.index(place), 5 if _is_sum(place) else 6, False
            elif place.terms and not any(factor > 0 for _, factor in place.terms):
                text, level = f"{text} - {self.index(-place, 6)}", 5
            elif place.is_const and place.const < 0:
                text, level = f"{text} - {-place.const}", 5
            else:
                text, level = f"{text} + {self.index(place)}", 5
        return text

    def lane(self, name: str, vector: Buffer, number: int) -> str:
        """One element of a vector variable."""
        if self.dialect.name == "opencl":
            return f"{name}.s{number:x}"
        if vector_word(vector.dtype, vector.shape[0].const):
            return f"{name}.{'xyzw'[number]}"
        return f"{name}[{number}]"

    def vector(self, dtype: str, width: int) -> str:
        """The C type that moves `width` elements of `dtype` at once."""
        if self.dialect.name == "opencl":
            return f"{self.dialect.types[dtype]}{width}"
        bytes_ = DTYPE_BYTES[dtype] * width
        carrier = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}[bytes_]
        return vector_word(dtype, width) or carrier

    def storage(self, buffer: str) -> str:
        """The C type of an element in memory."""
        return self.dialect.types[self.buffers[buffer].dtype]

    # -- values

    def working_type(self, dtype: str) -> str:
        """The C type that values of `dtype` are computed in."""
        return "float" if dtype in SHORT_FLOATS else self.dialect.types[dtype]

    def store_value(self, value: Expr, target: Access) -> str:
        """`value` as it is assigned to `target`."""
        dtype = self.buffers[target.buffer].dtype
        if isinstance(value, Load) and value.fallback is None and self.buffers[value.buffer].dtype == dtype:
            return self.fetch(value.buffer, value.index)
        if dtype not in SHORT_FLOATS:
            return self.value(value, -1)
        return self._narrow(value.arg if isinstance(value, Cast) and value.dtype == dtype else value, dtype)

    def _narrow(self, value: Expr, dtype: str) -> str:
        """`value` rounded, once, to a short float."""
        word = self.dialect.once.get((value.dtype, dtype), self.dialect.narrow[dtype])
        return f"{word}({self.value(value)})"

    def value(self, expr: Expr, parent: int = 0) -> str:
        match expr:
            case Const(value, dtype):
                return self.constant(value, dtype)
            case Index(index, dtype):
                return self._index_text(index, dtype, parent)
            case Load(buffer, index):
                assert expr.fallback is None, "fallbacks are lowered to selects"
                return self.load_value(Access(buffer, index))
            case Gather():
                return self._gather_text(expr, parent)
            case Op():
                return self._operation(expr, parent)
            case Scalar(name):
                return self.names[name]
            case Cast(arg, dtype):
                return self._cast(arg, dtype)
            case _:
                raise TypeError(expr)

    def _index_text(self, index: Affine, dtype: str, parent: int) -> str:
        """An index as a value of its type, which that of loops may be shorter or longer than."""
        if dtype == "i64" and not self.wide:
            names = {name: f"({self.dialect.types[dtype]}){text}" for name, text in self.names.items()}
            return replace(self, names=names, wide=True).index(index, parent)
        if dtype == "i32" and self.wide and not index.is_const:
            return f"({self.dialect.types[dtype]}){self.index(index, ATOM)}"
        return self.index(index, parent)

    def load_value(self, access: Access) -> str:
        """The element as a value to compute with."""
        dtype, text = self.buffers[access.buffer].dtype, self.fetch(access.buffer, access.index)
        return f"{self.dialect.widen[dtype]}({text})" if dtype in SHORT_FLOATS else text

    def _gather_text(self, gather: Gather, parent: int) -> str:
        dtype = self.buffers[gather.buffer].dtype
        text = self._add_hint(gather.buffer, f"{self.names[gather.buffer]}[{offset_of(self, gather)}]")
        text = f"{self.dialect.widen[dtype]}({text})" if dtype in SHORT_FLOATS else text
        if gather.fallback is None:
            return text
        text = f"{tests_of(self, gather)} ? {text} : {self.value(gather.fallback, 1)}"
        return f"({text})" if parent >= 0 else text

    def fetch(self, buffer: str, index: tuple[Affine, ...]) -> str:
        """The element as it is loaded, of windows with their tests."""
        text, windows = self._add_hint(buffer, self.element(buffer, index)), self.buffers[buffer].windows
        if windows is None or windows.fallback is None:
            return text
        writer, place = self.through(windows, index)
        extents = self.buffers[windows.tensor].shape
        beside = zip(place, windows.index, extents, strict=True)
        known = {var(word): extent for word, extent in windows.extents.items()}
        tests = (c for i, at, e in beside if known.get(at) != e for c in (Condition(i), Condition(e - 1 - i)))
        inside = " && ".join(map(writer.condition, tests))
        return f"({inside} ? {text} : {self.store_value(windows.fallback, Access(buffer, index))})"

    def _add_hint(self, buffer: str, text: str) -> str:
        """An element, with a hint where it need not stay in a cache; CUDA has none for one float of a byte."""
        hinted = self.buffers[buffer].streamed and self.dialect is CUDA
        return f"__ldcs(&{text})" if hinted and self.buffers[buffer].dtype not in BYTE_FLOATS else text

    def constant(self, value: float | int, dtype: str) -> str:
        if dtype == "bool":
            return "true" if value else "false"
        if dtype not in FLOATS:
            # The least integer has no literal: its digits alone are out of range.
            if value in (-(2**31), -(2**63)):
                return f"({self._integer(int(value) + 1)} - 1)"
            return self._integer(int(value)) + (self.dialect.long if dtype == "i64" and abs(value) < 2**31 else "")
        return decimal(float(value), dtype)

    def _operation(self, op: Op, parent: int) -> str:
        if may_wrap(op, self.wide):
            return self._parenthesise(wrapping_op(self, op), _UNARY, parent)
        if not brought_back(op, self.dialect is OPENCL):
            return self._operation_text(op, parent)
        return f"({self.dialect.types[op.dtype]}){self._operation_text(op, _UNARY)}"

    def _operation_text(self, op: Op, parent: int) -> str:
        match op:
            case Op(name, ()):
                return name  # of a part that has been computed already
            case Op("neg", (arg,)):
                # No `--`: a negated negation keeps its parentheses.
                return self._parenthesise(f"-{self.value(arg, ATOM)}", _UNARY, parent)
            case Op("not" | "~" as name, (arg,)):
                sign = "!" if name == "not" else "~"
                return self._parenthesise(f"{sign}{self.value(arg, ATOM)}", _UNARY, parent)
            case Op("tf32" | "tf32_rz" | "power_of_two" as name, (arg,)):
                return f"{_OF_BITS[name]}({self.value(arg)})"
            case Op("select", (test, then, other)):
                text = f"{self.value(test, 1)} ? {self.value(then, 1)} : {self.value(other, 1)}"
                return f"({text})" if parent >= 0 else text
            case Op(_, args) if rough := self._approximation(op):
                return f"{rough}({', '.join(self.value(a) for a in args)})"
            case Op("and" | "or" as name, (left, right)) if self.dialect is CUDA and self._reads_at_once(op):
                sign, level = _AT_ONCE[name]
                first = level if isinstance(left, Op) and left.name == name and self._reads_at_once(left) else level + 2
                text = f"{self.value(left, first)} {sign} {self.value(right, level + 2)}"
                return self._parenthesise(text, level, parent)
            case Op(name, (left, right)) if name in _BINARY:
                sign, level = _BINARY[name]
                write = self._comparison_operand if name in _COMPARISONS else self.value
                text = f"{write(left, level)} {sign} {write(right, level + 1)}"
                return self._parenthesise(text, level, parent)
            case Op(name, (left, right)) if name in BITS:
                # Few know by heart what binds tighter here.
                text = f"{self.value(left, _UNARY)} {name} {self.value(right, _UNARY)}"
                return self._parenthesise(text, 0, parent)
            case Op(name, args) if of_one_type(op):
                kind = self.dialect.types[op.dtype]
                typed = [self.value(a) if isinstance(a, Load) else f"({kind}){self.value(a, ATOM)}" for a in args]
                return f"{name}({', '.join(typed)})"
            case _:
                return f"{self._word(op)}({', '.join(self.value(a) for a in op.args)})"

    def _reads_at_once(self, op: Op) -> bool:
        """True where the right side reads memory that the left one does not, and costs little else: a branch on the
        left one would keep those reads back until that is known. Not where the left one compares indices, which may
        say that what the right one reads exists."""
        left, right = op.args
        guards = any(isinstance(n, Op) and n.name in _COMPARISONS and not any(loads(n)) for n in walk(left))
        slow = any(isinstance(n, Gather | Cast) or isinstance(n, Op) and n.name not in _QUICK for n in walk(right))
        more = set(loads(right)) - set(loads(left))
        return not guards and not slow and any(self.buffers[load.buffer].space in ("global", "shared") for load in more)

    def _comparison_operand(self, expr: Expr, parent: int) -> str:
        """An operand of a comparison: indices are compared as the loops have them."""
        if isinstance(expr, Index) and expr.dtype == "i32":
            return self.index(expr.index, parent)
        return self.value(expr, parent)

    def _approximation(self, op: Op) -> str:
        """The function that approximates `op`, where a step has allowed that; else nothing."""
        allowed = op.name in self.approximate and op.dtype in FLOATS and op.dtype != "f64"
        return self.dialect.approximations.get(op.name, "") if allowed else ""

    def _parenthesise(self, text: str, level: int, parent: int) -> str:
        return f"({text})" if level < parent else text

    def _word(self, op: Op) -> str:
        floating = op.dtype in FLOATS
        if op.name in ("//", "%"):
            word = "floor_div" if op.name == "//" else "floor_mod"
            return f"f{word}" if floating else word if divides(op) else f"{word}_or_0"
        if op.name == "abs" and op.dtype in ("i8", "i32", "i64"):
            return f"abs_of_{self.dialect.types[op.dtype].replace(' ', '_')}"
        if not floating:
            return op.name
        word = _FLOAT_WORDS.get(op.name, op.name)
        return word if op.dtype == "f64" else word + self.dialect.suffix

    def _cast(self, arg: Expr, dtype: str) -> str:
        if dtype in SHORT_FLOATS:
            return f"{self.dialect.widen[dtype]}({self._narrow(arg, dtype)})"
        if self.working_type(arg.dtype) == self.working_type(dtype):
            return self.value(arg, ATOM)
        if isinstance(arg, Index) and dtype in FLOATS and arg.index.names() == {str(arg.index)}:
            return f"({self.working_type(dtype)}){self.index(arg.index)}"  # no arithmetic, whose type would matter
        if arg.dtype in FLOATS and dtype not in FLOATS:
            return f"{saturating_helper(self.working_type(dtype), self.working_type(arg.dtype))}({self.value(arg)})"
        return f"({self.working_type(dtype)}){self.value(arg, ATOM)}"


def vector_word(dtype: str, width: int) -> str:
    """CUDA's own vector type, or nothing: short floats and long vectors of bytes travel in integers."""
    words = {"f64": "double", "f32": "float", "i64": "longlong", "i32": "int", "i8": "char", "u8": "uchar"}
    return f"{words[dtype]}{width}" if dtype in words and width <= 4 else ""


def _without_multiples(value: Affine, of: int) -> Affine:
    """What is enough of `value` for its remainder by `of`: without multiples, and x of x % 16 for a remainder by 8."""
    match Affine(tuple((a, f) for a, f in value.terms if f % of), value.const % of):
        case Affine(((Mod(arg, by), 1),), 0) if by % of == 0:
            return _without_multiples(arg, of)
        case rest:
            return rest


def _is_sum(value: Affine) -> bool:
    return len(value.terms) + bool(value.const) > 1 or any(factor < 0 for _, factor in value.terms)
