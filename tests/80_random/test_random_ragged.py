"""Random rows whose ends data give: proved, read back, simulated, and run beside numpy."""

import random

import numpy as np
import pytest

import tilegen
from tests.support.cover import first
from tests.support.generators.ragged import REST, groups, ragged
from tests.support.reader.overflow import extremes, overflow
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults, verdict
from tests.support.written import tree_from
from tilegen.backends.devices import opencl
from tilegen.backends.text import emit
from tilegen.interpreter import reference
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For
from tilegen.proof import prove


@pytest.mark.parametrize("seed", first(range(150), 6, long=46))
def test_every_net_agrees(seed):
    text, what = ragged(random.Random(seed))
    tree = tree_from(text)
    for version in ({}, {"wide": True}, {"whole": True}, {"vector": False}):
        launches = lower(tree, **version)
        loops = [v for launch in launches for v in launch.nodes if isinstance(v, For) and v.ends]
        assert loops or "wide" in version
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            assert difference(printed := emit(launches, language), launches, language) is None
            largest, drawing = extremes(launches, random.Random(seed)), random.Random(seed)
            assert largest is None or overflow(printed, launches, largest, drawing, 8) is None
    sizes = {"N": 12, "M": 3} | ({"F": 5} if "F]" in text else {})
    assert verdict(tree, sizes) is None
    assert faults(lower(tree), tree, sizes) is None
    if opencl.unavailable_reason() is None:
        run(text, what, seed)


@pytest.mark.parametrize("seed", first(range(60), 4, long=20))
def test_every_net_agrees_on_groups(seed):
    text = groups(random.Random(seed))
    tree = tree_from(text)
    for version in ({}, {"wide": True}, {"whole": True}):
        launches = lower(tree, **version)
        found = [v.name for v in launches[0].nodes if isinstance(v, For) and v.ends]
        if "deal(" in text:
            assert [ends is not None for ends in launches[0].ends] == [False, True, True, False]
        elif "anchor(" in text:
            assert found == ["s", "b"]
        else:
            loop = "g" if "bind(g" not in text else "b" if "bind(b" not in text else ""
            assert found == [loop] * bool(loop)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None
    sizes = {"N": 6, "K": 5, "F": 4, "G": 3}
    if "anchor(" not in text:  # the enumeration has terms for data, and cannot tell which start is one
        assert verdict(tree, sizes) is None
    assert faults(lower(tree), tree, sizes) is None
    if opencl.unavailable_reason() is None:
        program, rng = tilegen.load(text).schedule("s").compile("cpu"), np.random.default_rng(seed)
        dtype = np.int32 if "X: i32" in text else np.float32
        for length, count in ((1, 1), (9, 20), (23, 5)):
            x, w = (rng.integers(-4, 5, n).astype(dtype) for n in ((length, 7), (count, 7, 6)))
            start = np.array([0, *np.sort(rng.integers(0, length + 1, count - 1)), length])
            wanted = np.concatenate([x[a:b] @ w[g] for g, (a, b) in enumerate(zip(start, start[1:], strict=False))])
            assert np.array_equal(program(x, w, start.astype(np.int64 if "start: i64" in text else np.int32)), wanted)


def run(text, what, seed):
    """On PoCL: rows that are empty, long, and as drawn; without a promise any numbers."""
    program, kernel, rng = (
        tilegen.load(text).schedule("s").compile("cpu"),
        tree_from(text).kernel,
        np.random.default_rng(seed),
    )
    for length, rows in ((1, 1), (16, 5), (61, 9)):
        x = rng.integers(-4, 5, (length, 5) if "F]" in text else length).astype(
            np.int32 if "x: i32" in text else np.float32
        )
        c, start = rng.integers(-1, 3, length).astype(np.int32), rng.integers(-2, length + 3, rows + 1)
        if "rising" in text:
            start = np.sort(np.clip(start, 0, length))
            start[0], start[-1] = 0, length
        arrays = x, c, start.astype(np.int64 if "start: i64" in text else np.int32)
        wanted = by_hand(what, *arrays)
        assert np.array_equal(program(*arrays), wanted)
        sizes = {"N": length, "M": rows} | ({"F": 5} if x.ndim > 1 else {})
        found = reference(kernel, sizes, dict(zip(("x", "q", "start"), arrays, strict=True)))
        assert np.array_equal(found["y"].value, wanted)


def by_hand(what, x, c, start):
    reduce, (one, two, more), factor, chosen = what
    float_ = x.dtype == np.float32
    least = {"sum": 0, "max": -np.inf if float_ else -(2**31), "min": np.inf if float_ else 2**31 - 1}[reduce]
    terms = x * 2 if factor else x
    if chosen:
        kept = c > 0 if x.ndim == 1 else (c > 0)[:, None]
        terms = np.where(kept, terms, REST[reduce])
    found = np.full((len(start) - 1, *x.shape[1:]), least, x.dtype)
    for i in range(len(start) - 1):
        part = terms[max(0, int(start[i + one])) : max(0, int(start[i + two]) + more)]
        found[i] = {"sum": part.sum, "max": part.max, "min": part.min}[reduce](axis=0, initial=least)
    return found
