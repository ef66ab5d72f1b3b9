"""Charts as data: what `drawing` makes a picture of for papers and for a page, and `interactive` one to explore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Axis:
    """What is along an axis; `names` are those of categories, which its coordinates count from 0."""

    label: str
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """Points of one name, a line through them, or bars.

    Attributes:
        spread: the lower and the upper end of y for each point, or nothing.
        base: where each bar begins.
        labels: what is said of each point, or nothing.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Literal["points", "line", "bars"] = "points"
    spread: tuple[tuple[float, float], ...] = ()
    base: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """Series on two axes; `sideways` with x downwards and y to the right, where the names along x are long."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    sideways: bool = False


@dataclass(frozen=True)
class HeatMap:
    """A value, in `unit`, for each pair of categories, by rows: one for each name along y. None where there is none."""

    title: str
    x: Axis
    y: Axis
    unit: str
    rows: tuple[tuple[float | None, ...], ...]


Picture = Chart | HeatMap
