"""Tensors that are read and written: one memory, judged, lowered and run."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.simulator.threads import faults, verdict
from tilegen import load
from tilegen.errors import ArgumentError, IllegalStep
from tilegen.interpreter import reference, run
from tilegen.ir.written import tree_of
from tilegen.lab.checks.check import cases, check
from tilegen.lowering import lower
from tilegen.lowering.launch.timelines import Barrier
from tilegen.proof import prove

ADD = "kernel add(x: f32[N], y: f32[N]) -> y: f32[N]:\n    y[i] = x[i] + 2 * y[i]\n"
# What is kept of the old values decides what the new ones are.
TURN = "kernel turn(C: f32[64]) -> C: f32[64]:\n    var t: f32[64]\n    t[i] = C[63 - i]\n    C[i] = C[i] - t[i]\n"
AHEAD = "kernel ahead(C: i32[N]) -> C: i32[N]:\n    var t: i32[N]\n    t[i] = C[i + 1] else 0\n    C[i] = C[i] + t[i]\n"
LOWER = "kernel part(A: i32[N, N], C: i32[N, N]) -> C: i32[N, N]:\n    C[i, j] = A[i, j] - C[i, j] for j <= i\n"
AFTER = """
kernel after(x: i32[N], C: i32[N]) -> C: i32[N], D: i32[N]:
    C[i] = x[i] + C[i] for i >= 2
    D[i] = sum[j](C[j] * x[i])
"""
GEMM = """
kernel gemm(alpha: f32, A: f32[M, K], B: f32[K, N], beta: f32, C: f32[M, N]) -> C: f32[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](A[i, k] * B[k, j])
    C[i, j] = alpha * P[i, j] + beta * C[i, j]

schedule fused for gemm(T=16):
    fuse(P.i, C.i) -> i
    fuse(P.j, C.j) -> j
    tile(i, T) -> bi, ti
    tile(j, T) -> bj, tj
    tile(k, T) -> ko, ki
    order(bi, bj, ko, ti, tj, ki)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    cache_register(P, at=bj)
    cache_shared(A, at=ko)
    cache_shared(B, at=ko)
"""


def schedule_steps(text, *steps):
    found = load(text).kernel().schedule()
    for word, *arguments in steps:
        keywords = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        found = found.step(word, *arguments, **keywords)
    return found


def in_one_block(text):
    """Both nests by 64 threads of one block."""
    return schedule_steps(
        text,
        ("tile", "t.i", 64, {"into": ("b", "ti")}),
        ("tile", "C.i", 64, {"into": ("c", "ci")}),
        ("fuse", "b", "c", {"into": "b"}),
        ("bind", "b", "block.x"),
        ("bind", "ti", "thread.x"),
        ("bind", "ci", "thread.x"),
        ("cache_shared", "t", {"at": "b"}),
    )


def test_the_text_has_one_pointer_that_is_read_and_written(golden):
    golden(load(GEMM).schedule("fused").source(), "gemm_alpha_beta_fused.cu")


def test_a_launch_that_only_reads_has_a_constant_pointer():
    text = schedule_steps(TURN).source()
    assert "turn_t(const float* __restrict__ C, float* __restrict__ t)" in text
    assert "turn_C(float* __restrict__ C, const float* __restrict__ t)" in text


def test_a_barrier_keeps_reads_of_old_values_ahead_of_writes_by_other_threads():
    found = in_one_block(TURN)
    assert "__syncthreads();  // C is read above, overwritten below" in found.source()
    launches = lower(found.tree)
    assert prove(found.kernel, launches).verdict == "proved"
    assert faults(launches, found.tree, {}) is None


def test_the_proof_and_the_simulation_miss_that_barrier():
    found = in_one_block(TURN)
    (launch,) = lower(found.tree)
    without = replace(launch, body=tuple(node for node in launch.body if not isinstance(node, Barrier)))
    assert len(without.body) < len(launch.body)
    proof = prove(found.kernel, (without,))
    assert proof.verdict.startswith("refused")
    assert "C" in proof.violation.violation.sentence
    assert faults((without,), found.tree, {}) == "race"


@pytest.mark.parametrize(
    ("text", "sizes"),
    [(ADD, {"N": 5}), (TURN, {}), (AHEAD, {"N": 4}), (LOWER, {"N": 3}), (AFTER, {"N": 4}),
     (GEMM, {"M": 3, "N": 2, "K": 4})],
)  # fmt: skip
def test_interpreter_enumeration_and_simulation_agree_on_the_kernel_as_written(text, sizes):
    kernel = load(text).kernel().ir
    tree = tree_of(kernel)
    rng = np.random.default_rng(3)
    arrays = {}
    for name in kernel.parameters:
        if name in [s.name for s in kernel.scalars]:
            arrays[name] = np.float32(rng.integers(1, 4))
            continue
        tensor = kernel.tensor(name)
        shape = [e.evaluate(sizes) for e in tensor.shape]
        arrays[name] = rng.integers(-5, 5, shape).astype(np.float32 if tensor.dtype == "f32" else np.int32)
    expected = reference(kernel, sizes, arrays)
    for name, values in run(tree, sizes, arrays).items():
        assert expected[name].written.all()
        assert np.array_equal(values, expected[name].value)
    assert verdict(tree, sizes) is None
    assert faults(lower(tree), tree, sizes) is None


@pytest.mark.pocl
@pytest.mark.parametrize("text", [ADD, TURN, AHEAD, LOWER, AFTER, GEMM])
def test_checked_on_a_device(text):
    found = schedule_steps(text)
    sizes = [dict.fromkeys(found.kernel.sizes, n) for n in (1, 6)]
    check(found.compile("cpu"), cases(found.kernel, sizes))


@pytest.mark.pocl
@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_a_call_writes_into_the_array_and_returns_it(device):
    program = load(GEMM).schedule("fused").compile(device)
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((33, 17), (17, 40), (33, 40)))
    wanted = 2 * a @ b - 3 * c
    result = program(2, a, b, -3, c)
    assert result is c
    assert np.array_equal(c, wanted)
    named = program(A=a, alpha=1, B=b, beta=1, C=c)
    assert named is c
    assert np.array_equal(c, wanted + a @ b)


@pytest.mark.pocl
def test_what_an_update_leaves_out_stays_as_it_was():
    program = schedule_steps(LOWER).compile("cpu")
    a, c = np.full((3, 3), 7, np.int32), np.arange(9, dtype=np.int32).reshape(3, 3)
    assert program(a, c).tolist() == [[7, 1, 2], [4, 3, 5], [1, 0, -1]]


@pytest.mark.pocl
def test_arrays_that_cannot_be_updated():
    program = schedule_steps(ADD).compile("cpu")
    x = np.ones(8, np.float32)
    fixed = np.ones(8, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match="y is read-only"):
        program(x, fixed)
    with pytest.raises(ArgumentError, match="share memory, and y is written to"):
        program(x, x)
    with pytest.raises(ArgumentError, match="y is not contiguous"):
        program(x, np.ones(16, np.float32)[::2])
    with pytest.raises(ArgumentError, match="needs the array y"):
        program(x)
    with pytest.raises(ArgumentError, match="y is given twice"):
        program(x, x, y=x)


def test_a_copy_of_the_old_values_made_by_a_launch_of_its_own_frees_the_nests():
    text = "kernel turn(C: i32[N]) -> C: i32[N]:\n    var t: i32[N]\n    t[i] = C[N - 1 - i]\n    C[i] = C[i] - t[i]\n"
    one_nest = ("fuse", "t.i", "C.i", {"into": "i"})
    with pytest.raises(IllegalStep, match="overwritten before its old value is read"):
        schedule_steps(text, one_nest)
    kept = schedule_steps(text, ("cache_global", "C.old", ["i"]), one_nest, ("bind", "i", "block.x"))
    assert verdict(kept.tree, {"N": 5}) is None
    assert "const int* __restrict__ C_old_global" in kept.source()


def test_the_judge_refuses_what_enumeration_finds_wrong():
    from tilegen.judge import judge

    tree = schedule_steps(AHEAD).tree
    backwards = replace(tree, body=tree.body[::-1])
    assert judge(backwards) is not None
    # With t computed first all is well; one nest that runs after in the same loop reads what is overwritten.
    late = schedule_steps(AHEAD, ("fuse", "t.i", "C.i", {"into": "i"})).tree
    assert judge(late) is None
    text = AHEAD.replace("C[i + 1]", "C[i - 1]")
    one, two = schedule_steps(text).tree.body
    (loop,) = late.body
    fused = replace(loop, body=tuple(replace_names(node, loop.name) for node in (one.body[0], two.body[0])))
    wrong = replace(schedule_steps(text).tree, body=(fused,))
    assert "overwritten before its old value is read" in judge(wrong).sentence
    assert verdict(wrong, {"N": 4}) == "values"


def replace_names(stmt, loop):
    """The statement in a loop of this name."""
    from tilegen.ir.affine import var
    from tilegen.ir.walk import substitute

    return substitute(stmt, {"t.i": var(loop), "C.i": var(loop)})
