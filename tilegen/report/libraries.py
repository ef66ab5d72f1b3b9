"""The libraries that pages and charts are made with: an extra of their own."""

from __future__ import annotations

from importlib.util import find_spec

from tilegen.errors import UsageError
from tilegen.installation import install_extra


def require(*names: str) -> None:
    """Raises UsageError where one of these libraries is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise UsageError(f"this needs {', '.join(missing)}", notes=(install_extra("report"),))
