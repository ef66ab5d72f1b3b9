"""Sums in registers without tests at the border: only where nobody looks at what they leave there."""

from dataclasses import replace
from itertools import product

import pytest

from tests.support import stock
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition, Stmt
from tilegen.ir.walk import rewrite, stmts, walk
from tilegen.lowering import lower
from tilegen.lowering.guards import register_guards
from tilegen.lowering.guards.register_guards import spare
from tilegen.lowering.launch.program import For, If, VectorCopy
from tilegen.proof import prove

TEXT = """
kernel product(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for product():
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    tile(ti, 2) -> ti, wi
    tile(tj, 2) -> tj, wj
    tile(k, 4) -> ko, ki
    order(bi, bj, ko, ti, tj, ki, wi, wj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bj)
    cache_register(A, at=ki)
    cache_register(B, at=ki)
    serpentine(wi, wj)
"""


def guarded_tree():
    return tree_from(TEXT)


def guards(node, name):
    return [[str(c) for c in s.guard] for s in stmts((node,)) if s.name == name]


def test_an_update_keeps_what_depends_on_the_term_alone():
    tree = guarded_tree()
    (node,) = tree.body
    less = spare(node, tree.buffers, tree.kernel)
    assert all(len(g) == 3 for g in guards(node, "C"))
    assert guards(less.node, "C") == [["-ko*4 + K - ki - 1 >= 0"]] * 2
    assert less.starts == {("C.init", "C.reg")}
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_an_update_keeps_the_tests_of_an_element_that_is_used_without_them():
    tree = guarded_tree()

    def bare(value):
        stored = isinstance(value, Stmt) and value.is_copy and value.target.buffer == "C"
        return replace(value, guard=()) if stored else value

    (node,) = rewrite(tree.body, bare)
    assert spare(node, tree.buffers, tree.kernel) == spare(node, (), tree.kernel)


def test_an_update_from_memory_keeps_its_tests():
    """Outside of its guard it would read outside of the tensor."""
    text = TEXT.replace("    cache_register(A, at=ki)\n", "")
    tree = tree_from(text)
    (node,) = tree.body
    assert guards(spare(node, tree.buffers, tree.kernel).node, "C") == guards(node, "C")


def test_fragments_are_updated_whole_from_what_there_is():
    """A tile of SA in shared memory has all its rows, and a tile at the border has rows that SA has not."""
    for schedule, tested in (("with_scales", False), ("blocks", True)):
        text = emit(lower(stock.schedule_stock("block_scaled", schedule).tree))
        between = text[text.index("complete_wgmma();\n") : text.index("ring.release()")]
        assert ("< M" in between) == tested


def test_the_proof_refuses_an_update_that_reads_beyond_an_input(monkeypatch):
    monkeypatch.setattr(register_guards, "_inputs_exist", lambda *_: True)
    tree = stock.schedule_stock("block_scaled", "blocks").tree
    proof = prove(tree.kernel, lower(tree))
    (found,) = [o.violation for o in proof.obligations if o.violation]
    assert found.sentence == "'P' runs where the kernel has no instance, and outside 'SA'"


CUT = """
kernel same(X: i32[N, M]) -> out: i32[N, M]:
    out[i, j] = X[i, j]

schedule s for same():
    tile(j, 2) -> bj, tj
    cache_register(X, at=bj)
    tile(tj, 4) -> uj, vj
    bind(uj, thread.x)
    cache_register(out, at=bj)
"""


def test_a_start_keeps_the_tests_that_keep_it_inside_its_registers():
    """A loop of two that is cut by four runs past the two registers of X; found by a random case."""
    tree = tree_from(CUT)
    launches = lower(tree)
    assert faults(launches, tree, {"N": 1, "M": 3}) is None
    assert prove(tree.kernel, launches).verdict == "proved"


def test_the_proof_refuses_a_start_that_runs_past_its_registers(monkeypatch):
    monkeypatch.setattr(register_guards, "_elements_exist", lambda *_: True)
    tree = tree_from(CUT)
    launches = lower(tree)
    assert faults(launches, tree, {"N": 1, "M": 3}) == "bounds"
    proof = prove(tree.kernel, launches)
    (found,) = [o.violation for o in proof.obligations if o.violation]
    assert found.sentence == "'out' runs where the kernel has no instance, and outside 'X.reg'"
    assert "uses X.reg[2]" in found.witness


def test_a_start_and_an_update_may_both_be_spared_what_the_store_tests():
    """Lanes reach past the tile of a block: only the store says so, in a loop of its own."""
    text = TEXT.replace("tile(j, 8) -> bj, tj", "tile(j, 4) -> bj, tj").replace("ti, tj, ki", "ti, uj, tj, ki")
    text = text.replace("tile(tj, 2) -> tj, wj", "tile(tj, 8) -> uj, lj\n    tile(lj, 4) -> tj, wj")
    text = text.replace("at=bj)", "at=bj, vector=4)")
    tree = tree_from(text)
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert prove(tree.kernel, launches).verdict == "proved"


a, b = var("a"), var("b")
INDEXES = [
    (a, b),
    (b, a),
    (3 - a, b),
    (a * 2 + 1, b),
    (a * 2, 3 - b),
    (a * -2 + 7, b),
    (a, a),
    (a + b, b),
    (const(1), b),
]
VALUES = [
    a - 1,
    2 - a,
    a * 2 - 3,
    4 - a * 2,
    a // 2 + b - 1,
    a % 2 + b,
    a + b * 2 - 4,
    b - 1,
    (3 - a) // 2,
    var("s") - a,
]


def test_conditions_that_are_said_alike_of_a_place_hold_together():
    found = [(i, v, register_guards._by_place(Condition(v), i, frozenset("ab"))) for i in INDEXES for v in VALUES]
    points = [dict(zip("ab", point, strict=True), s=2) for point in product(range(4), repeat=2)]
    alike = 0
    for (one, v, first), (two, w, second) in product(found, repeat=2):
        if first is None or first != second:
            continue
        alike += (one, v) != (two, w)
        there = {tuple(i.evaluate(p) for i in one): v.evaluate(p) for p in points}
        for p in points:
            place = tuple(i.evaluate(p) for i in two)
            assert there.get(place, w.evaluate(p)) == w.evaluate(p), (one, v, two, w)
    assert alike > 20


def test_what_has_a_loop_that_the_place_does_not_tell_is_not_said_of_it():
    said = register_guards._by_place
    assert said(Condition(a + b), (a,), frozenset("ab")) is None
    assert said(Condition(a + b), (a,), frozenset("a")) == Condition(var("$0") + b)
    assert said(Condition(a), (a * 2,), frozenset("a")) is None
    assert said(Condition(a // 2), (a * 2,), frozenset("a")) is None
    assert said(Condition(a), (a + b,), frozenset("ab")) is None


@pytest.mark.parametrize("name", ["row_sum", "softmax", "layer_norm"])
def test_what_is_under_one_test_for_all_of_a_thread_stays_there(name):
    """Past the last row nothing is loaded, and nothing is added up that would have no value."""
    (launch,) = lower(stock.schedule_stock(name, "warps").tree)
    written = {kind: [v for n in launch.body if isinstance(n, kind) for v in walk(n)] for kind in (If, For)}
    tested, open_ = ({v.target.buffer for v in each if isinstance(v, Stmt | VectorCopy)} for each in written.values())
    assert "X.reg" in tested
    assert open_ == set()


@pytest.mark.parametrize(
    ("place", "names"),
    [
        (var("a") * 4 + var("b") * 2 + var("c"), {"a", "b", "c"}),
        (var("a") - var("c") * 2 + 3, {"a", "c"}),
        (var("a") * 2 + var("b") * 2 + var("c"), set()),  # b and a can make up for one another
        (var("a") * 3 + var("b"), set()),  # and here 4 of b for 1 of a and 1 of b
        (var("b") * 7, {"b"}),
        (const(3), set()),
    ],
)
def test_a_place_tells_the_loops_that_are_its_digits(place, names):
    extents = {"a": 2, "b": 5, "c": 2} if names != {"a", "b", "c"} else {"a": 3, "b": 2, "c": 2}
    assert set(register_guards._determined_by(place, extents)) == names
    several = [name for name in extents if name in place.names()]
    points = list(product(*(range(extents[name]) for name in several)))
    numbers = {place.evaluate(dict(zip(several, point, strict=True))) for point in points}
    assert (len(numbers) == len(points)) == (set(several) == names)


def test_sums_of_fragments_are_added_without_tests():
    """The parts of a sum, each in the registers of a product by warpgroups."""
    (launch,) = lower(stock.schedule_stock("hgemm", "promoted").tree)
    text = emit((launch,))
    assert text.count("+= Tf[") == 1
    assert "if (" not in text.partition("hold<64>(&Tf[0]);")[2].partition("ring.release")[0]
