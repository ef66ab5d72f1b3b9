"""Checks and rewrites that several primitives share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.nodes import Buffer, Condition, Loop, Node, Stmt, Tree
from tilegen.ir.walk import find_loop, loop_names, loops, rewrite_nodes, stmts


class MissingLoop(StepError):
    """A step names a loop that is not there. `loop` is that name."""

    def __init__(self, loop: str, notes: tuple[str, ...]) -> None:
        super().__init__(f"there is no loop '{loop}'", notes=notes)
        self.loop = loop


def need_loop(tree: Tree, name: str) -> Loop:
    """The loop called `name`. MissingLoop with those that are there if there is none."""
    loop = find_loop(tree, name)
    if loop is None and (nest := nest_of(tree, name)) != (name,):
        way = f"bind({name}, block.x), deal({name}), order({name}, ...) and at={name} take it, other steps one of them"
        raise StepError(f"'{name}' is the nest of {', '.join(nest)}, and no single loop", notes=(way,))
    if loop is None:
        known = loop_names(tree)
        alike = [other for other in known if name in (other.rpartition(".")[2], f"{_target_of(tree, other)}.{other}")]
        if alike:
            notes: tuple[str, ...] = (f"did you mean {' or '.join(map(repr, alike))}?{_one_name(tree, alike, name)}",)
        elif made := _loops_of_index(tree, name):
            notes = (f"that index runs as {', '.join(made)} here",)
        else:
            notes = did_you_mean(name, known)
        raise MissingLoop(name, (*notes, f"the loops here are {_origins(tree)}"))
    return loop


def nest_of(tree: Tree, name: Any) -> tuple[Any, ...]:
    """The loops that `collapse` has called `name` together, outermost first, or `name` itself."""
    return tuple(dict.fromkeys(loop.name for loop in loops(tree.body) if name == loop.collapsed)) or (name,)


def _one_name(tree: Tree, several: list[str], name: str) -> str:
    """How loops that are alike get one name."""
    alike = {(loop.extent, loop.kind) for loop in loops(tree.body) if loop.name in several}
    return (
        f" rename({', '.join(several)}) -> {name} lets steps take them as one" if len(several) > len(alike) == 1 else ""
    )


def _target_of(tree: Tree, loop: str) -> str:
    """The tensor in whose equation a loop of this name runs, as written; "" if there is none."""
    equations = tree.kernel.written_kernel.equations
    return next((e.target for e in equations if loop in (r.name for r in (*e.loops, *e.reduced))), "")


def _origins(tree: Tree) -> str:
    """The loops of the tree, those from one place together, and where that is: an equation, or a step."""
    found: dict[str, list[str]] = {}
    for loop in {loop.name: loop for loop in loops(tree.body)}.values():
        made = loop.step.split("; ")[0]
        target = "" if " -> " in made else _target_of(tree, loop.name)
        origin = f"of {target}" if target else f"by {made.partition(' -> ')[0]}"
        found.setdefault(origin if made or target else "", []).append(loop.name)
    return "; ".join(f"{', '.join(names)} {origin}".rstrip() for origin, names in found.items())


def _loops_of_index(tree: Tree, name: str) -> list[str]:
    """The loops that an index of the kernel has been cut into, or fused into; none where there is no such index."""
    for equation in tree.kernel.equations:
        for stmt in stmts(tree.body):
            if stmt.name == equation.target and stmt.instance is not None:
                for index, value in zip((*equation.loops, *equation.reduced), stmt.instance, strict=False):
                    if name in (index.name, f"{equation.target}.{index.name}"):
                        return [n for n in loop_names(tree) if n in value.names()]
    return []


def need_buffer(tree: Tree, name: str) -> Buffer:
    """The buffer called `name`. StepError with the nearest name if there is none."""
    known = [b.name for b in tree.buffers]
    if name not in known:
        raise StepError(f"there is no buffer '{name}'", notes=did_you_mean(name, known, "the buffers are"))
    return tree.buffer(name)


def need_shared(tree: Tree, name: str, word: str, can: str) -> Buffer:
    """The shared buffer called `name`. StepError where it is elsewhere: `word` takes what `can` be done with."""
    buffer = need_buffer(tree, name)
    if buffer.space != "shared":
        notes = (f"cache_shared({name}, at=...) makes {name}.shared, which can be {can}",)
        raise StepError(f"'{name}' is in {buffer.space} memory, and {word} a shared buffer", notes=notes)
    return buffer


def need_constant(loop: Loop, why: str) -> int:
    """The extent of `loop`. StepError if it is symbolic; `why` completes 'needs a constant extent ...'."""
    if not loop.extent.is_const:
        way = f"tile({loop.name}, 32) gives one, and so does a fixed size"
        raise StepError(f"loop '{loop.name}' has extent {loop.extent}, and {why} needs a constant one", notes=(way,))
    return loop.extent.const


def need_serial(loop: Loop, word: str) -> None:
    """StepError if `loop` is bound to blocks or threads or belongs to a cooperative copy."""
    if loop.kind not in ("serial", "unrolled"):
        notes = (f"put {word} before the step that made it {loop.kind}",)
        raise StepError(f"loop '{loop.name}' is {loop.kind}, and {word} takes a serial loop", notes=notes)


def need_fresh(tree: Tree, names: Iterable[str], gone: Iterable[str] = ()) -> None:
    """StepError if one of `names` is a loop (those in `gone` disappear), is given twice, or is new and has a dot."""
    names, gone = list(names), set(gone)
    taken = {name for loop in loops(tree.body) for name in (loop.name, loop.collapsed)} - gone
    for name in names:
        if "." in name and name not in gone:
            raise StepError(f"'{name}' has a dot, which no new name has", notes=("choose a name without one",))
        if names.count(name) > 1:
            raise StepError(f"the name '{name}' is given twice")
        if name in taken:
            way = "every loop is made with a name of its own; rename gives loops of several nests one"
            raise StepError(f"there is a loop '{name}' already", notes=(way,))
        if name in tree.kernel.sizes:
            raise StepError(f"'{name}' is a size of the kernel", notes=("choose another name for the loop",))
        if any(name == buffer.name for buffer in tree.buffers):
            raise StepError(f"'{name}' is a tensor", notes=("choose another name",))
        if name in {scalar.name for scalar in tree.kernel.scalars}:
            raise StepError(f"'{name}' is a scalar", notes=("choose another name",))


def add_guard(body: tuple[Node, ...], condition: Condition) -> tuple[Node, ...]:
    """`body` with `condition` added to the guard of every statement, unless it is there already."""

    def add(value: object) -> object:
        if isinstance(value, Stmt) and condition not in value.guard:
            return replace(value, guard=(*value.guard, condition))
        return value

    return rewrite_nodes(body, add)


def rescope(tree: Tree, old: Iterable[str], new: str) -> Tree:
    """The tree with every buffer that lives in one of the loops `old` living in `new`."""
    gone = set(old)
    return replace(tree, buffers=tuple(replace(b, scope=new) if b.scope in gone else b for b in tree.buffers))


def change_loops(tree: Tree, name: str, change: Callable[[Loop], Loop]) -> Tree:
    """`change` applied to every loop called `name`; none of them is inside another."""

    def change_called(node: Node) -> Node:
        return change(node) if isinstance(node, Loop) and node.name == name else node

    return replace(tree, body=rewrite_nodes(tree.body, change_called))
