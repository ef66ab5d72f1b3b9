"""A tree as text, for people and for golden files."""

from __future__ import annotations

from tilegen.ir.affine import Affine
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import (
    ONLY,
    Buffer,
    Cast,
    Condition,
    Const,
    Expr,
    Gather,
    Index,
    Load,
    Node,
    Op,
    Scalar,
    Stmt,
    Tree,
)
from tilegen.ir.parts.lists import Hits
from tilegen.ir.parts.windows import Windows
from tilegen.ir.reductions.linear import LINEAR, after_step
from tilegen.ir.reductions.ragged import term_of

_PRECEDENCE = {
    "or": 1, "and": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10,
}  # fmt: skip
_SIGNS = {"neg": "-", "~": "~"}
_UPDATES = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min=", "argmax": "argmax=", "argmin": "argmin="}


def show(tree: Tree) -> str:
    """The whole tree: its buffers and scalars, what steps allow, an empty line, its loops and statements."""
    lines = [show_buffer(b) for b in tree.buffers]
    lines += [f"scalar {s.name}: {s.dtype}" for s in tree.kernel.scalars]
    lines += [f"approximate {', '.join(tree.approximate)}"] if tree.approximate else []
    lines += ["launches overlap"] if tree.dependent else []
    for node in tree.body:
        lines += ["", *_node(node, 0)]
    return "\n".join(lines) + "\n"


def show_buffer(buffer: Buffer) -> str:
    shape = ", ".join(str(s) for s in buffer.shape)
    text = f"{buffer.space} {buffer.name}: {buffer.dtype}[{shape}]"
    if buffer.order != tuple(range(len(buffer.shape))):
        text += f" order({', '.join(map(str, buffer.order))})"
    if buffer.pad:
        text += f" pad {buffer.pad}"
    if buffer.swizzle:
        text += f" swizzle {buffer.swizzle}"
    if buffer.streamed:
        text += " streamed"
    if buffer.fragment:
        text += " in fragments"
    if buffer.role != "copy":
        where = f", in the memory of {memory_of(buffer.name)}" if memory_of(buffer.name) != buffer.name else ""
        where = f", {show_windows(buffer.windows)}" if buffer.windows else where
        return f"{text}  {buffer.role}{where}"
    return f"{text}  copy of {buffer.copy_of}, in {buffer.scope}"


def show_windows(windows: Windows) -> str:
    """What they show, and which words a place consists of where it has several."""
    element = f"{windows.tensor}[{', '.join(map(str, windows.index))}]"
    fallback = f" else {show_expr(windows.fallback)}" if windows.fallback else ""
    several = [", ".join(word for word, _ in group) for group in windows.digits if len(group) > 1]
    return f"shows {element}{fallback}" + (f" for all {' and all '.join(several)}" if several else "")


def _node(node: Node, depth: int) -> list[str]:
    lead = "  " * depth
    if isinstance(node, Stmt):
        return [lead + show_stmt(node)]
    kind = "" if node.kind == "serial" else f"  {node.kind}"
    kind += f"  {node.stages} stages" if node.stages > 1 else ""
    kind += f" across {node.across}" if node.across else ""
    kind += "  specialized" if node.specialized else ""
    kind += "  overlapped" if node.overlapped else ""
    kind += f"  up to {node.registers} registers" if node.registers else ""
    kind += f"  multicast to {node.multicast}" if node.multicast else ""
    kind += f"  {node.turns} in turn" if node.turns else ""
    kind += f"  {node.performed.instruction.name}" if node.performed else ""
    kind += "  peeled" if node.peeled else ""
    kind += f"  hands on {node.handed}" if node.handed else ""
    kind += f"  collapsed as {node.collapsed}" if node.collapsed else ""
    kind += f"  {node.resident} resident" if node.resident > 1 else ""
    kind += f"  dealt in groups of {node.dealt}" if node.dealt else ""
    kind += f"  roles {', '.join(role.name for role in node.roles)}" if node.roles else ""
    lines = [f"{lead}for {node.name} < {node.extent}{kind}"]
    for child in node.body:
        lines += _node(child, depth + 1)
    return lines


def show_stmt(stmt: Stmt) -> str:
    """The statement on one line, its guard after it."""
    value = show_expr(stmt.value)
    if stmt.arg is not None and stmt.best is not None:
        value = f"({value} at {show_expr(stmt.arg)}, best in {_access(stmt.best.buffer, stmt.best.index)})"
    atomic = "atomic " if stmt.atomic else ""
    guard = f"  if {' and '.join(show_condition(c) for c in stmt.guard)}" if stmt.guard else ""
    target = _access(stmt.target.buffer, stmt.target.index)
    if stmt.reduce == LINEAR and stmt.arg is not None:
        old = Load(stmt.target.buffer, stmt.target.index, stmt.value.dtype)
        return f"{target} = {show_expr(after_step(stmt.arg, old, stmt.value))}{guard}"
    if stmt.hits is not None:
        atomic += "together " if stmt.hits.together else ""
        list_of = f"{stmt.reduce} " if stmt.reduce else ""
        return f"{atomic}{list_of}{_kept(stmt.hits, target)} if {value}{guard}"
    if stmt.reduce == ONLY and (chosen := term_of(stmt.value)):
        value, guard = show_expr(chosen[1]), f"  if {show_expr(chosen[0])}{guard.replace('  if', ' and', 1)}"
    update = _UPDATES.get(stmt.reduce or "", "=")
    return f"{atomic}{target} {update} {value}{guard}"


def _kept(hits: Hits, counter: str) -> str:
    """`at[count[o]] = (y, x)`: what a list keeps of a hit, where, and what counts its hits."""
    places = [str(i) for i in hits.access.index]
    places[hits.place] = show_expr(hits.rank) if hits.rank else counter
    items = ", ".join(map(show_expr, hits.items))
    if len(hits.items) > 1:
        places, items = places[:-1], f"({items})"
    return f"{hits.access.buffer}[{', '.join(places)}] = {items}"


def show_condition(condition: Condition) -> str:
    """`low < high`, `low <= high` or `low == high`, with every term on the side where it is positive."""
    low, high = condition.value.sides()
    constant = condition.value.const
    if condition.equal:
        if low.is_const:
            return f"{high} == {-constant}"
        return f"{low} == {high + constant}" if constant >= 0 else f"{low + -constant} == {high}"
    if constant >= 0 or low.is_const:
        return f"{low} <= {high + constant}" if not low.is_const else f"{high} >= {-constant}"
    return f"{low + (-constant - 1)} < {high}"


def show_fact(condition: Condition) -> str:
    """A fact on sizes as a user writes it: `M <= 100`, `K % 8 == 0`."""
    return show_condition(condition).replace("%", " % ")


def show_expr(expr: Expr, parent: int = 0) -> str:
    """A data expression in the syntax of the kernel language."""
    match expr:
        case Const(value, dtype):
            if dtype == "bool":
                return "true" if value else "false"
            return f"{value:g}" if isinstance(value, float) and value in (float("inf"), float("-inf")) else repr(value)
        case Index(index):
            level = 9 if len(index.terms) + bool(index.const) > 1 else 11 if index.names() == {str(index)} else 10
            return f"({index})" if level < parent else str(index)
        case Load(buffer, index, _, fallback):
            text = _access(buffer, index)
            return f"({text} else {show_expr(fallback)})" if fallback else text
        case Gather(buffer, places, _, otherwise):
            text = f"{buffer}[{', '.join(map(show_expr, places))}]"
            return f"({text} else {show_expr(otherwise)})" if otherwise else text
        case Op("neg" | "~" as name, (arg,)):
            return f"{_SIGNS[name]}{show_expr(arg, 11)}"
        case Op("not", (arg,)):
            return f"not {show_expr(arg, 3)}"
        case Op(name, (left, right)) if name in _PRECEDENCE:
            level = _PRECEDENCE[name]
            text = f"{show_expr(left, level)} {name} {show_expr(right, level + 1)}"
            return f"({text})" if level < parent else text
        case Op(name, args):
            return f"{name}({', '.join(show_expr(a) for a in args)})"
        case Cast(arg, dtype):
            return f"{dtype}({show_expr(arg)})"
        case Scalar(name):
            return name
        case _:
            raise TypeError(expr)


def _access(buffer: str, index: tuple[Affine, ...]) -> str:
    return f"{buffer}[{', '.join(str(i) for i in index)}]"
