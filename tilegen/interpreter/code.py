"""A tree as the text of a Python function that executes it, one plain loop for each loop, sizes put in.

Memory is flat, one list of numbers for each buffer, and beside it one byte for each element that says
whether it has a value. The text of one statement reads:

    i0 = v_i; i1 = v_k                              an access's index,
    if not (0 <= i0 < 30 and 0 <= i1 < 40): fail()  inside the buffer,
    p0 = i0 * 40 + i1
    if not set_A[p0]: fail()                        and with a value

What all statements in a loop are guarded by is asked where the loop begins: most tiles at borders have few iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

from tilegen.interpreter.scalar import converter
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import (
    FLOATS,
    INTEGERS,
    ONLY,
    Access,
    Cast,
    Condition,
    Const,
    Expr,
    Gather,
    Index,
    Load,
    Loop,
    Node,
    Op,
    Scalar,
    Stmt,
    Tree,
)
from tilegen.ir.parts.lists import Hits
from tilegen.ir.reductions.ragged import term_of

# CPython allows 20 nested loops in one function; a deeper nest goes on in an inner function.
_LOOPS_A_FUNCTION = 15
_INFIX = {"+": "+", "-": "-", "*": "*", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "==", "!=": "!=",
          "and": "and", "or": "or", "&": "&", "|": "|", "^": "^", "<<": "<<", ">>": ">>"}  # fmt: skip
# Operations on integers of a type that give no others.
_CLOSED = ("select", "min", "max", "%", "&", "|", "^", ">>")
# Operations whose last bits are those of the operands' last bits alone.
_MODULAR = ("+", "-", "*", "neg", "~")


# What is read in a statement, and the name that holds it.
Loads = dict[Load | Gather, str]


@dataclass
class CodeWriter:
    """The lines so far, and the names of what they use."""

    tree: Tree
    sizes: Mapping[str, Affine]
    shapes: Mapping[str, tuple[int, ...]]
    lines: list[str] = field(default_factory=list)
    stmts: list[Stmt] = field(default_factory=list)
    buffers: dict[str, int] = field(default_factory=dict)
    loops: dict[str, str] = field(default_factory=dict)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)


def write(tree: Tree, sizes: Mapping[str, int]) -> CodeWriter:
    """The text of `def execute():` over the names that `run` provides."""
    constants = {name: const(value) for name, value in sizes.items()}
    shapes = {b.name: tuple(max(0, e.evaluate(sizes)) for e in b.shape) for b in tree.buffers}
    writer = CodeWriter(tree, constants, shapes, buffers={b.name: n for n, b in enumerate(tree.buffers)})
    writer.put(0, "def execute():")
    writer.put(1, "pass")
    for node in tree.body:
        _node(writer, node, 1, (), frozenset())
    return writer


def _node(w: CodeWriter, node: Node, depth: int, path: tuple[str, ...], asked: frozenset[Condition]) -> None:
    """Emit a node below the loops of `path`, which leave out what does not meet the conditions in `asked`."""
    if isinstance(node, Stmt):
        _stmt(w, replace(node, guard=tuple(c for c in node.guard if c not in asked)), depth, path)
        return
    if path and len(path) % _LOOPS_A_FUNCTION == 0:
        w.put(depth, f"def inner{len(w.lines)}():")
        name = w.lines[-1].strip()[4:-1]
        _loop(w, node, depth + 1, path, asked)
        w.put(depth, f"{name}")
        return
    _loop(w, node, depth, path, asked)


def _loop(w: CodeWriter, loop: Loop, depth: int, path: tuple[str, ...], asked: frozenset[Condition]) -> None:
    name = w.loops.setdefault(loop.name, f"v{len(w.loops)}")
    path = (*path, loop.name)
    new = [c for c in _shared_conditions(loop) - asked if c.value.names() <= {*path, *w.sizes}]
    now = sorted((c for c in new if c.value.linear_in(loop.name)), key=str)
    asked |= {*now}
    w.put(depth, f"for {name} in {_iterations(w, loop, now)}:  # {loop.name}")
    w.put(depth + 1, "pass")
    for buffer in w.tree.buffers:
        if buffer.scope == loop.name:
            n = w.buffers[buffer.name]
            w.put(depth + 1, f"set{n}[:] = unset{n}  # {buffer.name} starts without values")
    for node in loop.body:
        _node(w, node, depth + 1, path, asked)


def _shared_conditions(node: Node) -> frozenset[Condition]:
    """What all statements in the node are guarded by."""
    if isinstance(node, Stmt):
        return frozenset(node.guard)
    return frozenset[Condition].intersection(*map(_shared_conditions, node.body))


def _iterations(w: CodeWriter, loop: Loop, conditions: Iterable[Condition]) -> str:
    """The iterations that meet the conditions, which are linear in the loop: between ends, if any."""
    starts, ends, tests = ["0"], [_index_text(w, loop.extent)], []
    for condition in conditions:
        factor = condition.value.coefficient(loop.name)
        if not factor:
            tests.append(_condition(w, condition))
            continue
        rest = condition.value - var(loop.name) * factor
        for value, by in ((rest, factor), (-rest, -factor)) if condition.equal else ((rest, factor),):
            if by > 0:  # value + by*i >= 0
                starts.append(f"-(({_index_text(w, value)})//{by})")
            else:
                ends.append(f"({_index_text(w, value)})//{-by} + 1")
    first = f"max({', '.join(starts)})" if len(starts) > 1 else starts[0]
    end = f"min({', '.join(ends)})" if len(ends) > 1 else ends[0]
    return f"range({first}, {end})" + (f" if {' and '.join(tests)} else ()" if tests else "")


def _stmt(w: CodeWriter, stmt: Stmt, depth: int, path: tuple[str, ...]) -> None:
    number = len(w.stmts)
    w.stmts.append(stmt)
    where = f"{number}, ({''.join(f'({name!r}, {w.loops[name]}), ' for name in path)})"
    w.put(depth, f"# {stmt.name}")
    if stmt.guard:
        w.put(depth, f"if {' and '.join(_condition(w, c) for c in stmt.guard)}:")
        depth += 1
    if stmt.is_copy and isinstance(stmt.value, Load):
        _write_copy(w, stmt, stmt.value, depth, where)
        return
    if stmt.reduce == ONLY and (chosen := term_of(stmt.value)):
        w.put(depth, f"if {_expr(w, chosen[0], depth, where, {})}:")
        _stmt(w, replace(stmt, value=chosen[1], guard=()), depth + 1, path)
        return
    loads: Loads = {}
    value = _expr(w, stmt.value, depth, where, loads)
    target = _emit_position(w, stmt.target, depth, where, "t", "writes")
    n = w.buffers[stmt.target.buffer]
    if stmt.best is not None and stmt.arg is not None:
        _best(w, stmt, depth, where, value, target, loads)
        return
    if stmt.hits is not None:
        _keep(w, stmt, stmt.hits, depth, where, value)
        return
    if stmt.reduce not in (None, ONLY):
        w.put(depth, f"if not set{n}[{target}]: unset({where}, {stmt.target.buffer!r}, {target})")
        factor = _expr(w, stmt.arg, depth, where, loads) if stmt.arg else "1"
        value = _update(stmt.reduce, f"data{n}[{target}]", value, factor)
    w.put(depth, f"data{n}[{target}] = {_narrow(w, stmt.target.buffer, value)}")
    w.put(depth, f"set{n}[{target}] = 1")


def _write_copy(w: CodeWriter, stmt: Stmt, load: Load, depth: int, where: str) -> None:
    """A copy may move an element without a value; only a use of it is an error."""
    value = _load(w, load, depth, where, {}, may_be_unset=True)
    target = _emit_position(w, stmt.target, depth, where, "t", "writes")
    n = w.buffers[stmt.target.buffer]
    w.put(depth, f"data{n}[{target}] = {value}")
    w.put(depth, f"set{n}[{target}] = {value}_set")


def _best(w: CodeWriter, stmt: Stmt, depth: int, where: str, value: str, target: str, loads: Loads) -> None:
    assert stmt.best is not None
    assert stmt.arg is not None
    best = _emit_position(w, stmt.best, depth, where, "b", "reads")
    n, m = w.buffers[stmt.target.buffer], w.buffers[stmt.best.buffer]
    w.put(depth, f"if not set{m}[{best}]: unset({where}, {stmt.best.buffer!r}, {best})")
    w.put(depth, f"new = {_narrow(w, stmt.best.buffer, value)}")
    w.put(depth, f"index = {_narrow(w, stmt.target.buffer, _expr(w, stmt.arg, depth, where, loads))}")
    better = f"new {'>' if stmt.reduce == 'argmax' else '<'} data{m}[{best}]"
    if isinstance(stmt.arg, Load):
        w.put(depth, f"if not set{n}[{target}]: unset({where}, {stmt.target.buffer!r}, {target})")
        better += f" or (new == data{m}[{best}] and index < data{n}[{target}])"
    w.put(depth, f"if {better}:")
    w.put(depth + 1, f"data{m}[{best}] = new")
    w.put(depth + 1, f"data{n}[{target}] = index")
    w.put(depth + 1, f"set{n}[{target}] = 1")


def _keep(w: CodeWriter, stmt: Stmt, hits: Hits, depth: int, where: str, value: str) -> None:
    """A hit goes to the place that its list counts up from."""
    n, access = w.buffers[stmt.target.buffer], hits.access
    if hits.rank is None:
        w.put(depth, f"if not set{n}[t]: unset({where}, {stmt.target.buffer!r}, t)")
    w.put(depth, f"if {value}:")
    loads: Loads = {}
    items = [_narrow(w, access.buffer, _expr(w, item, depth + 1, where, loads)) for item in hits.items]
    w.put(depth + 1, f"place = {_expr(w, hits.rank, depth + 1, where, loads) if hits.rank else f'data{n}[t]'}")
    if hits.rank is None:
        w.put(depth + 1, f"data{n}[t] = {_narrow(w, stmt.target.buffer, 'place + 1')}")
    w.put(depth + 1, f"if 0 <= place < {_index_text(w, hits.capacity)}:")
    shape, m = w.shapes[access.buffer], w.buffers[access.buffer]
    for number, item in enumerate(items):
        names = [_index_text(w, i) for i in access.index]
        names[hits.place] = "place"
        names[-1] = str(number) if len(items) > 1 else names[-1]
        w.put(depth + 2, f"k = {_position([f'({name})' for name in names], shape)}")
        w.put(depth + 2, f"data{m}[k] = {item}")
        w.put(depth + 2, f"set{m}[k] = 1")


def _update(reduce: str, old: str, value: str, factor: str) -> str:
    match reduce:
        case "sum":
            return f"{old} + {value}"
        case "prod":
            return f"{old} * {value}"
        case "linear":
            return f"{factor} * {old} + {value}"
        case "max":
            return f"larger({old}, {value})"
        case "min":
            return f"smaller({old}, {value})"
        case _:
            raise TypeError(reduce)


def _narrow(w: CodeWriter, buffer: str, value: str) -> str:
    """`value` brought to what the buffer's type can hold; f32 and f64 memory rounds by itself."""
    dtype = w.tree.buffer(buffer).dtype
    return value if dtype in ("f64", "f32") else f"to_{dtype}({value})"


def _emit_position(w: CodeWriter, access: Access | Load, depth: int, where: str, prefix: str, verb: str) -> str:
    """Emit the check of an access; the text of its position in the buffer's memory."""
    shape = w.shapes[access.buffer]
    names = [f"{prefix}{n}" for n in range(len(shape))]
    for name, index in zip(names, access.index, strict=True):
        w.put(depth, f"{name} = {_index_text(w, index)}")
    if names:
        inside = " and ".join(f"0 <= {n} < {e}" for n, e in zip(names, shape, strict=True))
        w.put(depth, f"if not ({inside}): outside({where}, {verb!r}, {access.buffer!r}, ({', '.join(names)},))")
    w.put(depth, f"{prefix} = {_position(names, shape)}")
    return prefix


def _position(names: list[str], shape: tuple[int, ...]) -> str:
    text = "0"
    for name, extent in zip(names, shape, strict=True):
        text = name if text == "0" else f"({text}) * {extent} + {name}"
    return text


def _load(w: CodeWriter, load: Load, depth: int, where: str, loads: Loads, *, may_be_unset: bool = False) -> str:
    if load in loads:
        return loads[load]
    name = f"x{len(loads)}"
    loads[load] = name
    n = w.buffers[load.buffer]
    if load.fallback is not None:
        shape = w.shapes[load.buffer]
        inside = " and ".join(f"0 <= {_index_text(w, i)} < {e}" for i, e in zip(load.index, shape, strict=True))
        w.put(depth, f"if not ({inside or True}):")
        w.put(depth + 1, f"{name} = {_number_text(load.fallback)}")
        if may_be_unset:
            w.put(depth + 1, f"{name}_set = 1")
        w.put(depth, "else:")
        depth += 1
    place = _emit_position(w, load, depth, where, f"{name}i", "reads")
    if may_be_unset:
        w.put(depth, f"{name}_set = set{n}[{place}]")
    else:
        w.put(depth, f"if not set{n}[{place}]: unset({where}, {load.buffer!r}, {place})")
    w.put(depth, f"{name} = data{n}[{place}]")
    return name


def _expr(w: CodeWriter, value: Expr, depth: int, where: str, loads: Loads) -> str:
    """The text of a value; the loads in it are emitted first, and all of them are checked."""
    match value:
        case Const():
            return _number_text(value)
        case Index(index):
            return f"({_index_text(w, index)})"
        case Load():
            return _load(w, value, depth, where, loads)
        case Gather():
            return _gather(w, value, depth, where, loads)
        case Scalar(name):
            return f"scalar{[s.name for s in w.tree.kernel.scalars].index(name)}"
        case Cast(arg, dtype):
            return f"to_{dtype}({_expr(w, arg, depth, where, loads)})"
        case Op(name, args, dtype):
            parts = [_expr(w, arg, depth, where, loads) for arg in args]
            if dtype in INTEGERS and name not in _MODULAR:  # an index is compared as it is, and else of its type
                both = zip(args, parts, strict=True)
                parts = [f"to_{arg.dtype}({text})" if isinstance(arg, Index) else text for arg, text in both]
            text = _operation(name, parts)
            return f"to_{dtype}({text})" if dtype in INTEGERS and name not in _CLOSED else text
        case _:
            raise TypeError(value)


def _gather(w: CodeWriter, value: Gather, depth: int, where: str, loads: Loads) -> str:
    """The read at an index that is computed; what it falls back to is computed in any case."""
    if value in loads:
        return loads[value]
    parts = [_expr(w, part, depth, where, loads) for part in value.index]
    other = _expr(w, value.fallback, depth, where, loads) if value.fallback else ""
    name = loads[value] = f"x{len(loads)}"
    names = [f"{name}i{n}" for n in range(len(parts))]
    for each, part in zip(names, parts, strict=True):
        w.put(depth, f"{each} = {part}")
    shape = w.shapes[value.buffer]
    inside = " and ".join(f"0 <= {each} < {e}" for each, e in zip(names, shape, strict=True))
    w.put(depth, f"if {inside}:")
    w.put(depth + 1, f"{name} = data{w.buffers[value.buffer]}[{_position(names, shape)}]")
    w.put(depth, "else:")
    outside = f"outside({where}, 'reads', {value.buffer!r}, ({', '.join(names)},))"
    w.put(depth + 1, f"{name} = {other}" if other else outside)
    return name


def _operation(name: str, parts: list[str]) -> str:
    match name, parts:
        case "neg", [x]:
            return f"(-{x})"
        case "~", [x]:
            return f"(~{x})"
        case "not", [x]:
            return f"(not {x})"
        case "select", [condition, x, y]:
            return f"({x} if {condition} else {y})"
        case _, [x, y] if name in _INFIX:
            return f"({x} {_INFIX[name]} {y})"
        case _:
            return f"functions[{name!r}]({', '.join(parts)})"


def _number_text(value: Const) -> str:
    if value.dtype not in FLOATS:
        return repr(value.value)
    number = converter(value.dtype)(float(value.value))
    return f"({number!r})" if isfinite(number) else f"float('{number}')"


def _condition(w: CodeWriter, condition: Condition) -> str:
    return f"{_index_text(w, condition.value)} {'==' if condition.equal else '>='} 0"


def _index_text(w: CodeWriter, value: Affine) -> str:
    """An index expression; division and remainder round down in Python as in tilegen."""
    return value.substitute(w.sizes).in_python(w.loops.__getitem__)
