"""stream(X)"""

from __future__ import annotations

from dataclasses import replace

from tilegen.errors import StepError
from tilegen.ir.nodes import Tree
from tilegen.primitives import BufferName, primitive
from tilegen.primitives._tree import need_buffer


@primitive
class Stream:
    """Tell the caches that what is read of an input is not read again soon.

    kernel:
        kernel row_sum(X: f32[M, N]) -> y: f32[M]:
            y[i] = sum[j](X[i, j])
    before:
        global X: f32[M, N]  input
    steps:
        stream(X)
    after:
        global X: f32[M, N]  input  streamed

    CUDA text loads it by `__ldcs`: the caches give such lines up first, and keep others. It pays where each element
    is used once and much is read beside little that is written. What is copied to shared memory by asynchronous
    copies is loaded as without it, and so is all in OpenCL.
    """

    buffer: BufferName

    def apply(self, tree: Tree) -> Tree:
        buffer = need_buffer(tree, self.buffer)
        if buffer.role != "input":
            inputs = ", ".join(b.name for b in tree.buffers if b.role == "input")
            kind = "a copy" if buffer.role == "copy" else f"an {buffer.role} tensor"
            way = f"the inputs are {inputs}" if inputs else "the kernel has no inputs"
            raise StepError(f"'{buffer.name}' is {kind}, and stream takes an input of the kernel", notes=(way,))
        streamed = replace(buffer, streamed=True)
        return replace(tree, buffers=tuple(streamed if b is buffer else b for b in tree.buffers))
