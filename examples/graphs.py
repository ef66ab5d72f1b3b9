"""Times of calls on a GPU, each captured in CUDA graphs, side by side; without torch or a GPU an import says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import sample
from statistics import median
from typing import Any

try:
    import torch
except ImportError:
    sys.exit("torch is needed, and a GPU: pip install torch")
if not torch.cuda.is_available():
    sys.exit("torch finds no GPU: tilegen doctor says what is missing")

__all__ = ["CACHE", "Calls", "milliseconds_of_each", "torch"]

CACHE = 120_000_000
"""Bytes of inputs that no GPU's L2 holds; calls rotate over sets of them."""

Calls = list[Callable[[], Any]]


def milliseconds_of_each(calls: dict[str, Calls], rounds: int = 20) -> dict[str, float]:
    """The median milliseconds of a call, by name; the calls under one name differ in their inputs alone.

    Each name has a graph of about 5 ms. The graphs are replayed in turns, in another order each time, once untimed
    and then once timed.
    """
    graphs = {name: capture(all_) for name, all_ in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name in sample(sorted(graphs), len(graphs)):
            graph, count = graphs[name]
            graph.replay()
            times[name].append(timed(graph.replay) / count)
    return {name: median(all_) for name, all_ in times.items()}


def capture(calls: Calls) -> tuple[Any, int]:
    """A graph of about 5 ms of calls, and how many they are."""
    for call in calls:
        call()
    one = timed(lambda: [call() for call in calls]) / len(calls)
    count = max(1, round(5 / one / len(calls))) * len(calls)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(count):
            calls[turn % len(calls)]()
    return graph, count


def timed(run: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))
