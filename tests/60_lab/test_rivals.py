"""Which call of a library is set beside a kernel, and what is said of it; without torch and without a GPU."""

from __future__ import annotations

import pytest

from tilegen.api import load
from tilegen.lab.convolution import as_convolution
from tilegen.lab.products import Addend, as_product
from tilegen.lab.rivals import FLAGS, Rival, rivals_of_convolution, rivals_of_product

SIZES = {"M": 64, "N": 32, "K": 16, "L": 3, "H": 2}
ACTIVATIONS = """\
def gelu(x) = 0.5 * x * (1 + erf(x * sqrt(0.5)))
def rational(x) = 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
def cut(x) = select(x > 0, x, 0)
def relu(x) = max(x, 0)
"""
BF16 = "allow_bf16_reduced_precision_reduction"


def rivals(text: str, torch: bool = True) -> tuple[Rival, ...] | str:
    kernel = load(ACTIVATIONS + text + "\n").kernel().ir
    found = as_product(kernel)
    assert found is not None
    return rivals_of_product(found, kernel, SIZES, torch=torch)


def texts(text: str) -> list[str]:
    found = rivals(text)
    assert not isinstance(found, str)
    return [each.text for each in found]


def layer(last: str, given: str = "bias: bf16[N]", result: str = "C: bf16[M, N]") -> str:
    head = f"kernel k(A: bf16[M, K], B: bf16[K, N], {given}) -> {result}:"
    return f"{head}\n    var P: f32[M, N]\n    P[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))\n    {last}"


@pytest.mark.parametrize(
    ("file", "kernel", "first", "types", "flags"),
    [
        ("gemm", "gemm", "torch.mm(A, B)", "f32 x f32 -> f32, sums in f32", {"allow_tf32": False}),
        ("examples/hgemm.tg", "hgemm", "torch.mm(A, B)", "bf16 x bf16 -> bf16, sums in f32", {BF16: False}),
        ("examples/hgemm.tg", "hgemm_nt", "torch.mm(A, B)", "bf16 x bf16 -> bf16, sums in f32", {BF16: False}),
        ("examples/hgemm.tg", "hgemm_f16", "torch.mm(A, B)", "f16 x f16 -> f16, sums in f32", FLAGS["f16"]),
        (
            "examples/hgemm.tg",
            "hgemm_f32",
            "torch.mm(A, B, out_dtype=torch.float32)",
            "bf16 x bf16 -> f32, sums in f32",
            {BF16: False},
        ),
        ("examples/hgemm.tg", "hgemm_batched", "torch.bmm(A, B)", "bf16 x bf16 -> bf16, sums in f32", {BF16: False}),
        ("examples/hgemm.tg", "hgemm_i8", "torch._int_mm(A, B)", "i8 x i8 -> i32, sums in i32", {}),
        ("gemm_batched", "gemm_batched", "torch.bmm(A, B)", "f32 x f32 -> f32, sums in f32", {"allow_tf32": False}),
    ],
)
def test_the_products_of_the_examples(file, kernel, first, types, flags) -> None:
    ir = load(file).kernel(kernel).ir
    found = rivals_of_product(as_product(ir), ir, {**SIZES, "B": 5})
    assert (found[0].name, found[0].text, found[0].types, dict(found[0].flags)) == ("cuBLAS", first, types, dict(flags))


def test_a_longer_result_may_come_from_a_rounded_one_where_nothing_else_works() -> None:
    ir = load("examples/hgemm.tg").kernel("hgemm_f32").ir
    exact, rounded = rivals_of_product(as_product(ir), ir, SIZES)
    assert (exact.rounded, rounded.rounded) == (False, True)
    assert rounded.text == "(torch.mm(A, B)).to(torch.float32)"
    assert str(rounded).endswith(f"{BF16}=False, rounded to bf16 first")


def test_bias_and_gelu_op_by_op_and_fused() -> None:
    assert texts(layer("C[i, j] = bf16(gelu(P[i, j] + f32(bias[j])))")) == [
        "torch.nn.functional.gelu(torch.mm(A, B) + bias)",
        "torch.nn.functional.gelu(torch.addmm(bias, A, B))",
        "torch._addmm_activation(bias, A, B, use_gelu=True)",
    ]
    fused = rivals(layer("C[i, j] = bf16(gelu(P[i, j] + f32(bias[j])))"))[-1]
    assert (fused.name, fused.note) == ("torch", "gelu by tanh")


def test_gelu_in_f32_is_not_the_one_that_cublas_has() -> None:
    assert texts("kernel k(A: f32[M, K], B: f32[K, N], b: f32[N]) -> C: f32[M, N]:\n    var P: f32[M, N]\n"
                 "    P[i, j] = sum[k](A[i, k] * B[k, j])\n    C[i, j] = gelu(P[i, j] + b[j])") == [
        "torch.nn.functional.gelu(torch.mm(A, B) + bias)",
        "torch.nn.functional.gelu(torch.addmm(bias, A, B))",
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["relu", "cut"])
def test_relu_however_it_is_written(word) -> None:
    assert texts(layer(f"C[i, j] = bf16({word}(f32(bias[j]) + P[i, j]))"))[1:] == [
        "torch.relu(torch.addmm(bias, A, B))",
        "torch._addmm_activation(bias, A, B)",
    ]


def test_gelu_by_tanh_is_another_function() -> None:
    text = 'torch.nn.functional.gelu(torch.addmm(bias, A, B), approximate="tanh")'
    assert texts(layer("C[i, j] = bf16(rational(P[i, j] + f32(bias[j])))"))[1] == text


def test_a_residual_behind_and_before_the_activation() -> None:
    given = "bias: bf16[N], R: bf16[M, N]"
    behind = layer("C[i, j] = bf16(gelu(P[i, j] + f32(bias[j])) + f32(R[i, j]))", given)
    assert texts(behind)[1:] == [
        "torch.nn.functional.gelu(torch.addmm(bias, A, B)) + R",
        "torch._addmm_activation(bias, A, B, use_gelu=True) + R",
    ]
    before = layer("C[i, j] = bf16(relu(P[i, j] + f32(bias[j]) + f32(R[i, j])))", given)
    assert texts(before) == ["torch.relu(torch.mm(A, B) + bias + R)", "torch.relu(torch.addmm(bias, A, B) + R)"]


def test_a_residual_alone() -> None:
    found = layer("C[i, j] = bf16(P[i, j] + f32(R[i, j]))", "R: bf16[M, N]")
    assert texts(found) == ["torch.mm(A, B) + R", "torch.addmm(R, A, B)"]


def test_a_result_in_f32_takes_a_bias_in_f32() -> None:
    found = rivals(layer("C[i, j] = P[i, j] + f32(bias[j])", result="C: f32[M, N]"))
    assert [(each.text, each.computed) for each in found[:2]] == [
        ("torch.mm(A, B, out_dtype=torch.float32) + bias", "f32"),
        ("torch.addmm(bias, A, B, out_dtype=torch.float32)", "f32"),
    ]


def test_the_columns_are_what_the_result_stores_faster() -> None:
    """A bias of the rows is one of the columns in a column-major result: then torch can fuse it."""
    text = layer("C[i, j] = bf16(relu(P[i, j] + f32(bias[i])))", "bias: bf16[M]", "C: bf16[M, N] col_major")
    found = as_product(load(ACTIVATIONS + text + "\n").kernel().ir)
    assert (found.a, found.b, found.a_axes, found.b_axes, found.c_axes) == ("B", "A", (1, 0), (1, 0), (1, 0))
    assert found.bias == Addend("bias", (None, 0))
    assert texts(text)[-1] == "torch._addmm_activation(bias, A, B)"
    rows = texts(text.replace(" col_major", ""))
    assert rows == ["torch.relu(torch.mm(A, B) + bias)", "torch.relu(torch.addmm(bias, A, B))"]


def test_a_batch_with_a_bias() -> None:
    text = (
        "kernel k(A: f16[L, M, K], B: f16[L, N, K], bias: f16[N]) -> C: f16[M, L, N]:\n    var P: f32[L, M, N]\n"
        "    P[l, i, j] = sum[k](f32(A[l, i, k]) * f32(B[l, j, k]))\n    C[i, l, j] = f16(P[l, i, j] + f32(bias[j]))"
    )
    assert texts(text) == ["torch.bmm(A, B) + bias", "torch.baddbmm(bias, A, B)"]
    found = as_product(load(text + "\n").kernel().ir)
    assert (found.a_axes, found.b_axes, found.c_axes) == ((0, 1, 2), (0, 2, 1), (1, 0, 2))


@pytest.mark.parametrize(
    "last",
    [
        "C[i, j] = bf16(P[i, j] * f32(bias[j]))",
        "C[i, j] = bf16(tanh(P[i, j] + f32(bias[j])))",
        "C[i, j] = bf16(0.5 * (P[i, j] + f32(bias[j])))",
        "C[i, j] = bf16(P[i, j] + f32(bias[j]) + f32(j))",
    ],
)
def test_what_no_library_does_behind_a_product(last) -> None:
    assert as_product(load(layer(last) + "\n").kernel().ir) is None


def test_a_product_of_which_only_a_part_is_kept_is_none() -> None:
    text = layer("C[i, j] = bf16(P[i, j])", result="C: bf16[M - 1, N]").replace(", bias: bf16[N]", "")
    assert as_product(load(text + "\n").kernel().ir) is None


def test_i8_where_the_library_refuses_the_shape() -> None:
    ir = load("examples/mixed_precision.tg").kernel("gemm_i8").ir
    assert rivals_of_product(as_product(ir), ir, {"M": 16, "N": 32, "K": 64}) == (
        "torch._int_mm takes more than 16 rows, and columns and terms in multiples of 8, not 16 x 32 x 64"
    )


def test_byte_floats_with_sums_of_parts_and_without() -> None:
    ir = load("examples/hgemm.tg").kernel("hgemm_e4m3").ir
    found = rivals_of_product(as_product(ir), ir, SIZES)
    call = "torch._scaled_mm(A, B, one, one, out_dtype=torch.bfloat16"
    types = "e4m3 x e4m3 -> bf16, sums in f32"
    assert [str(each) for each in found] == [
        f"{call}); {types}",
        f"{call}, use_fast_accum=True); {types}, no sums of parts",
    ]
    assert rivals_of_product(as_product(ir), ir, SIZES | {"K": 8}) == (
        "torch._scaled_mm takes columns and terms in multiples of 16, not 32 and 8"
    )
    text = "kernel k(A: e4m3[M, K], B: e4m3[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))"
    assert rivals(text) == "torch._scaled_mm takes A and B that are stored along k alone: B transposed"
    assert rivals(text.replace("e4m3", "e5m2")) == "no library has products of e5m2 with sums in f32"


def test_types_that_no_library_mixes() -> None:
    text = "kernel k(A: f32[M, K], B: f32[K, N]) -> C: f64[M, N]:\n    C[i, j] = sum[k](f64(A[i, k]) * f64(B[k, j]))"
    assert rivals(text) == "no library has products of f32 with sums in f64"


def test_without_torch_cupy_has_the_simplest_products() -> None:
    plain = "kernel k(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])"
    assert [each.text for each in rivals(plain, torch=False)] == ["cupy.matmul(A, B, out=C)"]
    assert "torch is not installed" in rivals(layer("C[i, j] = bf16(P[i, j] + f32(bias[j]))"), torch=False)


@pytest.mark.parametrize(
    "text",
    [
        "    C[i, j] = sum[k](tf32(A[i, k]) * tf32(B[k, j]))",
        "    C[i, j] = sum[k](tf32_rz(A[i, k]) * tf32_rz(B[k, j]))",
        "    var P: f32[M, K]\n    P[i, k] = tf32(A[i, k])\n    C[i, j] = sum[k](P[i, k] * tf32(B[k, j]))",
        "    var P: f32[K, M]\n    var Q: f32[K, N]\n    P[k, i] = tf32(A[i, k])\n    Q[k, j] = tf32(B[k, j])\n"
        "    C[i, j] = sum[k](P[k, i] * Q[k, j])",
    ],
)
def test_factors_that_the_kernel_rounds_are_tf32(text: str) -> None:
    (found,) = rivals(f"kernel k(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n{text}")
    assert str(found) == "torch.mm(A, B); tf32 x tf32 -> f32, sums in f32, allow_tf32=True"


@pytest.mark.parametrize(
    "factors", ["tf32(A[i, k]) * B[k, j]", "A[i, k] * tf32_rz(B[k, j])", "tf32(2 * A[i, k]) * tf32(B[k, j])"]
)
def test_no_library_rounds_one_factor_or_a_computed_one(factors: str) -> None:
    text = f"kernel k(A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:\n    C[i, j] = sum[k]({factors})\n"
    assert as_product(load(text).kernel().ir) is None


CONVOLUTION = """\
kernel conv(X: bf16[N, C, H, W], F: bf16[K, C, 3, 3]) -> Y: bf16[N, K, H, W]:
    var P: f32[N, K, H, W]
    P[n, k, y, x] = sum[c, r, s](f32(X[n, c, y + r - 1, x + s - 1] else 0) * f32(F[k, c, r, s]))
    Y[n, k, y, x] = bf16(P[n, k, y, x])
"""


def test_a_convolution_in_16_bits_in_both_memory_formats() -> None:
    found = as_convolution(load(CONVOLUTION).kernel().ir)
    assert (found.y, found.padding, found.operands, found.result) == ("Y", (1, 1), "bf16", "bf16")
    given = "stride=(1, 1), padding=(1, 1), dilation=(1, 1))"
    assert [each.text for each in rivals_of_convolution(found)] == [
        f"torch.nn.functional.conv2d(X, F, {given}",
        f"torch.nn.functional.conv2d(X_channels_last, F_channels_last, {given}",
    ]


def test_a_convolution_with_bias_and_relu_op_by_op_and_fused() -> None:
    found = rivals_of_convolution(as_convolution(load("hconv").kernel("hconv_bias_relu").ir))
    given = "bias, stride=(1, 1), padding=(1, 1), dilation=(1, 1)"
    assert [(each.name, each.text) for each in found] == [
        ("torch", f"torch.relu(torch.nn.functional.conv2d(X, F, {given}))"),
        ("torch", f"torch.relu(torch.nn.functional.conv2d(X_channels_last, F_channels_last, {given}))"),
        ("torch", "torch.cudnn_convolution_relu(X, F, bias, (1, 1), (1, 1), (1, 1), 1)"),
        ("torch", "torch.cudnn_convolution_relu(X_channels_last, F_channels_last, bias, (1, 1), (1, 1), (1, 1), 1)"),
    ]


def test_a_convolution_in_groups() -> None:
    found = rivals_of_convolution(as_convolution(load("hconv").kernel("hconv_grouped").ir))
    given = "stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=G)"
    assert [(each.name, each.text) for each in found] == [
        ("cuDNN", f"torch.nn.functional.conv2d(X, F, {given}"),
        ("cuDNN", f"torch.nn.functional.conv2d(X_channels_last, F_channels_last, {given}"),
    ]


@pytest.mark.parametrize(
    ("last", "bias", "activation"),
    [
        ("P[n, k, y, x] + f32(b[k])", "b", ""),
        ("cut(P[n, k, y, x])", "", "relu"),
        ("gelu(P[n, k, y, x] + f32(b[k]))", "b", "gelu"),
    ],
)
def test_what_follows_a_convolution(last: str, bias: str, activation: str) -> None:
    found = as_convolution(load(with_bias(last)).kernel().ir)
    assert (found.inputs, found.activation) == (("X", "F", *filter(None, [bias])), activation)


@pytest.mark.parametrize(
    "last", ["P[n, k, y, x] * f32(b[k])", "tanh(P[n, k, y, x])", "P[n, k, y, x] + f32(b[0])", "f32(b[k])"]
)
def test_what_no_library_does_behind_a_convolution(last: str) -> None:
    assert as_convolution(load(with_bias(last)).kernel().ir) is None


def with_bias(last: str) -> str:
    given = CONVOLUTION.replace("3, 3])", "3, 3], b: bf16[K])").replace("bf16(P[n, k, y, x])", f"bf16({last})")
    return ACTIVATIONS + given
