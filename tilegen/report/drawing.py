"""Charts as SVG, by matplotlib: for papers, and for a page that has no scripts."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

from tilegen.errors import visible
from tilegen.report.charts import Axis, Chart, HeatMap, Picture, Series

# Colours that the colour-blind can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#767676")
_MARKERS = "osD^vPX"
_INK = "#010203"  # stands for the colour of the text around a picture


def svg(picture: Picture, *, inline: bool = False) -> str:
    """The picture as a file of its own; or `inline`, as an element of a page, in the colours of its text."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib.figure import Figure

    ink = _INK if inline else "black"
    style = {"svg.fonttype": "none", "svg.hashsalt": visible(picture.title), "font.size": 9, "text.color": ink}
    style |= {f"{each}.color": ink for each in ("xtick", "ytick")} | {"axes.edgecolor": ink, "axes.labelcolor": ink}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7, _height(picture)), layout="constrained")
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        match picture:
            case Chart():
                _draw_chart(figure, axes, picture)
            case HeatMap():
                _draw_heat_map(figure, axes, picture)
            case _:
                raise TypeError(picture)
        if not inline:  # a page has it as a caption
            axes.set_title(plain(picture.title), fontsize=9, wrap=True)
        text = StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": "tilegen"})
    return _element(text.getvalue()) if inline else text.getvalue()


def plain(text: str) -> str:
    """A text as Matplotlib shows it as it is: it takes what is between $ for mathematics, and hides names in _."""
    shown = visible(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _height(picture: Picture) -> float:
    """Inches: a line for each name downwards."""
    match picture:
        case Chart(sideways=True, x=Axis(names=names)) | HeatMap(y=Axis(names=names)):
            return 1.2 + 0.22 * len(names)
        case _:
            return 4.2


def _draw_chart(figure: Any, axes: Any, chart: Chart) -> None:
    along, up = (axes.yaxis, axes.xaxis) if chart.sideways else (axes.xaxis, axes.yaxis)
    _set_axis(axes, along, chart.x)
    _set_axis(axes, up, chart.y)
    for number, series in enumerate(chart.series):
        _draw(axes, series, number, chart.sideways)
    axes.use_sticky_edges = False  # a bar does not end at the edge
    axes.autoscale_view()
    if chart.sideways:
        axes.invert_yaxis()
    axes.grid(visible=True, which="major", alpha=0.25)
    if len(chart.series) > 1:
        names = [series.name for series in chart.series]
        columns = len(names) if len(" ".join(names)) < 60 else 2
        figure.legend(loc="outside upper center", ncols=columns, framealpha=0)


def _draw(axes: Any, series: Series, number: int, sideways: bool) -> None:
    colour, marker = COLOURS[number % len(COLOURS)], _MARKERS[number % len(_MARKERS)]
    if series.kind == "bars":
        heights = [y - base for y, base in zip(series.y, series.base, strict=True)]
        if sideways:
            axes.barh(series.x, heights, left=series.base, color=colour, label=plain(series.name), height=0.7)
        else:
            axes.bar(series.x, heights, bottom=series.base, color=colour, label=plain(series.name), width=0.7)
        return
    pairs = list(zip(series.y, series.spread, strict=True)) if series.spread else []
    errors = [[y - low for y, (low, _) in pairs], [high - y for y, (_, high) in pairs]] if pairs else None
    x, y = (series.y, series.x) if sideways else (series.x, series.y)
    axes.errorbar(
        x,
        y,
        **{"xerr" if sideways else "yerr": errors},
        color=colour,
        label=plain(series.name),
        linestyle="-" if series.kind == "line" else "none",
        marker="" if series.kind == "line" and not errors else marker,
        markersize=4,
        capsize=2,
    )


def _draw_heat_map(figure: Any, axes: Any, chart: HeatMap) -> None:
    values = [[float("nan") if value is None else value for value in row] for row in chart.rows]
    image = axes.imshow(values, aspect="auto", cmap="viridis")
    for down, row in enumerate(chart.rows):
        for along, value in enumerate(row):
            if value is not None:
                light = image.norm(value) < 0.5
                axes.text(along, down, f"{value:.3g}", ha="center", va="center", color="white" if light else "black")
    figure.colorbar(image, ax=axes, label=plain(chart.unit))
    _set_axis(axes, axes.xaxis, chart.x)
    _set_axis(axes, axes.yaxis, chart.y)


def _set_axis(axes: Any, side: Any, axis: Axis) -> None:
    side.set_label_text(plain(axis.label))
    if axis.log:
        (axes.set_xscale if side is axes.xaxis else axes.set_yscale)("log")
    if axis.names:
        side.set_ticks(range(len(axis.names)), labels=[*map(plain, axis.names)])


def _element(text: str) -> str:
    """The svg element alone, which takes its colours from the page, and its width from the place it has."""
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.S)
    meant = set(re.findall(r"#([\w-]+)", element))
    element = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in meant else "", element)
    head, _, rest = element.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'.replace(_INK, "currentColor")
