"""dependent_launch()"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives import primitive


@primitive("execution")
class DependentLaunch:
    """Let each launch begin while the one before it still runs: it waits for that before it touches global memory.

    kernel:
        kernel add(A: f32[N], B: f32[N]) -> C: f32[N]:
            C[i] = A[i] + B[i]
    before:
        for i < N
    steps:
        dependent_launch()
    after:
        launches overlap

    A block is launched as soon as there is room for it, starts its barriers and then waits until all launches before
    it on the stream are complete, those of other kernels included. That pays where launches are short. It is the
    programmatic dependent launch of sm_90 and later, and the host has to ask for it: the text says how.
    """

    def apply(self, tree: Tree) -> Tree:
        if tree.dependent:
            raise StepError("the launches of this schedule overlap already", notes=("leave out one of the two steps",))
        return replace(tree, dependent=True)
