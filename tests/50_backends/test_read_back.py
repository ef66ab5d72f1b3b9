"""Every text reads back as the lowered program that it was printed from; a changed text does not."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.bulk_kernels import CASES
from tests.support.cover import each_stock_schedule
from tests.support.mutants import place_faults
from tests.support.reader.readback import difference
from tests.support.stock import lower_stock, schedule_stock
from tests.support.tensor_core_kernels import LOADED
from tests.support.warpgroup_kernels import product
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.ir.walk import rewrite
from tilegen.ir.written import tree_of
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Let

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tg"))
HALVES = """
kernel halves(A: f16[M, N]) -> C: f16[M, N], best: i32[M]:
    C[i, j] = A[i, j] + A[i, j] * A[i, j]
    best[i] = argmax[j](A[i, j])

schedule s for halves(W=2):
    tile(C.i, 4) -> bi, ti
    tile(C.j, 32) -> bj, tj
    tile(tj, W) -> u, v
    order(bi, bj, ti, u, v)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(u, thread.x)
    cache_shared(A, at=bj, vector=8)
    cache_register(A.shared, at=u)
    vectorize(v)
"""


def wrong(tree, language, **version):
    launches = lower(tree, instructions=language == "cuda", **version)
    return difference(emit(launches, language), launches, language)


@pytest.mark.parametrize("language", ["cuda", "opencl"])
@each_stock_schedule
def test_stock_schedules(name, schedule, language):
    for version in ({}, {"vector": False}, {"wide": True}):
        launches = lower_stock(name, schedule, instructions=language == "cuda", **version)
        assert difference(emit(launches, language), launches, language) is None


def test_a_swizzle_counts_rows_over_all_dimensions():
    tree = schedule_stock("hconv", "more_filters", parameters=(("TN", 8), ("TX", 4))).tree
    launches = lower(tree)
    text = emit(launches, "cuda")
    assert difference(text, launches, "cuda") is None
    row = "(((lane % 16 / 4) * 4 + lane % 4) & 7)"
    assert row in text
    assert difference(text.replace(row, "((lane % 4) & 7)"), launches, "cuda") is not None


ZEROS = """
kernel blur(X: f32[C, N], K: f32[C]) -> out: f32[N]:
    out[i] = sum[c]((X[c, i - 1] else 0) * K[c])

schedule s for blur():
    tile(i, 4) -> b, t
    tile(c, 3) -> co, ci
    order(b, co, t, ci)
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=co)
    pipeline(co, 2)
"""


@pytest.mark.parametrize("language", ["cuda", "opencl"])
def test_copies_with_zeros_outside(language):
    launches = lower(tree_from(ZEROS))
    text = emit(launches, language)
    assert difference(text, launches, language) is None
    for one, other in ((" - 1 < N", " - 2 < N"), ("i >= 1", "i >= 2"), ("i < N + 1", "i < N + 2"), ("[2]", "[1]")):
        if one in text:
            assert difference(text.replace(one, other), launches, language)


# Nothing is beyond the windows: the test of a round that sums nothing is one of the program's.
INSIDE = """
kernel moving(X: i32[N + 2], F: i32[3]) -> out: i32[N]:
    out[x] = sum[r](X[x + r] * F[r])

schedule s for moving():
    windows(X)
    round_up(r, 4)
    order(x, r)
    bind(x, block.x)
"""


def test_windows_that_lie_inside_are_read_under_a_test():
    launches = lower(tree_from(INSIDE))
    text = emit(launches, "cuda")
    assert difference(text, launches, "cuda") is None
    assert difference(text.replace("r < 3", "r < 4"), launches, "cuda") is not None


COPIED_BACK = """
kernel k(R: i32[N, N, 3]) -> t: i32[N, N]:
    t[i, j] = sum[r](R[i, j, r])

schedule s for k():
    tile(i, 2) -> bi, ti
    tile(j, 3) -> bj, tj
    order(bi, bj, r, ti, tj)
    collapse(ti, tj) -> pc
    bind(bi, block.y)
    bind(bj, block.x)
    bind(pc, thread.x)
    cache_shared(t, at=r)
"""


@pytest.mark.parametrize("language", ["cuda", "opencl"])
def test_a_place_has_its_name_once_in_a_block(language):
    """What a thread copies in and, in the same list, back: no barrier and no test is in between."""
    launches = lower(tree_from(COPIED_BACK))
    text = emit(launches, language)
    assert text.count("const int i = pc / 3;") == text.count("[i][j] = ") == 1
    assert difference(text, launches, language) is None
    (launch,) = launches
    twice = replace(launch, body=rewrite(launch.body, lambda v: (v, v) if isinstance(v, Let) else v))
    assert "names that a block declares, i, i, j, j" in difference(emit([twice], language), [twice], language)


@pytest.mark.parametrize("language", ["cuda", "opencl"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_without_a_schedule(path, language):
    module = parse(Source(path.name, path.read_text()))
    for kernel in module.kernels.values():
        assert wrong(tree_of(build(kernel)), language) is None


@pytest.mark.parametrize("language", ["cuda", "opencl"])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_vectors_of_halves(width, language):
    """CUDA has no vectors of them: arrays, moved as one integer."""
    assert wrong(tree_from(HALVES, parameters={"W": width}), language) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("__syncthreads();", ""),
        ("ko < (K + TS - 1) / TS", "ko <= (K + TS - 1) / TS"),
        ("bj * TS + tj < N", "bj * TS + tj <= N"),
        ("ko * TS + tj];", "ko * TS + ti];"),
        ("constexpr int TS = 4", "constexpr int TS = 8"),
        ("= threadIdx.x", "= threadIdx.y"),
        ("float A_shared[TS][TS]", "float A_shared[TS][TS + 1]"),
        ("= 0.0f", ""),
        ("int N)", "long long N)"),
        ("C_reg +=", "C_reg ="),
        ("if (bi * TS + ti < M && ", "if ("),
    ],
)
def test_a_changed_text_is_told(old, new):
    launches = lower(schedule_stock("gemm", "tiled", (), (("TS", 4),)).tree)
    text = emit(launches, "cuda")
    assert old in text
    assert difference(text.replace(old, new, 1), launches, "cuda") is not None


COUNTERS = [change for changes in place_faults.TEXT_FAULTS.values() for change in changes]


@pytest.mark.parametrize(("old", "new"), COUNTERS)
def test_a_changed_counter_of_a_ring_is_told(old, new):
    """Of a role, or of a group that takes turns; the program says numbers alone."""
    launches = lower(tree_from(CASES["turns"]))
    text = emit(launches, "cuda")
    found = list(re.finditer(old, text, re.M))
    assert found
    for at in found:
        changed = text[: at.start()] + re.sub(old, new, at.group(), flags=re.M) + text[at.end() :]
        assert difference(changed, launches, "cuda") is not None


LANES = """
kernel rows(X: f32[N, M]) -> out: f32[N]:
    out[i] = max[j](X[i, j])

schedule s for rows():
    tile(i, 4) -> b, t
    tile(j, 8) -> jo, ji
    order(b, t, jo, ji)
    bind(b, block.x)
    bind(t, thread.y)
    bind(ji, thread.x)
"""
EXCHANGES = {
    "cuda": [
        ("max_of_lanes<8>(", "max_of_lanes<4>("),
        ("max_of_lanes<8>", "min_of_lanes<8>"),
        (" : -INFINITY", " : 0.0f"),
    ],
    "opencl": [
        ("ji, 8,", "ji, 4,"),
        ("_of, t * 8", "_of, t * 4"),
        ("out_lanes_of[32]", "out_lanes_of[16]"),
        ("max_of_float_lanes(out", "min_of_float_lanes(out"),
        (" : -INFINITY", " : 0.0f"),
    ],
}


@pytest.mark.parametrize("language", EXCHANGES)
def test_lanes_that_combine(language):
    launches = lower(tree_from(LANES))
    text = emit(launches, language)
    assert difference(text, launches, language) is None
    for old, new in EXCHANGES[language]:
        assert old in text, text
        assert difference(text.replace(old, new, 1), launches, language) is not None, (old, new)


OF_INSTRUCTIONS = [
    ("registers exchanged", "{%0, %1", "{%1, %0"),
    ("a register twice", '"r"(A_registers[1])', '"r"(A_registers[0])'),
    ("registers of the other operand", "static_cast<const unsigned*>(B)", "static_cast<const unsigned*>(A)"),
    ("a sum that is not read", '"+f"(C[0])', '"=f"(C[0])'),
    ("not transposed", "x4.trans", "x4"),
    ("memory unknown to the compiler", '        : "memory");', "        :);"),
    ("registers out of line", "__align__(4) ", ""),
    ("rows out of line", " __align__(16)", ""),
    ("rows of other lanes", "w * 16 + lane % 16", "w * 16 + lane % 8"),
    ("the first fragment alone", "(C_reg[f],", "(C_reg[0],"),
    ("operands exchanged", "A_shared_reg, B_shared_reg[f]", "B_shared_reg[f], A_shared_reg"),
    ("another instruction", "    mma_m16n8k16_bf16(C_reg", "    mma_m16n8k16_f16(C_reg"),
    ("an instruction that is not there", "static __device__ __forceinline__ void mma", "// void mma"),
]


@pytest.mark.parametrize(
    ("old", "new"), [case[1:] for case in OF_INSTRUCTIONS], ids=[case[0] for case in OF_INSTRUCTIONS]
)
def test_a_changed_instruction(old, new):
    launches = lower(tree_from(LOADED))
    text = emit(launches, "cuda")
    assert difference(text, launches, "cuda") is None
    changed = text.replace(old, new, 1)
    assert changed != text
    assert difference(changed, launches, "cuda") is not None


OF_WARPGROUPS = [
    ("another distance of eight rows", "describe_128<1024, 0>(&As", "describe_128<2048, 0>(&As"),
    ("another distance of pieces", "describe_128<1024, 0>(&Bs", "describe_128<1024, 1024>(&Bs"),
    ("another swizzle", "describe_128<1024, 0>(&As", "describe_64<1024, 0>(&As"),
    ("another start", "[wi * 64][fk * 16]", "[wi * 64][fk * 8]"),
    ("another stage", "&Bs[ko % 4]", "&Bs[ko % 3]"),
    ("rows of another warpgroup", "&As[ko % 4][wi * 64]", "&As[ko % 4][0]"),
    ("no begin", "        begin_wgmma();\n", ""),
    ("no wait", "        complete_wgmma();\n", ""),
    ("registers not held", "        hold<32>(&Cf[0]);\n", ""),
    ("fewer registers held", "hold<32>(", "hold<16>("),
    ("no fence", "        fence_async();\n", ""),
    ("another number of the warpgroup", "uniform(threadIdx.y)", "uniform(threadIdx.z)"),
    ("shared memory out of line", "__align__(1024)", "__align__(16)"),
    ("another operand", '"l"(A)', '"l"(B)'),
    ("an accumulator that is not read", '"+f"(C[0])', '"=f"(C[0])'),
    ("B in rows along j", "add, 1, 1, 0, 0;", "add, 1, 1, 0, 1;"),
]


@pytest.mark.parametrize(("old", "new"), [case[1:] for case in OF_WARPGROUPS], ids=[case[0] for case in OF_WARPGROUPS])
def test_a_changed_product_of_a_warpgroup(old, new):
    launches = lower(tree_from(product("unroll(fk)", "pipeline(ko, 4)", rows=128)))
    text = emit(launches, "cuda")
    assert difference(text, launches, "cuda") is None
    changed = re.sub(re.escape(old), lambda _: new, re.sub(r"\n *0>\(", " 0>(", text), count=1)
    assert changed != re.sub(r"\n *0>\(", " 0>(", text)
    assert difference(changed, launches, "cuda") is not None
