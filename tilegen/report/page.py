"""The page itself: a template filled with studies."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from tilegen import __version__
from tilegen.report.charts import Chart, roofline
from tilegen.report.drawing import svg
from tilegen.report.study import Study, bank_maps, tree_steps


def render(studies: Sequence[Study], made_by: str) -> str:
    """The page of `studies`, at least one, all of one kernel."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("tilegen.report", "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    told = [_study(number, each) for number, each in enumerate(studies)]
    found = studies[0].explanation
    sizes = ", ".join(f"{name}={value}" for name, value in found.sizes.items())
    page: str = environment.get_template("page.html").render(
        title=f"{found.kernel}: {', '.join(study.derivation.name for study in studies)}",
        subtitle=f"At {sizes}, predicted for one {found.machine.name}. By tilegen {__version__}"
        + (f": {made_by}" if made_by else ""),
        chapters=[{"id": each["id"], "name": f"Schedule {each['name']}"} for each in told],
        studies=told,
        css=_file("page.css"),
        js=_file("page.js"),
    )
    return page


def _file(name: str) -> Any:
    return _markup(files("tilegen.report").joinpath(name).read_text(encoding="utf-8"))


def _markup(text: str) -> Any:
    """A text that stands in the page as it is."""
    from markupsafe import Markup

    return Markup(text)


def _study(number: int, study: Study) -> dict[str, Any]:
    derivation, found = study.derivation, study.explanation
    charts = [chart for chart in (roofline(found),) if chart]
    return {
        "id": f"schedule-{number}",
        "prefix": f"{number}",
        "name": derivation.name,
        "doc": derivation.doc,
        "parameters": ", ".join(f"{name}={value}" for name, value in derivation.parameters.items()),
        "table": found.table(),
        "plots": [_plot(chart) for chart in charts],
        "code": study.code,
        "steps": list(tree_steps(derivation)),
        "banks": list(bank_maps(found)),
    }


def _plot(chart: Chart) -> dict[str, Any]:
    return {"svg": _markup(svg(chart, inline=True)), "caption": chart.title}
