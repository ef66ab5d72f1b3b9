"""windows: an input read through windows is a tensor that is never stored, and bulk copies take boxes of it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.support.enumeration.runs import verdict
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tilegen.api import load
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep
from tilegen.interpreter import reference, run
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access
from tilegen.ir.walk import rewrite
from tilegen.judge import check_derived
from tilegen.lowering import lower
from tilegen.lowering.launch.program import VectorCopy
from tilegen.lowering.launch.timelines import Box
from tilegen.poly import Refused
from tilegen.proof import prove

SMALL = {"TM": 64, "TF": 16, "TC": 16, "PANEL": 16, "STAGES": 2}
SIZES = {"B": 3, "H": 5, "W": 7, "C": 8, "F": 8}
PLAIN = """
kernel conv(X: f32[B, H, W, C], K: f32[F, 2, 3, C]) -> Y: f32[B, (H - 1)/2 + 1, W - 2, F]:
    Y[n, y, x, f] = sum[c, r, s]((X[n, y*2 + r, x + s*2 - 1, c] else 0) * K[f, r, s, c])

schedule threads for conv:
    windows(X)
    flatten(n, y, x) -> p
    tile(p, 16) -> bp, tp
    bind(bp, block.x)
    bind(tp, thread.x)
    order(bp, tp, f)
    cache_register(Y, at=f)

kernel line(X: f32[W, C], K: f32[3, C]) -> Y: f32[W - 2]:
    Y[x] = sum[s, c](X[x + s, c] * K[s, c])

schedule alone for line:
    windows(X)
    bind(x, block.x)

kernel rows(X: f32[B, W, C], K: f32[F, 3, C]) -> Y: f32[B, W, F]:
    Y[n, x, f] = sum[s, c]((X[n, x + s - 1, c] else 0) * K[f, s, c])

schedule staged for rows:
    windows(X)
    flatten(n, x) -> p
    round_up(c, 8)
    reassociate(Y)
    tile(p, 8) -> bp, tp
    tile(c, 8) -> co, ci
    tile(f, 8) -> bf, tf
    order(bp, bf, co, s, tp, tf, ci)
    bind(bp, block.x)
    bind(bf, block.y)
    bind(tp, thread.y)
    bind(tf, thread.x)
    cache_register(Y, at=bf)
    cache_shared(X.windows, at=s, vector=4) -> Xs
    cache_shared(K, at=s, vector=4) -> Ks
    pipeline(s, 2)
"""


def pixels(schedule="pixels", **attributes):
    other = {name: n for name, n in SMALL.items() if name != "PANEL"} | {"PARTS": 2}
    values = other if schedule == "split_pixels" else SMALL
    return load("hconv").kernel("hconv", **attributes).schedule(schedule, **values)


def drawn(kernel, sizes):
    draw = np.random.default_rng(1).integers
    shapes = {t.name: [e.evaluate(sizes) for e in t.shape] for t in kernel.tensors if t.role == "input"}
    kinds = {"f16": np.float16, "f32": np.float32}
    return {name: draw(-4, 5, shape).astype(kinds[kernel.tensor(name).dtype]) for name, shape in shapes.items()}


@pytest.mark.parametrize("schedule", ["pixels", "split_pixels"])
@pytest.mark.parametrize(
    "attributes", [{}, {"stride": 2}, {"R": 2, "pad": 0, "dilation": 2}, {"R": 1, "pad": 0, "stride": 3}], ids=str
)
def test_tiles_of_pixels_compute_the_convolution(schedule, attributes):
    tree = pixels(schedule, **attributes).tree
    written = tree.kernel.written_kernel
    arrays = drawn(written, SIZES)
    (expected,) = reference(written, SIZES, arrays).values()
    np.testing.assert_array_equal(run(tree, SIZES, arrays)["Y"].astype(float), expected.value)


@pytest.mark.parametrize("schedule", ["threads", "alone"])
def test_trees_of_threads_that_read_windows(schedule):
    tree = load(PLAIN).schedule(schedule).tree
    sizes = {name: {"B": 2, "H": 3, "W": 4, "C": 2, "F": 2}[name] for name in tree.kernel.sizes}
    assert verdict(tree, sizes) is None
    assert faults(lower(tree), tree, sizes) is None
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


@pytest.mark.pocl
def test_threads_read_windows_where_there_are_no_bulk_copies():
    kernel = load("hconv").kernel("hconv", stride=2)
    arrays = drawn(kernel.ir, SIZES)
    (expected,) = reference(kernel.ir, SIZES, arrays).values()
    found = kernel.schedule("pixels", **SMALL).compile("cpu")(*arrays.values())
    np.testing.assert_array_equal(found.astype(float), expected.value)


@pytest.mark.parametrize("attributes", [{}, {"stride": 2}], ids=str)
def test_boxes_of_windows_are_those_of_the_hardware(attributes):
    tree = pixels(**attributes).tree
    assert faults(lower(tree), tree, SIZES | {"B": 2}) is None


def test_the_text_says_where_a_tile_of_pixels_begins():
    launches = lower(pixels(stride=2).tree)
    text = emit(launches)
    assert difference(text, launches, "cuda") is None
    assert difference(text.replace("x = bp * TM %", "x = bp * TM /"), launches, "cuda") is not None
    text = " ".join(text.replace("//     ", "").split())
    assert "X.windows: FLOAT16, dimensions (C, W, H, B)" in text
    assert "im2col from (-1, -1) to" in text
    assert "element strides (1, 2, 2, 1)" in text
    named = (
        "const int n = bp * TM / ((W + 1) / 2) / ((H + 1) / 2); const int y = bp * TM / ((W + 1) / 2) % ((H + 1) / 2);"
    )
    assert f"{named} const int x = bp * TM % ((W + 1) / 2); for (int q = 0; q <" in text
    assert "x * 2 - 1, y * 2 - 1, n, q % 3, q % 9 / 3);" in text


def test_pixels_are_one_dimension_whose_place_has_digits():
    view = pixels().tree.buffer("X.windows")
    assert [str(extent) for extent in view.shape] == ["B*H*W", "3", "3", "C"]
    assert [[word for word, _ in group] for group in view.windows.digits] == [["n", "y", "x"], ["r"], ["s"], ["c"]]


def wrong_launches():
    """(what is said, launches) of copies that are not those of the windows."""
    (launch,) = lower(pixels().tree)

    def with_boxes(change):
        body = rewrite(launch.body, lambda v: change(v) if isinstance(v, Box) and v.windows else v)
        return (replace(launch, body=body),)

    def moved(number, by):
        def change(box):
            places = tuple(c + by * (n == number) for n, c in enumerate(box.coordinates))
            return replace(box, coordinates=places)

        return with_boxes(change)

    yield "", (launch,)
    for number, by in product((1, 2, 3), (1, -1)):
        yield "a place outside of them" if number < 3 or by < 0 else "value", moved(number, by)
    index = launch.maps[0].windows.index
    other = replace(launch.maps[0].windows, index=(index[0], index[1] + 1, *index[2:]))
    yield "other elements", (replace(launch, maps=(replace(launch.maps[0], windows=other), *launch.maps[1:])),)
    yield "other elements", with_boxes(lambda box: replace(box, windows=other))
    yield (
        "another shape",
        (replace(launch, maps=(replace(launch.maps[0], shape=launch.maps[1].shape), *launch.maps[1:])),),
    )


@pytest.mark.parametrize(
    ("words", "launches"), [pytest.param(*each, id=str(n)) for n, each in enumerate(wrong_launches())]
)
def test_the_proof_reads_boxes_of_windows(words, launches):
    tree = pixels().tree
    found = prove(tree.kernel, launches, tree.reassociated)
    assert (found.verdict == "proved") == (not words)
    assert words in str(found) or words == "value"


def wrong_kernels():
    """(what is said, a kernel that is derived so)."""
    kernel = load(PLAIN).schedule("threads").tree.kernel.origin
    (equation,), view = kernel.equations, kernel.tensors[-1]

    def shown(**changes):
        other = replace(view, windows=replace(view.windows, **changes))
        return replace(kernel, tensors=(*kernel.tensors[:-1], other))

    first, *others = view.windows.index
    yield "other elements", shown(index=(first + 1, *others))
    yield "other elements", shown(index=(first, others[0] + var("y"), *others[1:]))
    yield "other elements", shown(fallback=None)
    yield "other dimensions", shown(digits=(view.windows.digits[0] + view.windows.digits[1], *view.windows.digits[2:]))
    yield "has not", shown(digits=((("n", const(3)),), *view.windows.digits[1:]))
    swapped = rewrite(
        equation,
        lambda v: (
            replace(v, index=(v.index[1], v.index[0], *v.index[2:])) if getattr(v, "buffer", "") == view.name else v
        ),
    )
    yield "other places", replace(kernel, equations=(swapped,))
    yield "has not", replace(kernel, tensors=(*kernel.tensors[:-1], replace(view, dtype="f16")))


@pytest.mark.parametrize(
    ("words", "kernel"), [pytest.param(*each, id=str(n)) for n, each in enumerate(wrong_kernels())]
)
def test_another_kernel_is_not_taken_for_it(words, kernel):
    with pytest.raises(Refused) as error:
        check_derived(kernel)
    assert words in error.value.violation.sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("else 0) * f32", "else 1) * f32"), "a bulk copy brings zeros"),
        (("- pad, c]", "- pad*200, c]"), "windows of 'X' are 1 apart, from -200 on"),
    ],
    ids=["zeros", "far"],
)
def test_what_no_bulk_copy_takes(change, words):
    text = load("hconv").text.replace(*change)
    with pytest.raises(IllegalStep, match=words):
        load(text).kernel("hconv").schedule("pixels")


def test_windows_have_no_addresses():
    tree = load(PLAIN).schedule("staged").tree
    launches = lower(tree)
    assert "&X[" not in emit(launches)
    assert "copy_async" in emit(launches)
    sizes = {"B": 2, "W": 5, "C": 8, "F": 3}
    assert faults(launches, tree, sizes) is None
    (launch,) = launches
    addressed = rewrite(
        launch.body,
        lambda v: replace(v, source=Access("X.windows", (const(0),) * 3)) if isinstance(v, VectorCopy) else v,
    )
    found = prove(tree.kernel, (replace(launch, body=addressed),), tree.reassociated)
    assert "windows have none" in str(found)
