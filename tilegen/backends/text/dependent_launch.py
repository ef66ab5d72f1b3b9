"""Dependent launches in CUDA: the functions that stand before the kernels of a text, and the calls."""

from __future__ import annotations

from tilegen.backends.text.dialect import CUDA, Dialect
from tilegen.lowering.launch_nodes import LaunchNode, LetNextBegin

LAUNCH_FUNCTIONS = {
    "let_next_launch_begin(": """\
// When all blocks have come by, the next launch may begin: it waits for this one by itself.
__device__ __forceinline__ void let_next_launch_begin()
{
    asm volatile("griddepcontrol.launch_dependents;");
}""",
    "wait_for_earlier_launches(": """\
// The launches before this one are complete, and what they have written is visible.
__device__ __forceinline__ void wait_for_earlier_launches()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}""",
}

HOW_TO_LAUNCH = "launch with cuLaunchKernelEx and CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 1"


def launch_lines(node: LaunchNode, dialect: Dialect) -> list[str]:
    """The call; nothing in a language whose launches run one after the other."""
    if dialect is not CUDA:
        return []
    return ["let_next_launch_begin();" if isinstance(node, LetNextBegin) else "wait_for_earlier_launches();"]
