"""The command cache: what programs have stored for later processes, and how to throw it away."""

from __future__ import annotations

import click

from tilegen.backends.calls.memory import bytes_text
from tilegen.backends.system.store import store
from tilegen.cli.commands.shared import tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.output import JSON, check_output


@tilegen.group("cache")
def cache_group() -> None:
    """What programs called from Python have stored for later processes: proofs, texts, machine code."""


@cache_group.command("info")
@click.option("--json", "json_file", metavar="F", help="The result as JSON into F; - for standard output.")
def info_command(json_file: str | None) -> int:
    """Say where it lies and how large it is."""
    check_output(json_file, JSON)
    place = store()
    reason, found = place.reason_not_used(), place.contents()
    if json_file:
        facts = {"folder": str(place.folder or ""), "bound": place.bound, "not_used": reason or None}
        printing.write_json({**facts, "entries": found.entries, "bytes": found.bytes}, json_file)
    if json_file != "-":
        print(place.folder or "no folder")
        print(f"{found.entries} entries, {bytes_text(found.bytes)} of at most {bytes_text(place.bound)}")
        if reason:
            print(f"nothing is stored or read: {reason}")
    return 0


@cache_group.command("clear")
def clear_command() -> int:
    """Remove all of it."""
    place = store()
    found = place.clear()
    print(f"{found.entries} entries, {bytes_text(found.bytes)}, removed from {place.folder}")
    return 0
