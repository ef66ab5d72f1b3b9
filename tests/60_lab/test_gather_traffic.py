"""explain counts gathers: where data decide the index, as if it were drawn at random; elsewhere as it is."""

import numpy as np
import pytest

import tilegen
from tilegen.ir.affine import var
from tilegen.ir.nodes import Load
from tilegen.lab.counts.gathers import value_of
from tilegen.lab.predict.explain import explain, explain_tree
from tilegen.lowering import lower

EMBED = """
kernel embed(E: f32[V, D], t: i32[N]) -> Y: f32[N, D]:
    Y[i, d] = E[t[i], d] else 0

schedule columns for embed():
    tile(d, 256) -> bd, td
    order(i, bd, td)
    bind(i, block.x)
    bind(bd, block.y)
    bind(td, thread.x)

schedule rows for embed():
    tile(i, 256) -> bi, ti
    order(bi, d, ti)
    bind(bi, block.x)
    bind(d, block.y)
    bind(ti, thread.x)
"""
SIZES = {"N": 4096, "V": 50000, "D": 1024}
SHIFTED = """
kernel shifted(x: f32[N]) -> y: f32[N]:
    y[i] = x[PLACE]

schedule threads for shifted():
    blocks(i, 256) -> b, t
"""


def loads_of(text, schedule, sizes, buffer):
    (launch,) = explain_tree(tilegen.load(text).schedule(schedule).tree, sizes, compiled=False)
    (found,) = [t for t in launch.traffic if t.site.buffer == buffer and not t.store]
    return found


def test_threads_along_a_row_of_a_table_are_coalesced():
    found = loads_of(EMBED, "columns", SIZES, "E")
    assert found.sectors / found.requests == 4
    assert found.coalesced_share == 1


def test_threads_in_different_rows_of_a_table_take_a_transaction_each():
    found = loads_of(EMBED, "rows", SIZES, "E")
    assert found.sectors / found.requests == pytest.approx(32, rel=0.01)  # two lanes may draw one row
    assert found.bytes == 4 * SIZES["N"] * SIZES["D"]


def test_the_elements_of_a_gather_are_in_the_formula_of_a_launch():
    (launch,) = explain_tree(tilegen.load(EMBED).schedule("rows").tree, SIZES, compiled=False)
    assert str(launch.loads("global")) == "2*D*N"


@pytest.mark.parametrize(
    ("place", "sectors"),
    [
        ("clamp(i, 0, N - 1)", 4),
        ("clamp(i - 1, 0, N - 1)", 5),  # one element before a line of 32
        ("(i + 8) % N", 4),
        ("i * i % N", 32),
    ],
)
def test_an_index_that_no_data_decide_is_counted_as_it_is(place, sectors):
    found = loads_of(SHIFTED.replace("PLACE", place), "threads", {"N": 2**20 - 3}, "x")
    middle = found.sectors / found.requests
    assert middle == pytest.approx(sectors, rel=0.2 if sectors == 32 else 0.01)


def test_a_lane_outside_of_the_tensor_loads_nothing():
    text = SHIFTED.replace("x[PLACE]", "(x[i * i] else 0)")
    assert loads_of(text, "threads", {"N": 2**20}, "x").requests == 0  # a block in the middle is past the end
    assert loads_of(text, "threads", {"N": 256}, "x").bytes == 4 * 16


def test_the_note_names_what_data_decide():
    notes = explain(tilegen.load(EMBED).schedule("rows").core, SIZES, compiled=False).notes
    assert notes[-1] == "data decide where E is read: counted as if the indices were drawn at random"
    shifted = tilegen.load(SHIFTED.replace("PLACE", "clamp(i, 0, N - 1)")).schedule("threads")
    assert not any("random" in note for note in explain(shifted.core, {"N": 1024}, compiled=False).notes)


def test_equal_elements_of_an_index_give_equal_numbers_that_fill_the_dimension():
    (launch,) = lower(tilegen.load(EMBED).schedule("rows").tree)
    place = Load("t", (var("i"),), "i32")
    drawn = value_of(place, {"i": np.arange(10_000)[None, :] % 5000}, 100, launch)
    np.testing.assert_array_equal(drawn[:, :5000], drawn[:, 5000:])
    assert 0 <= drawn.min() < drawn.max() < 100
    counts = np.bincount(drawn[0, :5000], minlength=100)
    assert 15 < counts.min() <= counts.max() < 100


def test_registers_hold_other_numbers_in_each_thread():
    (launch,) = lower(tilegen.load(EMBED).schedule("rows").tree)
    threads = {launch.tid: np.arange(64)[None, :]}
    drawn = value_of(Load("t.reg", (), "i32"), threads, 50_000, launch)
    assert len(np.unique(drawn)) > 60
