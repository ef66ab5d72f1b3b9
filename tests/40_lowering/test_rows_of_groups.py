"""Loops over the rows of which data tell the ends: what is printed and runs, where threads meet in them, and faults."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tilegen
from tests.support.mutants import ragged_faults
from tests.support.mutants.places import edited
from tests.support.reader.readback import difference
from tests.support.written import built, tree_from
from tilegen.backends.text import emit
from tilegen.interpreter import reference
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Op, Stmt
from tilegen.ir.reductions.ragged import stored_value
from tilegen.ir.walk import rewrite, substitute
from tilegen.judge import judge
from tilegen.lab.counts.trips import with_mean_trips
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For
from tilegen.proof import prove

KERNEL = """
kernel groups(X: f32[N, K], W: f32[G, K, F], start: i32[G + 1]) -> Y: f32[N, F] where rising(start, N):
    var P: f32[G, N, F]
    P[g, t, f] = sum[k](X[t, k] * W[g, k, f])
    Y[t, f] = P[g, t, f] for t in start[g]..start[g + 1]

schedule s for groups():
    order(P.t, P.f, P.g, k)
    fuse(P.t, Y.t) -> t
    fuse(P.f, Y.f) -> f
    fuse(P.g, Y.g) -> g
    tile(f, 8) -> c, l
    tile(t, 8) -> b, w
"""
THREADS = (
    KERNEL
    + """\
    order(b, c, w, l, g, k)
    bind(b, block.x)
    bind(w, thread.y)
    bind(l, thread.x)
    cache_register(Y, at=l)
    cache_register(P, at=g)
"""
)
TILES = (
    KERNEL
    + """\
    tile(k, 8) -> ko, ki
    order(b, c, g, ko, w, l, ki)
    bind(b, block.x)
    bind(w, thread.y)
    bind(l, thread.x)
    cache_register(Y, at=c) -> Yr
    cache_shared(Y, at=c, vector=4) -> Ys
    cache_register(P, at=g)
    cache_shared(X, at=ko, vector=4)
    cache_shared(W, at=ko, vector=4)
"""
)
BY_GROUP = (
    KERNEL
    + """\
    tile(k, 8) -> ko, ki
    order(g, b, c, ko, w, l, ki)
    bind(g, block.y)
    bind(b, block.x)
    bind(w, thread.y)
    bind(l, thread.x)
    cache_register(P, at=c)
    cache_shared(W, at=ko, vector=4)
"""
)
ALIGNED = (
    KERNEL[: KERNEL.index("    order(P.t")]
    + """\
    anchor(Y) -> s
    order(P.g, P.s, P.t, P.f, k)
    order(Y.g, s, Y.t, Y.f)
    fuse(P.g, Y.g) -> g
    fuse(P.s, s) -> s
    fuse(P.t, Y.t) -> row
    fuse(P.f, Y.f) -> f
    shift(row, s) -> t
    tile(f, 8) -> c, l
    tile(t, 8) -> b, w
    tile(k, 8) -> ko, ki
    order(g, s, b, c, ko, w, l, ki)
    deal(g, s, b, c, group=2)
    bind(w, thread.y)
    bind(l, thread.x)
    cache_register(P, at=c)
    cache_shared(X, at=ko, vector=4)
    cache_shared(W, at=ko, vector=4)
"""
)
STORED = ALIGNED + "    cache_register(Y, at=c) -> Yr\n    cache_shared(Y, at=c, vector=4) -> Ys\n"
DEALT = {"aligned": ALIGNED, "stored": STORED}
TEXTS = {"threads": THREADS, "tiles": TILES, "pipelined": TILES + "    pipeline(ko, 3)\n"}
VERSIONS = ({}, {"vector": False}, {"wide": True}, {"whole": True})


def ragged(launches):
    return [node for launch in launches for node in launch.nodes if isinstance(node, For) and node.kind == "ragged"]


@pytest.mark.parametrize("text", [*TEXTS.values(), THREADS.replace("i32", "i64")])
def test_it_is_proved_and_read_back(text):
    tree = tree_from(text)
    for version in VERSIONS:
        launches = lower(tree, **version)
        assert [node.name for node in ragged(launches)] == ["g"]
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None


def test_a_block_runs_the_groups_of_its_rows():
    text = emit(lower(tree_from(TILES)))
    head = """\
        for (int g = first_above(&start[1], G, b * 8);
             g < G && start[g] <= b * 8 + 7;
             g = first_above(&start[1], G, start[g + 1])) {
"""
    assert head in text
    assert "before the next c overwrites Ys" in text  # the barriers inside may not be met


def starts_of(rows):
    """Starts of groups: equal ones, empty ones, one that has all, and some that end inside of tiles."""
    yield [0, rows // 4, rows // 2, rows - rows // 4, rows]
    yield [0, rows]
    yield [0, 0, 0, rows, rows]
    yield [0, 3, 3, 3, 4, 5, 5, rows, rows]
    yield [0, *range(1, rows + 1)]
    yield [0, 7, 8, 9, 16, 17, 23, 24, rows - 1, rows - 1, rows]


@pytest.mark.parametrize("text", [*DEALT.values(), STORED.replace("i32", "i64")])
def test_tiles_of_each_group_are_dealt(text):
    tree = tree_from(text)
    for version in VERSIONS:
        launches = lower(tree, **version)
        assert [ends is not None for ends in launches[0].ends] == [False, True, True, False]
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
        for language in ("cuda", "opencl"):
            assert difference(emit(launches, language), launches, language) is None


def test_a_block_goes_from_group_to_group():
    text = emit(lower(tree_from(STORED), whole=True))
    head = """\
    int tile = blockIdx.x;  // counted on from matrix to matrix

    // fuse(P.g, Y.g) -> g
    for (int g = 0; g < G; ++g) {
        const int s = start[g];  // anchor(Y) -> s
        const Tiles tiles = {1, (start[g + 1] - s + 7) / 8, F / 8, 2};

        for (; tile < count_tiles(tiles); tile += gridDim.x) {
"""
    assert head in text
    assert "if (b * 8 + t + s < start[g + 1])\n" in text
    assert "for G*N/8*F/8 tiles" in text  # of all starts, one counts


@pytest.mark.parametrize("fault", ["early end", "late row", "other end"])
@pytest.mark.parametrize("name", DEALT)
def test_the_proof_refuses_other_tiles(name, fault):
    tree = tree_from(DEALT[name])
    (launch,) = lower(tree)
    faulty = [*ragged_faults.FAULTS[fault](launch)]
    assert len(faulty) == 3
    for each in faulty:
        assert prove(tree.kernel, (each,), tree.reassociated).violation is not None


@pytest.mark.pocl
@pytest.mark.parametrize("name", [*TEXTS, *DEALT])
def test_any_groups_do(name):
    check_any_groups((TEXTS | DEALT)[name])


def check_any_groups(text, change=lambda wanted: wanted):
    program, rng = tilegen.load(text).schedule("s").compile("cpu"), np.random.default_rng(1)
    for rows in (32, 41):
        for start in starts_of(rows):
            groups = len(start) - 1
            x, w = (rng.integers(-4, 5, n).astype(np.float32) for n in ((rows, 12), (groups, 12, 20)))
            wanted = np.concatenate([x[a:b] @ w[g] for g, (a, b) in enumerate(zip(start, start[1:], strict=False))])
            assert np.array_equal(program(x, w, np.array(start, np.int32)), change(wanted))


@pytest.mark.parametrize("fault", ["early end", "late row"])
@pytest.mark.parametrize("name", TEXTS)
def test_the_proof_refuses_other_ends(name, fault):
    tree = tree_from(TEXTS[name])
    (launch,) = lower(tree)
    faulty = [*ragged_faults.FAULTS[fault](launch)]
    assert len(faulty) == 2
    for each in faulty:
        assert prove(tree.kernel, (each,), tree.reassociated).violation is not None


@pytest.mark.parametrize("text", [TILES, BY_GROUP])
def test_the_proof_refuses_other_rows(text):
    tree = tree_from(text)
    (launch,) = lower(tree)
    faulty = [*ragged_faults.other_rows(launch)]
    assert len(faulty) == 3
    for each in faulty:
        assert prove(tree.kernel, (each,), tree.reassociated).violation is not None


def with_ends(launch, change):
    """The launch where the ends of its ragged loop are others."""
    return next(edited(launch, lambda n: [(change(n),)] if isinstance(n, For) and n.ends else []))


def test_threads_that_meet_have_the_same_ends():
    tree = tree_from(TILES)
    (own,), (launch,) = ragged(lower(tree_from(THREADS))), lower(tree)
    faulty = with_ends(launch, lambda n: replace(n, ends=own.ends))
    assert "which they run differently often" in prove(tree.kernel, (faulty,)).violation.violation.sentence


@pytest.mark.pocl
def test_blocks_have_a_group_each():
    tree = tree_from(BY_GROUP)
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
    assert "if (b * 8 + w >= start[g] & b * 8 + w < start[g + 1])" in emit(lower(tree, whole=True))
    check_any_groups(BY_GROUP)


def test_a_copy_for_a_part_of_the_groups_is_stored_where_their_rows_are():
    tree = tree_from(BY_GROUP + "    cache_register(Y, at=c)\n")
    assert "Y.reg[w, l]  if b*8 + w >= start[g] and b*8 + w < start[g + 1] and" in str(tree)
    assert prove(tree.kernel, lower(tree)).verdict == "proved"

    def everywhere(value):
        if isinstance(value, Stmt) and value.term:
            return replace(value, value=stored_value(value), term=None, reduce=None)
        return value

    faulty = judge(replace(tree, body=rewrite(tree.body, everywhere)))
    assert faulty.sentence == "'Y.reg' is kept for some of the iterations that may have the only term of an element"
    assert "Y(t=0, f=0, g=0) may have that of Y[0, 0], or Y(t=0, f=0, g=1)" in faulty.witness


@pytest.mark.parametrize("change", ["another test", "a later group", "another row"])
def test_a_copy_is_stored_back_for_its_own_group(change):
    tree = tree_from(BY_GROUP + "    cache_register(Y, at=c)\n")

    def other(value):
        if not isinstance(value, Stmt) or not value.term:
            return value
        if change == "another test":
            return rewrite(value, lambda v: replace(v, name="<=") if isinstance(v, Op) and v.name == "<" else v)
        if change == "another row":
            return replace(value, term=(value.term[0] + 1, *value.term[1:]))
        return substitute(value, {"g": var("g") + 1})

    assert judge(replace(tree, body=rewrite(tree.body, other))) is not None


def test_what_a_row_says_may_be_a_choice():
    """A value that is 0 where a condition fails is stored there, too."""
    text = BY_GROUP.replace("= P[g, t, f] for", "= (P[g, t, f] if t < start[0] + 3 else 0) for")
    check_any_groups(text, lambda wanted: np.where(np.arange(len(wanted))[:, None] < 3, wanted, 0))


OVERLAPPING = """
kernel sums(x: f32[N], start: i32[G + 1]) -> y: f32[N] where rising(start, N):
    y[t] = sum[g in 0..G](x[t] if start[g] <= t and t <= start[g + 1] else 0)

schedule s for sums():
    blocks(t, 8) -> b, w
    cache_register(y, at=w)
"""


def test_a_row_that_has_terms_is_not_skipped():
    tree = tree_from(OVERLAPPING)
    (launch,) = lower(tree)
    assert prove(tree.kernel, (launch,)).verdict == "proved"
    faulty = with_ends(launch, lambda n: replace(n, ends=replace(n.ends, skips=True)))
    assert "that are skipped" in prove(tree.kernel, (faulty,)).violation.violation.sentence
    unpromised = tree_from(OVERLAPPING.replace(" where rising(start, N)", ""))
    assert not ragged(lower(unpromised))
    assert "may fall again" in prove(unpromised.kernel, (launch,)).violation.violation.sentence


AHEAD = (
    KERNEL
    + """\
    order(b, c, g, w, l, k)
    bind(b, block.x)
    bind(w, thread.y)
    bind(l, thread.x)
    cache_register(Y, at=c)
    cache_register(P, at=g)
    cache_shared(W, at=g)
    pipeline(g, 2)
"""
)


def test_no_iteration_needs_what_another_one_copied():
    tree = tree_from(AHEAD.replace("sum[k]", "sum[k in 0..8]").replace("[N, K]", "[N, 8]").replace("[G, K,", "[G, 8,"))
    (launch,) = lower(tree, whole=True)
    assert not ragged((launch,))
    assert prove(tree.kernel, (launch,)).verdict == "proved"
    (ends,) = {node.ends for node in ragged(lower(tree_from(TILES), whole=True))}
    (faulty,) = edited(
        launch, lambda n: [(replace(n, kind="ragged", ends=ends),)] if isinstance(n, For) and n.name == "g" else []
    )
    assert "written" in prove(tree.kernel, (faulty,)).violation.violation.sentence


def test_roles_go_through_the_same_groups():
    tree = tilegen.load("grouped").schedule("ping_pong").tree
    (launch,) = lower(tree, whole=True)
    one, two = ragged((launch,))
    assert one.ends == two.ends
    late = replace(one.ends, end=None, skips=False)
    for faulty in edited(launch, lambda n: [(replace(n, ends=late),)] if isinstance(n, For) and n.ends else []):
        assert "do not go through the same loops" in prove(tree.kernel, (faulty,)).violation.violation.sentence


@pytest.mark.parametrize(
    ("pattern", "other"), [("above\\(&start\\[1", "above(&start[0"), ("<= b", "< b"), (" g = f", " g += f")]
)
def test_faults_in_the_text_are_read(pattern, other):
    launches = lower(tree_from(TILES))
    changed = re.sub(pattern, other, text := emit(launches))
    assert changed != text
    assert difference(changed, launches, "cuda") is not None


@pytest.mark.parametrize("value", ["sum[k](X[t, k] * W[g, k, f])", "max[k](X[t, k]) * W[g, 0, f]"])
def test_a_reduction_can_stand_there(value):
    head, *_, last = KERNEL[: KERNEL.index("\nschedule")].splitlines()[1:]
    text = f"{head}\n{last.replace('P[g, t, f]', value)}\n"
    rng = np.random.default_rng(2)
    arrays = {"X": rng.random((9, 3), np.float32), "W": rng.random((3, 3, 4), np.float32)}
    start = np.array([0, 4, 4, 9], np.int32)
    found = reference(built(text).kernel, {"N": 9, "K": 3, "F": 4, "G": 3}, arrays | {"start": start})["Y"].value
    parts = (arrays["X"][a:b] for a, b in zip(start, start[1:], strict=False))
    each = (
        x @ w if "sum" in value else x.max(1, keepdims=True, initial=0) * w[0]
        for x, w in zip(parts, arrays["W"], strict=True)
    )
    assert np.allclose(found, np.concatenate([*each]))


def test_a_tile_counts_the_rows_that_it_has_in_the_mean():
    (launch,) = lower(tree_from(TILES), whole=True)
    for groups, trips in ((4, 1), (64, 8)):
        counted = with_mean_trips(launch, {"N": 64, "K": 8, "F": 8, "G": groups})
        assert [node.extent for node in counted.nodes if isinstance(node, For) and node.ends] == [const(trips)]
