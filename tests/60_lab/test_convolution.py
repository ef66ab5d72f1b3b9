"""Which kernels cuDNN is set beside."""

import pytest

from tilegen.api import load
from tilegen.lab.convolution import Convolution, as_convolution

ONE = "kernel conv(X: f32[N, C, W], F: f32[K, C, 3]) -> Y: f32[N, K, W - 2]:\n    Y[n, k, x] = sum[c, r]({})\n"


@pytest.mark.parametrize(("name", "places"), [("conv1d", 1), ("conv2d", 2), ("conv3d", 3)])
def test_the_convolutions_of_the_examples(name, places):
    found = as_convolution(load("conv").kernel(name, stride=2, pad=3).ir)
    assert (found.x, found.f, found.y) == ("X", "F", "Y")
    assert (found.stride, found.padding) == ((2,) * places, (3,) * places)


def test_dilation_and_the_order_of_factors():
    text = ONE.format("F[k, c, r] * X[n, c, x + r]")
    assert as_convolution(load(text).kernel().ir) == Convolution(
        "X", "F", "Y", (1,), (0,), (1,), "f32", "f32", *[(0, 1, 2)] * 3
    )
    assert as_convolution(load("conv").kernel("conv1d", dilation=2).ir).dilation == (2,)


def test_filters_of_one_pixel():
    found = as_convolution(load("conv1x1").kernel().ir)
    assert (found.x, found.f, found.y) == ("X", "K", "Y")
    assert (found.stride, found.padding, found.dilation) == ((1,), (0,), (1,))
    assert (found.x_axes, found.f_axes, found.y_axes) == ((0, 1, 2), (0, 1), (0, 1, 2))


def test_channels_last():
    found = as_convolution(load("conv").kernel("conv2d_nhwc", stride=2).ir)
    assert (found.x, found.f, found.y, found.stride, found.padding) == ("X", "F", "Y", (2, 2), (1, 1))
    assert (found.x_axes, found.f_axes, found.y_axes) == ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


def test_filters_of_one_pixel_channels_last():
    found = as_convolution(load("hconv").kernel("hconv_1x1").ir)
    assert (found.x, found.f, found.y, found.stride, found.padding) == ("X", "K", "Y", (1, 1), (0, 0))
    assert (found.x_axes, found.f_axes, found.y_axes) == ((0, 3, 1, 2), (0, 1), (0, 3, 1, 2))


def test_images_and_filters_stored_with_more_channels_and_columns():
    found = as_convolution(load("hconv").kernel("hconv_input").ir)
    assert (found.x, found.f, found.y, found.stride, found.padding) == ("X", "K", "Y", (2, 2), (3, 3))
    assert (found.x_axes, found.f_axes, found.y_axes) == ((0, 3, 1, 2),) * 3
    assert (found.operands, found.result) == ("f16", "f16")


@pytest.mark.parametrize(
    ("file", "kernel", "dtype"),
    [
        ("hconv_first", "hconv_first", "f16"),
        ("hconv_first", "hconv_first_bf16", "bf16"),
        ("hconv_first", "hconv_first_bias_relu", "f16"),
        ("conv_pieces_first", "conv_first_f16x2", "f32"),
    ],
)
def test_images_and_filters_stored_with_channels_last(file, kernel, dtype):
    found = as_convolution(load(file).kernel(kernel, stride=2).ir.meant_kernel)
    assert (found.x, found.f, found.y, found.stride, found.padding) == ("X", "K", "Y", (2, 2), (1, 1))
    assert (found.x_axes, found.f_axes, found.y_axes) == ((0, 1, 2, 3),) * 3
    assert (found.operands, found.result) == (dtype, dtype)


@pytest.mark.parametrize(("beyond", "same"), [("0", True), ("1", False)])
def test_zeros_beyond_a_copy_are_the_same_as_beyond_the_image(beyond, same):
    text = (
        "kernel conv(X: f32[N, C, W], K: f32[F, C, 3]) -> Y: f32[N, F, W]:\n    var S: f32[N, W, C]\n"
        f"    S[n, x, c] = X[n, c, x]\n    Y[n, f, x] = sum[c, r]((S[n, x + r - 1, c] else {beyond}) * K[f, c, r])\n"
    )
    assert (as_convolution(load(text).kernel().ir) is not None) == same


@pytest.mark.parametrize(("beyond", "width", "same"), [("0", 2, True), ("1", 2, False), ("0", 3, False)])
def test_filters_stored_with_zeros_and_all_places_are_the_same(beyond, width, same):
    text = (
        f"kernel conv(X: f32[N, C, W], K: f32[F, C, 3]) -> Y: f32[N, F, W - {width}]:\n    var S: f32[F, C, 4]\n"
        f"    S[f, c, r] = K[f, c, r] else {beyond}\n"
        "    Y[n, f, x] = sum[c, r]((X[n, c, x + r] else 0) * S[f, c, r])\n"
    )
    assert (as_convolution(load(text).kernel().ir) is not None) == same


@pytest.mark.parametrize(("width", "same"), [("W + 2", True), ("W + 5", True), ("W", False)])
def test_images_stored_with_all_places_are_the_same(width, same):
    text = (
        f"kernel conv(X: f32[N, C, W], K: f32[F, C, 3]) -> Y: f32[N, F, W]:\n    var S: f32[N, C, {width}]\n"
        "    S[n, c, x] = X[n, c, x - 1] else 0\n    Y[n, f, x] = sum[c, r]((S[n, c, x + r] else 0) * K[f, c, r])\n"
    )
    assert (as_convolution(load(text).kernel().ir) is not None) == same


@pytest.mark.parametrize(
    ("file", "name"),
    [("conv", "conv2d_grouped"), ("conv", "conv2d_depthwise"), ("gemm", "gemm")],
)
def test_kernels_that_are_no_convolution(file, name):
    assert as_convolution(load(file).kernel(name).ir) is None


@pytest.mark.parametrize("value", ["(X[n, c, x + r - 1] else 1) * F[k, c, r]", "X[n, c, x + 2 - r] * F[k, c, r]"])
def test_values_that_are_no_convolution(value):
    assert as_convolution(load(ONE.format(value)).kernel().ir) is None
