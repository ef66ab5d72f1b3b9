"""From the last tree of a schedule to programs of one thread: the stages in order, on one page."""

from __future__ import annotations

from tilegen.lowering.program import Launch

__all__ = ["Launch"]
