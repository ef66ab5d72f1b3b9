"""A kernel's text against its meaning: what tilegen builds of it, computes by its reference, and refuses."""

from __future__ import annotations

import re

import numpy as np

from tests.support.meaning.kernels import Erroneous, is_admitted, meaning, size_names
from tilegen import load
from tilegen.errors import SourceError

# Small sizes, not all alike.
TRIED = ((1,), (2,), (3, 2), (2, 5, 1), (4, 1, 3), (6, 3), (7, 2, 4))


def build_kernel(text):
    """(kernel, None), or None and the error that refuses the text."""
    try:
        return load(text).kernel("random").ir, None
    except SourceError as refusal:
        return None, refusal


def error_at(text, sizes, strict=False):
    """What is wrong with the kernel at these sizes, by its meaning; None if nothing is."""
    try:
        meaning(text, sizes, None, strict=strict)
    except Erroneous as error:
        return error
    return None


def small_sizes(text):
    """Small sizes that the kernel admits."""
    names = size_names(text)
    found = [{n: values[at % len(values)] for at, n in enumerate(names)} for values in TRIED]
    return [sizes for sizes in found if is_admitted(text, sizes)]


def check_refusal(text, refusal):
    """(kind, sizes): what goes wrong at the sizes of a refusal's witness; kind is None where nothing does."""
    shown = dict(re.findall(r"(\w+)=(-?\d+)", (refusal.witness or "").rpartition("(")[2]))
    sizes = {name: int(shown.get(name, 1)) for name in size_names(text)}
    assert is_admitted(text, sizes), f"the witness has sizes that the kernel does not admit: {sizes}"
    # Of a recurrence the witness is one step of a circle, which may need larger sizes.
    more = small_sizes(text) if "recurrence" in refusal.message else []
    error = next((e for tried in (sizes, *more) if (e := error_at(text, tried, strict=True))), None)
    return (error.kind if error else None), sizes


def meant_otherwise(text, sizes, arrays, expected):
    """None if the reference of an integer kernel is its meaning, exactly; otherwise what differs."""
    found = meaning(text, sizes, arrays)["out"]
    for place in np.ndindex(expected.value.shape):
        if (place in found) != expected.written[place]:
            return f"out{list(place)} is {'' if expected.written[place] else 'not '}defined by the reference"
        if place in found and found[place] != expected.value[place]:
            return f"out{list(place)} means {found[place]}, and the reference has {expected.value[place]}"
    return None
