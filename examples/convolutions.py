"""Convolution layers in fp32 beside cuDNN, each with the schedule and the tiles that suit it, on a GPU.

    python examples/convolutions.py [28x28 ...]

TFLOP/s count the multiplications and additions of the sum as it is written, for everybody: an algorithm that needs
fewer of them, as Winograd's does, shows more. All are timed in turns, on random inputs that no cache holds; medians.
Behind them is the largest error of each, held against a convolution in float64, in units of the rounding of a number
as large as the result can be. What one row does, `tilegen compare conv2d --schedule patches --fix C=64 ...` does too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import tilegen

try:
    import torch
except ImportError:
    sys.exit("torch is needed, and a GPU: pip install torch")
if not torch.cuda.is_available():
    sys.exit("torch finds no GPU: tilegen doctor says what is missing")

IMAGES = 32


@dataclass(frozen=True)
class Layer:
    """F filters of R x R over C channels of H x H pixels; (file, schedule, attributes, parameters) of its kernels."""

    C: int
    H: int
    F: int
    R: int
    stride: int
    pad: int
    kernels: tuple[tuple[str, str, dict[str, int], dict[str, int]], ...] = field(repr=False)


def winograd(tiles: int, **parameters: int) -> tuple[str, str, dict[str, int], dict[str, int]]:
    return "conv2d_winograd", "products", {"TH": tiles, "TW": tiles}, parameters


LAYERS = (
    Layer(
        *(64, 56, 64, 3, 1, 1),
        (("conv2d", "patches", {}, {}), winograd(14)),
    ),
    Layer(
        *(128, 28, 128, 3, 1, 1),
        (
            ("conv2d", "patches", {}, dict(TN=4, TF=128, TY=4, TX=4, LANES_F=32, LANES_X=1, STAGES=2, BLOCKS=3)),
            winograd(7, TP=64, WP=1, BLOCKS=8),
        ),
    ),
    Layer(
        *(256, 14, 256, 3, 1, 1),
        (("conv2d", "deep", {}, {}), winograd(4, WIDTH=2)),
    ),
    Layer(
        *(512, 7, 512, 3, 1, 1),
        (("conv2d", "deep", {}, dict(TN=2, TY=7, TX=7, OWN_X=7, STORE=1, PAD=3)), winograd(2, WIDTH=1)),
    ),
    Layer(
        *(3, 224, 64, 7, 2, 3),
        (("conv2d", "strided", dict(R=7, stride=2, pad=3), {}),),
    ),
    Layer(
        *(256, 56, 64, 1, 1, 0),
        (("conv1x1", "product", {}, {}),),
    ),
)


def main() -> None:
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {IMAGES} images: TFLOP/s, of cuDNN, error")
    for layer in LAYERS:
        if not sys.argv[1:] or f"{layer.H}x{layer.H}" in sys.argv[1:]:
            report(layer)


def report(layer: Layer) -> None:
    """A line for cuDNN and one for each kernel."""
    # So many sets of inputs that none is still in the cache when its turn comes again.
    sets = 2 + 100_000_000 // (4 * IMAGES * layer.C * layer.H**2)
    shape = (layer.F, layer.C, layer.R, layer.R)
    inputs = [
        (torch.randn(IMAGES, layer.C, layer.H, layer.H, device="cuda"), torch.randn(*shape, device="cuda"))
        for _ in range(sets)
    ]
    kept = {"stride": layer.stride, "padding": layer.pad}
    theirs = [lambda x=x, k=k: torch.nn.functional.conv2d(x, k, **kept) for x, k in inputs]
    calls: dict[str, list[Callable[[], Any]]] = {"cuDNN": theirs}
    for kernel in layer.kernels:
        calls[" ".join(kernel[:2])] = calls_of(layer, kernel, inputs)
    exact = torch.nn.functional.conv2d(inputs[0][0].double(), inputs[0][1].double(), **kept)
    large = torch.nn.functional.conv2d(inputs[0][0].double().abs(), inputs[0][1].double().abs(), **kept)
    errors = {}
    for word, call in calls.items():
        errors[word] = float(((call[0]().view(exact.shape) - exact).abs() / large).max()) * 2**24
    operations = 2 * exact.numel() * layer.C * layer.R**2
    rates = {
        word: operations / time / 1e9 for word, time in milliseconds_per_call(calls, round(1e12 / operations)).items()
    }
    print(layer)
    for word, rate in rates.items():
        print(f"  {word:28} {rate:5.1f}  {rate / rates['cuDNN']:.2f} x  {errors[word]:5.2f}", flush=True)


def calls_of(
    layer: Layer, kernel: tuple[str, str, dict[str, int], dict[str, int]], inputs: list[tuple[Any, Any]]
) -> list[Callable[[], Any]]:
    """A call for each pair of inputs, of a kernel in which all sizes are constants, but for the number of images."""
    file, schedule, attributes, parameters = kernel
    flat = file == "conv1x1"  # it sees an image as a row of pixels
    pixels = {"P": layer.H**2} if flat else {"H": layer.H, "W": layer.H}
    fixed = {"C": layer.C, "F": layer.F} | pixels | attributes
    program = tilegen.load(file).schedule(schedule, fixed, **parameters).compile()
    pairs = [(x.flatten(2), k.flatten(1)) if flat else (x, k) for x, k in inputs]
    return [lambda x=x, k=k: program(x, k) for x, k in pairs]


def milliseconds_per_call(calls: dict[str, list[Callable[[], Any]]], count: int) -> dict[str, float]:
    """Milliseconds a call: the median of turns, in each of which everybody is called `count` times."""
    found: dict[str, list[float]] = {word: [] for word in calls}
    for _ in range(15):
        for word, variants in calls.items():
            variants[0]()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for turn in range(count):
                variants[turn % len(variants)]()
            end.record()
            end.synchronize()
            found[word].append(start.elapsed_time(end) / count)
    return {word: median(times[2:]) for word, times in found.items()}


if __name__ == "__main__":
    main()
