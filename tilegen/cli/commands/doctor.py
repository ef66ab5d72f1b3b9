"""The command doctor: what is there, what is missing, and the command that mends it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from tilegen.cli.commands.shared import tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.output import JSON, check_output
from tilegen.errors import DeviceError
from tilegen.version import __version__

if TYPE_CHECKING:
    from tilegen.lab.doctor import Finding

_COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}


@tilegen.command("doctor")
@click.option("--json", "json_file", metavar="F", help="The result as JSON into F; - for standard output.")
def doctor_command(json_file: str | None) -> int:
    """Say what tilegen finds on this machine, what is missing, and the command that mends it.

    Ends with 0, or with 5 where something is broken that nothing works without.
    """
    from tilegen.lab.doctor import examine

    check_output(json_file, JSON)
    found = examine()
    if json_file:
        printing.write_json({"found": [asdict(each) for each in found]}, json_file)
    if json_file != "-":
        _show(found)
    return DeviceError.exit_code if any(each.essential and each.state != "ok" for each in found) else 0


def _show(found: tuple[Finding, ...]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for overflow in ("ellipsis", "ellipsis", "fold"):
        table.add_column(overflow=overflow)
    for each in found:
        use = "" if each.state == "ok" else f" (for {each.use})"
        table.add_row(Text(each.state, style=_COLOURS[each.state]), each.name, Text(f"{each.found}{use}"))
    out = printing.console()
    out.print(f"tilegen {__version__}", style="bold")
    out.print(table)
    commands: dict[str, list[str]] = {}
    for each in found:
        if each.way_out:
            commands.setdefault(each.way_out, []).append(each.name)
    for command, names in commands.items():
        out.say(f"for {', '.join(names)}: {command}")
