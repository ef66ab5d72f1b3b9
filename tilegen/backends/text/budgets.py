"""Register budgets in CUDA: the functions that stand before the kernels of a text, and the calls."""

from __future__ import annotations

from tilegen.lowering.register_budgets import RegisterBudget

BUDGET_FUNCTIONS = {
    "take_registers<": """\
// The warpgroup goes on with so many registers a thread, when others have given up enough.
template <int count> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}""",
    "give_registers<": """\
// The warpgroup goes on with so many registers a thread, and gives up the others.
template <int count> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}""",
}


def budget_line(node: RegisterBudget) -> str:
    """The call."""
    return f"{'take' if node.more else 'give'}_registers<{node.count}>();"
