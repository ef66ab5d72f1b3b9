"""The statements of a thread's program as lines of C, not yet indented."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilegen.backends.text.arrays import register_extents
from tilegen.backends.text.functions import seen_by
from tilegen.backends.text.lanes import combine_lines
from tilegen.backends.text.lines import under_head, written_for
from tilegen.backends.text.lists import list_lines, take_line
from tilegen.backends.text.perform import call_of
from tilegen.backends.text.pointers import pointer_lines
from tilegen.backends.text.ragged import begin, ends
from tilegen.backends.text.tiles import tile_loop
from tilegen.backends.text.timelines import number_line, timeline_lines
from tilegen.backends.text.values.best import best_lines
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer, vector_word
from tilegen.backends.text.values.shared import named_parts
from tilegen.backends.text.windows import name_first_windows
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import DTYPE_BYTES, ONLY, SHORT_FLOATS, THREAD_KINDS, Access, Condition, Load, Op, Stmt
from tilegen.ir.reductions.linear import LINEAR, after_step
from tilegen.ir.reductions.ragged import term_of
from tilegen.lowering.guards.ragged import left_to_test
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.lists import by_whole_blocks, taken_together
from tilegen.lowering.launch.program import (
    Call,
    Combine,
    Declare,
    Flag,
    For,
    Function,
    If,
    Let,
    Perform,
    Spmd,
    TimelineNode,
    VectorCopy,
    VectorDeclare,
    VectorLoad,
    VectorStore,
    names_in,
)
from tilegen.lowering.launch.timelines import Arrive, Await, Box, Fence
from tilegen.lowering.threads.scatters import scattered

_UNROLLED = ("unrolled", "vector")
_VECTORS = (VectorLoad, VectorStore, VectorCopy, VectorDeclare)
_PLAIN = (
    Stmt, *_VECTORS, Declare, Flag, Let, Call, Perform, Box,
)  # fmt: skip


class Body:
    """Writes one launch; remembers which steps have been named already, for each is named once."""

    def __init__(self, writer: Writer, launch: Launch) -> None:
        self._writer = writer
        self._launch = launch
        self._origins: set[str] = set()
        self._whole = by_whole_blocks(launch) if writer.dialect is CUDA else frozenset()
        self._bit = "", ""  # of a loop whose hits take their places together: what it does now, and its name
        self._flags: dict[str, tuple[Condition, ...]] = {}  # the tests that have names
        self._parts: set[str] = set()  # names of subexpressions beside declarations
        self.functions: list[str] = []  # what stands in front of the kernel, in a language without lambdas
        self._seen: dict[str, list[str]] = {}  # what each of these is given beside its parameters
        self._pointers = pointer_lines(launch, writer)
        self._integer = writer.dialect.types["i64" if launch.wide else "i32"]

    # -- comments

    def fresh_notes(self, step: str) -> list[str]:
        """The parts of `step` that no line has named yet."""
        fresh = [s for s in dict.fromkeys(step.split("; ")) if s and s not in self._origins]
        self._origins |= set(fresh)
        return fresh

    def note(self, step: str) -> str:
        return "; ".join(self.fresh_notes(step))

    def used_names(self) -> frozenset[str]:
        """Every loop, coordinate and size that the body speaks of."""
        used = names_in(self._launch.inside)
        return used | self._launch.flat.names() if self._launch.tid in used else used

    # -- lines

    def lines(self, body: Iterable[Spmd]) -> list[str]:
        out: list[str] = []
        previous: Spmd | None = None
        for node in body:
            new = self._node(node)
            if not new:  # what the language has not, or has outside of the kernel
                continue
            if previous is not None and _needs_empty_line(previous, node, new):
                out.append("")
            out += self._pointers.get(id(node), [])
            out += written_for(node, new)
            previous = node
        return out

    def _node(self, node: Spmd) -> list[str]:
        w = self._writer
        if not self._bit[0] and (pair := taken_together(node)):
            return self._together(node, *pair)
        match node:
            case Stmt():
                return self._stmt(node)
            case For():
                return self._named_for(node)
            case If():
                return self._if(node)
            case Flag(name, test):
                self._flags[name] = test
                return [f"const bool {w.names[name]} = {self._choosing_test(test)};"]
            case Let(name, value):
                return [f"const {self._integer} {w.names[name]} = {w.index(value)};"]
            case Function():
                return self._function(node)
            case Call(function, arguments):
                given = [*self._seen.get(function, ()), *map(w.index, arguments)]
                return [f"{self._name_of_function(function)}({', '.join(given)});"]
            case Combine():
                return combine_lines(node, w, self._launch)
            case Perform():
                return self._perform(node)
            case _ if isinstance(node, TimelineNode):
                notes = self.fresh_notes(node.step) if isinstance(node, Box) else []
                return [*(f"// {note}" for note in notes), *timeline_lines(node, w, self.lines)]
            case Declare():
                return self._declare(node)
            case _ if isinstance(node, _VECTORS):
                return self._vector(node)
            case _:
                raise TypeError(node)

    def _perform(self, node: Perform) -> list[str]:
        notes = [f"// {note}" for note in self.fresh_notes(node.origin.step)]
        call = [call_of(node, self._writer)]
        test = f"if ({self._writer.value(node.where, -1)})" if node.where else ""
        return [*notes, *(under_head(test, call, braces=False) if test else call)]

    def _vector(self, node: VectorLoad | VectorStore | VectorDeclare | VectorCopy) -> list[str]:
        w = self._writer
        if isinstance(node, VectorStore | VectorCopy) and node.where:
            inner = self._vector(replace(node, where=None))
            return under_head(f"if ({w.value(node.where, -1)})", inner, braces=False)
        match node:
            case VectorLoad(name, dtype, width, source):
                lanes = self._lanes_at(source, dtype, width, const=True)
                if self._by_array(dtype, width):
                    declared = self._node(VectorDeclare(name, dtype, width))
                    return [*declared, f"*reinterpret_cast<{w.vector(dtype, width)}*>({w.names[name]}) = {lanes};"]
                return [f"const {w.vector(dtype, width)} {w.names[name]} = {lanes};"]
            case VectorDeclare(name, dtype, width):
                if self._by_array(dtype, width):
                    bytes_ = DTYPE_BYTES[dtype] * width
                    return [f"__align__({bytes_}) {w.dialect.types[dtype]} {w.names[name]}[{width}];"]
                return [f"{w.vector(dtype, width)} {w.names[name]};"]
            case VectorStore():
                return [self._vector_store(node)]
            case VectorCopy(asynchronous=True) if w.dialect is CUDA:
                places = f"&{self._first(node.target)}, &{self._first(node.source)}"
                if node.inside:
                    return [f"copy_async_or_zero<{node.bytes}>({places}, {w.value(node.inside, -1)});"]
                return [f"copy_async<{node.bytes}>({places});"]
            case VectorCopy(_, 1, target):
                return self._stmt(Stmt(target.buffer, target, node.value(node.source)))
            case VectorCopy(_, _, target, source) if "register" in (self._space(target), self._space(source)):
                return [self._copy_of_registers(node)]
            case VectorCopy(dtype, width, target, source):
                value = self._lanes_at(source, dtype, width, const=True)
                if node.inside:
                    kind = w.vector(dtype, width)
                    zero = "0" if " " in kind else f"{kind}{{}}" if w.dialect is CUDA else f"({kind})0"
                    value = f"{w.value(node.inside, 0)} ? {value} : {zero}"
                return [f"{self._lanes_at(target, dtype, width)} = {value};"]

    def _vector_store(self, node: VectorStore) -> str:
        text, kind = self._writer.names[node.name], self._writer.vector(node.dtype, node.width)
        if node.update:
            return f"atomic_add_{kind}(&{self._first(node.target)}, {text});"
        if self._by_array(node.dtype, node.width):
            text = f"*reinterpret_cast<const {kind}*>({text})"
        return f"{self._lanes_at(node.target, node.dtype, node.width)} = {text};"

    def _space(self, access: Access) -> str:
        return self._launch.buffers[access.buffer].space

    def _copy_of_registers(self, node: VectorCopy) -> str:
        """As many registers as a vector has lanes, from memory or to it at once."""
        loads, w = self._space(node.target) == "register", self._writer
        registers, memory = (node.target, node.source) if loads else (node.source, node.target)
        *outer, last = registers.index
        row = w.element(registers.buffer, tuple(outer))
        start = row if last == const(0) else f"&{w.element(registers.buffer, registers.index)}"
        if w.dialect is CUDA:
            kind = w.vector(node.dtype, node.width)
            place = f"&{self._first(memory)}"
            return f"load_vector<{kind}>({start}, {place});" if loads else f"store_vector<{kind}>({place}, {start});"
        lanes = self._lanes_at(memory, node.dtype, node.width, const=loads)
        return f"vstore{node.width}({lanes}, 0, {start});" if loads else f"{lanes} = vload{node.width}(0, {start});"

    def _first(self, access: Access) -> str:
        return self._writer.element(access.buffer, access.index)

    def _named_for(self, loop: For) -> list[str]:
        """A loop, behind the names of what it would divide for in each iteration."""
        outer = self._writer
        declared, loop, self._writer = name_first_windows(loop, outer)
        lines = [f"const {self._integer} {name} = {value};" for name, value in declared.items()] + self._for(loop)
        self._writer = outer
        return lines

    def _for(self, loop: For) -> list[str]:
        name = self._writer.names[loop.name]
        lines = [f"// {note}" for note in self.fresh_notes(loop.step)]
        if loop.kind == "scatter":
            return lines + self._scatter(loop, name)
        if loop.kind == "handed":
            return [*lines, number_line(loop, self._writer, self._integer), "", *self.lines(loop.body)]
        # PoCL computes wrong results for some loops that it is asked to unroll.
        if loop.kind in _UNROLLED and self._writer.dialect is CUDA:
            lines.append("#pragma unroll")
        if loop.kind == "tiles":
            return tile_loop(self._launch, loop, self._writer, self.note, self.lines)
        head, body = ("0", f"{name} < {self._writer.extent(loop.name, loop.extent)}", f"++{name}"), loop.body
        if loop.ends and loop.ends.pick_one:
            block = self.lines(left_to_test(loop))
            return [*lines, "{", f"const {self._integer} {name} = {begin(loop, self._writer)};", "", *block, "}"]
        if loop.ends:
            head, body = ends(loop, self._writer), left_to_test(loop)
        block = self._block(f"for ({self._integer} {name} = {'; '.join(head)})", body)
        return lines + block if block else []

    def _together(self, node: Spmd, loop: For, stmt: Stmt) -> list[str]:
        """The loop twice: it finds hits, and when they have their places it stores them."""
        notes = [f"// {note}" for note in self.fresh_notes(loop.step)]
        whole = id(node) in self._whole
        found = self._lines_of_bits(node, loop, "find")
        # A hit has met all tests; without them, all threads get here.
        stored = self._lines_of_bits(replace(loop, body=(stmt,)), loop, "store by blocks" if whole else "store")
        take = take_line(stmt, self._writer, self._integer, whole)
        return [*notes, "{", "int hits = 0;", "", *found, "", take, "", *stored, "}"]

    def _lines_of_bits(self, node: Spmd, loop: For, doing: str) -> list[str]:
        self._bit = doing, self._writer.names[loop.name]
        lines = self._node(node)
        self._bit = "", ""
        return lines

    def _scatter(self, loop: For, name: str) -> list[str]:
        """The iteration that the data pick, if the loop has it."""
        (place, body), at, w = scattered(loop), var(loop.name), self._writer
        integer = w.dialect.types["i64"] if place.dtype == "i64" else self._integer
        block = self._block(f"if ({w.test((Condition(at), Condition(loop.extent - 1 - at)))})", body)
        return ["{", f"const {integer} {name} = {w.value(place, -1)};", *block, "}"]

    def _function(self, node: Function) -> list[str]:
        names = [f"{self._integer} {self._writer.names[name]}" for name in node.parameters]
        if self._writer.dialect is CUDA:
            head = f"const auto {self._name_of_function(node.name)} = [&]({', '.join(names)})"
            return [*under_head(head, self.lines(node.body), braces=True)[:-1], "};"]
        seen = seen_by(node, self._launch, self._writer)
        self._seen[node.name] = [name for name, _ in seen]
        parameters = ", ".join([*(declared for _, declared in seen), *names])
        self.functions += [
            f"static inline void {self._name_of_function(node.name)}({parameters})",
            "{",
            *self.lines(node.body),
            "}",
            "",
        ]
        return []

    def _name_of_function(self, function: str) -> str:
        """The name in C of a function; OpenCL has them all outside of the kernels."""
        name = self._writer.names[function]
        return name if self._writer.dialect is CUDA else f"{self._launch.name}_{name}"

    def _if(self, node: If) -> list[str]:
        if not node.orelse:
            return self._block(f"if ({self._writer.test(node.test)})", node.body)
        rest = tuple(condition for condition in node.test if condition not in self._flags.get(node.flag, ()))
        tests = [self._writer.names[node.flag]] if node.flag else []
        tests += [self._choosing_test(rest) if not node.flag else self._writer.test(rest)] if rest else []
        heads = f"if ({' && '.join(tests)})", "else"
        bodies = [self.lines(body) for body in (node.body, node.orelse)]
        braces = not all(_is_simple(lines) for lines in bodies)
        parts = [under_head(head, lines, braces) for head, lines in zip(heads, bodies, strict=True) if lines]
        if braces and len(parts) == 2:
            return [*parts[0][:-1], f"}} {parts[1][0]}", *parts[1][1:]]
        return [line for part in parts for line in part]

    def _choosing_test(self, test: tuple[Condition, ...]) -> str:
        """A test; the text's compiler may not know of one that is the same for all threads of a block."""
        text = self._writer.test(test)
        threads = {name for name, kind, _ in self._launch.coordinates if kind in THREAD_KINDS}
        alike = all(threads.isdisjoint(condition.value.names()) for condition in test)
        return f"hidden({text})" if alike and self._writer.dialect is not CUDA else text

    def _block(self, head: str, body: tuple[Spmd, ...]) -> list[str]:
        """`head` with the body under it, in braces where that is more than one statement."""
        inner = self.lines(body)
        if not inner:  # groups of copies alone, in a language without them
            return []
        if inner[0] == "{" and len(body) == 1:
            inner = inner[1:-1]
            return under_head(head, inner, braces=True)
        nested = len(body) == 1 and (isinstance(body[0], For) or (isinstance(body[0], If) and not body[0].orelse))
        is_first = not inner[0].startswith(("//", "const ")) and id(body[0]) not in self._pointers
        single = _is_simple(inner) or (nested and is_first)
        return under_head(head, inner, braces=not single)

    def _declare(self, node: Declare) -> list[str]:
        w, buffer = self._writer, self._launch.buffers[node.buffer]
        lines = [f"// {note}" for note in self.fresh_notes(buffer.step)]
        dims = "".join(f"[{n}]" for n in w.lengths(buffer, register_extents(buffer), range(len(buffer.shape))))
        start = ""
        if node.start is not None and dims:
            start = " = {}" if w.dialect is CUDA else " = {0}"
        elif node.start is not None:
            parts, value = named_parts(node.start, set(w.names.values()) | self._parts)
            self._parts |= {name for name, _ in parts}
            lines += [f"const {w.working_type(part.dtype)} {name} = {w.value(part, -1)};" for name, part in parts]
            start = f" = {w.store_value(value, Access(buffer.name, ()))}"
        packed = buffer.fragment and w.dialect is CUDA and DTYPE_BYTES[buffer.dtype] < 4
        aligned = "__align__(4) " if packed else ""  # registers hold several elements
        return [*lines, f"{aligned}{w.storage(buffer.name)} {w.names[buffer.name]}{dims}{start};"]

    # -- statements

    def _stmt(self, stmt: Stmt) -> list[str]:
        notes = [f"// {note}" for note in self.fresh_notes(stmt.step)]
        w = self._writer
        if stmt.reduce == ONLY and (chosen := term_of(stmt.value)):
            inner = self._stmt(replace(stmt, value=chosen[1], step=""))
            return [*notes, *under_head(f"if ({w.value(chosen[0], -1)})", inner, braces=not _is_simple(inner))]
        parts, value = named_parts(stmt.value, set(w.names.values()) | self._parts)
        if parts:
            bare = replace(stmt, value=value, step="")
            named = [f"const {w.working_type(part.dtype)} {name} = {w.value(part, -1)};" for name, part in parts]
            return [*notes, "{", *named, *self._stmt(bare), "}"]
        target = w.element(stmt.target.buffer, stmt.target.index)
        if stmt.hits:
            return [*notes, *list_lines(stmt, stmt.hits, w, self._integer, self._bit)]
        if stmt.reduce in (None, ONLY):
            return [*notes, f"{target} = {w.store_value(stmt.value, stmt.target)};"]
        if stmt.atomic:
            return [*notes, f"{self._atomic(stmt)}(&{target}, {w.value(stmt.value, -1)});"]
        if stmt.reduce in ("argmax", "argmin"):
            return notes + best_lines(stmt, target, w)
        dtype = self._launch.buffers[stmt.target.buffer].dtype
        if stmt.reduce in ("sum", "prod") and dtype not in (*SHORT_FLOATS, "i32", "i64"):
            sign, level = ("+", 5) if stmt.reduce == "sum" else ("*", 6)
            return [*notes, f"{target} {sign}= {w.value(stmt.value, level - 5)};"]
        old = Load(stmt.target.buffer, stmt.target.index, dtype)
        if stmt.reduce == LINEAR and stmt.arg is not None:
            return [*notes, f"{target} = {w.store_value(after_step(stmt.arg, old, stmt.value), stmt.target)};"]
        word = {"sum": "+", "prod": "*"}.get(stmt.reduce, stmt.reduce)
        return [*notes, f"{target} = {w.store_value(Op(word, (old, stmt.value), dtype), stmt.target)};"]

    def _atomic(self, stmt: Stmt) -> str:
        """The word for an update in one access, which the language or a helper has."""
        word = "add" if stmt.reduce == "sum" else str(stmt.reduce)
        if self._writer.dialect is CUDA:
            return f"atomic{word.title()}"
        dtype, space = (getattr(self._launch.buffers[stmt.target.buffer], what) for what in ("dtype", "space"))
        word += "_local" if space == "shared" and dtype != "i32" else ""
        return f"atomic_{word}" if dtype == "i32" else f"atomic_{word}_{self._writer.working_type(dtype)}"

    # -- vectors

    def _by_array(self, dtype: str, width: int) -> bool:
        """True where CUDA has no vector type with lanes: an array is moved as one integer."""
        return self._writer.dialect is CUDA and not vector_word(dtype, width)

    def _lanes_at(self, access: Access, dtype: str, width: int, *, const: bool = False) -> str:
        """`width` neighbours from `access` on, as one lvalue."""
        kind = ("const " if const else "") + self._writer.vector(dtype, width)
        place = self._writer.element(access.buffer, access.index)
        if self._writer.dialect is CUDA:
            pointer = f"reinterpret_cast<{kind}*>(&{place})"
            return f"__ldcs({pointer})" if const and self._launch.buffers[access.buffer].streamed else f"*{pointer}"
        space = {"global": "__global ", "shared": "__local ", "register": ""}
        return f"*({space[self._launch.buffers[access.buffer].space]}{kind}*)&{place}"


def _is_simple(lines: list[str]) -> bool:
    """True of one statement on a line of its own, with what is said beside it."""
    return len(lines) == 1 and lines[0].partition("  // ")[0].endswith(";")


def _is_plain(node: Spmd) -> bool:
    return isinstance(node, _PLAIN) or (isinstance(node, Arrive | Await | Fence) and node.line.arrivals == "group")


def _needs_empty_line(before: Spmd, node: Spmd, lines: list[str]) -> bool:
    """An empty line around loops, tests and barriers; none between plain lines."""
    if _is_plain(before) and _is_plain(node):
        return lines[0].startswith("//")
    if isinstance(before, Fence) and isinstance(node, Arrive):
        return False
    filled = isinstance(node, For) and node.kind in _UNROLLED and isinstance(before, Declare) and before.start is None
    return not filled and not (isinstance(before, Flag | Declare | Let) and isinstance(node, If))
