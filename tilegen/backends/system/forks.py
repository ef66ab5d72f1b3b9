"""What a fork of the process does not carry over: the threads of an OpenCL platform, the context of a GPU."""

from __future__ import annotations

import os

from tilegen.errors import DeviceError

_used: set[str] = set()
_lost: set[str] = set()


def note_use(of: str) -> None:
    """Notes that this process begins to use something that its forked children cannot use."""
    _used.add(of)


def require_kept(what: str) -> None:
    """Raises DeviceError in a process that was forked when `what` was in use already, where it would wait for ever."""
    if what in _lost:
        notes = (
            "multiprocessing.get_context('spawn') starts processes that can run kernels",
            "so can a forked process, where the one that it comes from has not run or compiled any before",
        )
        raise DeviceError(f"{what} was in use when this process was forked, and cannot be used in it", notes=notes)


if hasattr(os, "register_at_fork"):  # elsewhere nothing is forked
    os.register_at_fork(after_in_child=lambda: _lost.update(_used))
