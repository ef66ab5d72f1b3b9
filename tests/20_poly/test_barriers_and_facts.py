"""What lowering asks: which accesses cross threads, and which conditions always hold."""

from __future__ import annotations

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Access, Buffer, Condition, Load, Loop, Stmt, Tree
from tilegen.judge import dependences
from tilegen.poly import Facts

KERNEL = build(
    parse(Source("t.tg", "kernel copy(A: f32[N, 8]) -> C: f32[N, 8]:\n    C[i, j] = A[i, j]\n")).kernels["copy"]
)
ROW, T = var("i"), var("t")


def staged_tree(place):
    """Rows of 8 through shared memory: thread t fills element t and reads element `place`."""
    fill = Stmt("A.shared", Access("A.shared", (T,)), Load("A", (ROW, T), "f32"))
    use = Stmt("C", Access("C", (ROW, place)), Load("A.shared", (place,), "f32"), instance=(ROW, place))
    nests = tuple(Loop("t", const(8), (s,), "thread.x") for s in (fill, use))
    shared = Buffer("A.shared", "f32", (const(8),), "shared", (0,), copy_of="A", scope="i")
    tensors = tuple(Buffer(t.name, t.dtype, t.shape, "global", t.order, role=t.role) for t in KERNEL.tensors)
    return Tree(KERNEL, (*tensors, shared), (Loop("i", var("N"), nests),))


def test_threads_that_read_their_own_need_nothing():
    assert not [d for d in dependences(staged_tree(T), 0) if d.exists]


def test_threads_that_read_their_neighbours():
    found = [d for d in dependences(staged_tree(7 - T), 0) if d.exists]
    assert [(d.kind, d.source, d.sink, d.carried_by) for d in found] == [
        ("RAW", 0, 1, None),
        ("RAW", 0, 1, "i"),
        ("WAR", 1, 0, "i"),
    ]
    assert found[0].crossings[0].describe() == (
        "A.shared[4] is written by the copy A.shared on thread (t=4), then read by C(i=0, j=4) on thread (t=3) (N=1)"
    )


def test_that_no_iteration_lies_in_between_says_nothing_of_whether_two_meet():
    found = dependences(staged_tree(T // 2 * 2 + T % 2), 0)
    assert found
    assert not any(d.is_iterations_apart("t") for d in found)
    assert not any(d.exists for d in found)


def test_facts_follow_from_ranges_and_what_is_given():
    facts = Facts(KERNEL)
    room = Condition(var("N") - 1 - (var("b") * 32 + T))
    loops = {"b": (var("N") + 31) // 32, "t": const(32)}
    assert not facts.is_implied(room, loops)
    assert facts.is_implied(room, loops, (Condition(var("N") - 32 - var("b") * 32),))
    assert facts.is_implied(Condition(var("N") - 1 - var("b") * 32), loops)
    assert facts.is_implied(Condition(var("N") - 1), {})
    assert facts.is_implied(Condition((var("t") % 4) // 4, equal=True), loops)
    assert facts.is_possible((room,), loops)
    assert not facts.is_possible((Condition(T - 32),), loops)
    assert facts.is_possible((Condition(T - 31),), loops)  # in the last iteration alone
    assert facts.is_possible((Condition(3 - var("N")),), loops)  # at small sizes alone
    assert not facts.is_possible((Condition(-var("N")),), loops)
