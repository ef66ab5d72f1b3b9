"""The page itself: a template filled with studies."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from tilegen.errors import visible
from tilegen.report.charts import Picture
from tilegen.report.comparison import record_pictures, record_table
from tilegen.report.drawing import svg
from tilegen.report.interactive import figure_of, plotly_library
from tilegen.report.ladder import ladder_table, predicted_ladder, waterfall
from tilegen.report.measured import Measured, MeasuredLadder
from tilegen.report.roofline import roofline
from tilegen.report.study import Study, bank_maps, tree_steps
from tilegen.version import __version__


def render(studies: Sequence[Study], measured: Sequence[Measured], made_by: str) -> str:
    """The page of `studies`, at least one, all of one kernel, and of what has been measured of it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("tilegen.report", "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ladders = [each.ladder for each in measured if each.ladder]
    sections = [_study(number, each, ladders) for number, each in enumerate(studies)]
    shown = {id(each["ladder"]) for each in sections}
    others = [_ladder(ladder) for ladder in ladders if id(ladder) not in shown]
    tables = [_records(number, each) for number, each in enumerate(measured) if each.records]
    chapters = [{"id": each["id"], "name": f"Schedule {each['name']}"} for each in sections]
    chapters += [{"id": each["id"], "name": each["name"]} for each in tables]
    found = studies[0].explanation
    sizes = ", ".join(f"{name}={value}" for name, value in found.sizes.items())
    page: str = environment.get_template("page.html").render(
        title=f"{found.kernel}: {', '.join(study.derivation.name for study in studies)}",
        subtitle=f"At {sizes}, predicted for one {found.machine.name}. By tilegen {__version__}"
        + (f": {made_by}" if made_by else ""),
        chapters=chapters,
        studies=sections,
        ladders=others,
        records=tables,
        css=_file("page.css"),
        js=_file("page.js"),
        plotly=plotly_library(),
    )
    return visible(page)


def _file(name: str) -> Any:
    return _markup(files("tilegen.report").joinpath(name).read_text(encoding="utf-8"))


def _markup(text: str) -> Any:
    """A text that stands in the page as it is."""
    from markupsafe import Markup

    return Markup(text)


def _study(number: int, study: Study, ladders: Sequence[MeasuredLadder]) -> dict[str, Any]:
    derivation, found = study.derivation, study.explanation
    ladder = next((each for each in ladders if each.schedule == derivation.name), None)
    pictures = [picture for picture in (roofline(found),) if picture]
    return {
        "id": f"schedule-{number}",
        "prefix": f"{number}",
        "name": derivation.name,
        "doc": derivation.doc,
        "parameters": ", ".join(f"{name}={value}" for name, value in derivation.parameters.items()),
        "table": found.table(),
        "plots": [_plot(picture) for picture in pictures],
        "ladder": ladder,
        "steps_bring": _ladder(ladder or predicted_ladder(found)),
        "code": study.code,
        "steps": list(tree_steps(derivation)),
        "banks": list(bank_maps(found)),
    }


def _ladder(ladder: MeasuredLadder) -> dict[str, Any]:
    chart = waterfall(ladder)
    measured = any(rung.time for rung in ladder.rungs)
    plots = [_plot(chart)] if chart else []
    return {"name": ladder.schedule, "table": ladder_table(ladder) if measured else None, "plots": plots}


def _records(number: int, measured: Measured) -> dict[str, Any]:
    records = measured.records
    return {
        "id": f"records-{number}",
        "name": f"Records of {measured.name}",
        "table": record_table(records),
        "plots": [_plot(picture) for picture in record_pictures(records)],
    }


def _plot(picture: Picture) -> dict[str, Any]:
    return {"svg": _markup(svg(picture, inline=True)), "caption": picture.title, "figure": figure_of(picture)}
