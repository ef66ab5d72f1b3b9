"""What a JSON record says of where it comes from: the version, the command, the schedule and its parameters."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any

import click

from tilegen import __version__, api


def with_context(value: Any) -> Any:
    """A record with the version of tilegen, the command line, and the time; each of them, where there are several."""
    context = click.get_current_context(silent=True)
    words = context.find_root().obj if context else None
    command = shlex.join(["tilegen", *words]) if words else None
    added = {"tilegen": __version__, "command": command, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    if isinstance(value, list):
        return [{**added, **each} if isinstance(each, dict) else each for each in value]
    return {**added, **value} if isinstance(value, dict) else value


def origin_of(scheduled: api.Scheduled) -> dict[str, Any]:
    """The schedule and the values of its parameters."""
    return {"schedule": scheduled.core.name, "parameters": dict(scheduled.core.parameters)}
