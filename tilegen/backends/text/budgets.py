"""Register budgets in CUDA: the calls of the functions of bulk.cuh."""

from __future__ import annotations

from tilegen.lowering.register_budgets import RegisterBudget


def budget_line(node: RegisterBudget) -> str:
    """The call."""
    return f"{'take' if node.more else 'give'}_registers<{node.count}>();"
