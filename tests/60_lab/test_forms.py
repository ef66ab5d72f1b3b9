"""Which kernels are a convolution."""

import pytest

from tilegen.api import load
from tilegen.lab.forms import Convolution, as_convolution

ONE = "kernel conv(X: f32[N, C, W], F: f32[K, C, 3]) -> Y: f32[N, K, W - 2]:\n    Y[n, k, x] = sum[c, r]({})\n"


@pytest.mark.parametrize(("name", "places"), [("conv1d", 1), ("conv2d", 2), ("conv3d", 3)])
def test_the_convolutions_of_the_examples(name, places):
    found = as_convolution(load("conv").kernel(name, stride=2, pad=3).ir)
    assert (found.x, found.f, found.y) == ("X", "F", "Y")
    assert (found.stride, found.padding) == ((2,) * places, (3,) * places)


def test_dilation_and_the_order_of_factors():
    text = ONE.format("F[k, c, r] * X[n, c, x + r]")
    assert as_convolution(load(text).kernel().ir) == Convolution(
        "X", "F", "Y", (1,), (0,), (1,), "f32", *[(0, 1, 2)] * 3
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


@pytest.mark.parametrize(
    ("file", "name"),
    [("conv", "conv2d_grouped"), ("conv", "conv2d_depthwise"), ("gemm", "gemm")],
)
def test_kernels_that_are_no_convolution(file, name):
    assert as_convolution(load(file).kernel(name).ir) is None


@pytest.mark.parametrize("value", ["(X[n, c, x + r - 1] else 1) * F[k, c, r]", "X[n, c, x + 2 - r] * F[k, c, r]"])
def test_values_that_are_no_convolution(value):
    assert as_convolution(load(ONE.format(value)).kernel().ir) is None
