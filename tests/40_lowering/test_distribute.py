"""Cooperative copies dealt out to threads: still a tree, and the same program."""

import numpy as np
import pytest
from stock import cases, scheduled

from tilegen.errors import LimitError
from tilegen.interpreter import run
from tilegen.ir.nodes import Loop, Tree
from tilegen.ir.show import show
from tilegen.ir.walk import loops
from tilegen.lowering import distributed_tree, lower

SMALL = {"gemm": (("M", 33), ("K", 19), ("N", 41)), "transpose": (("M", 35), ("N", 37))}


def small(name):
    """Odd sizes, smaller than a tile or a little larger."""
    if name in SMALL:
        return SMALL[name]
    return tuple((size, 3 + 2 * n) for n, size in enumerate(next(iter(scheduled_kernel(name))).sizes))


def scheduled_kernel(name):
    return [scheduled(n, s).kernel for n, s in cases() if n == name][:1]


@pytest.mark.parametrize(("name", "schedule"), cases())
def test_the_distributed_tree_computes_the_kernel(name, schedule):
    tree = scheduled(name, schedule).tree
    sizes = dict(small(name))
    rng = np.random.default_rng(1)
    arrays = {
        t.name: rng.uniform(0.5, 1.5, [e.evaluate(sizes) for e in t.shape]).astype(np.float32)
        for t in tree.kernel.tensors
        if t.role == "input"
    }
    dealt = distributed_tree(lower(tree))
    assert not [loop for loop in loops(dealt.body) if loop.kind == "cooperative"]
    before, after = run(tree, sizes, arrays), run(dealt, sizes, arrays)
    for tensor, value in before.items():
        assert np.array_equal(value, after[tensor]), f"{tensor} differs in\n{show(dealt)}"


def nest(launch, prefix):
    return [loop for loop in loops(launch.distributed) if loop.name.startswith(prefix)]


def test_a_remainder_is_guarded_and_only_then():
    (conv,) = lower(scheduled("conv1d", "shared").tree)
    assert "127 + l*128" not in show_node(conv.distributed)
    assert "X.shared.l*128 + t < 130" in show_node(conv.distributed).replace("<= 129", "< 130")
    (gemm,) = lower(scheduled("gemm", "tiled").tree)
    assert "< 1024" not in show_node(gemm.distributed)


def show_node(node: Loop) -> str:
    return show(Tree(None, (), (node,)))


def test_without_vectors_the_lanes_are_dealt_out_too():
    (vector,) = lower(scheduled("gemm", "registers").tree)
    (scalar,) = lower(scheduled("gemm", "registers").tree, vector=False)
    assert [loop.extent.const for loop in nest(vector, "A.shared.l")] == [2]
    assert [loop.extent.const for loop in nest(scalar, "A.shared.l")] == [8]
    assert vector.requires
    assert not scalar.requires
    assert not scalar.alignment


def test_limits_of_a_block_are_told():
    with pytest.raises(LimitError, match="2048 threads along x"):
        lower(scheduled("vector_add", "plain", parameters=(("T", 2048),)).tree)
    with pytest.raises(LimitError, match="bytes of shared memory, and a GPU has 232448 at most"):
        lower(scheduled("gemm", "registers", parameters=(("TK", 512),)).tree)
