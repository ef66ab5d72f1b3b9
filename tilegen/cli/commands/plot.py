"""The command plot, and the option --plot: pictures of what commands have found, as SVG for papers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from tilegen.cli.commands.shared import tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.output import PICTURE, check_output, write
from tilegen.errors import UsageError
from tilegen.frontend.files import read_text, shorten

if TYPE_CHECKING:
    from tilegen.report.charts import Picture
    from tilegen.report.measured import Measured

Command = Callable[..., int]


def plot_option(what: str) -> Callable[[Command], Command]:
    """The option --plot, which draws `what`."""
    return click.option("--plot", "plot", metavar="F.svg", help=f"Draw {what} into F.svg.")


@tilegen.command("plot")
@click.argument("files", nargs=-1, required=True, metavar="F.json...")
@click.option("-o", "output", metavar="F.svg", default="plot.svg", show_default=True, help="The file to write.")
def plot_command(files: Sequence[str], output: str) -> int:
    """Draw what ladder, compare or tune have written by --json as SVG.

    A ladder is a waterfall, sizes that vary are an axis, and parameters that vary are maps of each pair. Where there
    are several pictures they are F-1.svg, F-2.svg and so on.
    """
    check_plot(output)
    draw((picture for path in files for picture in _pictures_of(read_measurements(path))), output)
    return 0


def read_measurements(path: str) -> Measured:
    """What a command has written into a file. Raises UsageError where that cannot be read, or is something else."""
    from tilegen.report import read_measured

    return read_measured(read_text(path), shorten(path))


def _pictures_of(measured: Measured) -> Iterator[Picture]:
    from tilegen.report.comparison import record_pictures
    from tilegen.report.ladder import waterfall

    if measured.ladder:
        yield from filter(None, (waterfall(measured.ladder),))
    yield from record_pictures(measured.records)


def check_plot(output: str | None) -> None:
    """Raises UsageError, before the work, where a picture cannot be drawn, or not into this file."""
    if output is None:
        return
    from tilegen.report import require

    require("matplotlib")
    if not output.endswith(".svg"):
        raise UsageError(f"plots are SVG: {shorten(output)} does not end in .svg")
    check_output(output, PICTURE)


def draw(pictures: Iterable[Picture | None], output: str | None) -> None:
    """Writes the pictures, and says on standard error where they are; nothing for None.

    Raises UsageError where there is none.
    """
    if output is None:
        return
    from tilegen.report.drawing import svg

    found = [picture for picture in pictures if picture]
    if not found:
        raise UsageError("there is nothing to draw: a plot needs two rows or steps with times, or figures of them")
    stem = output.removesuffix(".svg")
    names = [output] if len(found) == 1 else [f"{stem}-{number}.svg" for number in range(1, len(found) + 1)]
    for name, picture in zip(names, found, strict=True):
        write(svg(picture), name, PICTURE)
        printing.print_note(f"{name}: {picture.title}")
