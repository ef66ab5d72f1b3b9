"""Lists: what is emitted is the program that was proved, and a list that is not the kernel's is refused by some net."""

from dataclasses import replace

import pytest

import tilegen
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Const, Stmt
from tilegen.ir.walk import rewrite
from tilegen.lowering import lower
from tilegen.lowering.launch.lists import SHARED_BYTES, by_whole_blocks
from tilegen.lowering.launch.program import If, Let
from tilegen.proof import prove

PAIRS = """
kernel pairs(X: f32[H, W], least: f32) -> at: i32[CAP, 2], n: i32[1]:
    at[n[o]] = {word}[y, x]((y, x) if X[y, x] * 2 > least and X[y, x] * 2 < 9)
schedule s for pairs():
"""
ROWS = """
kernel rows(X: bf16[M, N]) -> Y: bf16[C, M], n: i32[M]:
    Y[n[r], r] = {word}[i](X[r, i] if X[r, i] > 0)
schedule s for rows():
"""
ATOMIC = """\
    atomic(n)
    order(y, x, o)
    tile(x, 4) -> b, t
    bind(y, block.y)
    bind(b, block.x)
    bind(t, thread.x)
"""
BY_ROWS = """\
    tile(r, 4) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(n, at=t)
"""
TOGETHER = """\
    tile(y, 2) -> b, v
    tile(x, 4) -> c, t
    order(b, c, t, o, v)
    atomic(n, at=o)
    bind(b, block.x)
    bind(t, thread.x)
"""
BY_BLOCKS = TOGETHER.replace("tile(x, 4)", "tile(x, 32)")
IN_CHUNKS = BY_BLOCKS.replace("order(b, c, t, o, v)", "tile(c, 2) -> p, c\n    order(b, p, c, t, o, v)")
OF_ROWS = """\
    tile(i, 4) -> c, v
    tile(r, 2) -> b, t
    order(b, t, c, v)
    atomic(n, at=c)
    bind(b, block.x)
    bind(t, thread.x)
"""
CASES = {
    "serial": (PAIRS.format(word="list") + "    pass\n", {"H": 2, "W": 3, "CAP": 4}),
    "atomic": (PAIRS.format(word="unordered_list") + ATOMIC, {"H": 2, "W": 6, "CAP": 4}),
    "rows": (ROWS.format(word="list") + BY_ROWS, {"M": 6, "N": 3, "C": 2}),
    "together": (PAIRS.format(word="unordered_list") + TOGETHER, {"H": 3, "W": 6, "CAP": 4}),
    "by blocks": (PAIRS.format(word="unordered_list") + BY_BLOCKS, {"H": 3, "W": 34, "CAP": 4}),
    "in chunks": (PAIRS.format(word="unordered_list") + IN_CHUNKS, {"H": 3, "W": 34, "CAP": 4}),
    "rows together": (ROWS.format(word="unordered_list") + OF_ROWS, {"M": 3, "N": 6, "C": 2}),
    "strided": (PAIRS.format(word="unordered_list") + "    tile(y, 2) -> b, t\n    order(o, t, b, x)\n",
                {"H": 3, "W": 2, "CAP": 4}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_proved_and_the_nets_follow_it(case):
    text, sizes = CASES[case]
    tree = tree_from(text)
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    for language in ("cuda", "opencl"):
        assert difference(emit(launches, language), launches, language) is None
    assert faults(launches, tree, sizes) is None


@pytest.mark.parametrize("language", ["cuda", "opencl"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("place < CAP", "place <= CAP"),  # one place too many
        ("if (0 <= place && place < CAP)", "if (0 <= place)"),  # capacity ignored
        ("0 <= place", "1 <= place"),
        ("place * 2 + 1", "place * 2 + 2"),  # place off by one
        ("[place * 2]", "[place * 2 + 2]"),
        ("n[0], 1)", "n[0], 2)"),
        ("&n[0]", "&n[1]"),
    ],
)
def test_a_wrong_text_is_seen(old, new, language):
    launches = lower(tree_from(CASES["atomic"][0]))
    text = emit(launches, language)
    assert old in text
    assert difference(text.replace(old, new), launches, language) is not None


@pytest.mark.parametrize("language", ["cuda", "opencl"])
@pytest.mark.parametrize("case", ["together", "by blocks", "in chunks"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("place < CAP", "place <= CAP"),
        ("hits |= 1u <<", "hits |= 2u <<"),
        ("hits |=", "hits ="),
        ("(hits >> v) & 1", "(hits >> v) & 2"),
        ("(hits >> v)", "(hits >> t)"),
        ("int hits = 0", "int hits = 1"),
        ("(hits))", "(hits) + 1)"),
        ("popc", "ffs"),
        ("&n[0]", "&n[1]"),
        ("place * 2 + 1", "place * 2 + 2"),
    ],
)
def test_a_wrong_text_of_hits_together_is_seen(old, new, case, language):
    launches = lower(tree_from(CASES[case][0]))
    text = emit(launches, language)
    before, mark, body = text.rpartition("void")
    assert old in body
    assert difference(before + mark + body.replace(old, new), launches, language) is not None


def test_whole_blocks_take_places_at_once():
    """All threads of a block come by, for one count; not where each has one of its own, or warps are not full."""
    for case, wanted in {"by blocks": 1, "in chunks": 1, "together": 0, "rows together": 0}.items():
        *others, launch = lower(tree_from(CASES[case][0]))
        assert (bool(by_whole_blocks(launch)), launch.shared_bytes) == (wanted, wanted * SHARED_BYTES), case
        text = emit((*others, launch), "cuda")
        assert ("int places = take_places(&n[0], __popc(hits));" in text) is bool(wanted)
    assert "atomicAdd(&n[b * 2 + t], __popc(hits))" in text


def test_threads_that_come_by_alone_take_places_by_themselves():
    """A barrier would wait for the others: a test that some threads alone meet holds more than the list."""
    *_, launch = lower(tree_from(CASES["by blocks"][0]))
    node, *others = (n for n in launch.nodes if id(n) in by_whole_blocks(launch))
    test = (Condition(var("t") - 3),)
    for inner, wanted in (((node,), 1), ((node, node), 0), ((node, Let("more", const(1))), 0)):
        body = rewrite(launch.body, lambda v, inner=inner: If(test, inner) if v is node else v)
        assert len(by_whole_blocks(replace(launch, body=body))) == wanted + len(others)


def _changed(tree, change):
    """The launches with each list's statement as `change` has it."""
    return rewrite(lower(tree), lambda v: change(v) if isinstance(v, Stmt) and v.hits else v)


FAULTS = {
    "not atomic": lambda s: replace(s, atomic=False),
    "no list": lambda s: replace(s, hits=None),
    "a sum": lambda s: replace(s, reduce="sum"),
    "capacity": lambda s: replace(s, hits=replace(s.hits, capacity=s.hits.capacity + 1)),
    "one place less": lambda s: replace(s, hits=replace(s.hits, capacity=s.hits.capacity - 1)),
    "items": lambda s: replace(s, hits=replace(s.hits, items=s.hits.items[::-1])),
    "item": lambda s: replace(s, hits=replace(s.hits, items=(Const(0, "i32"), s.hits.items[1]))),
    "dimension": lambda s: replace(s, hits=replace(s.hits, place=1)),
    "first place": lambda s: replace(
        s, hits=replace(s.hits, access=replace(s.hits.access, index=(const(1), const(0))))
    ),
    "another place": lambda s: replace(
        s, hits=replace(s.hits, access=replace(s.hits.access, index=(var("y"), const(0))))
    ),
    "condition": lambda s: replace(s, value=Const(True, "bool")),
    "in order": lambda s: replace(s, reduce="list"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_program_is_refused(fault):
    tree = tree_from(CASES["atomic"][0])
    proof = prove(tree.kernel, _changed(tree, FAULTS[fault]))
    assert proof.violation is not None


def test_an_update_that_is_not_atomic_is_a_race_in_the_simulator():
    text, sizes = CASES["atomic"]
    tree = tree_from(text)
    assert faults(_changed(tree, FAULTS["not atomic"]), tree, sizes) == "race"


def test_a_count_has_to_hold_all_hits():
    text = (
        "kernel f(X: f32[N], Y: f32[M]) -> at: {0}[CAP, 2], n: {0}[1]:\n"
        "    at[n[o]] = list[i, j]((i, j) if X[i] < Y[j])\n"
    )
    sizes = {"N": 2**16, "M": 2**15, "CAP": 8}
    versions = tilegen.load(text.format("i32")).kernel().schedule().versions("cuda")
    assert versions.choose({**sizes, "M": 2**15 - 1}, {})
    with pytest.raises(tilegen.TilegenError, match="a list of 2147483648 points may have more hits than 'n' can count"):
        versions.choose(sizes, {})
    assert tilegen.load(text.format("i64")).kernel().schedule().versions("cuda").choose(sizes, {})


def test_lanes_do_not_combine_a_list():
    text = ROWS.format(word="unordered_list") + "    tile(i, 32) -> c, l\n    bind(r, block.x)\n    bind(l, thread.x)\n"
    with pytest.raises(Exception, match="depend on each other"):
        tree_from(text)


def test_a_test_makes_its_reads_at_once():
    """Both sides of an 'and' that read memory, without a branch between; one side alone may be quick, or be read."""
    condition = "X[i] > 0 and Y[i] > X[i] and X[i] < 9 and exp(Z[i]) > 1"
    head = "kernel k(X: f32[N], Y: f32[N], Z: f32[N]) -> at: i32[C], n: i32[1]:"
    text = f"{head}\n    at[n[o]] = unordered_list[i](i if {condition})\n"
    launches = lower(tilegen.load(text).kernel().schedule().tree)
    printed = emit(launches, "cuda")
    assert "X[i] > 0.0f & Y[i] > X[i] && X[i] < 9.0f && expf(Z[i]) > 1.0f" in printed
    assert difference(printed, launches, "cuda") is None
    assert difference(printed.replace("0.0f & Y", "0.0f | Y"), launches, "cuda") is not None


def test_what_a_test_of_indices_guards_is_read_behind_it():
    condition = "(i > 0 and X[i - 1] > 0) or (i < N - 1 and X[i + 1] > 0)"
    text = f"kernel k(X: f32[N]) -> y: i32[N]:\n    y[i] = 1 if {condition} else 0\n"
    printed = emit(lower(tilegen.load(text).kernel().schedule().tree), "cuda")
    assert "i > 0 && X[i - 1] > 0.0f" in printed
    assert "i < N - 1 && X[i + 1] > 0.0f" in printed
