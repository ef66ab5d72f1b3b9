"""A tree in which other tensors make a reduction: its kernel, and the nests in the place of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Equation, Kernel, Node, Tree
from tilegen.ir.parts.derived import Ranked, Regrouped
from tilegen.ir.walk import loop_names, substitute
from tilegen.ir.written import buffer_of, derive, nest_of
from tilegen.primitives.rewriting.names import Names


def fresh_names(tree: Tree, target: str, gone: Node) -> Names:
    """Names for loops of the nest of `target`, in the place of those in `gone`."""
    kept = set(loop_names(replace(tree, body=tuple(node for node in tree.body if node != gone))))
    return Names(kept | {*tree.kernel.sizes, *(t.name for t in tree.kernel.tensors)}, target)


def need_nest(tree: Tree, target: str, step: str) -> Node:
    """The nest of the equation of `target`. StepError where it is no longer that of the kernel."""
    nest = nest_of(tree.kernel, next(e for e in tree.kernel.equations if e.target == target))
    if nest not in tree.body:
        notes = (f"put {step} before the steps that change the loops of '{target}' or what it reads",)
        text = f"'{target}' is no longer computed by the nest that the kernel gives it"
        raise StepError(text, notes=notes)
    return nest


def with_equations(
    tree: Tree,
    step: str,
    made: Regrouped | Ranked,
    places: Mapping[str, tuple[Equation, ...]],
    allowed: Iterable[str] = (),
) -> Tree:
    """The tree with other equations in the place of those of some targets, each in the nest that the kernel gives it.

    StepError where a nest that makes room is no longer that of the kernel. `free` are reductions that may be combined
    in any order.
    """
    kernel = derive(tree.kernel, made, places)
    body = tree.body
    for target, group in places.items():
        old, new = need_nest(tree, target, step), [nest_of(kernel, e) for e in group if e.running is None]
        body = tuple(n for node in body for n in (new if node == old else [node]))
    buffers = tuple(map(buffer_of, kernel.tensors[len(tree.kernel.tensors) :]))
    reassociated = tuple(dict.fromkeys((*tree.reassociated, *allowed)))
    return replace(tree, kernel=kernel, body=body, buffers=(*tree.buffers, *buffers), reassociated=reassociated)


def terms_of(kernel: Kernel, whole: Equation) -> tuple[tuple[str, tuple[Affine, ...]], ...]:
    """What steps have made to reduce terms that `whole` reduces, and which of them these are."""
    found: tuple[tuple[str, tuple[Affine, ...]], ...] = ()
    while kernel.origin is not None:
        made = kernel.derived
        kernel = kernel.origin
        prefix = next((e for e in kernel.equations if isinstance(made, Regrouped) and e.target == made.target), None)
        if isinstance(made, Regrouped) and prefix and len(prefix.reduced) == len(whole.reduced):
            ranges = (*zip(prefix.loops, whole.loops, strict=False), *zip(prefix.reduced, whole.reduced, strict=True))
            same = {r.name: var(n.name) for r, n in ranges}
            found += made.terms if substitute(prefix.value, same) == whole.value else ()
    return found
