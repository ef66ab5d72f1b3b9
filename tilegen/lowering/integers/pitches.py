"""Tensors of a call whose rows are apart: the version of a tree where the distance is one more size of the launch.

A: f32[M, K]  pitch A.pitch      its element i, k lies at i * A.pitch + k, and A.pitch >= K
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from tilegen.ir.affine import var
from tilegen.ir.in_place import memory_of
from tilegen.ir.nodes import Buffer, Condition, Kernel, Tree

_PITCH = ".pitch"


def pitch_of(tensor: str) -> str:
    """The size that says how many elements the rows of a tensor are apart."""
    return tensor + _PITCH


def pitched_tensors(sizes: Iterable[str]) -> frozenset[str]:
    """The tensors whose pitch is among these sizes."""
    return frozenset(size.removesuffix(_PITCH) for size in sizes if size.endswith(_PITCH))


def with_pitches(tree: Tree, tensors: Collection[str]) -> Tree:
    """`tree` for calls in which each of these tensors, of two dimensions or more, has rows that are apart."""
    if not tensors:
        return tree
    buffers = (replace(b, pitch=var(pitch_of(memory_of(b.name)))) if _is_of(b, tensors) else b for b in tree.buffers)
    return replace(tree, kernel=_with_pitches(tree.kernel, sorted(tensors)), buffers=tuple(buffers))


def _is_of(buffer: Buffer, tensors: Collection[str]) -> bool:
    given = buffer.space == "global" and buffer.role in ("input", "output") and buffer.windows is None
    return given and memory_of(buffer.name) in tensors


def _with_pitches(kernel: Kernel, tensors: list[str]) -> Kernel:
    """The kernel for sizes at which no row is longer than it is apart from the next one."""
    found = {name: kernel.tensor(name) for name in tensors}
    rows = {name: tensor.shape[tensor.order[-1]] for name, tensor in found.items()}
    return replace(
        kernel,
        sizes=(*kernel.sizes, *map(pitch_of, tensors)),
        assumptions=(*kernel.assumptions, *(Condition(var(pitch_of(name)) - row) for name, row in rows.items())),
        origin=_with_pitches(kernel.origin, tensors) if kernel.origin else None,
    )
