"""The layers that the convolutions are measured at, with the settings that the readme gives."""

import pytest

from tilegen.api import load
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.program import VectorCopy, VectorStore
from tilegen.proof import prove

WIDE = {"TN": 4, "TF": 128, "TY": 4, "TX": 4, "LF": 32, "LX": 1, "STAGES": 2, "BLOCKS": 3}
SMALL = {"TN": 2, "TY": 7, "TX": 7, "VX": 7, "YV": 1, "XP": 3}
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
