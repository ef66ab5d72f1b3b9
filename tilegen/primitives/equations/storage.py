"""An intermediate tensor computed by its own nest, but in another storage order, or for more than it has."""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.nodes import Access, Buffer, Const, Equation, Load, Node, Stmt, Tree
from tilegen.ir.reductions.initial import init_value
from tilegen.ir.walk import rewrite_accesses, rewrite_nodes, stmts
from tilegen.ir.written import nest_of
from tilegen.primitives.equations.beyond import beyond_of, select_within
from tilegen.primitives.equations.computed import Computed, plain_equation, with_computed_equation
from tilegen.primitives.rewriting.box import bounds_conditions


def compute_in_storage(tree: Tree, new: Buffer) -> Tree:
    """The tree that computes the intermediate tensor `new` with this shape, no smaller than it was, and this order.

    Beyond the tensor it has what reads there give, else zeros, or what a reduction of nothing is. StepError where its
    nest is no longer that of the kernel, or it cannot be computed so.
    """
    name, longer = new.name, new.shape != tree.buffer(new.name).shape
    old = plain_equation(tree, name, "cache_global", f"the text of the kernel can give '{name}' another order")
    nest = nest_of(tree.kernel, old)
    if nest not in tree.body:
        notes = (f"put cache_global before the steps that change the loops of '{name}' or what it reads",)
        raise StepError(f"'{name}' is no longer computed by the nest that the kernel gives it", notes=notes)
    if longer and old.conditions:
        notes = ("define it everywhere, by a choice: 'a if condition else b'",)
        raise StepError(f"the equation of '{name}' leaves out elements, and tiles have all", notes=notes)
    nothing = init_value(old.reduce, new.dtype) if old.reduce else Const(0, new.dtype)
    beyond = beyond_of(name, stmts(tree.body)) or nothing
    made = _compute_in_shape(old, new.shape, beyond)
    kernel = with_computed_equation(tree.kernel, made, {e.target: {} for e in tree.kernel.equations})
    tensors = tuple(replace(t, order=new.order) if t.name == name else t for t in kernel.tensors)
    body = tuple(nest_of(kernel, made.new) if node == nest else node for node in tree.body)
    return replace(
        tree,
        kernel=replace(kernel, tensors=tensors),
        buffers=tuple(new if b.name == name else b for b in tree.buffers),
        body=rewrite_nodes(body, lambda node: _without_fallback(node, name)),
    )


def _compute_in_shape(old: Equation, shape: tuple[Affine, ...], beyond: Const) -> Computed:
    """The equation `old`, whose left side has plain loops, computed for a tensor of the extents `shape`, no smaller.

    What of it is outside of the tensor as written is `beyond`.
    """
    long = dict(zip(map(str, old.index), shape, strict=True))
    loops = tuple(replace(r, extent=long[r.name]) for r in old.loops)
    longer = [r for r, new in zip(old.loops, loops, strict=True) if new != r]
    room = Buffer(old.target, "", tuple(r.extent for r in longer), "global", ())
    extents = {r.name: r.extent.const for r in loops if r.extent.is_const}
    within = bounds_conditions(room, tuple(var(r.name) for r in longer), extents)
    value = select_within(old, old.value, frozenset(long), within, beyond) if within else old.value
    new = replace(old, loops=loops, value=value)
    return Computed(old, new, tuple(var(r.name) for r in loops), (), tuple(const(0) for _ in loops))


def _without_fallback(node: Node, buffer: str) -> Node:
    """`node` with reads of `buffer` that are all inside of it."""

    def change(access: Access | Load) -> Access | Load:
        if isinstance(access, Load) and access.buffer == buffer:
            return replace(access, fallback=None)
        return access

    return rewrite_accesses(node, change) if isinstance(node, Stmt) else node
