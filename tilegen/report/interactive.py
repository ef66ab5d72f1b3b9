"""Charts as Plotly takes them, for a page with scripts, and Plotly itself."""

from __future__ import annotations

import gzip
from base64 import b64encode
from html import escape
from typing import Any

from tilegen.report.charts import Axis, Chart, HeatMap, Picture, Series
from tilegen.report.drawing import COLOURS


def plotly_library() -> str:
    """The text of Plotly, compressed by gzip, in base64: a quarter of its size stands in the page."""
    from plotly.offline import get_plotlyjs

    return b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def figure_of(picture: Picture) -> dict[str, Any]:
    """The data and the layout of a picture."""
    match picture:
        case Chart():
            traces = [_trace(series, number, picture) for number, series in enumerate(picture.series)]
            along, up = _axis(picture.x), _axis(picture.y)
            axes = {"xaxis": up, "yaxis": {**along, "autorange": "reversed"}} if picture.sideways else {}
            axes = axes or {"xaxis": along, "yaxis": up}
            height = 140 + 24 * len(picture.x.names) if picture.sideways else 440
        case HeatMap():
            traces = [_heat_trace(picture)]
            axes = {"xaxis": _axis(picture.x), "yaxis": {**_axis(picture.y), "autorange": "reversed"}}
            height = 200 + 32 * len(picture.y.names)
        case _:
            raise TypeError(picture)
    return {"data": traces, "layout": {**axes, "height": height, "barmode": "overlay"}}


def plain(text: str) -> str:
    """A text as Plotly shows it as it is: it takes some elements of HTML."""
    return escape(text, quote=False)


def _trace(series: Series, number: int, chart: Chart) -> dict[str, Any]:
    colour = COLOURS[number % len(COLOURS)]
    along, up = ("y", "x") if chart.sideways else ("x", "y")
    names = chart.x.names
    labels = [plain(label) for label in series.labels or (names[int(x)] for x in series.x if names)]
    said: dict[str, Any] = {"name": plain(series.name), "text": labels, "hoverinfo": "x+y+text+name"}
    if series.kind == "bars":
        lengths = [y - base for y, base in zip(series.y, series.base, strict=True)]
        drawn: dict[str, Any] = {"type": "bar", "orientation": "h" if chart.sideways else "v"}
        drawn |= {"base": series.base, up: lengths}
        drawn |= {along: series.x, "textposition": "none", "marker": {"color": colour}, "customdata": series.y}
        return said | drawn
    mode = "lines" if series.kind == "line" and not series.spread else "markers"
    mode = "lines+markers" if series.kind == "line" and series.spread else mode
    found = {**said, "type": "scatter", "mode": mode, along: series.x, up: series.y}
    found |= {"marker": {"color": colour, "symbol": number % 8}, "line": {"color": colour}}
    if series.spread:
        pairs = list(zip(series.y, series.spread, strict=True))
        above, below = [high - y for y, (_, high) in pairs], [y - low for y, (low, _) in pairs]
        found[f"error_{up}"] = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return found


def _heat_trace(chart: HeatMap) -> dict[str, Any]:
    text = [["" if value is None else f"{value:.3g}" for value in row] for row in chart.rows]
    places = {"x": list(range(len(chart.x.names))), "y": list(range(len(chart.y.names)))}
    return {
        "type": "heatmap",
        "z": chart.rows,
        **places,
        "text": text,
        "texttemplate": "%{text}",
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": plain(chart.unit)}},
        "hoverinfo": "z",
    }


def _axis(axis: Axis) -> dict[str, Any]:
    found: dict[str, Any] = {"title": {"text": plain(axis.label)}, "type": "log" if axis.log else "linear"}
    if axis.log:
        found["dtick"] = 1  # a mark for each power of ten
    if axis.names:
        found |= {"tickmode": "array", "tickvals": list(range(len(axis.names))), "ticktext": [*map(plain, axis.names)]}
    return {**found, "automargin": True}
