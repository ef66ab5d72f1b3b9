"""An instruction that takes tf32 values is given such: the kernel says where they are rounded, and the judge asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.cover import first
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.compiler import nvrtc
from tilegen.backends.devices.devices import engine, program
from tilegen.backends.text import emit
from tilegen.errors import IllegalStep, StepError
from tilegen.ir.comparison.tolerance import tolerance_of
from tilegen.ir.nodes import Const, Expr, Op
from tilegen.ir.walk import rewrite
from tilegen.judge import judge
from tilegen.lab.checks.check import cases, check
from tilegen.lowering import lower
from tilegen.lowering.launch.program import Perform
from tilegen.proof import prove

IN_THE_PRODUCT = """
kernel gemm_tf32(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](tf32(A[i, k]) * tf32(B[k, j]))

schedule s for gemm_tf32:
    round_up(k, 16)
    tile(i, 32) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(k, 16) -> ko, ki
    tile(ti, 16) -> wi, i16
    tile(tj, 8) -> fj, j8
    tile(ki, 8) -> fk, k8
    order(bi, bj, ko, wi, fk, fj, i16, j8, k8)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.y)
    cache_register(C, at=bj, vector=2)
    cache_shared(A, at=ko, vector=4)
    cache_shared(B, at=ko, vector=4)
    cache_register(A.shared, at=fk)
    cache_register(B.shared, at=fk)
    tensorize(i16, j8, k8, by=mma_m16n8k8_tf32)
    tensorize(i16, k8, by=ldmatrix_a_tf32)
    pipeline(ko, 2)
"""
IN_EQUATIONS = """
kernel gemm_tf32(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    var P: f32[M, K]
    var Q: f32[K, N]
    P[i, k] = tf32(A[i, k])
    Q[k, j] = tf32(B[k, j])
    C[i, j] = sum[k](P[i, k] * Q[k, j])

schedule s for gemm_tf32:
    round_up(C.k, 16)
    tile(C.i, 32) -> bi, ti
    tile(C.j, 32) -> bj, tj
    tile(C.k, 16) -> ko, ki
    tile(ti, 16) -> wi, i16
    tile(tj, 8) -> fj, j8
    tile(ki, 8) -> fk, k8
    order(bi, bj, ko, wi, fk, fj, i16, j8, k8)
    compute_at(P, at=fk)
    compute_at(Q, at=fj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.y)
    cache_register(C, at=bj, vector=2)
    cache_register(P, at=fk)
    cache_register(Q, at=fj)
    cache_shared(A, at=ko, vector=4)
    cache_shared(B, at=ko, vector=4)
    tensorize(i16, j8, k8, by=mma_m16n8k8_tf32)
    pipeline(ko, 2)
"""
STORED = """
kernel gemm_tf32(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    var P: f32[M, K]
    var Q: f32[K, N]
    P[r, c] = tf32(A[r, c])
    Q[r, c] = tf32(B[r, c])
    C[i, j] = sum[k](P[i, k] * Q[k, j])

schedule s for gemm_tf32:
    round_up(k, 16)
    cache_global(P, layout=[r, c], tiles=[32, 16])
    cache_global(Q, layout=[c, r], tiles=[32, 16])
    bind(P.r, block.x)
    order(Q.c, Q.r)
    bind(Q.c, block.x)
    tile(i, 32) -> bi, ti
    tile(j, 32) -> bj, tj
    tile(k, 16) -> ko, ki
    tile(ti, 16) -> wi, i16
    tile(tj, 16) -> fj, jn
    tile(jn, 8) -> nj, j8
    tile(ki, 8) -> fk, k8
    order(bi, bj, ko, wi, fk, fj, nj, i16, j8, k8)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.y)
    cache_register(C, at=bj, vector=2)
    cache_shared(P, at=ko, vector=4)
    cache_shared(Q, at=ko, vector=4)
    cache_register(P.shared, at=fk)
    cache_register(Q.shared, at=fk)
    tensorize(i16, j8, k8, by=mma_m16n8k8_tf32)
    tensorize(i16, k8, by=ldmatrix_a_tf32)
    tensorize(k8, nj, j8, by=ldmatrix_b_tf32)
    pipeline(ko, 2)
"""
CUT_OFF = IN_THE_PRODUCT.replace("tf32(A[", "tf32_rz(A[").replace("tf32(B[", "tf32_rz(B[")
CUT_OFF = CUT_OFF.replace("by=mma_m16n8k8_tf32", "by=mma_m16n8k8_tf32_rz")
TEXTS = {"product": IN_THE_PRODUCT, "equations": IN_EQUATIONS, "stored": STORED, "cut off": CUT_OFF}
FORMS = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


@FORMS
def test_all_versions_are_proved(text: str) -> None:
    tree = tree_from(text)
    needing = [loop for launch in lower(tree) for loop in launch.needs]
    for scalarized in dict.fromkeys((frozenset[str](), frozenset(needing))):
        assert prove(tree.kernel, lower(tree, scalarized=scalarized), tree.reassociated).verdict == "proved"


def test_the_proof_asks_what_is_rounded() -> None:
    tree = tree_from(IN_THE_PRODUCT)
    (launch,) = lower(tree)

    def forget(value: object) -> object:
        return replace(value, rounded=value.rounded[1:]) if isinstance(value, Perform) else value

    violation = prove(tree.kernel, (replace(launch, body=rewrite(launch.body, forget)),), tree.reassociated).violation
    assert violation is not None
    assert "is given other operands rounded" in violation.violation.sentence


@FORMS
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.nvrtc
def test_it_compiles(text: str, arch: str) -> None:
    compiled = nvrtc.compile_text(emit(lower(tree_from(text)), "cuda"), arch).resources.values()
    assert [each.spills for each in compiled] == [0 for _ in lower(tree_from(text))]


def passes_its_check(text: str, device: str) -> bool:
    tree = tree_from(text)
    sizes = [{"M": 64, "K": 48, "N": 96}, {"M": 37, "K": 21, "N": 50}]
    return bool(check(program(tree, engine(device)), cases(tree.kernel, sizes, tolerance_of(tree))))


@FORMS
@pytest.mark.pocl
def test_it_is_right_on_the_cpu(text: str) -> None:
    assert passes_its_check(text, "cpu")


@FORMS
@pytest.mark.gpu
def test_it_is_right_on_a_gpu(text: str) -> None:
    assert passes_its_check(text, "cuda")


def test_each_fragment_is_rounded_where_the_product_says_so() -> None:
    text = emit(lower(tree_from(IN_THE_PRODUCT)), "cuda")
    assert "tf32_fragment<4>(A_shared_reg).values" in text
    assert "tf32_fragment<2>(B_shared_reg[fj]).values" in text
    text = emit(lower(tree_from(IN_EQUATIONS)), "cuda")
    assert "tf32_fragment" not in text
    assert "round_tf32(A_shared[" in text
    text = emit(lower(tree_from(STORED)), "cuda")
    assert "round_tf32(" not in text[text.index("gemm_tf32_C(") :]
    assert "round_tf32(A[" in text
    assert "ldmatrix_b_tf32(Q_shared_reg" in text


def test_nothing_is_left_to_do_where_the_product_cuts_off() -> None:
    text = emit(lower(tree_from(CUT_OFF)), "cuda")
    assert "mma_m16n8k8_tf32_rz(C_reg" in text
    assert "cut_off_tf32" not in text
    assert "tf32_fragment" not in text


@pytest.mark.parametrize("text", first(TEXTS.values()), ids=TEXTS)
def test_the_text_reads_back_and_the_simulator_runs_it(text: str) -> None:
    tree = tree_from(text)
    launches = lower(tree)
    assert difference(emit(launches, "cuda"), launches, "cuda") is None
    assert not faults(launches, tree, {"M": 33, "N": 36, "K": 20})


def test_a_text_that_forgets_to_round_does_not_read_back() -> None:
    launches = lower(tree_from(IN_THE_PRODUCT))
    text = emit(launches, "cuda")
    for old, new in (
        ("tf32_fragment<4>(A_shared_reg).values", "A_shared_reg"),
        ("tf32_fragment<2>", "tf32_fragment<1>"),
    ):
        assert "round" in str(difference(text.replace(old, new), launches, "cuda"))


def test_the_simulator_finds_what_is_not_rounded() -> None:
    tree = tree_from(IN_THE_PRODUCT)

    def forget(value: object) -> object:
        return replace(value, rounded=value.rounded[1:]) if isinstance(value, Perform) else value

    launches = [replace(launch, body=rewrite(launch.body, forget)) for launch in lower(tree)]
    assert faults(launches, tree, {"M": 32, "N": 32, "K": 16})


@pytest.mark.parametrize(
    ("text", "old", "new", "held", "source"),
    [
        (IN_THE_PRODUCT, "tf32(A[i, k])", "A[i, k]", "A.shared.reg", "A"),
        (IN_THE_PRODUCT, "tf32(B[k, j])", "B[k, j]", "B.shared.reg", "B"),
        (IN_EQUATIONS, "= tf32(A[i, k])", "= A[i, k]", "P.reg", "A"),
        (IN_EQUATIONS, "= tf32(B[k, j])", "= 2 * tf32(B[k, j])", "Q.reg", "Q.reg"),
        (IN_EQUATIONS, "= tf32(B[k, j])", "= (tf32(B[k, j]) if k > 3 else 0.1)", "Q.reg", "Q.reg"),
        (STORED, "= tf32(A[r, c])", "= A[r, c]", "P.shared.reg", "A"),
        (STORED, "= tf32(B[r, c])", "= 2 * tf32(B[r, c])", "Q.shared.reg", "Q"),
    ],
)
def test_nothing_is_rounded_silently(text: str, old: str, new: str, held: str, source: str) -> None:
    assert old in text
    with pytest.raises(IllegalStep) as caught:
        tree_from(text.replace(old, new))
    assert f"'mma_m16n8k8_tf32' takes tf32 values, and '{held}' has others" in str(caught.value)
    assert caught.value.witness == f"the values of '{source}' are not rounded to tf32"


@pytest.mark.parametrize(("old", "new"), [("tf32_rz(A[i, k])", "A[i, k]"), ("tf32_rz(B[k, j])", "tf32(B[k, j])")])
def test_nothing_is_cut_off_silently(old: str, new: str) -> None:
    with pytest.raises(StepError) as caught:
        tree_from(CUT_OFF.replace(old, new))
    assert "computes C[i, j] += sum[k](tf32_rz(A[i, k]) * tf32_rz(B[k, j]))" in str(caught.value)


def test_numbers_that_were_cut_off_have_the_format() -> None:
    assert tree_from(IN_EQUATIONS.replace("= tf32(B[k, j])", "= tf32_rz(B[k, j])"))


def test_constants_of_ten_fraction_bits_need_no_rounding() -> None:
    assert tree_from(IN_EQUATIONS.replace("= tf32(B[k, j])", "= (tf32(B[k, j]) if k > 3 else 0.125)"))


def test_a_stored_copy_has_rounded_values_alone() -> None:
    """What is beyond the tensor has to have the format, too, as the zeros of whole tiles have."""
    tree = tree_from(STORED)

    def spoil(value: object) -> object:
        match value:
            case Op("select", (test, Op("tf32") as kept, Const(0))):
                other: tuple[Expr, ...] = (test, kept, Const(0.1, "f32"))
                return replace(value, args=other)
            case _:
                return value

    body = rewrite(tree.body, spoil)
    assert body != tree.body
    kernel = replace(tree.kernel, equations=rewrite(tree.kernel.equations, spoil))
    for changed in (replace(tree, body=body), replace(tree, body=body, kernel=kernel)):
        assert judge(changed) is not None


def test_the_judge_looks_at_every_statement_that_writes() -> None:
    tree = tree_from(IN_EQUATIONS)

    def spoil(value: object) -> object:
        match value:
            case Op("select", (test, Op("tf32") as kept, Const(0))) if "B.shared" in str(kept):
                other: tuple[Expr, ...] = (test, kept, Const(0.1, "f32"))
                return replace(value, args=other)
            case _:
                return value

    changed = replace(tree, body=rewrite(tree.body, spoil))
    assert changed != tree
    assert judge(tree) is None
    assert judge(changed) is not None
