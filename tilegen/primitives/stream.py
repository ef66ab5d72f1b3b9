"""stream(X)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives import BufferName, primitive
from tilegen.primitives.rewriting.tree import need_buffer


@primitive("memory")
class Stream:
    """Tell the caches that what is loaded of an input is not wanted again: it is the first to go.

    kernel:
        kernel row_sum(X: f32[M, N]) -> y: f32[M]:
            y[i] = sum[j](X[i, j])
    before:
        global X: f32[M, N]  input
    steps:
        stream(X)
    after:
        global X: f32[M, N] streamed  input

    It changes no value, only which lines the caches keep. CUDA text loads such an input by `__ldcs`; copies that are
    asynchronous, and OpenCL, know no such hint and are as before.
    """

    buffer: BufferName

    def apply(self, tree: Tree) -> Tree:
        buffer = need_buffer(tree, self.buffer)
        if buffer.role != "input":
            made = "an " + buffer.role if buffer.role[0] in "aeiou" else "a " + buffer.role
            inputs = ", ".join(b.name for b in tree.buffers if b.role == "input")
            raise StepError(f"'{buffer.name}' is {made}, and inputs are streamed", notes=(f"the inputs are {inputs}",))
        streamed = replace(buffer, streamed=True)
        return replace(tree, buffers=tuple(streamed if b is buffer else b for b in tree.buffers))
