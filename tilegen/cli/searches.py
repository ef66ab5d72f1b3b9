"""The command searches: searches of tune held against each other on a recording."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table

from tilegen.cli import printing
from tilegen.cli.arguments import parse_list
from tilegen.cli.commands import tilegen
from tilegen.errors import UsageError


@tilegen.command("searches")
@click.argument("file")
@click.option("--search", "kinds", metavar="A,B,...", help="Searches of tune; all of them if left out.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="Runs of each.")
@click.option("--json", "json_file", metavar="F", help="The result as JSON into F; - for standard output.")
def searches_command(file: str, kinds: str | None, seeds: int, json_file: str | None) -> int:
    """Hold searches against random search on FILE, a record of tune, at equal budgets; nothing is timed.

    The best time found is shown as a multiple of the least one in the record, as the mean of the seeds.
    """
    from tilegen.tune.rehearsal import SHARES, compare_searches, read_recording
    from tilegen.tune.search import SEARCHES

    printing.check_writable(json_file)
    chosen = parse_list(kinds) or list(SEARCHES)
    for kind in chosen:
        if kind not in SEARCHES:
            raise UsageError(f"there is no search '{kind}'", notes=(f"there are {', '.join(SEARCHES)}",))
    recording = read_recording(file)
    with printing.progress() as progress:
        found = compare_searches(recording, chosen, seeds, progress)
    known = len(recording.space.outcomes)
    if json_file:
        told = {"kernel": recording.kernel, "sizes": recording.sizes, "device": recording.device, "seeds": seeds}
        counts = {"candidates": recording.whole, "recorded": known, "seconds": recording.seconds, "shares": SHARES}
        printing.write_json({**told, **counts, "searches": [asdict(each) for each in found]}, json_file)
    if json_file == "-":
        return 0
    sizes = " ".join(f"{name}={value}" for name, value in recording.sizes.items())
    table = Table(title=f"{recording.kernel}  {sizes}  on {recording.device}", header_style="bold")
    table.add_column("search")
    for share in SHARES:
        table.add_column(f"best at {share:.0%}", justify="right")
        table.add_column("beats random", justify="right")
    for each in found:
        cells = [c for r, b in zip(each.ratios, each.beats, strict=True) for c in (_ratio(r), f"{b:.0%}")]
        table.add_row(each.search, *cells)
    out = printing.console()
    out.print(table)
    out.print(
        f"{known} of {recording.whole} candidates are recorded; together they took {recording.seconds:.3g} s, of which "
        f"a budget is a share. best: mean of {seeds} seeds, as a multiple of {recording.least:.4g} ms; beats random: "
        f"in how many of them it is no slower.",
        soft_wrap=True,
    )
    return 0


def _ratio(value: float | None) -> str:
    return "none yet" if value is None else f"{value:.3f}"
