"""The version of tilegen, stated here alone: the wheel, `--version` and records take it from this file."""

__version__ = "0.2.0"
