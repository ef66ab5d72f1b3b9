"""The layers that the convolutions are measured at, with the settings of examples/convolutions.py."""

from math import prod

import numpy as np
import pytest

from tilegen.api import load
from tilegen.backends.text import emit
from tilegen.interpreter import reference
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.launch.program import VectorCopy, VectorStore
from tilegen.proof import prove

WIDE = {"TN": 4, "TF": 128, "TY": 4, "TX": 4, "LANES_F": 32, "LANES_X": 1, "STAGES": 2, "BLOCKS": 3}
SMALL = {"TN": 2, "TY": 7, "TX": 7, "OWN_X": 7, "STORE": 1, "PAD": 3}
FIRST = {"R": 7, "stride": 2, "pad": 3}
# file, schedule, settings, sizes; floats of Y that are stored at once
LAYERS = [
    ("conv2d", "patches", {}, {"C": 64, "H": 56, "W": 56, "F": 64}, 4),
    ("conv2d", "patches", WIDE, {"C": 128, "H": 28, "W": 28, "F": 128}, 4),
    ("conv2d", "deep", {}, {"C": 256, "H": 14, "W": 14, "F": 256}, 2),
    ("conv2d", "deep", SMALL, {"C": 512, "H": 7, "W": 7, "F": 512}, 1),
    ("conv2d", "strided", {}, {**FIRST, "C": 3, "H": 224, "W": 224, "F": 64}, 4),
    ("conv1x1", "product", {}, {"C": 256, "P": 3136, "F": 64}, 4),
]


@pytest.mark.parametrize(("file", "schedule", "settings", "sizes", "stored"), LAYERS)
def test_a_layer_is_proved_and_loads_ahead(file, schedule, settings, sizes, stored):
    tree = load(file).schedule(schedule, sizes, **settings).tree
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    copies = [v for v in walk(launches[-1].body) if isinstance(v, VectorCopy) and v.target.buffer.endswith("shared")]
    assert copies
    assert all(copy.asynchronous for copy in copies)
    stores = [v.width for v in walk(launches[-1].body) if isinstance(v, VectorStore | VectorCopy) and v not in copies]
    assert max(stores, default=1) == stored


# file hconv, schedule, settings, sizes and attributes; blocks for 32 images
HALF = [
    ("rows_of_boxes", {}, {"C": 64, "H": 56, "W": 56, "F": 64}, 112),
    ("wide_rows_of_boxes", {}, {"C": 128, "H": 28, "W": 28, "F": 128}, 112),
    ("more_filters", {"TN": 8, "TX": 4}, {"C": 128, "H": 28, "W": 28, "F": 128}, 196),
    ("more_filters", {"TN": 8, "TY": 2}, {"C": 256, "H": 14, "W": 14, "F": 256}, 112),
    ("more_filters", {"TN": 8, "TY": 1, "STAGES": 6}, {"C": 512, "H": 7, "W": 7, "F": 512}, 112),
    ("windows", {}, {"H": 224, "W": 224, "F": 64}, 224),
    ("launched_early", {"TN": 64}, {"C": 256, "H": 56, "W": 56, "F": 64}, 1568),
    ("warpgroups", {}, {"H": 224, "W": 224, "F": 64}, 448),
]


@pytest.mark.parametrize(("schedule", "settings", "sizes", "blocks"), HALF)
def test_a_layer_of_half_floats_is_proved(schedule, settings, sizes, blocks):
    tree = load("hconv").schedule(schedule, sizes, **settings).tree
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert prod(extent.evaluate({"B": 32}) for extent in launches[-1].grid) == blocks
    assert launches[-1].maps if schedule != "windows" else len(launches) == 3


# schedule's settings, sizes and attributes; floats of Y that are stored at once
WINOGRAD = [
    ({}, {"C": 64, "H": 56, "W": 56, "F": 64, "TH": 14, "TW": 14}, 4),
    ({"TP": 64, "WP": 1, "BLOCKS": 8}, {"C": 128, "H": 28, "W": 28, "F": 128, "TH": 7, "TW": 7}, 4),
    ({"WIDTH": 2}, {"C": 256, "H": 14, "W": 14, "F": 256, "TH": 4, "TW": 4}, 2),
    ({"WIDTH": 1}, {"C": 512, "H": 7, "W": 7, "F": 512, "TH": 2, "TW": 2}, 1),
]


@pytest.mark.long
@pytest.mark.parametrize(("settings", "sizes", "stored"), WINOGRAD)
def test_a_layer_by_winograd_is_four_launches(settings, sizes, stored):
    tree = load("conv2d_winograd").schedule("products", sizes, **settings).tree
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    assert [launch.tensors for launch in launches] == [("K", "KT"), ("X", "DT"), ("KT", "DT", "M"), ("Y", "M")]
    copies = [v for v in walk(launches[2].body) if isinstance(v, VectorCopy) and v.target.buffer.endswith("shared")]
    assert copies
    assert all(copy.asynchronous and copy.width == 4 for copy in copies)
    assert (
        max((v.width for v in walk(launches[3].body) if isinstance(v, VectorStore | VectorCopy)), default=1) == stored
    )


@pytest.mark.parametrize(
    ("height", "width", "rows", "columns"), [(8, 8, 2, 2), (7, 6, 2, 2), (5, 9, 2, 3), (1, 1, 1, 1)]
)
def test_winograd_computes_the_convolution(height, width, rows, columns):
    rng = np.random.default_rng(3)
    images, filters = rng.normal(size=(2, 3, height, width)), rng.normal(size=(4, 3, 3, 3))
    arrays = {"X": images.astype(np.float32), "K": filters.astype(np.float32)}
    sizes = {"B": 2, "C": 3, "F": 4}
    fast = load("conv2d_winograd").kernel(H=height, W=width, TH=rows, TW=columns).ir
    plain = load("conv2d").kernel(H=height, W=width).ir
    found, wanted = (reference(kernel, sizes, arrays)["Y"] for kernel in (fast, plain))
    # A third is none in f32, and the rest is exact.
    np.testing.assert_allclose(found.value, wanted.value, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("schedule", "attributes"),
    [
        ("warps", {"stride": 2}),
        ("boxes", {"stride": 2}),
        ("columns", {"stride": 2}),
        ("warps", {"dilation": 2, "pad": 2}),
        ("boxes", {"dilation": 2, "pad": 2}),
    ],
)
def test_strides_and_dilations_of_half_floats_are_proved(schedule, attributes):
    tree = load("hconv").schedule(schedule, attributes).tree
    assert prove(tree.kernel, lower(tree), tree.reassociated).verdict == "proved"


@pytest.mark.parametrize("schedule", ["whole_boxes", "columns", "rows_of_boxes", "wide_rows_of_boxes"])
def test_filters_of_one_pixel_are_proved(schedule):
    """The ring's loop has one iteration then, and runs several times."""
    scheduled = load("hconv").schedule(schedule, {"R": 1, "pad": 0})
    for whole in (False, True):
        launches = lower(scheduled.tree, whole=whole)
        assert prove(scheduled.tree.kernel, launches, scheduled.tree.reassociated).verdict == "proved"
        assert "ring.advance()" in emit(launches, "cuda")


def test_a_box_has_the_pixels_that_are_used_and_none_between_them():
    launches = lower(load("hconv").schedule("dealt", {"stride": 2}).tree)
    (pixels, _), (tile, *_) = launches[-1].maps[:2], (b for b in launches[-1].memory if b.name == "Xs")
    assert (pixels.box, pixels.steps, pixels.reach) == ((64, 8, 8, 2), (1, 2, 2, 1), (64, 16, 16, 2))
    assert prod(extent.const for extent in tile.shape) == 5 * prod(pixels.box)
