"""Sums in registers without tests at the border: only where nobody looks at what they leave there."""

from dataclasses import replace

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import rewrite, stmts
from tilegen.lowering import lower
from tilegen.lowering.updates import spare
from tilegen.proof import prove
from tilegen.schedule import apply

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


def scheduled():
    module = parse(Source("product.tg", TEXT))
    return apply(build(module.kernels["product"]), module.schedules[0]).tree


def guards(node, name):
    return [[str(c) for c in s.guard] for s in stmts((node,)) if s.name == name]


def test_an_update_keeps_what_depends_on_the_term_alone():
    tree = scheduled()
    (node,) = tree.body
    less = spare(node, tree.buffers, tree.kernel)
    assert all(len(g) == 3 for g in guards(node, "C"))
    assert guards(less.node, "C") == [["-ko*4 + K - ki - 1 >= 0"]] * 2
    assert less.starts == {("C.init", "C.reg")}
    assert prove(tree.kernel, lower(tree)).verdict == "proved"


def test_an_update_keeps_the_tests_of_an_element_that_is_used_without_them():
    tree = scheduled()

    def bare(value):
        stored = isinstance(value, Stmt) and value.is_copy and value.target.buffer == "C"
        return replace(value, guard=()) if stored else value

    (node,) = rewrite(tree.body, bare)
    assert spare(node, tree.buffers, tree.kernel) == spare(node, (), tree.kernel)


def test_an_update_from_memory_keeps_its_tests():
    """Outside of its guard it would read outside of the tensor."""
    text = TEXT.replace("    cache_register(A, at=ki)\n", "")
    module = parse(Source("product.tg", text))
    tree = apply(build(module.kernels["product"]), module.schedules[0]).tree
    (node,) = tree.body
    assert guards(spare(node, tree.buffers, tree.kernel).node, "C") == guards(node, "C")
