"""Tensors that a kernel updates in place.

Where a tensor `C` is both an input and an output, a kernel has two tensors: `C.old`, an input, whose elements are those
from before the call, and `C`, an output. As values they have nothing to do with one another; in memory they are one.
"""

from __future__ import annotations

_OLD = ".old"


def old_of(tensor: str) -> str:
    """What the elements of an updated tensor were before the call."""
    return tensor + _OLD


def memory_of(buffer: str) -> str:
    """The buffer in whose memory this one lies: itself, but for old values."""
    return buffer.removesuffix(_OLD)


def is_old(buffer: str) -> bool:
    """True for the old values of an updated tensor."""
    return buffer.endswith(_OLD)
