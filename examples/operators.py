"""The operators of examples/operators beside torch, by the schedule that `suggest` writes, on a GPU.

    python examples/operators.py [--compile] [--symbolic] [NUMBER ...]

Inputs and arguments are those of KernelBench's level 1 (github.com/ScalingIntelligence/KernelBench at 423217d9), by its
numbers; floats are uniform in 0..1. Both take turns, in f32 without TF32; times are medians in milliseconds. --compile
takes the better of torch and torch.compile. Sizes are compiled into the kernels, unless --symbolic leaves them open.
The last line says which share is right and more than p times as fast as torch (fast_p), and the geometric mean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import tilegen
from tilegen.errors import TilegenError

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("torch is needed, and a GPU: pip install torch")

FOLDER = Path(__file__).parent / "operators"


@dataclass(frozen=True)
class Case:
    """A kernel of a file, its sizes and attributes, and what torch calls for the same inputs."""

    file: str
    kernel: str
    values: dict[str, int]
    torch: Callable[..., Any]


BIG = {"M": 4096, "N": 393216}
IMAGES = {"N": 112, "C": 64, "H": 512, "W": 512}
DIM = {"B": 128, "M": 4096, "N": 4095}
LONG = {"M": 32768, "N": 32768}


def _activation(kernel: str, call: Callable[..., Any]) -> Case:
    return Case("activations", kernel, BIG, call)


def _conv(kind: str, call: Callable[..., Any], /, **values: int) -> Case:
    return Case("convolutions", kind, values, call)


def _conv2(stride: int = 1, pad: tuple[int, int] = (0, 0), step: tuple[int, int] = (1, 1), /, **values: int) -> Case:
    more = {"stride": stride, "pad_y": pad[0], "pad_x": pad[1], "step_y": step[0], "step_x": step[1]}
    return _conv("conv2d", lambda x, k, b: F.conv2d(x, k, b, stride, pad, step), **values, **more)


def _conv3(**values: int) -> Case:
    return _conv("conv3d", F.conv3d, **values)


def _depthwise(**values: int) -> Case:
    return _conv("depthwise", lambda x, k: F.conv2d(x, k[:, None], groups=values["C"]), **values)


def _turned1(**values: int) -> Case:
    names = ("stride", "pad", "dilation")
    stride, pad, step = (values.get(name, usual) for name, usual in zip(names, (1, 0, 1), strict=True))
    call = lambda x, k: F.conv_transpose1d(x, k, stride=stride, padding=pad, dilation=step)  # noqa: E731
    return Case("transposed_convolutions", "conv1d_transposed", values, call)


def _turned2(**values: int) -> Case:
    def call(x: Any, k: Any) -> Any:
        pairs = [
            (values.get(f"{n}_y", u), values.get(f"{n}_x", u)) for n, u in (("stride", 1), ("pad", 0), ("step", 1))
        ]
        groups = x.shape[1]
        y = F.conv_transpose2d(x.flatten(1, 2), k.flatten(0, 1), None, pairs[0], pairs[1], 0, groups, pairs[2])
        return y.unflatten(1, (groups, -1))

    return Case("transposed_convolutions", "conv2d_transposed", {"G": 1, **values}, call)


def _turned3(**values: int) -> Case:
    def call(x: Any, k: Any) -> Any:
        pads = tuple(values.get(f"pad_{axis}", 0) for axis in "zyx")
        stride, step, more, groups = values.get("stride", 1), values.get("step", 1), values.get("more", 0), x.shape[1]
        y = F.conv_transpose3d(x.flatten(1, 2), k.flatten(0, 1), None, stride, pads, more, groups, step)
        return y.unflatten(1, (groups, -1))

    return Case("transposed_convolutions", "conv3d_transposed", {"G": 1, **values}, call)


def _l(call: Callable[..., Any]) -> Callable[..., Any]:
    """A loss as a tensor of one element."""
    return lambda *inputs: call(*inputs).reshape(1)


CASES = {
    1: Case("products", "matmul", {"M": 4096, "K": 4096, "N": 4096}, torch.matmul),
    2: Case("products", "matmul", {"M": 2048, "K": 8192, "N": 4096}, torch.matmul),
    3: Case("products", "batched", {"B": 128, "M": 512, "K": 1024, "N": 2048}, torch.bmm),
    4: Case("products", "matrix_vector", {"M": 2048, "K": 1048576}, torch.matmul),
    5: Case("activations", "scale", {"M": 65536, "N": 16384}, lambda a, s: a * s),
    6: Case("products", "matmul", {"M": 256, "K": 524288, "N": 256}, torch.matmul),
    7: Case("products", "matmul", {"M": 32768, "K": 64, "N": 32768}, torch.matmul),
    8: Case("products", "matmul", {"M": 8205, "K": 2949, "N": 5921}, torch.matmul),
    9: Case("products", "matmul", {"M": 32768, "K": 32, "N": 32768}, torch.matmul),
    10: Case("products", "tensor3", {"N": 16, "M": 1024, "K": 2048, "L": 768}, torch.matmul),
    11: Case("products", "tensor4", {"B": 8, "I": 256, "J": 512, "L": 256, "K": 768}, torch.matmul),
    12: Case("products", "diagonal", {"N": 4096, "M": 4096}, lambda d, b: d[:, None] * b),
    13: Case("products", "matmul", {"M": 4096, "K": 4096, "N": 4096}, torch.matmul),
    14: Case("products", "upper", {"N": 4096}, lambda a, b: torch.triu(torch.triu(a) @ torch.triu(b))),
    15: Case("products", "lower", {"N": 4096}, lambda a, b: torch.tril(torch.tril(a) @ torch.tril(b))),
    16: Case("products", "transposed_a", {"M": 2048, "K": 8192, "N": 4096}, lambda a, b: a.T @ b),
    17: Case("products", "transposed_b", {"M": 2048, "K": 8192, "N": 4096}, lambda a, b: a @ b.T),
    18: Case("products", "transposed_both", {"M": 2048, "K": 8192, "N": 4096}, lambda a, b: a.T @ b.T),
    19: _activation("relu", torch.relu),
    20: _activation("leaky_relu", F.leaky_relu),
    21: _activation("sigmoids", torch.sigmoid),
    22: _activation("tanhs", torch.tanh),
    23: Case("norms", "softmax", BIG, lambda x: torch.softmax(x, 1)),
    24: Case("norms", "log_softmax", BIG, lambda x: torch.log_softmax(x, 1)),
    25: _activation("swish", lambda x: x * torch.sigmoid(x)),
    26: _activation("gelu", F.gelu),
    27: _activation("selu", torch.selu),
    28: _activation("hard_sigmoid", F.hardsigmoid),
    29: _activation("softplus", F.softplus),
    30: _activation("softsign", lambda x: x / (1 + torch.abs(x))),
    31: _activation("elu", F.elu),
    32: _activation("hard_tanh", F.hardtanh),
    33: Case(
        "norms", "batch_norm", IMAGES | {"N": 64}, lambda x, g, b: F.batch_norm(x, None, None, g, b, training=True)
    ),
    34: Case("norms", "instance_norm", IMAGES, F.instance_norm),
    35: Case(
        "norms",
        "group_norm",
        {"N": 112, "G": 8, "C": 8, "H": 512, "W": 512},
        lambda x, g, b: F.group_norm(x.flatten(1, 2), 8, g.flatten(), b.flatten()).view_as(x),
    ),
    36: Case("norms", "rms_norm", IMAGES, lambda x: x / torch.sqrt(torch.mean(x**2, 1, keepdim=True) + 1e-5)),
    37: Case("norms", "frobenius_norm", IMAGES, lambda x: x / torch.norm(x, p="fro")),
    38: Case("norms", "l1_norm", {"M": 32768, "N": 65535}, lambda x: x / torch.mean(torch.abs(x), 1, keepdim=True)),
    39: Case("norms", "l2_norm", {"M": 32768, "N": 65535}, lambda x: x / torch.norm(x, p=2, dim=1, keepdim=True)),
    40: Case(
        "norms",
        "layer_norm",
        {"B": 16, "C": 64, "H": 256, "W": 256},
        lambda x, g, b: F.layer_norm(x, g.shape, g, b),
    ),
    41: Case("pooling", "max_pool1d", {"N": 64, "C": 192, "L": 65536}, lambda x: F.max_pool1d(x, 8, 1, 4, 3)),
    42: Case("pooling", "max_pool2d", {"N": 32, "C": 64, "H": 512, "W": 512}, lambda x: F.max_pool2d(x, 4, 1, 1)),
    43: Case(
        "pooling",
        "max_pool3d",
        {"N": 16, "C": 32, "D": 128, "H": 128, "W": 128},
        lambda x: F.max_pool3d(x, 3, 2, 1, 3),
    ),
    44: Case("pooling", "average_pool1d", {"N": 64, "C": 128, "L": 65536}, lambda x: F.avg_pool1d(x, 8, 1, 4)),
    45: Case("pooling", "average_pool2d", {"N": 16, "C": 64, "H": 2048, "W": 2048}, lambda x: F.avg_pool2d(x, 11)),
    46: Case(
        "pooling",
        "average_pool3d",
        {"N": 16, "C": 32, "D": 128, "H": 128, "W": 256},
        lambda x: F.avg_pool3d(x, 3, 2, 1),
    ),
    47: Case("reductions", "sum_dim", DIM, lambda x: x.sum(1)),
    48: Case("reductions", "mean_dim", DIM, lambda x: x.mean(1)),
    49: Case("reductions", "max_dim", DIM, lambda x: x.amax(1)),
    50: _conv2(4, (2, 2), N=256, C=3, H=224, W=224, F=96, R=11, S=11),
    51: Case("reductions", "argmax_dim", DIM, lambda x: x.argmax(1)),
    52: Case("reductions", "argmin_dim", DIM, lambda x: x.argmin(1)),
    53: Case("reductions", "min_dim", DIM, lambda x: x.amin(1)),
    54: _conv3(N=16, C=3, D=64, H=64, W=64, F=64),
    55: _conv2(N=8, C=64, H=512, W=1024, F=128),
    56: _conv2(N=8, C=64, H=512, W=256, F=128, R=5, S=7),
    57: _turned2(N=8, C=64, H=1024, W=1024, F=64),
    58: _turned3(N=16, C=32, D=16, H=32, W=64, F=16, Q=3, R=5, S=7),
    59: _conv3(N=16, C=3, D=256, H=256, W=10, F=64, Q=3, R=3, S=1),
    60: _conv3(N=16, C=3, D=64, H=64, W=64, F=64, Q=3, R=5, S=7),
    61: _turned3(N=8, C=48, D=64, H=64, W=64, F=48),
    62: _conv2(N=8, C=32, H=512, W=512, F=64, R=5, S=9),
    63: _conv2(N=16, C=16, H=1024, W=1024, F=128),
    64: _turned1(N=64, C=128, L=65536, F=128),
    65: _turned2(N=8, C=64, H=512, W=512, F=64, R=3, S=7),
    66: _conv3(N=8, C=3, D=16, H=128, W=128, F=64, Q=3, R=5, S=7),
    67: _conv("conv1d", F.conv1d, N=32, C=64, L=131072, F=128),
    68: _turned3(N=16, C=32, D=64, H=64, W=64, F=64, Q=3, R=5, S=5),
    69: _turned2(N=64, C=64, H=128, W=256, F=128, R=3, S=5),
    70: _turned3(N=8, C=48, D=96, H=96, W=96, F=24),
    71: _turned2(N=8, C=32, H=512, W=1024, F=32),
    72: _turned3(N=8, G=4, C=8, D=12, H=24, W=48, F=8, Q=3, R=5, S=7, stride=2, pad_z=1, pad_y=2, pad_x=3, more=1),
    73: _turned3(N=4, G=4, C=8, D=32, H=64, W=128, F=8, stride=2, pad_z=1, pad_y=1, pad_x=1),
    74: _turned1(N=32, C=32, L=131072, F=64, R=5, dilation=3),
    75: _turned2(
        N=16, G=4, C=8, H=128, W=256, F=16, R=3, S=5, stride_y=2, stride_x=3, pad_y=1, pad_x=2, step_y=2, step_x=1
    ),
    76: _conv("conv1d", lambda x, k, b: F.conv1d(x, k, b, 3, 0, 4), N=64, C=64, L=524280, F=128, stride=3, dilation=4),
    77: _turned3(N=16, C=32, D=16, H=32, W=32, F=64, stride=2, pad_z=1, pad_y=1, pad_x=1, step=2),
    78: _turned2(N=8, C=32, H=512, W=1024, F=32, R=3, S=7, pad_y=1, pad_x=3),
    79: _turned1(N=16, C=32, L=131072, F=64, stride=2, pad=1, dilation=2),
    80: _conv2(1, (2, 4), (2, 3), N=8, C=32, H=512, W=512, F=64, R=5, S=9),
    81: _turned2(N=16, C=32, H=64, W=128, F=64, stride_y=5, stride_x=5, pad_y=1, pad_x=1, step_y=2, step_x=2),
    82: _depthwise(N=16, C=64, H=512, W=512),
    83: _depthwise(N=64, C=8, H=512, W=512, R=3, S=1),
    84: _depthwise(N=64, C=128, H=256, W=512),
    85: _depthwise(N=32, C=128, H=128, W=256, R=3, S=7),
    86: _conv(
        "separable",
        lambda x, d, k: F.conv2d(F.conv2d(x, d[:, None], padding=1, groups=64), k[:, :, None, None]),
        N=16,
        C=64,
        H=512,
        W=512,
        F=128,
    ),
    87: _conv("pointwise", lambda x, k: F.conv2d(x, k[:, :, None, None]), N=16, C=64, H=1024, W=1024, F=128),
    88: Case("activations", "new_gelu", {"M": 8192, "N": 8192}, lambda x: F.gelu(x, approximate="tanh")),
    89: Case("scans", "cumsum", LONG, lambda x: x.cumsum(1)),
    90: Case("scans", "cumprod", LONG, lambda x: x.cumprod(1)),
    91: Case("scans", "cumsum_reverse", LONG, lambda x: x.flip(1).cumsum(1).flip(1)),
    92: Case("scans", "cumsum_exclusive", LONG, lambda x: F.pad(x.cumsum(1)[:, :-1], (1, 0))),
    93: Case("scans", "masked_cumsum", LONG, lambda x, mask: (x * mask).cumsum(1)),
    94: Case("losses", "mse_loss", LONG, _l(lambda p, t: torch.mean((p - t) ** 2))),
    95: Case("losses", "cross_entropy", {"M": 32768, "N": 4096}, _l(F.cross_entropy)),
    96: Case("losses", "huber_loss", LONG, _l(F.smooth_l1_loss)),
    97: Case(
        "attention", "attention", {"B": 32, "H": 32, "M": 512, "N": 512, "D": 1024}, F.scaled_dot_product_attention
    ),
    98: Case(
        "losses", "kl_div", {"M": 16384, "N": 16384}, _l(lambda p, t: F.kl_div(p.log(), t, reduction="batchmean"))
    ),
    99: Case("losses", "triplet_loss", {"M": 32768, "N": 8192}, _l(F.triplet_margin_loss)),
    100: Case("losses", "hinge_loss", LONG, _l(lambda p, t: torch.clamp(1 - p * t, min=0).mean())),
}


def inputs_of(kernel: Any, values: dict[str, int]) -> list[Any]:
    """Random inputs in the order of a call; labels are below the number of columns."""
    made: list[Any] = []
    scalars = {scalar.name for scalar in kernel.ir.scalars}
    for name in kernel.ir.parameters:
        if name in scalars:
            made.append(3.14)
            continue
        tensor = kernel.ir.tensor(name)
        shape = [extent.evaluate(values) for extent in tensor.shape]
        if tensor.dtype == "f32":
            made.append(1 - torch.rand(shape, device="cuda"))  # a loss takes logarithms, and 0 has none
        else:
            most, kind = (2, torch.uint8) if tensor.dtype == "u8" else (values["N"], torch.int64)
            made.append(torch.randint(0, most, shape, device="cuda", dtype=kind))
    return made


def milliseconds(call: Callable[[], Any], runs: int = 20) -> float:
    """The median time of a call."""
    times = []
    for _ in range(runs + 3):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        call()
        ended.record()
        ended.synchronize()
        times.append(begun.elapsed_time(ended))
    return median(times[3:])


def run(case: Case, *, compiled: bool, symbolic: bool) -> tuple[float, float, float, bool]:
    """(seconds of suggest, ms of torch, ms of tilegen, whether the results agree)."""
    file = tilegen.load(FOLDER / f"{case.file}.tg")
    constants = file.kernels[case.kernel].constants
    fixed = {name: value for name, value in case.values.items() if not symbolic or name in constants}
    kernel = file.kernel(case.kernel, **fixed)
    begun = perf_counter()
    made = kernel.suggest("h100", **{n: v for n, v in case.values.items() if n not in fixed})
    program = made.kernel(case.kernel, **fixed).schedule("suggested").compile("cuda")
    seconds = perf_counter() - begun
    inputs = inputs_of(kernel, case.values)
    expected, found = case.torch(*inputs), program(*inputs)
    scale = expected.abs().max().item() or 1.0
    right = bool(torch.allclose(expected.to(found.dtype), found, rtol=1e-3, atol=1e-4 * scale))
    del expected, found
    theirs = milliseconds(lambda: case.torch(*inputs))
    if compiled:
        faster = torch.compile(case.torch)
        theirs = min(theirs, milliseconds(lambda: faster(*inputs)))
    return seconds, theirs, milliseconds(lambda: program(*inputs)), right


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU: tilegen doctor says what is missing")
    words = sys.argv[1:]
    wanted = [int(word) for word in words if word.isdigit()] or list(CASES)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: ms of torch and of the suggestion")
    ratios = []
    for number in wanted:
        case = CASES[number]
        try:
            seconds, theirs, ours, right = run(case, compiled="--compile" in words, symbolic="--symbolic" in words)
        except (TilegenError, RuntimeError) as error:
            print(f"{number:3} {case.kernel:18} {str(error).splitlines()[0]}", flush=True)
            ratios.append(0.0)
            continue
        verdict = "" if right else "  WRONG"
        print(
            f"{number:3} {case.kernel:18} {theirs:9.3f} {ours:9.3f}  x {theirs / ours:5.2f}  {seconds:.1f} s{verdict}",
            flush=True,
        )
        ratios.append(theirs / ours if right else 0.0)
        torch.cuda.empty_cache()
    good = [ratio for ratio in ratios if ratio]
    shares = ", ".join(f"fast_{p} {sum(r > p for r in ratios) / len(ratios):.2f}" for p in (0.8, 0.97, 1.0, 1.5, 2.0))
    mean = exp(sum(map(log, good)) / len(good)) if good else 0.0
    print(f"{len(good)} of {len(ratios)} right, {shares}, geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
