"""tensorize(i, j, k, by=mma_m16n8k16_bf16)"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.errors import StepError
from tilegen.ir.affine import Affine, const, var
from tilegen.ir.hardware.instructions import Instruction
from tilegen.ir.hardware.matching import operand_points
from tilegen.ir.nodes import Loop, Performed, Tree
from tilegen.ir.walk import loops, rewrite_nodes, stmts
from tilegen.primitives import LoopName, primitive
from tilegen.primitives.rewriting.matrix import (
    in_fragments,
    no_nest_error,
    operands_of,
    rows_fit,
    with_derived_fragments,
)
from tilegen.primitives.rewriting.tree import need_constant, need_loop


@primitive("execution")
class Tensorize:
    """Let an instruction of a warp compute a nest of loops, on operands that the lanes hold together in fragments.

    kernel:
        kernel product(A: bf16[16, K], B: bf16[K, 8]) -> C: f32[16, 8]:
            C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    before:
        for b < 1  block.x
          for i < 16
            for j < 8
              C.reg[i, j] = 0
          for ko < (K + 15)/16
            for i < 16
              for k < 16
                A.reg[i, k] = (A[b*16 + i, ko*16 + k] else 0)
            for j < 8
              for k < 16
                B.reg[j, k] = (B[ko*16 + k, j] else 0)
            for i < 16
              for j < 8
                for k < 16
                  C.reg[i, j] += f32(A.reg[i, k]) * f32(B.reg[j, k])
          for i < 16
            for j < 8
              C[b*16 + i, j] = C.reg[i, j]
    steps:
        round_up(k, 16)
        tile(i, 16) -> b, i
        tile(k, 16) -> ko, k
        bind(b, block.x)
        order(b, ko, i, j, k)
        cache_register(C, at=b)
        cache_register(A, at=ko)
        cache_register(B, at=ko)
        tensorize(i, j, k, by=mma_m16n8k16_bf16)
    after:
        for b < 1  block.x
          for i < 16  matrix
            for j < 8  matrix
              C.reg[i, j] = 0
          for ko < (K + 15)/16
            for i < 16  matrix
              for k < 16  matrix
                A.reg[i, k] = (A[b*16 + i, ko*16 + k] else 0)
            for j < 8  matrix
              for k < 16  matrix
                B.reg[j, k] = (B[ko*16 + k, j] else 0)
            for i < 16  matrix  mma_m16n8k16_bf16
              for j < 8  matrix
                for k < 16  matrix
                  C.reg[i, j] += f32(A.reg[i, k]) * f32(B.reg[j, k])
          for i < 16  matrix
            for j < 8  matrix
              C[b*16 + i, j] = C.reg[i, j]

    The loops are the indices of the instruction's equation in their order, those of its left side first; several loops
    can be the digits of one index. The statement has to be the instruction's equation, each operand a register buffer,
    or shared memory where the instruction wants that. Loops that run over the elements of a fragment elsewhere, for
    its start or its store, are dealt out to the 32 lanes of the warp, which are thread.x; warps are thread.y and
    thread.z. Registers that are computed from fragments, element by element, are fragments, too, and so is what
    each lane reduces its own elements to: rfactor gives the lanes that share a row parts of their own. A sum that an
    instruction adds up goes in an order of its own. The text needs a GPU that has it.

    Of several, `by=[wgmma_m64n256k16_bf16, wgmma_m64n256k16_trans_bf16]`, it is the first whose rows in shared memory
    run as those of the operands do there, so that a schedule is for either storage order.
    """

    loops: tuple[LoopName, ...]
    by: Instruction | tuple[Instruction, ...]

    def apply(self, tree: Tree) -> Tree:
        each = [_Tensorize(self.loops, by) for by in (self.by if isinstance(self.by, tuple) else (self.by,))]
        return next((one for one in each[:-1] if rows_fit(tree, one.assign_indices(tree))), each[-1]).apply(tree)


@dataclass(frozen=True)
class _Tensorize:
    """The step with one instruction."""

    loops: tuple[LoopName, ...]
    by: Instruction

    def apply(self, tree: Tree) -> Tree:
        if self.by.name == tree.kernel.name:
            notes = ("the text has a function for each of them: give the kernel another name",)
            raise StepError(f"the kernel and the instruction are both called '{self.by.name}'", notes=notes)
        performed = self.assign_indices(tree)
        every = [(loop, operands_of(loop, performed)) for loop in loops(tree.body)]
        nests = [(loop, operands) for loop, operands in every if operands is not None]
        if not nests:
            raise no_nest_error(tree, self.loops, self.by)
        buffers = {b.name: b for b in tree.buffers}
        for _, operands in nests:
            for layout in self.by.fragments:
                name = layout.operand.name
                buffer = buffers[operands[name].buffer]
                if buffer.fragment is None:
                    points = operand_points(performed, name)
                    buffers[buffer.name] = in_fragments(buffer, operands[name], layout, points)

        def change(value: object) -> object:
            if not isinstance(value, Loop) or value.name not in self.loops:
                return value
            whole = operands_of(value, performed) is not None
            return replace(value, kind="matrix", performed=performed if whole else value.performed)

        sums = {stmt.name for nest, _ in nests for stmt in stmts(nest) if stmt.reduce}
        after = replace(
            tree,
            buffers=tuple(buffers.values()),
            body=rewrite_nodes(tree.body, change),
            reassociated=tuple(dict.fromkeys((*tree.reassociated, *sorted(sums)))),
        )
        return with_derived_fragments(after)

    def assign_indices(self, tree: Tree) -> Performed:
        """What each index of the equation is in the loops. StepError where they are no digits of the indices."""
        rest = list(self.loops)
        indices: list[Affine] = []
        equation = self.by.equation
        for reached in (*equation.loops, *equation.reduced):
            value, count = const(0), 1
            while count < reached.extent.const and rest:
                loop = need_loop(tree, rest.pop(0))
                if loop.kind not in ("serial", "unrolled", "matrix"):
                    notes = ("the nest has loops of its own inside of those over warps: tile gives them",)
                    raise StepError(
                        f"loop '{loop.name}' is {loop.kind}, and tensorize takes a serial loop", notes=notes
                    )
                extent = need_constant(loop, "tensorize")
                value, count = value * extent + var(loop.name), count * extent
            if count != reached.extent.const:
                raise self._wrong_extents(tree)
            indices.append(value)
        if rest:
            raise self._wrong_extents(tree)
        return Performed(self.by, tuple(indices))

    def _wrong_extents(self, tree: Tree) -> StepError:
        equation = self.by.equation
        wanted = ", ".join(f"{r.name} < {r.extent}" for r in (*equation.loops, *equation.reduced))
        given = ", ".join(f"{name} < {need_loop(tree, name).extent}" for name in self.loops)
        message = f"the indices of '{self.by.name}' are {wanted}, and the loops given are {given}"
        return StepError(message, notes=("tile the loops to these extents, and name them in this order",))
