"""Dependent launches in CUDA: the calls of the functions of bulk.cuh."""

from __future__ import annotations

from tilegen.backends.text.dialect import CUDA, Dialect
from tilegen.lowering.launch_nodes import LaunchNode, LetNextBegin

HOW_TO_LAUNCH = "launch with cuLaunchKernelEx and CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 1"


def launch_lines(node: LaunchNode, dialect: Dialect) -> list[str]:
    """The call; nothing in a language whose launches run one after the other."""
    if dialect is not CUDA:
        return []
    return ["let_next_launch_begin();" if isinstance(node, LetNextBegin) else "wait_for_earlier_launches();"]
