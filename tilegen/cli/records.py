"""What a JSON record says of where it comes from: the version, the command, the schedule and its parameters."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tilegen import api
from tilegen.version import __version__

if TYPE_CHECKING:
    from tilegen.backends.engine import Engine


def with_context(value: Any) -> Any:
    """A record with its schema, the version of tilegen, the command line, and the time; each, where there are several.

    What has a schema of its own keeps it.
    """
    date = datetime.now(UTC).isoformat(timespec="seconds")
    added = {"schema": schema_here(), "tilegen": __version__, "command": command_line(), "date": date}
    if isinstance(value, list):
        return [{**added, **each} if isinstance(each, dict) else each for each in value]
    return {**added, **value} if isinstance(value, dict) else value


def schema_here() -> str | None:
    """The schema of what the command writes that runs; None where none does."""
    context = click.get_current_context(silent=True)
    return f"tilegen.{'.'.join(_words(context))}/1" if context else None


def command_line() -> str | None:
    """The command that runs, as a shell takes it; None where none does."""
    context = click.get_current_context(silent=True)
    words = context.find_root().obj if context else None
    return shlex.join(["tilegen", *words]) if words else None


def _words(context: click.Context) -> list[str]:
    """The words of a command below tilegen's own: cache info."""
    above = _words(context.parent) if context.parent else []
    return [*above, str(context.info_name)] if context.parent else []


def origin_of(scheduled: api.Scheduled) -> dict[str, Any]:
    """The schedule, the values of its parameters, and a text of it with its kernel that needs no other text."""
    core = scheduled.core
    return {"schedule": core.name, "parameters": dict(core.parameters), "written": scheduled.to_text()}


def environment_of(engine: Engine) -> dict[str, Any]:
    """The device that something ran on, the compiler of CUDA texts, and the seed of random inputs."""
    from tilegen.lab.conditions import compiler_name, device_of
    from tilegen.lab.timing import SEED

    return {"environment": {**asdict(device_of(engine)), "compiler": compiler_name()}, "seed": SEED}
