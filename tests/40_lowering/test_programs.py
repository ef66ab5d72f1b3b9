"""Programs of one thread: who runs what, guards, vector accesses and what they need."""

import pytest

from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.stock import schedule_stock
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.nodes import Stmt
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Flag, If, VectorCopy, VectorLoad
from tilegen.lowering.launch.timelines import Barrier
from tilegen.proof import prove

ROWS = """
kernel rows(X: f32[M, N]) -> out: f32[M, N]:
    var s: f32[M]
    s[i] = sum[j](X[i, j])
    out[i, j] = X[i, j] / s[i]

schedule s for rows():
    fuse(s.i, out.i) -> i
    bind(i, block.x)
    tile(out.j, 32) -> jo, t
    bind(t, thread.x)
"""
ADD = """
kernel add({a}: f32[N], {b}: f32[N]) -> {c}: f32[N]{where}:
    {c}[i] = {a}[i] + {b}[i]

schedule s for add():
    tile(i, 4) -> i, v
    vectorize(v)
    tile(i, 64) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
"""


def launch_of(text, values=()):
    (launch,) = lower(tree_from(text, **dict(values)))
    return launch


def guards(launch):
    return [[str(c) for c in node.test] for node in walk(launch.body) if isinstance(node, If)]


def test_a_statement_outside_the_threads_is_the_first_ones():
    launch = launch_of(ROWS)
    assert ["t == 0"] in guards(launch)
    (barrier,) = [node for node in walk(launch.body) if isinstance(node, Barrier)]
    assert barrier.reason == "s is complete: written above, read below"
    assert barrier.of_global
    assert "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE" in emit([launch], "opencl")
    assert launch.tensors == ("X", "out", "s")
    assert launch.sizes == ("N",)


def test_vector_add_needs_a_multiple_of_four():
    launch = launch_of(ADD.format(a="A", b="B", c="C", where=""))
    assert [str(c) for c in launch.requires] == ["N%4 == 0"]
    assert launch.alignment == {"A": 16, "B": 16, "C": 16}
    assert len(guards(launch)) == 1


@pytest.mark.parametrize(("where", "values"), [(" where N % 4 == 0", {}), ("", {"N": 64})])
def test_a_multiple_that_is_known_is_not_required(where, values):
    launch = launch_of(ADD.format(a="A", b="B", c="C", where=where), values)
    assert launch.requires == ()
    assert [v.width for v in walk(launch.body) if isinstance(v, VectorLoad)] == [4, 4]


def test_a_size_that_is_no_multiple_leaves_no_vectors():
    launch = launch_of(ADD.format(a="A", b="B", c="C", where=""), {"N": 63})
    assert launch.requires == ()
    assert not launch.alignment


def test_words_of_the_language_are_no_names():
    text = emit([launch_of(ADD.format(a="double", b="tid", c="full", where=""))], "cuda")
    assert "const float* __restrict__ double_, const float* __restrict__ tid, float* __restrict__ full_" in text


def test_full_tiles_are_tested_once_and_have_no_tests_inside():
    (launch,) = lower(schedule_stock("gemm", "registers").tree)
    (flag,) = [node for node in walk(launch.body) if isinstance(node, Flag)]
    named = [node for node in walk(launch.body) if isinstance(node, If) and node.flag]
    assert [node.flag for node in named] == [flag.name] * 3
    assert all({*flag.test} < {*node.test} for node in named[:2])  # and whether the tile of K is whole
    assert named[2].test == flag.test
    for node in named:
        assert not [inner for inner in walk(node.body) if isinstance(inner, If)]
        assert [inner for inner in walk(node.orelse) if isinstance(inner, If)]
    assert [type(v) for v in walk(launch.body) if isinstance(v, VectorCopy | VectorLoad)]


def test_fixed_sizes_that_fit_leave_no_test_at_all():
    (launch,) = lower(schedule_stock("gemm", "registers", values=(("M", 256), ("N", 384), ("K", 64))).tree)
    assert not guards(launch)
    assert launch.sizes == ()
    assert launch.requires == ()


def test_large_tiles_take_dynamic_memory():
    (launch,) = lower(schedule_stock("gemm", "registers", parameters=(("TK", 64),)).tree)
    text = emit([launch], "cuda")
    assert launch.shared_bytes == 4 * (64 * 128 + 64 * 128)
    assert "extern __shared__ __align__(16) unsigned char shared[];" in text
    assert "float (*B_shared)[TN] = reinterpret_cast<float (*)[TN]>(shared + 32768);" in text


def test_resident_blocks_bound_the_registers():
    steps = """
    tile(i, 256) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    resident(b, 4)
"""
    text = f"kernel copy(X: f32[N]) -> Y: f32[N]:\n    Y[i] = X[i]\n\nschedule s for copy():{steps}"
    launches = lower(tree_from(text))
    assert launches[0].resident == 4
    assert "__launch_bounds__(256, 4)" in emit(launches, "cuda")
    assert difference(emit(launches, "cuda"), launches, "cuda") is None
    assert difference(emit(launches, "cuda").replace("256, 4", "256"), launches, "cuda")


GROUPED = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])

schedule s for gemm():
    tile(i, 2) -> bi, ti
    tile(j, 4) -> bj, tj
    tile(k, 2) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    grouped_blocks(bi, bj, 3) -> gi, bi
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(C, at=bi)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko)
"""


@pytest.mark.parametrize("sizes", [(6, 4, 2), (7, 9, 3), (13, 5, 4), (24, 8, 2)])
def test_blocks_in_groups_run_down_the_columns(sizes):
    """The hardware starts blocks with x fastest: all rows of a group, then the next column, then the next group."""
    tree = tree_from(GROUPED)
    (launch,) = launches = lower(tree)
    at = dict(zip("MNK", sizes, strict=True))
    tiles = -(-at["M"] // 2)
    assert [e.evaluate(at) for e in launch.grid] == [3, -(-at["N"] // 4), -(-tiles // 3)]
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert faults(launches, tree, at) is None
    text = emit(launches, "cuda")
    assert all(f"const int {name} = blockIdx.{axis};" in text for name, axis in (("gi", "z"), ("bj", "y"), ("bi", "x")))
    assert "C[(gi * 6 + bi * 2 + ti) * N + bj * 4 + tj] = C_reg;" in text


TURNED = """
kernel transpose(X: f32[M, N]) -> Y: f32[N, M]:
    Y[j, i] = X[i, j]

schedule s for transpose():
    tile(i, 8) -> bi, ti
    tile(j, 8) -> bj, tj
    order(bi, bj, tj, ti)
    bind(tj, thread.y)
    bind(ti, thread.x)
    cache_shared(X, at=bj, vector=4)
    swizzle(X.shared, {unit}, 2)
"""


@pytest.mark.parametrize(("unit", "stored"), [(4, VectorCopy), (2, Stmt), (1, Stmt)])
def test_a_vector_is_stored_whole_where_the_swizzle_keeps_it_whole(unit, stored):
    tree = tree_from(TURNED.format(unit=unit))
    (launch,) = launches = lower(tree)
    kinds = {type(v) for v in walk(launch.body) if getattr(getattr(v, "target", None), "buffer", "") == "X.shared"}
    assert kinds == {stored}
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    for language in ("cuda", "opencl"):
        assert difference(emit(launches, language), launches, language) is None
    assert [faults(lower(tree, vector=vector), tree, {"M": 16, "N": 8}) for vector in (True, False)] == [None, None]
