"""compute_at(P, at=bi)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, var
from tilegen.ir.nodes import Equation, Load, Loop, Node, Stmt, Tree
from tilegen.ir.walk import leaves, loads, loops, reads, rewrite, stmts
from tilegen.primitives import BufferName, LoopName, primitive
from tilegen.primitives.equations.beyond import beyond_of
from tilegen.primitives.equations.computed import Computed, compute_in_box, plain_equation, with_computed_equation
from tilegen.primitives.rewriting.box import box_of
from tilegen.primitives.rewriting.iteration import iteration_of
from tilegen.primitives.rewriting.region import region_of
from tilegen.primitives.rewriting.tree import need_buffer, need_loop

Path = tuple[Loop, ...]


@primitive("memory")
class ComputeAt:
    """Compute an intermediate tensor in each iteration of `at`, as much of it as that iteration reads.

    kernel:
        kernel ends(X: f32[N + 2]) -> Y: f32[N]:
            var d: f32[N + 1]
            d[i] = X[i + 1] - X[i]
            Y[i] = d[i + 1] - d[i]
    before:
        for d.i < N + 1
          d[d.i] = X[d.i + 1] - X[d.i]
        for b < (N + 3)/4
          for t < 4
            Y[b*4 + t] = d[b*4 + t + 1] - d[b*4 + t]  if b*4 + t < N
    steps:
        tile(Y.i, 4) -> b, t
        compute_at(d, at=b)
    after:
        for b < (N + 3)/4
          for d.i < 5
            d[b, d.i] = X[b*4 + d.i + 1] - X[b*4 + d.i]  if b*4 + d.i <= N
          for t < 4
            Y[b*4 + t] = d[b, t + 1] - d[b, t]  if b*4 + t < N

    What several iterations read is computed in each of them. The tensor has a dimension more for `at` and for
    each loop around it, and is used in one iteration of these alone: it can live in shared memory or registers
    now, and be tiled and bound like anything else. The nest that it was made in is gone. Where reads outside of the
    tensor give what stands after 'else', that is what is computed there.
    """

    tensor: BufferName
    at: LoopName

    def apply(self, tree: Tree) -> Tree:
        old = self._find_equation(tree)
        need_loop(tree, self.at)
        bare = self._remove_nest(tree)
        readers = self._readers(bare)
        scope = self._scope(readers[0][0])
        box = box_of(region_of(bare, bare.buffer(self.tensor), self.at))
        made = compute_in_box(bare, old, scope, box, beyond_of(self.tensor, (stmt for _, stmt in readers)))
        equations = {e.target: e for e in tree.kernel.equations}
        said: dict[str, dict[str, Affine]] = {}
        for path, stmt in readers:
            equation = equations[stmt.name]
            found = iteration_of(stmt, (*equation.loops, *equation.reduced), path, scope)
            assert said.setdefault(stmt.name, found) == found, f"{stmt.name} runs in different places of {self.at}"
        kernel = with_computed_equation(tree.kernel, made, said)
        tensor = kernel.tensor(self.tensor)
        buffers = tuple(
            replace(b, shape=tensor.shape, order=tensor.order) if b.name == self.tensor else b for b in bare.buffers
        )
        return replace(bare, kernel=kernel, buffers=buffers, body=self._insert_nest(bare, made, made.nest(kernel)))

    def _find_equation(self, tree: Tree) -> Equation:
        buffer = need_buffer(tree, self.tensor)
        if buffer.role != "intermediate":
            made = buffer.role if buffer.role == "copy" else f"an {buffer.role}"
            inner = [t.name for t in tree.kernel.tensors if t.role == "intermediate"]
            notes = (f"the intermediate tensors are {', '.join(inner)}",) if inner else ()
            raise StepError(f"'{buffer.name}' is {made}, and compute_at takes an intermediate tensor", notes=notes)
        copy = next((b.name for b in tree.buffers if b.copy_of == buffer.name), None)
        if copy:
            notes = (f"put compute_at before the step that made '{copy}'",)
            raise StepError(f"'{buffer.name}' has the copy '{copy}' already", notes=notes)
        instead = "fuse can bring what reads it into the loop of the recurrence"
        return plain_equation(tree, buffer.name, "compute_at", instead)

    def _remove_nest(self, tree: Tree) -> Tree:
        """The tree without the nest that makes the tensor."""
        own = (self.tensor, f"{self.tensor}.init")
        for stmt in stmts(tree.body):
            cached = [b for b, _ in reads(stmt) if tree.buffer(b).role == "copy"] if stmt.name in own else []
            if cached:
                notes = (f"put compute_at before the step that made '{cached[0]}'",)
                raise StepError(f"'{self.tensor}' is made from the copy '{cached[0]}'", notes=notes)

        def change(value: object) -> object:
            gone = isinstance(value, Stmt) and value.name in own or isinstance(value, Loop) and not value.body
            return () if gone else value

        return replace(tree, body=rewrite(tree.body, change))

    def _readers(self, tree: Tree) -> list[tuple[Path, Stmt]]:
        """What reads the tensor, with the loops around it. StepError where that is not one nest of `at`."""
        found = [(p, s) for p, s in leaves(tree.body) if any(load.buffer == self.tensor for load in loads(s))]
        if not found:
            raise StepError(f"nothing reads '{self.tensor}'")
        for path, stmt in found:
            if self.at not in [loop.name for loop in path]:
                notes = ("fuse can bring all that reads it into one nest",) if len(found) > 1 else ()
                raise StepError(f"'{stmt.name}' reads '{self.tensor}' outside loop '{self.at}'", notes=notes)
        if sum(self._uses(loop) for loop in loops(tree.body) if loop.name == self.at) != 1:
            notes = ("fuse can bring all that reads it into one nest",)
            raise StepError(f"several nests have a loop '{self.at}' and read '{self.tensor}'", notes=notes)
        return found

    def _scope(self, path: Path) -> Path:
        return path[: [loop.name for loop in path].index(self.at) + 1]

    def _uses(self, node: Node) -> bool:
        return any(load.buffer == self.tensor for load in loads(node))

    def _insert_nest(self, tree: Tree, made: Computed, nest: tuple[Node, ...]) -> tuple[Node, ...]:
        """The tree's body with `nest` before what reads the tensor in `at`, which reads what it makes."""
        values = {loop.name: var(loop.name) for loop in made.scope}

        def read_inside(value: object) -> object:
            if not isinstance(value, Load) or value.buffer != self.tensor:
                return value
            return replace(value, index=made.here(value.index, values), fallback=None)

        def enter(value: object) -> object:
            if not isinstance(value, Loop) or value.name != self.at or not self._uses(value):
                return value
            first = next(n for n, child in enumerate(value.body) if self._uses(child))
            return replace(value, body=(*value.body[:first], *nest, *value.body[first:]))

        return rewrite(rewrite(tree.body, read_inside), enter)
