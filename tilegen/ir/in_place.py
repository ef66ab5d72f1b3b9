"""Tensors that have no memory of their own: old values of what a kernel updates in place, and windows of an input.

Where a tensor `C` is both an input and an output, a kernel has two tensors: `C.old`, an input, whose elements are those
from before the call, and `C`, an output. As values they have nothing to do with one another; in memory they are one.
What a kernel sees of an input `X` through windows is the tensor `X.windows`, whose elements are in the memory of `X`.
"""

from __future__ import annotations

_OLD = ".old"
_WINDOWS = ".windows"


def old_of(tensor: str) -> str:
    """What the elements of an updated tensor were before the call."""
    return tensor + _OLD


def windows_of(tensor: str) -> str:
    """What windows show of the tensor."""
    return tensor + _WINDOWS


def memory_of(buffer: str) -> str:
    """The buffer in whose memory this one lies: itself, but for old values and windows."""
    return buffer.removesuffix(_OLD).removesuffix(_WINDOWS)


def is_old(buffer: str) -> bool:
    """True for the old values of an updated tensor."""
    return buffer.endswith(_OLD)
