"""order(bi, bj, ko, ti, tj, ki)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Loop, Node, Stmt, Tree
from tilegen.ir.steps import Dots
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.tree import need_loop

# A loop header with the place it came from: two loops of one name in two nests stay two loops.
_Header = tuple[int, Loop]
_Leaf = tuple[tuple[_Header, ...], Stmt]


@primitive("loops")
class Order:
    """Nest loops in the given order, outermost first; `...` stands for all others, as they are.

    kernel:
        kernel gemv(A: f32[M, K], x: f32[K]) -> y: f32[M]:
            y[i] = sum[k](A[i, k] * x[k])
    before:
        for i < M
          y[i] = 0
          for k < K
            y[i] += A[i, k] * x[k]
    steps:
        order(k, i)
    after:
        for i < M
          y[i] = 0
        for k < K
          for i < M
            y[i] += A[i, k] * x[k]

    A loop that has to go inside a loop which holds other statements too is distributed over them.
    """

    loops: tuple[LoopName | Dots, ...]

    def apply(self, tree: Tree) -> Tree:
        names = [name for name in self.loops if not isinstance(name, Dots)]
        if len(self.loops) < 2 or len(self.loops) - len(names) > 1:
            raise StepError("order takes at least two loops, or one loop and one '...'")
        for name in names:
            need_loop(tree, name)
            if names.count(name) > 1:
                raise StepError(f"loop '{name}' is named twice")
        body: list[Node] = []
        met = False
        for node in tree.body:
            leaves = _flatten((node,), (), [0])
            if any(h[1].name in names for path, _ in leaves for h in path):
                met = met or any(len([h for h in path if h[1].name in names]) == len(names) for path, _ in leaves)
                leaves = [(self._permute(path), stmt) for path, stmt in leaves]
            body += _regroup(leaves, 0)
        if not met:
            raise StepError(f"no statement is inside all of {', '.join(names)}")
        return replace(tree, body=tuple(body))

    def _permute(self, path: tuple[_Header, ...]) -> tuple[_Header, ...]:
        here = {h[1].name: h for h in path}
        wanted = [n for n in self.loops if isinstance(n, Dots) or n in here]
        dots = [n for n in wanted if isinstance(n, Dots)]
        if dots:
            split = wanted.index(dots[0])
            front = [here[str(n)] for n in wanted[:split]]
            back = [here[str(n)] for n in wanted[split + 1 :]]
            return (*front, *(h for h in path if h not in front and h not in back), *back)
        new = iter([here[str(n)] for n in wanted])
        return tuple(next(new) if h[1].name in wanted else h for h in path)


def _flatten(body: tuple[Node, ...], path: tuple[_Header, ...], counter: list[int]) -> list[_Leaf]:
    leaves: list[_Leaf] = []
    for node in body:
        if isinstance(node, Stmt):
            leaves += [(path, node)]
            continue
        counter[0] += 1
        leaves += _flatten(node.body, (*path, (counter[0], replace(node, body=()))), counter)
    return leaves


def _regroup(leaves: list[_Leaf], depth: int) -> list[Node]:
    """Nests over runs of leaves that share their loop at `depth`."""
    nodes: list[Node] = []
    start = 0
    while start < len(leaves):
        path, stmt = leaves[start]
        if len(path) == depth:
            nodes += [stmt]
            start += 1
            continue
        end = start
        while end < len(leaves) and len(leaves[end][0]) > depth and leaves[end][0][depth][0] == path[depth][0]:
            end += 1
        nodes += [replace(path[depth][1], body=tuple(_regroup(leaves[start:end], depth + 1)))]
        start = end
    return nodes
