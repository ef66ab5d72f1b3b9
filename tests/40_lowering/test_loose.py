"""Vectors whose alignment is missing are given up loop by loop, and those on the chip stay."""

from tests.support.stock import schedule_stock
from tilegen.ir.walk import walk
from tilegen.lowering import lower, unmet
from tilegen.lowering.program import VectorCopy, VectorLoad, VectorStore
from tilegen.proof import prove


def test_vectors_are_given_up_loop_by_loop():
    tree = schedule_stock("gemm", "across").tree
    (aligned,) = lower(tree)
    assert unmet((aligned,), {"M": 8, "N": 8, "K": 7}, {}) == frozenset()
    assert unmet((aligned,), {"M": 8, "N": 8, "K": 8}, {"C": 4}) == {"C.reg.v"}
    odd = unmet((aligned,), {"M": 7, "N": 8, "K": 8}, {})
    assert odd == {"A.shared.reg.v"}
    (launch,) = lower(tree, loose=odd)
    assert [str(c) for c in launch.requires] == ["N%4 == 0"]
    assert launch.alignment == {"B": 16, "C": 16}
    assert prove(tree.kernel, (launch,)).verdict == "proved"


def test_vectors_on_the_chip_need_no_alignment_of_tensors():
    tree = schedule_stock("gemm", "across", values=(("M", 256), ("N", 512), ("K", 64))).tree
    (launch,) = lower(tree, vector=False)
    assert not launch.alignment
    moved = [v for v in walk(launch.body) if isinstance(v, VectorLoad | VectorStore | VectorCopy)]
    wide = [v for v in moved if v.width > 1]
    assert {v.source.buffer for v in wide} == {"A.shared", "B.shared"}
    assert all(launch.buffers[v.target.buffer].space == "register" for v in wide)
    assert prove(tree.kernel, (launch,)).verdict == "proved"
