"""Random sums whose data say where a term goes: proved, read back, simulated, and run beside numpy."""

import random

import numpy as np
import pytest

import tilegen
from tests.support.cover import first
from tests.support.generators.scatters import scattered
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults, verdict
from tests.support.written import tree_from
from tilegen.backends.devices import opencl
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.proof import prove


@pytest.mark.parametrize("seed", first(range(150), 6, long=46))
def test_every_net_agrees(seed):
    text, bins, low = scattered(random.Random(seed))
    tree = tree_from(text)
    for version in ({}, {"wide": True}, {"whole": True}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None
    assert verdict(tree, {"N": 13}) is None
    assert faults(lower(tree), tree, {"N": 13}) is None
    if opencl.unavailable_reason() is None:
        run(text, bins, low, seed)


def run(text, bins, low, seed):
    """On PoCL, with places from one below the first to one beyond the last."""
    file, rng = tilegen.load(text), np.random.default_rng(seed)
    kinds = {"i32": np.int32, "i64": np.int64, "u8": np.uint8, "i8": np.int8, "f32": np.float32, "f64": np.float64}
    x, w = (kinds[text.split(f"{name}: ")[1].split("[")[0]] for name in ("x", "w"))
    for count in (1, 48, 61):
        places = rng.integers(low - (x != np.uint8), bins + low + 1, count).astype(x)
        arrays = places, rng.integers(-4, 5, count).astype(w), rng.integers(-1, 5, count).astype(np.int32)
        wanted = by_hand(text, bins, low, *arrays)
        assert np.array_equal(file.schedule("s").compile("cpu")(*arrays), wanted)


def by_hand(text, bins, low, x, w, m):
    head, pair = text.splitlines()[1], "h[b, c]" in text
    start = {"sum": 0, "max": -(2**31), "min": 2**31 - 1}[head.split(" = ")[1].split("[")[0]]
    update = {0: np.add, -(2**31): np.maximum, 2**31 - 1: np.minimum}[start]
    found = np.full((bins, 4) if pair else bins, start, w.dtype)
    for place, term, other in zip(x.astype(int) - low, w, m, strict=True):
        kept = ("m[i] > 0" not in head or other > 0) and ("m[i] != 1" not in head or other != 1)
        if kept and 0 <= place < bins and (not pair or 0 <= other < 4):
            at = (place, other) if pair else place
            found[at] = update(found[at], term * 2 if "* 2" in head else term)
    return found
