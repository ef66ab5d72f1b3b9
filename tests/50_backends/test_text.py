"""The emitted text: read by people, so some of it is kept as it is; compiled and run for the rest."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cover import each_stock_schedule
from tests.support.stock import lower_stock, schedule_stock
from tests.support.stored import as_called
from tests.support.written import tree_from
from tilegen.backends.compiler.architectures import compiled_architecture, features_of, instructions_of
from tilegen.backends.text import emit
from tilegen.backends.text.values.dialect import CUDA
from tilegen.backends.text.values.expr import Writer
from tilegen.backends.text.wrap import LONGEST, wrap_line
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.interpreter import reference
from tilegen.interpreter.dtypes import from_values, to_values
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Condition
from tilegen.ir.parts.swizzle import Swizzle
from tilegen.lowering import lower
from tilegen.schedule import apply, start

GOLDEN = [
    ("vector_add", "plain"), ("chain", "fused_vector"), ("chain", "fast"), ("chain", "fused_block"),
    ("chain", "fused_launch"), ("conv1d", "shared"),
    ("transpose", "padded"), ("transpose", "swizzled"), ("transpose", "vectors"), ("permute", "tiled"),
    ("nbody", "coarsened"), ("gemm", "tiled"), ("gemm", "registers"),
    ("matching", "fused"), ("softmax", "blocks"), ("row_argmax", "warps"),
    ("total", "atomic"), ("syrk", "tiled"), ("syrk", "registers"),
    ("gemm_batched", "tiled"), ("stencils", "fused"), ("gemm", "naive"), ("gemm", "coarsened"), ("gemm", "wider"),
    ("gemm", "rectangular"), ("gemm", "warps"), ("gemm", "pipelined"), ("gemm", "across"), ("gemm", "transposed"),
    ("gemm", "padded"), ("gemm", "split_parts"),
    ("conv1x1", "product"), ("conv2d", "patches"), ("conv2d_winograd", "products"),
    ("gemm_split", "split_k"), ("gemm_bias_gelu", "fused"), ("layer_norm", "blocks"), ("matching_dot", "across"),
    ("hgemm", "fragments"), ("hgemm", "swizzled"), ("hgemm", "overlapped"), ("hgemm", "staged"),
    ("hgemm", "cut_off"), ("hgemm", "stored"), ("hgemm", "turned_in_pairs"), ("hgemm", "bulk_stores"),
    ("hgemm", "clusters"), ("hgemm", "launched_early"), ("hgemm", "decoding"), ("hgemm", "batched"),
    ("hgemm", "ping_pong"), ("epilogues", "gated"), ("matching_products", "fused"),
    ("hconv", "warps"), ("hconv", "whole_boxes"), ("hconv", "rows_of_boxes"), ("hconv", "pixels"),
    ("gemm_pieces", "two_f16"),
    ("nbody", "split"), ("row_sum", "blocks"), ("vector_add", "vector"), ("blur", "fused"), ("scan", "warps"),
    ("scan", "blocks"), ("keypoints", "columns"), ("compaction", "coarsened"),
    ("compaction_ordered", "look_back"), ("recurrence", "vectors"), ("topk", "blocks"),
]  # fmt: skip
GOLDEN_FILES = Path(__file__).parent.parent / "golden"
KINDS = """
kernel halves(A: f16[M, K], B: f16[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
---
kernel brain(A: bf16[N], B: bf16[N]) -> C: bf16[N]:
    C[i] = A[i] * B[i]
---
kernel bytes(A: i8[M, K], B: i8[K, N]) -> C: i32[M, N]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
---
kernel doubles(A: f64[N]) -> B: f64[N]:
    B[i] = sqrt(abs(A[i])) + max(A[i], 0.0) + 1.0
---
kernel gelu(A: f32[M, N], b: f32[N]) -> C: f32[M, N]:
    C[i, j] = 0.5 * (A[i, j] + b[j]) * (1.0 + erf((A[i, j] + b[j]) * 0.7071))
---
kernel triangle(A: f32[N, K]) -> C: f32[N, N]:
    C[i, j] = sum[k](A[i, k] * A[j, k]) for j <= i
---
kernel peak(X: f32[M, N]) -> best: i32[M]:
    best[i] = argmax[j](X[i, j])
---
kernel blur(X: f32[H, W]) -> Y: f32[H, W]:
    Y[y, x] = 0.25 * ((X[y - 1, x] else 0) + (X[y + 1, x] else 0) + (X[y, x - 1] else 0) + (X[y, x + 1] else 0))
---
kernel pick(X: f32[N]) -> Y: f32[N]:
    Y[i] = select(X[i] > 0.5 and X[i] < 1.0, X[i], -X[i])
"""


def kernels():
    texts = [text.strip() for text in KINDS.split("---")]
    return {t.split("(")[0].split()[1]: t for t in texts}


def apply_steps(text, steps=()):
    """The kernel's text with a schedule of the given steps applied."""
    body = "\n".join(f"    {s}" for s in steps)
    name = text.split("(")[0].split()[1]
    module = parse(Source("test.tg", f"{text}\n\nschedule s for {name}():\n{body}\n" if steps else text))
    kernel = build(module.kernels[name])
    return apply(kernel, module.schedules[0]) if steps else start(kernel)


@pytest.mark.parametrize(("name", "schedule"), GOLDEN)
def test_cuda_text_is_as_reviewed(name, schedule, golden):
    golden(emit(lower(schedule_stock(name, schedule).tree), "cuda"), f"{name}_{schedule}.cu")


@pytest.mark.parametrize(("name", "schedule"), [("gemm", "registers"), ("row_argmax", "warps"), ("total", "atomic")])
def test_opencl_text_is_as_reviewed(name, schedule, golden):
    golden(emit(lower(schedule_stock(name, schedule).tree), "opencl"), f"{name}_{schedule}.cl")


@each_stock_schedule
def test_text_is_tidy(name, schedule):
    for vector in (True, False):
        text = emit(lower_stock(name, schedule, vector=vector), "cuda")
        lines = text.splitlines()
        assert all(line == line.rstrip() and "\t" not in line for line in lines)
        assert not any(a == b == "" for a, b in zip(lines, lines[1:], strict=False))
        assert text.count("{") == text.count("}")
        for entry in text.split('extern "C"'):
            comments = re.findall(r"^ *(// .*->.*)", entry, re.MULTILINE)
            assert len(comments) == len(set(comments)), "an entry point names a step once"


@pytest.mark.nvrtc
@pytest.mark.usefixtures("quick_compiler")
@each_stock_schedule
def test_a_schedule_compiles_for_whole_tiles(name, schedule):
    """One of tensor cores on every architecture that has its instructions, another one on one."""
    from tilegen.backends.compiler.nvrtc import compile_text

    launches = lower_stock(name, schedule, whole=True)
    found = instructions_of(launches)
    known = ("sm_90", "sm_100") if features_of(launches) else ("sm_80", "sm_89", "sm_90", "sm_100")
    archs = [arch for arch in known if all(each.runs_on(arch) for each in found)]
    for arch in archs if found and archs else [compiled_architecture(found, "sm_90")]:
        assert set(compile_text(emit(launches, "cuda"), arch).resources) == {launch.name for launch in launches}


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", kernels())
@pytest.mark.parametrize("wide", [False, True])
def test_every_dtype_and_function_compiles(name, wide):
    from tilegen.backends.compiler.nvrtc import compile_text

    compile_text(emit(lower(apply_steps(kernels()[name]).tree, wide=wide), "cuda"), "sm_80")


def arrays_of(kernel, sizes):
    rng = np.random.default_rng(7)
    arrays = {}
    for tensor in kernel.tensors:
        if tensor.role != "input":
            continue
        shape = [e.evaluate(sizes) for e in tensor.shape]
        match tensor.dtype:
            case "i8":
                arrays[tensor.name] = rng.integers(-9, 9, shape).astype(np.int8)
            case dtype:
                arrays[tensor.name] = from_values(rng.normal(size=shape), dtype)
    return arrays


def run_on_pocl(scheduled_kernel, sizes):
    from tilegen.backends.calls.device_program import Program
    from tilegen.backends.devices.opencl import OpenclEngine

    kernel = scheduled_kernel.kernel
    arrays = arrays_of(kernel, sizes)
    expected = reference(kernel, sizes, arrays)
    (output,) = [t for t in kernel.tensors if t.role == "output"]
    got = Program(scheduled_kernel.tree, OpenclEngine())(**as_called(kernel, arrays))
    wanted = expected[output.name]
    got = to_values(got, output.dtype)
    wrong = wanted.written & (np.abs(got - wanted.value) > wanted.bound)
    assert not wrong.any(), (got[wrong][:3], wanted.value[wrong][:3])


@pytest.mark.pocl
@pytest.mark.parametrize("name", kernels())
def test_every_dtype_and_function_runs(name):
    scheduled_kernel = apply_steps(kernels()[name])
    run_on_pocl(scheduled_kernel, {size: 5 + 2 * n for n, size in enumerate(scheduled_kernel.kernel.sizes)})


BLOCKED = ("tile(i, 16) -> bi, ti", "bind(bi, block.x)", "bind(ti, thread.x)")


@pytest.mark.pocl
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("peak", (*BLOCKED, "cache_register(best.best, at=ti)", "cache_register(best, at=ti)")),
        ("triangle", ("tile(i, 8) -> bi, ti", "tile(j, 8) -> bj, tj", "order(bi, bj, ti, tj)", "bind(bi, block.y)",
                      "bind(bj, block.x)", "bind(ti, thread.y)", "bind(tj, thread.x)", "cache_register(C, at=tj)")),
        ("blur", ("tile(y, 8) -> by, ty", "tile(x, 16) -> bx, tx", "order(by, bx, ty, tx)", "bind(by, block.y)",
                  "bind(bx, block.x)", "bind(ty, thread.y)", "bind(tx, thread.x)", "cache_shared(X, at=bx)")),
        ("halves", ("tile(i, 8) -> bi, ti", "tile(j, 16) -> bj, tj", "tile(k, 8) -> ko, ki",
                    "order(bi, bj, ko, ti, tj, ki)", "bind(bi, block.y)", "bind(bj, block.x)", "bind(ti, thread.y)",
                    "bind(tj, thread.x)", "cache_register(C, at=bj)", "cache_shared(A, at=ko, vector=2)",
                    "cache_shared(B, at=ko, vector=4)")),
        ("bytes", ("tile(i, 8) -> bi, ti", "tile(j, 16) -> bj, tj", "tile(k, 16) -> ko, ki",
                   "order(bi, bj, ko, ti, tj, ki)", "bind(bi, block.y)", "bind(bj, block.x)", "bind(ti, thread.y)",
                   "bind(tj, thread.x)", "cache_register(C, at=bj)", "cache_shared(A, at=ko, vector=16)",
                   "cache_shared(B, at=ko, layout=[j, k], vector=8)")),
        ("brain", ("tile(i, 8) -> i, v", "vectorize(v)", *BLOCKED)),
        ("doubles", ("tile(i, 2) -> i, v", "vectorize(v)", *BLOCKED)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("unit", [1, 16])
def test_scheduled_kernels_run(name, steps, unit):
    """At odd sizes without vectors, and at multiples of 16 with them."""
    scheduled_kernel = apply_steps(kernels()[name], steps)
    run_on_pocl(scheduled_kernel, {size: (3 + 2 * n) * unit for n, size in enumerate(scheduled_kernel.kernel.sizes)})


def test_long_lines_are_broken_at_what_binds_least_and_aligned():
    """Arguments stand below the first one, or below the call; a product of short factors
    stays whole while a sum can be broken."""
    row, column = (" + ".join(f"{name}{n} * 16" for n in range(8)) for name in ("i", "j"))
    assert wrap_line(f"    store(&C[({row} + vi) * N + {column} + vj], registers);") == [
        "    store(",
        f"        &C[({row} + vi) * N + j0 * 16 + j1 * 16",
        "           + j2 * 16 + j3 * 16 + j4 * 16 + j5 * 16 + j6 * 16 + j7 * 16 + vj],",
        "        registers);",
    ]
    assert wrap_line(f"    copy(&As[{row}], &A[{row}]);") == [f"    copy(&As[{row}],", f"         &A[{row}]);"]
    assert wrap_line(f"    bool full = {row} < M && {column} < N;") == [
        "    bool full =",
        f"        {row} < M",
        f"        && {column} < N;",
    ]
    assert wrap_line(f"    F += mass[{row}] * (P[{column} + d] - Q[w]);") == [
        "    F +=",
        f"        mass[{row}]",
        f"        * (P[{column} + d] - Q[w]);",
    ]


@pytest.mark.parametrize("deeper", [40, 80])
def test_broken_lines_have_the_words_of_the_line(deeper):
    for path in GOLDEN_FILES.glob("*.cu"):
        for line in path.read_text().splitlines():
            if not line.lstrip().startswith("//"):
                broken = wrap_line(" " * deeper + line)
                assert "".join(broken).replace(" ", "") == line.replace(" ", ""), line
            # Only what stands in one line for good is longer: a head, a comment after code, a text in quotes.
            assert len(line) <= LONGEST or re.search(r"//|^ *for |__device__|\"memory\"", line), f"{path.name}: {line}"


def test_a_comment_behind_code_is_not_broken():
    """What would stand on a line of its own would be code."""
    line = "    barrier(CLK_LOCAL_MEM_FENCE);  // " + ", ".join(f"X{n}.shared" for n in range(12)) + " are complete"
    assert wrap_line(line) == [line]


def affines():
    atoms = st.tuples(st.sampled_from("ijk"), st.sampled_from([1, 2, 3, 4, 8, 16, 32, 64]))
    return st.tuples(st.lists(atoms, max_size=3), st.integers(0, 70)).map(
        lambda t: sum((var(name) * factor for name, factor in t[0]), const(t[1]))
    )


@given(
    affines(), affines(), *(st.sampled_from([1, 2, 4, 8]) for _ in range(3)), st.lists(st.integers(0, 99), min_size=3)
)
def test_the_place_in_a_swizzled_row_is_what_is_printed(row, column, unit, count, rows, values):
    """C and Python agree on the operators, their precedence among them."""
    swizzle, names = Swizzle(unit, count, rows), dict(zip("ijk", values, strict=False))
    text = Writer(CUDA, {name: name for name in names}, {}, False).swizzle(swizzle, row, column)
    assert eval(text, {}, names) == swizzle.column(row.evaluate(names), column.evaluate(names))


def test_a_test_and_an_index_of_the_same_value_have_texts_of_their_own():
    value = var("i") + var("j") - 1
    writer = Writer(CUDA, {"i": "i", "j": "j"}, {}, False)
    assert writer.index(value) == "i + j - 1"
    assert writer.condition(Condition(value)) == "i + j >= 1"
    assert writer.index(value) == "i + j - 1"


def test_the_head_names_an_updated_array_of_which_boxes_have_the_old_values():
    tree = tree_from("""
kernel shifted(A: f32[N]) -> A: f32[N]:
    var t: f32[N]
    t[i] = (A[i + 1] else 0)
    A[i] = t[i] + A[i]
schedule boxes for shifted():
    tile(t.i, 16) -> b, u
    bind(b, block.x)
    bind(u, thread.x)
    cache_shared(A.old, at=b)
    bulk(A.old.shared)
""")
    assert "// arrays A[N], t[N]; t overlaps no other\n" in emit(lower(tree), "cuda")


SHARED_ROW = """kernel scaled(X: f32[M, N]) -> s: f32[M], Y: f32[M, N]:
    s[i] = max[j](X[i, j])
    Y[i, j] = X[i, j] / s[i]

schedule rows for scaled():
    fuse(s.i, Y.i) -> i
    tile(Y.j, 32) -> o, t
    bind(i, block.x)
    bind(t, thread.x)
"""


@pytest.mark.parametrize(("language", "word"), [("cuda", "__restrict__"), ("opencl", "restrict")])
def test_no_compiler_may_read_before_a_barrier_what_another_thread_writes(language, word):
    """By a restricted pointer nvcc did: no other thread could have written there."""
    text = emit(lower(tree_from(SHARED_ROW)), language)
    assert "s is complete: written above, read below" in text
    assert f"float* {word} X" in text
    assert "float* s" in text
    assert f"float* {word} s" not in text
