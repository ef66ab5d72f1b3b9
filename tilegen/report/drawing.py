"""Charts as SVG, by matplotlib: for papers, and for a page that has no scripts."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

from tilegen.report.charts import Axis, Chart, Series

# Colours that the colour-blind can tell apart.
_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#767676",
)  # told apart by the colour-blind
_MARKERS = "osD^vPX"
_INK = "#010203"  # stands for the colour of the text around a picture


def svg(chart: Chart, *, inline: bool = False) -> str:
    """The chart as a file of its own; or `inline`, as an element of a page, in the colours of its text."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib.figure import Figure

    ink = _INK if inline else "black"
    style = {"svg.fonttype": "none", "svg.hashsalt": chart.title, "font.size": 9, "text.color": ink}
    style |= {f"{each}.color": ink for each in ("xtick", "ytick")} | {"axes.edgecolor": ink, "axes.labelcolor": ink}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        for number, series in enumerate(chart.series):
            _draw(axes, series, number)
        _set_axis(axes.xaxis, axes.set_xlabel, axes.set_xscale, chart.x)
        _set_axis(axes.yaxis, axes.set_ylabel, axes.set_yscale, chart.y)
        if not inline:  # a page has it as a caption
            axes.set_title(chart.title, fontsize=9, wrap=True)
        axes.grid(visible=True, which="major", alpha=0.25)
        if len(chart.series) > 1:
            axes.legend(framealpha=0)
        text = StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _element(text.getvalue()) if inline else text.getvalue()


def _draw(axes: Any, series: Series, number: int) -> None:
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
    errors = None
    if series.spread:
        pairs = list(zip(series.y, series.spread, strict=True))
        errors = [[y - low for y, (low, _) in pairs], [high - y for y, (_, high) in pairs]]
    axes.errorbar(
        series.x,
        series.y,
        yerr=errors,
        color=colour,
        label=series.name,
        linestyle="-" if series.line else "none",
        marker="" if series.line and not errors else marker,
        markersize=4,
        capsize=2,
    )


def _set_axis(ticks: Any, label: Any, scale: Any, axis: Axis) -> None:
    label(axis.label)
    if axis.log:
        scale("log")
    if axis.names:
        ticks.set_ticks(range(len(axis.names)), labels=axis.names)


def _element(text: str) -> str:
    """The svg element alone, which takes its colours from the page, and its width from the place it has."""
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.S)
    meant = set(re.findall(r"#([\w-]+)", element))
    element = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in meant else "", element)
    head, _, rest = element.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img">{rest}'.replace(_INK, "currentColor")
