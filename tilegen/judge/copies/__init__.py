"""Every value that is read through a copy is the one that the kernel reads."""

from __future__ import annotations

from tilegen.judge.copies.contents import check_values

__all__ = ["check_values"]
