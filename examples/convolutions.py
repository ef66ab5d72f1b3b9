"""Convolution layers beside cuDNN, each with the schedules and the tiles that suit it, on a GPU.

    python examples/convolutions.py [f32 f16 f16_first] [28x28 ...]

Layers of f32 and f16_first have their channels first, and those of f16 last, as have those of conv_pieces, for which
images of f32 are stored so before the timing. Timed as graphs.py says, on random inputs that no cache holds.
TFLOP/s count the multiplications and additions of the sum as it is written, for everybody: an algorithm that needs
fewer of them, as Winograd's does, shows more. After them is the largest error of each, held against a convolution in
float64, in units of the rounding of a number as large as the result can be. The mean at the end takes the fastest
schedule of each layer, but none whose launches begin early, for cuDNN's do not. What one row does, `tilegen compare
conv2d --schedule patches --fix C=64 ...` does too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean
from typing import Any, NamedTuple

from graphs import CACHE, Calls, milliseconds_of_each, torch

import tilegen

IMAGES = 32


@dataclass(frozen=True)
class Layer:
    """F filters of R x R over C channels of H x H pixels."""

    C: int
    H: int
    F: int
    R: int
    stride: int
    pad: int

    @property
    def operations(self) -> int:
        """Multiplications and additions of the sum."""
        pixels = (self.H + 2 * self.pad - self.R) // self.stride + 1
        return 2 * IMAGES * self.F * pixels**2 * self.C * self.R**2

    def __str__(self) -> str:
        return f"{self.C} channels {self.H}x{self.H}, {self.F} filters {self.R}x{self.R}, stride {self.stride}"


class Choice(NamedTuple):
    """A schedule of a file, with attributes of its kernel and parameters."""

    file: str
    schedule: str
    attributes: dict[str, int]
    parameters: dict[str, int]

    def __str__(self) -> str:
        return " ".join([self.file, self.schedule, *(f"{name}={value}" for name, value in self.parameters.items())])


def winograd(tiles: int, **parameters: int) -> Choice:
    return Choice("conv2d_winograd", "products", {"TH": tiles, "TW": tiles}, parameters)


def plain(file: str, schedule: str, **parameters: int) -> Choice:
    return Choice(file, schedule, {}, parameters)


WIDE_PATCHES = dict(TN=4, TF=128, TY=4, TX=4, LANES_F=32, LANES_X=1, STAGES=2, BLOCKS=3)
SMALL_PATCHES = dict(TN=2, TY=7, TX=7, OWN_X=7, STORE=1, PAD=3)
# Layer: its schedules in f32, in f16 with channels last, and in f16 with channels first.
LAYERS: dict[Layer, dict[str, tuple[Choice, ...]]] = {
    Layer(64, 56, 64, 3, 1, 1): {
        "f32": (
            plain("conv2d", "patches"),
            winograd(14),
            plain("conv_pieces", "rows_of_boxes"),
            plain("conv_pieces_first", "columns"),
        ),
        "f16": (plain("hconv", "rows_of_boxes"),),
        "f16_first": (plain("hconv_first", "columns"),),
    },
    Layer(128, 28, 128, 3, 1, 1): {
        "f32": (
            plain("conv2d", "patches", **WIDE_PATCHES),
            winograd(7, TP=64, WP=1, BLOCKS=8),
            plain("conv_pieces", "two_f16", TN=8, TY=4, TX=4),
            plain("conv_pieces_first", "two_f16", TN=8, TY=4, TX=4),
        ),
        "f16": (plain("hconv", "wide_rows_of_boxes"),),
        "f16_first": (plain("hconv_first", "wide_columns"),),
    },
    Layer(256, 14, 256, 3, 1, 1): {
        "f32": (
            plain("conv2d", "deep"),
            winograd(4, WIDTH=2),
            plain("conv_pieces", "more_filters", TN=8, TY=2),
            plain("conv_pieces_first", "more_filters", TN=8, TY=2),
        ),
        "f16": (plain("hconv", "more_filters", TN=8, TY=2),),
        "f16_first": (plain("hconv_first", "more_filters", TN=8, TY=2),),
    },
    Layer(512, 7, 512, 3, 1, 1): {
        "f32": (
            plain("conv2d", "deep", **SMALL_PATCHES),
            winograd(2, WIDTH=1),
            plain("conv_pieces", "more_filters", TN=8, TY=1),
            plain("conv_pieces_first", "more_filters", TN=8, TY=1),
        ),
        "f16": (plain("hconv", "more_filters", TN=8, TY=1, STAGES=6),),
        "f16_first": (plain("hconv_first", "more_filters", TN=8, TY=1, STAGES=6),),
    },
    Layer(3, 224, 64, 7, 2, 3): {
        "f32": (Choice("conv2d", "strided", dict(R=7, stride=2, pad=3), {}),),
        "f16": (plain("hconv", "windows"), plain("hconv", "warpgroups")),
    },
    Layer(256, 56, 64, 1, 1, 0): {
        "f32": (plain("conv1x1", "product"),),
        "f16": (
            plain("hconv", "persistent", TN=64, STAGES=8),
            plain("hconv", "persistent_early", TN=64, STAGES=8),
        ),
    },
}
CHANNELS_LAST = ("hconv", "conv_pieces")
# What stands for the type in the table: torch's, and whether the channels are last.
TYPES = {"f32": (torch.float32, False), "f16": (torch.float16, True), "f16_first": (torch.float16, False)}


def main() -> None:
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    words = [word for word in sys.argv[1:] if word in TYPES] or list(TYPES)
    images = [word for word in sys.argv[1:] if word not in TYPES]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {IMAGES} images: us, TFLOP/s, of cuDNN, error")
    for word in words:
        layers = [layer for layer, choices in LAYERS.items() if word in choices]
        best = [report(layer, word) for layer in layers if not images or f"{layer.H}x{layer.H}" in images]
        if best:
            print(f"{word}: {geometric_mean(best):.2f} x in the mean of {len(best)} layers")


def report(layer: Layer, word: str) -> float:
    """Prints a line for cuDNN and one for each schedule; the best rate of these, as a share of cuDNN's."""
    inputs = random_inputs(layer, word)
    choices = {str(choice): choice for choice in LAYERS[layer][word]}
    calls: dict[str, Calls] = {"cuDNN": [partial(convolve, layer, *each) for each in inputs]}
    calls |= {name: calls_of(layer, choice, inputs) for name, choice in choices.items()}
    errors = errors_of(layer, calls, *inputs[0])
    found = milliseconds_of_each(calls)
    print(f"{word}: {layer}")
    for name, ms in found.items():
        ratio = found["cuDNN"] / ms
        print(f"  {name:40} {ms * 1000:7.1f} {layer.operations / ms / 1e9:6.1f}  {ratio:.2f} x  {errors[name]:5.2f}")
    return max(found["cuDNN"] / found[name] for name, each in choices.items() if not each.schedule.endswith("_early"))


def random_inputs(layer: Layer, word: str) -> list[tuple[Any, Any]]:
    """Images and filters, as cuDNN has them, so many that none is still in the cache when its turn comes again."""
    dtype, last = TYPES[word]
    shapes = (IMAGES, layer.C, layer.H, layer.H), (layer.F, layer.C, layer.R, layer.R)
    stored = {"memory_format": torch.channels_last if last else torch.contiguous_format}

    def one() -> tuple[Any, Any]:
        x, k = (torch.randn(*shape, device="cuda", dtype=dtype).to(**stored) for shape in shapes)
        return x, k

    return [one() for _ in range(2 + CACHE // (dtype.itemsize * IMAGES * layer.C * layer.H**2))]


def convolve(layer: Layer, x: Any, k: Any) -> Any:
    return torch.nn.functional.conv2d(x, k, stride=layer.stride, padding=layer.pad)


def errors_of(layer: Layer, calls: dict[str, Calls], x: Any, k: Any) -> dict[str, float]:
    """The largest error of each, whose first call is of these inputs, in units of roundings."""
    exact, large = convolve(layer, x.double(), k.double()), convolve(layer, x.double().abs(), k.double().abs())
    unit = torch.finfo(x.dtype).eps / 2
    return {
        name: float(((all_[0]().reshape(exact.shape) - exact).abs() / large).max()) / unit
        for name, all_ in calls.items()
    }


def calls_of(layer: Layer, choice: Choice, inputs: list[tuple[Any, Any]]) -> Calls:
    """A call for each pair of inputs, of a kernel in which all sizes are constants, but for the number of images."""
    last = choice.file in CHANNELS_LAST
    flat = choice.file == "conv1x1"  # it sees an image as a row of pixels
    pixels = {"P": layer.H**2} if flat else {"H": layer.H, "W": layer.H}
    fixed = {"C": layer.C, "F": layer.F} | pixels | choice.attributes
    program = tilegen.load(choice.file).schedule(choice.schedule, fixed, **choice.parameters).compile("cuda")

    def call(x: Any, k: Any) -> Callable[[], Any]:
        if last:
            x, k = (each.permute(0, 2, 3, 1).contiguous() for each in (x, k))
        run = program.prepare(x.flatten(2) if flat else x, k.flatten(1) if layer.R == 1 else k)
        return (lambda: run().permute(0, 3, 1, 2)) if last else run

    return [call(x, k) for x, k in inputs]


if __name__ == "__main__":
    main()
