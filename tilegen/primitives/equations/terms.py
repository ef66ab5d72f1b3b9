"""The terms of a reduction in the loops of a tree, divided by one of these."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.errors import StepError, did_you_mean
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Condition, Equation, Loop, Stmt, Tree
from tilegen.ir.walk import leaves, writes


def need_reduction(tree: Tree, name: str) -> Equation:
    """The reduction to the tensor `name`. StepError with those that there are if it is none."""
    known = {e.target: e for e in tree.kernel.equations if e.reduce}
    if name not in known:
        notes = did_you_mean(name, known, "its reductions are", none="the kernel has none")
        raise StepError(f"'{name}' is no reduction", notes=notes)
    return known[name]


@dataclass(frozen=True)
class Terms:
    """The terms of a reduction in the loops of a tree: `across` count the parts, `rest` run inside one.

    `left` is the point of the left side, `reduced` that of the reduction; `tails` are the conditions on the
    loops of the reduction alone, `guard` those that say which parts there are.
    """

    equation: Equation
    across: tuple[Loop, ...]
    rest: tuple[Loop, ...]
    left: tuple[Affine, ...]
    reduced: tuple[Affine, ...]
    tails: tuple[Condition, ...]
    guard: tuple[Condition, ...]


def terms_of(tree: Tree, equation: Equation, across: tuple[Loop, ...]) -> Terms:
    """How the tree runs over the terms of `equation`. StepError where `across` do not divide them in parts."""
    target, names = equation.target, [loop.name for loop in across]
    if equation.hits:
        notes = (f"atomic({target}) lets blocks and threads add to an unordered_list at once",)
        raise StepError(f"'{target}' counts the hits of a list, and rfactor divides other reductions", notes=notes)
    found = [(path, stmt) for path, stmt in leaves(tree.body) if stmt.name == target and not stmt.is_copy]
    copied = next((k for k in (target, equation.best) if k and not _is_reduced_in(found, k)), None)
    if copied is not None:
        notes = (f"put rfactor before the step that caches '{copied}'",)
        raise StepError(f"'{copied}' is reduced in a copy, and rfactor divides the reduction itself", notes=notes)
    ((path, stmt),) = found
    assert stmt.instance is not None
    count = len(equation.loops)
    left, reduced = stmt.instance[:count], stmt.instance[count:]
    inner = {n for i in reduced for n in i.names()}
    outer = {n for i in left for n in i.names()}
    wrong = [name for name in names if name not in inner or name in outer]
    if wrong:
        kept = [loop.name for loop in path if loop.name in inner - outer]
        way = f"the loops of the reduction are {', '.join(kept)}"
        raise StepError(f"loop '{wrong[0]}' is no loop of the reduction '{target}' alone", notes=(way,) if kept else ())
    rest = tuple(loop for loop in path if loop.name in inner and loop.name not in names)
    shifted = next((loop.name for loop in rest if loop.name in outer), None)
    if shifted is not None:
        notes = (f"put rfactor before the step that shifts a loop of the reduction by '{shifted}'",)
        raise StepError(f"the terms of '{target}' begin at '{shifted}', which runs over elements", notes=notes)
    if not rest:
        notes = (f"tile({names[-1]}, 32) makes two loops of it, and one of them counts the parts",)
        raise StepError(f"a part has nothing left to reduce: {' and '.join(names)} is the whole reduction", notes=notes)
    own = {*names, *(loop.name for loop in rest)}
    tails = tuple(c for c in stmt.guard if c.value.names() & own and c.value.names() <= own | set(tree.kernel.sizes))
    inside = {loop.name for loop in rest}
    guard = tuple(c for c in stmt.guard if c.value.names() & set(names) and c.value.names().isdisjoint(inside))
    return Terms(equation, across, rest, left, reduced, tails, guard)


def _is_reduced_in(found: list[tuple[tuple[Loop, ...], Stmt]], buffer: str) -> bool:
    """True if the one reduction found updates `buffer` itself."""
    return len(found) == 1 and buffer in {name for name, _ in writes(found[0][1])}
