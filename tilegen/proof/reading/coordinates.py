"""A thread's program in plain words: no names for values or tests, one name for each coordinate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import Affine, affine, const, var
from tilegen.ir.facts.ranges import simplify
from tilegen.ir.hardware.limits import CLUSTER_LIMIT
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Access, Buffer, Condition, Const, Expr, Stmt
from tilegen.ir.walk import rewrite_indices, substitute
from tilegen.lowering.launch.grid import Cluster
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import (
    Declare,
    Flag,
    For,
    If,
    Let,
    Spmd,
)
from tilegen.poly import Refused

Tests = tuple[Condition, ...]


@dataclass(frozen=True)
class Axes:
    """The blocks and threads of a launch: for each kind that it uses, a loop name and its extent, or several."""

    blocks: tuple[tuple[str, str, Affine], ...]  # kind, name, extent
    threads: tuple[tuple[str, str, Affine], ...]
    values: Mapping[str, Affine]  # what the names of the text are in these

    @property
    def extents(self) -> dict[str, Affine]:
        return {name: extent for _, name, extent in (*self.blocks, *self.threads)}


def axes_of(launch: Launch, taken: Mapping[str, Affine]) -> Axes:
    """The coordinates of `launch`; `taken` are loops of other launches, which keep their names."""
    if launch.cluster:
        _check_cluster(launch.cluster, launch)
    found: dict[tuple[str, int], tuple[str, str, Affine]] = {}
    values: dict[str, Affine] = {}
    sizes = {kind: blocks.factors for kind, blocks in zip(BLOCK_KINDS, launch.grid, strict=True)}
    sizes |= {kind: (affine(count),) for kind, count in zip(THREAD_KINDS, launch.block, strict=True)}
    for name, kind, _ in launch.coordinates:
        # Where several loops share an axis, each is a digit of a block's number along it.
        digits = [key for key in found if key[0] == kind]
        if len(digits) < len(sizes[kind]):
            extent = sizes[kind][len(digits)]
            known = taken.get(name, extent) != extent
            digits.append((kind, len(digits)))
            found[digits[-1]] = (kind, f"{name}.{launch.name}" if known else name, extent)
        values[name] = var(found[digits[-1]][1])
    if any(len(sizes[kind]) > sum(key[0] == kind for key in found) > 0 for kind in BLOCK_KINDS):
        raise Refused(f"not every factor of the grid of {launch.name} has a loop")
    blocks = tuple(found[key] for kind in BLOCK_KINDS for key in sorted(found) if key[0] == kind)
    # A launch of one block still has a loop that its buffers live in.
    blocks = blocks or (("block.x", f"block.{launch.name}", affine(1)),)
    threads = tuple(found[k, 0] for k in reversed(THREAD_KINDS) if (k, 0) in found)
    if launch.tid not in values:
        values[launch.tid] = launch.flat.substitute(values)
    return Axes(blocks, threads, {n: v for n, v in values.items() if v != var(n)})


def _check_cluster(cluster: Cluster, launch: Launch) -> None:
    """Refused where its blocks are not numbered by the last digit of their place along an axis of the grid."""
    along = launch.grid[BLOCK_KINDS.index(cluster.kind)].factors
    names = [name for name, kind, _ in launch.coordinates if kind == cluster.kind]
    if names[-1:] != [cluster.rank] or len(names) != len(along) or along[-1] != const(cluster.blocks):
        raise Refused(f"'{cluster.rank}' does not number the blocks of a cluster")
    if not 2 <= cluster.blocks <= CLUSTER_LIMIT:
        raise Refused(f"a cluster has {cluster.blocks} blocks, and 2 to {CLUSTER_LIMIT} can run at once")


def inline_names(body: tuple[Spmd, ...], launch: Launch) -> tuple[Spmd, ...]:
    """`body` with every name for a value or a test replaced by what it stands for, as it was where it was made."""
    return _inline(body, {}, {}, launch.buffers)


def _inline(
    body: tuple[Spmd, ...],
    values: dict[str, Affine],
    tests: dict[str, tuple[Tests, Tests]],
    buffers: Mapping[str, Buffer],
) -> tuple[Spmd, ...]:
    values, tests = dict(values), dict(tests)
    out: list[Spmd] = []
    for node in body:
        match node:
            case Let(name, value):
                values[name] = value.substitute(values)
            case Flag(name, test):
                tests[name] = test, substitute(test, values)
            case For():
                inner = {n: v for n, v in values.items() if n != node.name}
                out.append(
                    replace(node, extent=node.extent.substitute(values), body=_inline(node.body, inner, tests, buffers))
                )
            case If():
                if node.flag and node.flag not in tests:
                    raise Refused(f"the test '{node.flag}' is used where it has not been made")
                given, made = tests[node.flag] if node.flag else ((), ())
                test = (*made, *substitute(tuple(c for c in node.test if c not in given), values))
                then, orelse = (_inline(each, values, tests, buffers) for each in (node.body, node.orelse))
                out.append(replace(node, test=test, body=then, orelse=orelse, flag=""))
            case Declare(start=None):
                out.append(node)
            case Declare(name, start, For() as nest):
                if not _fills(nest, buffers[name], start):
                    raise Refused(f"'{name}' does not start as it is declared")
                out += (Declare(name), substitute(nest, values))
            case Declare(name, start, origin):
                if not isinstance(origin, Stmt) or start is None:
                    raise Refused(f"it is not known which statement starts '{name}'")
                out += (Declare(name), substitute(replace(origin, value=start), values))
            case _:
                out.append(substitute(node, values))
    return tuple(out)


def _fills(nest: Spmd, buffer: Buffer, start: Expr | None) -> bool:
    """True if `nest` gives each element of an array the value 0, which `start` has to be, along its dimensions."""
    index: list[Affine] = []
    for extent in buffer.shape:
        if not isinstance(nest, For) or nest.extent != extent or len(nest.body) != 1:
            return False
        index.append(var(nest.name))
        (nest,) = nest.body
    zero = isinstance(start, Const) and str(start.value) in ("0", "0.0")
    if not zero or not isinstance(nest, Stmt) or nest.reduce or nest.guard:
        return False
    return nest.value == start and nest.target == Access(buffer.name, tuple(index)) and len({*index}) == len(index)


def rename_to_axes(body: tuple[Spmd, ...], where: Axes, loops: Mapping[str, Affine]) -> tuple[Spmd, ...]:
    """`body` in the loop names of `where`, its index expressions simplified."""
    return rewrite_indices(body, _simplifier(loops, where))


def extents_of(nodes: Iterable[Spmd]) -> dict[str, Affine]:
    """The loops among them, each with its extent."""
    return {node.name: node.extent for node in nodes if isinstance(node, For)}


def _simplifier(loops: Mapping[str, Affine], where: Axes) -> Callable[[Affine], Affine]:
    """What simplifies index expressions inside the loops, each of which is given with its extent."""
    extents = {name: extent.const for name, extent in loops.items() if extent.is_const}
    return lambda value: simplify(value.substitute(where.values), extents)
