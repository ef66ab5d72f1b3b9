"""A tree in which other tensors make a running reduction: its kernel, and the nests in the place of its own."""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Buffer, Equation, Kernel, Node, Tensor, Tree
from tilegen.ir.parts.derived import Regrouped
from tilegen.ir.walk import loop_names, substitute
from tilegen.ir.written import nest_of
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


def regroup(tree: Tree, made: Regrouped, old: Node, added: tuple[Equation, ...], new: Equation) -> Tree:
    """The tree with the equation `new`, and the nests of those `added` in front of its own, in the place of `old`."""
    kernel = tree.kernel
    like = kernel.tensor(new.target)
    tensors = tuple(
        Tensor(
            e.target, like.dtype, tuple(r.extent for r in e.loops), "intermediate", (*range(len(e.loops)),), like.span
        )
        for e in added
    )
    equations: tuple[Equation, ...] = ()
    for equation in kernel.equations:
        equations += (*added, new) if equation.target == new.target else (equation,)
    kernel = replace(kernel, tensors=kernel.tensors + tensors, equations=equations, origin=kernel, derived=made)
    body: tuple[Node, ...] = ()
    for node in tree.body:
        body += tuple(nest_of(kernel, e) for e in (*added, new) if e.running is None) if node == old else (node,)
    buffers = tuple(Buffer(t.name, t.dtype, t.shape, "global", t.order, t.role, span=t.span) for t in tensors)
    free = tuple(t.name for t in tensors if new.target in tree.reassociated)
    return replace(
        tree, kernel=kernel, body=body, buffers=(*tree.buffers, *buffers), reassociated=(*tree.reassociated, *free)
    )


def with_reader(tree: Tree, made: Regrouped, new: Equation, run: Equation, nest: Node, old: Node) -> Tree:
    """The tree with `new`, which reads `run`, in its nest, and without the nest `old`."""
    equations = tuple(new if e.target == new.target else e for e in tree.kernel.equations)
    kernel = replace(tree.kernel, equations=equations, origin=tree.kernel, derived=made)
    body = tuple(nest_of(kernel, run) if node == nest else node for node in tree.body if node != old)
    return replace(tree, kernel=kernel, body=body)


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
