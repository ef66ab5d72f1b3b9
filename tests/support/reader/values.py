"""What expressions and statements mean, those of a lowered program and those of a text: numbers, or terms.

A number where all in it are known: sizes, coordinates and loops have values here. Else a term: a tuple of a
word and what it is applied to, so that two of them are equal if they are the same computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import inf

from tests.support.reader import c_text
from tests.support.reader.windows import holds, is_shown, shown
from tilegen.backends.text.values.dialect import CUDA, OPENCL
from tilegen.backends.text.values.wrapping import may_wrap
from tilegen.interpreter.scalar import converter
from tilegen.ir.facts.gathers import fits_32_bits
from tilegen.ir.nodes import DTYPE_BYTES, FLOATS, ONLY, Access, Cast, Const, Gather, Index, Load, Nothing, Op, Scalar
from tilegen.ir.parts.operations import OPERATIONS
from tilegen.lowering.launch.timelines import RingPlace

FUNCTIONS = {"fabs": "abs", "fmin": "min", "fmax": "max", "rint": "round", "ffloor_div": "//", "ffloor_mod": "%"}
# The words for an update in one access, in CUDA and in OpenCL, where sums of floats are helpers.
ATOMICS = {
    "atomicAdd": ("sum", None), "atomicMax": ("max", None), "atomicMin": ("min", None),
    "atomic_add": ("sum", "i32"), "atomic_max": ("max", "i32"), "atomic_min": ("min", "i32"),
    "atomic_add_float": ("sum", "f32"), "atomic_add_double": ("sum", "f64"),
    "atomic_add_local_float": ("sum", "f32"), "atomic_add_local_double": ("sum", "f64"),
    "atomic_add_float2": ("sum", "f32x2"), "atomic_add_float4": ("sum", "f32x4"),
}  # fmt: skip
FUNCTIONS |= {"round_tf32": "tf32", "cut_off_tf32": "tf32_rz", "power_of_two": "power_of_two"}
FUNCTIONS |= {"floor_div": "//", "floor_mod": "%", "floor_div_or_0": "// or 0", "floor_mod_or_0": "% or 0"}
FUNCTIONS |= {f"abs_of_{kind}": "abs" for kind in ("int", "long", "long_long", "char", "signed_char")}


class Mismatch(Exception):
    """The text is not what the program says."""


@dataclass(frozen=True)
class Memory:
    """What a name of the text stands for: a buffer or a vector variable, its dimensions, and where a pointer begins."""

    name: str
    dims: int
    start: int = 0


class Values:
    """One choice of random values for the names: `env` has them for the program, `scope` for the text."""

    def __init__(self, launch, language, rng):
        self.launch, self.rng = launch, rng
        self.dialect = {"cuda": CUDA, "opencl": OPENCL}[language]
        self.cuda = language == "cuda"
        self.rough = {name for name in launch.approximate if name in self.dialect.approximations}
        self.integer = tuple(self.dialect.types["i64" if launch.wide else "i32"].split())
        most = 2**40 if launch.wide else 400
        self.env = {size: rng.randrange(1, most) for size in launch.kernel.sizes}
        factors = [factor for along in launch.grid for factor in along.factors]
        while not all(factor.evaluate(self.env) for factor in factors):  # a grid of whole tiles that has none
            most *= 2
            self.env = {size: rng.randrange(1, most) for size in launch.kernel.sizes}
        while not all(c.holds(self.env) for c in launch.fitting) and max(self.env.values()) > 1:
            self.env = {size: (value + 1) // 2 for size, value in self.env.items()}
        self.scope = {"true": True, "false": False, "INFINITY": inf}

    # -- the program's meaning

    def place_of(self, access):
        """((buffer, place),): one offset in global memory, elsewhere an index for each dimension."""
        buffer = self.launch.buffers[access.buffer]
        index = [i.evaluate(self.env) for i in access.index]
        if buffer.space in ("register", "vector", "lanes"):
            return ((access.buffer, tuple(index)),)
        if buffer.space == "shared":
            return ((access.buffer, self._in_rows(buffer, index)),)
        offset = 0
        for d in buffer.order:
            offset = offset * self._row(buffer, d) + index[d]
        # The text has one pointer for a tensor that is updated and its old values.
        return ((access.buffer.removesuffix(".old"), (offset,)),)

    def _row(self, buffer, d):
        """The elements of a dimension in global memory, with those between rows."""
        pitch = buffer.pitch if d == buffer.order[-1] else None
        return (pitch or buffer.shape[d]).evaluate(self.env)

    def _in_rows(self, buffer, index):
        """The place in each dimension, slowest first; in the last one as the swizzle says, of the rows before it."""
        places = [index[d] for d in buffer.order] or [0]
        if buffer.swizzle:
            row = 0
            for d in buffer.order[:-1]:
                row = row * buffer.shape[d].evaluate(self.env) + index[d]
            unit, count, every = buffer.swizzle.unit, buffer.swizzle.count, buffer.swizzle.rows
            places[-1] = (places[-1] // unit ^ row // every % count) * unit + places[-1] % unit
        return tuple(places)

    def plain(self, access):
        windows = self.launch.buffers[access.buffer].windows
        return shown(self, access, windows) if windows else ("load", *self.place_of(access))

    def in_ring(self, at):
        """The slot and the parity of the phase."""
        return [self.env[at.number] % at.slots, self.env[at.number] // at.slots % 2]

    def _load_term(self, access):
        dtype = self.launch.buffers[access.buffer].dtype
        plain = self.plain(access)
        return (self.dialect.widen[dtype], plain) if dtype in self.dialect.widen else plain

    def store_term(self, value, target):
        dtype = self.launch.buffers[target.buffer].dtype
        if isinstance(value, Load) and self.launch.buffers[value.buffer].dtype == dtype:
            return self.plain(Access(value.buffer, value.index))
        if dtype not in self.dialect.narrow:
            return self._value(value)
        return self._narrow(value.arg if isinstance(value, Cast) and value.dtype == dtype else value, dtype)

    def _narrow(self, value, dtype):
        """A 16-bit float, by the word that rounds once from the type of the value."""
        return self.dialect.once.get((value.dtype, dtype), self.dialect.narrow[dtype]), self._value(value)

    def wanted_effects(self, stmt):
        """The effects of a statement."""
        place, dtype = self.place_of(stmt.target), self.launch.buffers[stmt.target.buffer].dtype
        if stmt.best:
            value, best = self._value(stmt.value), self.place_of(stmt.best)
            kind = self.launch.buffers[stmt.best.buffer].dtype
            kept = (self.dialect.narrow[kind], value) if kind in self.dialect.narrow else value
            if isinstance(stmt.value, Load) and self.launch.buffers[stmt.value.buffer].space == "register":
                kept = self.store_term(stmt.value, stmt.best)
            index, old = self._value(stmt.arg), self._load_term(stmt.best)
            test = (">" if stmt.reduce == "argmax" else "<", value, old)
            if isinstance(stmt.arg, Load):  # of parts, the lower index of equal ones
                kept = (self.dialect.narrow[kind], value) if kind in self.dialect.narrow else value
                test = ("or", test, ("and", ("==", value, old), ("<", index, self._load_term(stmt.target))))
            moved = ("write", place, index)
            return [("test", test, [("write", best, kept), moved])]
        if stmt.atomic:
            return [("update", stmt.reduce, None if self.cuda else dtype, place, self._value(stmt.value))]
        match stmt.value:
            case Op("select", (test, term, Nothing())) if stmt.reduce == ONLY:
                return [("test", self._value(test), [("write", place, self.store_term(term, stmt.target))])]
        if stmt.reduce in (None, ONLY):
            return [("write", place, self.store_term(stmt.value, stmt.target))]
        word = {"sum": "+", "prod": "*", "linear": "+"}.get(stmt.reduce, stmt.reduce)
        old = Load(stmt.target.buffer, stmt.target.index, dtype)
        old = Op("*", (stmt.arg, old), dtype) if stmt.reduce == "linear" else old
        if stmt.reduce in ("sum", "prod") and dtype in ("i8", "u8"):  # by an assignment, which cuts what is too much
            return [("write", place, combine_terms(word, [self._value(old), self._value(stmt.value)]))]
        return [("write", place, self.store_term(Op(word, (old, stmt.value), dtype), stmt.target))]

    def _value(self, expr):
        match expr:
            case Const(value, dtype):
                number = float if dtype in ("f64", "f32") else converter(dtype)
                return number(value)
            case Index(index, dtype):
                value = index.evaluate(self.env)  # in 32 bits sizes are such that it is exact
                return integer(value, dtype) if self.launch.wide else value
            case Scalar(name):
                return ("scalar", name)
            case Load(buffer, index):
                return self._load_term(Access(buffer, index))
            case Gather():
                return self._gather_term(expr)
            case Cast(arg, dtype) if dtype in self.dialect.narrow:
                return self.dialect.widen[dtype], self._narrow(arg, dtype)
            case Cast(Index(index), dtype) if dtype in FLOATS:
                return ("cast", self._working_type(dtype), index.evaluate(self.env))
            case Cast(arg, dtype):
                word, old = self._working_type(dtype), self._working_type(arg.dtype)
                if arg.dtype in FLOATS and dtype not in FLOATS:
                    return f"{word.replace(' ', '_')}_of_{old}", self._value(arg)
                return self._value(arg) if word == old else cast_term(word, self._value(arg))
            case Op(name, args) if name in self.rough and expr.dtype in FLOATS and expr.dtype != "f64":
                return (self.dialect.approximations[name], *(self._value(a) for a in args))
            case Op(name, args):
                values = [self._value(a) for a in args]
                pairs = list(zip(args, values, strict=True))
                if name in ("<", "<=", ">", ">=", "==", "!="):  # of indices as they are
                    values = [a.index.evaluate(self.env) if isinstance(a, Index) else v for a, v in pairs]
                if expr.dtype in ("i8", "u8") and name in ("min", "max"):
                    kind = self._working_type(expr.dtype)
                    values = [v if isinstance(a, Load) else cast_term(kind, v) for a, v in pairs]
                if may_wrap(expr, self.launch.wide):
                    return cast_term(self._working_type(expr.dtype), self._unsigned_term(expr))
                divisor = expr.args[-1].value if isinstance(expr.args[-1], Const) else 0
                total = name in ("//", "%") and expr.dtype not in FLOATS and divisor in (0, -1)
                value = combine_terms(f"{name} or 0" if total else name, values, self._single(name, expr.dtype))
                return cast_term(self._working_type(expr.dtype), value) if self._brought_back(expr) else value
            case _:
                raise TypeError(expr)

    def _gather_term(self, gather):
        """A test that the index is inside, the element, and the fallback."""
        buffer, offset = self.launch.buffers[gather.buffer], None
        extents = [e.evaluate(self.env) for e in buffer.shape]
        places = [self._short(i) if not self.launch.wide and fits_32_bits(i) else self._value(i) for i in gather.index]
        for d in buffer.order:
            row = None if offset is None else combine_terms("*", [offset, self._row(buffer, d)])
            offset = places[d] if row is None else combine_terms("+", [row, places[d]])
        found = ("load", (gather.buffer, (offset,)))
        found = (self.dialect.widen[buffer.dtype], found) if buffer.dtype in self.dialect.widen else found
        if gather.fallback is None:
            return found
        tests = [t for d in gather.tested for t in ((">=", places[d], 0), ("<", places[d], extents[d]))]
        return ("select", reduce(lambda a, b: ("and", a, b), tests), found, self._value(gather.fallback))

    def _short(self, place):
        """An index in the integers of loops; OpenCL wants them of one type, and its helpers give others."""
        match place:
            case Cast(arg):
                return self._value(arg)
            case Op(name, args):
                values = [self._short(a) for a in args]
                if self.cuda:
                    return combine_terms(name, values)
                shorter = [isinstance(a, Cast) and a.arg.dtype != "i32" and name != "%" for a in args]
                values = [cast_term("int", v) if short else v for v, short in zip(values, shorter, strict=True)]
                found = combine_terms(name, values)
                return cast_term("int", found) if name == "%" else found
            case _:
                return self._value(place)

    def _unsigned_term(self, expr):
        """What wraps, in unsigned arithmetic."""
        if not may_wrap(expr, self.launch.wide):
            return cast_term(self.dialect.unsigned[expr.dtype], self._value(expr))
        first, *rest = expr.args
        others = [
            self._unsigned_term(a) if may_wrap(a, self.launch.wide) and expr.name != "<<" else self._value(a)
            for a in rest
        ]
        return combine_terms(expr.name, [self._unsigned_term(first), *others])

    def _working_type(self, dtype):
        return "float" if dtype in self.dialect.narrow else self.dialect.types[dtype]

    def _brought_back(self, op):
        """True where C computes in another type: short ones in int, OpenCL's helpers in long, its abs unsigned."""
        if op.name in ("//", "%", "abs") and op.dtype not in FLOATS and not self.cuda:
            return True
        return op.dtype in ("i8", "u8") and op.name in ("+", "-", "*", "//", "neg", "abs", "<<", "~")

    def _single(self, name, dtype):
        """True where CUDA's word for a function has an f at its end."""
        return self.cuda and dtype in FLOATS and dtype != "f64" and name not in ("neg", "select")

    # -- the text's meaning

    def effects(self, texts):
        """What statements of the text do: ("write", place, value) and ("test", condition, effects)."""
        found, outer = [], dict(self.scope)
        for text in texts:
            match text:
                case c_text.Block(body):
                    found += self.effects(body)
                case c_text.Declare(words, name, (), start) if words[0] == "const" and start:
                    self.scope[name] = self.term(start)
                case c_text.Assign(target, sign, value):
                    place, value = self.place(target), self.term(value)
                    if sign != "=":
                        value = combine_terms(sign[0], [("load", *place), value])
                    found += [("write", place, value)]
                case c_text.Call(("call", word, (), (("&", target), value))) if word in ATOMICS:
                    found += [("update", *ATOMICS[word], self.place(target), self.term(value))]
                case c_text.If(test, body, ()):
                    found += [("test", self.term(test), self.effects(body))]
                case _:
                    raise Mismatch(f"{text} in a statement")
        self.scope = outer
        return found

    def place(self, text):
        """((buffer, place),), with the number of bytes after it if a vector stands there."""
        match text:
            case ("*", ("cast", words, ("&", inner))):
                return (*self.place(inner), vector_bytes(words))
            case ("*", ("cast", words, ("name", name))):
                return (self._find_memory(name).name, ()), vector_bytes(words)
            case ("field", ("name", name), lane) if self._find_memory(name).dims == -1:
                number = int(lane[1:], 16) if lane[0] == "s" else "xyzw".index(lane)
                return ((self._find_memory(name).name, (number,)),)
        index = []
        while text[0] == "at":
            index, text = [self.term(text[2]), *index], text[1]
        if text[0] != "name" or self._find_memory(text[1]).dims not in (len(index), -len(index)):
            raise Mismatch(f"{text} is no element")
        found = self._find_memory(text[1])
        return ((found.name, (index[0] + found.start, *index[1:]) if found.start else tuple(index)),)

    def _find_memory(self, name):
        found = self.scope.get(name)
        if not isinstance(found, Memory):
            raise Mismatch(f"'{name}' is no memory here")
        return found

    def term(self, text):
        """The value of an expression: a number where all in it are known, else a term."""
        match text:
            case ("number", value):
                return int(value) if isinstance(value, c_text.Long) else value
            case ("name", name):
                if name not in self.scope:
                    raise Mismatch(f"'{name}' is not declared")
                found = self.scope[name]
                if isinstance(found, Memory):
                    return ("vector", found.name) if found.dims == -1 else ("load", *self.place(text))
                return found
            case ("*", ("cast", words, ("name", name))) if self._find_memory(name).dims == -1:
                return ("vector", self._find_memory(name).name)
            case ("field", ("name", ring), "slot") if ring in self.scope and isinstance(self.scope[ring], RingPlace):
                return self.in_ring(self.scope[ring])[0]
            case ("at", *_) | ("field", *_) | ("*", _):
                return ("load", *self.place(text))
            case ("zeros of", word) | ("cast", (word,), ("number", 0)) if c_text.VECTOR_TYPE.match(word):
                return ("zeros", vector_bytes((word,)))
            case ("cast", words, value):
                return cast_term(" ".join(words), self.term(value))
            case ("choice", *args):
                test, then, other = map(self.term, args)
                test = holds(test) if is_shown(then, self.launch) else test
                return ("select", test, then, other)
            case ("call", "before", (), (("name", ring), slot)):
                return (self.term(slot) - 1) % self.scope[ring].slots
            case ("call", word, _, args):
                single = self.cuda and word[-1] == "f" and (word[:-1] in OPERATIONS or word[:-1] in FUNCTIONS)
                word = word.removesuffix("f") if single else word
                return combine_terms(FUNCTIONS.get(word, word), [self.term(a) for a in args], single)
            case (sign, *args):
                values = [self.term(a) for a in args]
                if sign == "%" and type(values[0]) is int and values[0] < 0:
                    return -(-values[0] % values[1])  # C's rest of a negative number
                word = {"&&": "and", "||": "or", "!": "not"}.get(sign, sign)
                if sign in ("&", "|") and all(isinstance(v, tuple) and v[0] in TESTS_OF_DATA for v in values):
                    word = {"&": "and", "|": "or"}[sign]  # of tests whose reads are all made at once
                return combine_terms("neg" if word == "-" and len(args) == 1 else word, values)
        raise Mismatch(f"{text} is no value")


C_INTEGERS = {
    "long long": "i64", "long": "i64", "int": "i32", "signed char": "i8", "char": "i8",
    "unsigned char": "u8", "uchar": "u8",
}  # fmt: skip


def cast_term(kind, value):
    """A cast: the number that the type makes of one that is known, else the term."""
    if kind in UNSIGNED and unsigned_of(value, kind) is not None:
        return unsigned_of(value, kind)
    return integer(value, C_INTEGERS[kind]) if kind in C_INTEGERS and type(value) is int else ("cast", kind, value)


TESTS_OF_DATA = ("<", "<=", ">", ">=", "==", "!=", "and", "or", "not")
UNSIGNED = {"unsigned": "int", "uint": "int", "unsigned long long": "long long", "ulong": "long"}


def is_unsigned(value, kind):
    """True for a term that C computes in the unsigned type."""
    match value:
        case ("cast", word, _):
            return word == kind
        case ("+" | "-" | "*" | "neg", *args):
            return any(is_unsigned(a, kind) for a in args)
        case ("<<", first, _):
            return is_unsigned(first, kind)
    return False


def unsigned_of(value, kind):
    """The unsigned term that `value`, its signed number, was made of, which has the same bits; None if it was not."""
    made = value[0] == "cast" and value[1] == UNSIGNED[kind] if isinstance(value, tuple) else False
    return value[2] if made and is_unsigned(value[2], kind) else None


def integer(value, dtype):
    """The integer of a type that has the last bits of this one."""
    bits = 8 * DTYPE_BYTES[dtype]
    return value % 2**bits if dtype.startswith("u") else (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def combine_terms(name, args, single=False):
    """The number, of integers that are known; else the term. Functions carry an f where the text has one."""
    if name == "neg" and isinstance(args[0], int | float):
        return -args[0]
    kind = next((k for k in UNSIGNED if name in ("+", "-", "*") and any(is_unsigned(a, k) for a in args)), None)
    if kind:  # the whole operation is unsigned, whatever its operands were brought to
        args = [a if unsigned_of(a, kind) is None else unsigned_of(a, kind) for a in args]
    if name == "~" and type(args[0]) is int:
        return ~args[0]
    if all(type(a) is int for a in args):
        match name:
            case "+" | "-" | "*":
                return {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[name](*args)
            case "^" | "&" | "|" | "<<" | ">>":
                bits = {"^": int.__xor__, "&": int.__and__, "|": int.__or__, "<<": int.__lshift__, ">>": int.__rshift__}
                return bits[name](*args)
            case "//" | "%" if args[1]:
                return args[0] // args[1] if name == "//" else args[0] % args[1]
            case "// or 0" | "% or 0":
                return 0 if not args[1] else args[0] // args[1] if name[0] == "/" else args[0] % args[1]
            case "/" if args[1]:
                return abs(args[0]) // abs(args[1]) * (1 if (args[0] < 0) == (args[1] < 0) else -1)
    word = f"{name}f" if single and name.isalpha() or single and name in ("//", "%") else name
    return (word, *args)


def vector_bytes(words):
    """Bytes of a vector type, `const float4 *`."""
    for word in words:
        if found := c_text.VECTOR_TYPE.match(word):
            size = {"char": 1, "short": 2, "int": 4, "long": 8, "longlong": 8, "float": 4, "double": 8}
            return size[found[1].removeprefix("u")] * int(found[2])
    plain = tuple(w for w in words if w not in ("const", "*"))
    if plain in (("unsigned", "int"), ("unsigned", "short")):
        return 4 if plain[1] == "int" else 2
    raise Mismatch(f"{' '.join(words)} is no vector type")
