"""A layer of a model, linear with bias and GELU in bf16, as one kernel in the place of torch's two.

    python examples/torch_layer.py [tokens inputs outputs]

The kernel is an operator of torch with a gradient, so that the layer trains, and torch.compile takes the model around
it as one graph. On a GPU the layer is timed beside torch's own, called op by op and through torch.compile: forward
alone, and forward with backward, for which all of them use torch's products. Samples of 10 calls, in turns, in
another order each time; medians, of which the host is a part where it takes longer than the GPU. torch rounds the
product to bf16 before the GELU when it is called op by op; the kernel rounds once, and errors beside a layer in f32
are printed. Without a GPU the layer runs on the CPU, smaller and untimed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import sample
from statistics import median
from typing import Any

import tilegen
import tilegen.torch

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("torch is needed: pip install torch")

TEXT = """
def gelu(x) = 0.5 * x * (1 + erf(x * sqrt(0.5)))

# The weights are stored as torch's layers have them, a row for each output.
kernel linear_gelu(A: bf16[M, K], B: bf16[N, K], bias: bf16[N]) -> C: bf16[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[k](f32(A[i, k]) * f32(B[j, k]))
    C[i, j] = bf16(gelu(P[i, j] + f32(bias[j])))

# Hopper: two warpgroups take turns, one multiplies while the other one applies the GELU and stores.
schedule warpgroups for linear_gelu extends hgemm.ping_pong:
    instead of cache_shared(B):
        cache_shared(B, at=ko, vector=8) -> Bs
    instead of tensorize(i64):
        tensorize(i64, tj, k16, by=wgmma_m64n128k16_bf16)

# Hopper, where so few tokens have too few of those tiles for all multiprocessors.
schedule one_warpgroup for linear_gelu extends hgemm.one_warpgroup:
    instead of cache_shared(B):
        cache_shared(B, at=ko, vector=8) -> Bs
    instead of tensorize(i64):
        tensorize(i64, tj, k16, by=wgmma_m64n128k16_bf16)

# Since Ampere: warps, and mma.sync.
schedule warps for linear_gelu extends hgemm.overlapped:
    instead of tensorize(k16, nj):
        tensorize(k16, nj, j8, by=ldmatrix_b_bf16)
    instead of cache_register(P):
        cache_register(P, at=bj) -> Pf
"""
FEW = 512  # tokens
CALLS, ROUNDS = 10, 50


def backward(ctx: Any, grad: Any) -> tuple[Any, Any, Any]:
    """The gradients of the three inputs, by torch's products; what the GELU is applied to is computed again."""
    x, weight, bias, _ = ctx.saved_tensors
    before = torch.ops.aten.gelu_backward(grad, F.linear(x, weight, bias))
    return before @ weight, before.T @ x, before.sum(0)


def fused_layer(schedule: str) -> Callable[..., Any]:
    return tilegen.torch.op(tilegen.load(TEXT).schedule(schedule), "examples::linear_gelu", backward=backward)


class LinearGelu(nn.Module):
    """nn.Linear and nn.GELU as one operator, with the parameters of a layer that is there."""

    def __init__(self, linear: nn.Linear, operator: Callable[..., Any]) -> None:
        super().__init__()
        self.weight, self.bias, self._operator = linear.weight, linear.bias, operator

    def forward(self, x: Any) -> Any:
        return self._operator(x, self.weight, self.bias)


def choose_schedule(tokens: int) -> str:
    """For Hopper."""
    return "one_warpgroup" if tokens <= FEW else "warpgroups"


def main() -> None:
    if "--help" in sys.argv or not all(word.isdigit() for word in sys.argv[1:]):
        print(__doc__)
        return
    on_gpu = torch.cuda.is_available()
    usual = [8192, 4096, 4096] if on_gpu else [128, 64, 128]
    tokens, inputs, outputs = [int(word) for word in sys.argv[1:4]] + usual[len(sys.argv) - 1 :]
    device = "cuda" if on_gpu else "cpu"
    schedule = choose_schedule(tokens) if on_gpu and torch.cuda.get_device_capability() == (9, 0) else "warps"
    torch.manual_seed(0)
    linear = nn.Linear(inputs, outputs, device=device, dtype=torch.bfloat16)
    ours, theirs = LinearGelu(linear, fused_layer(schedule)), nn.Sequential(linear, nn.GELU())
    x = torch.randn(tokens, inputs, device=device, dtype=torch.bfloat16, requires_grad=True)
    name = torch.cuda.get_device_name() if on_gpu else "the CPU"
    print(f"{name}, torch {torch.__version__}, schedule {schedule}: {tokens} tokens, {inputs} -> {outputs}")
    check(ours, theirs, linear, x)
    backend = "inductor" if on_gpu else "aot_eager"  # inductor needs a C++ compiler on the CPU
    layers = {
        "torch": theirs,
        "torch.compile": torch.compile(theirs, backend=backend),
        "tilegen": ours,
        "tilegen in torch.compile": torch.compile(ours, fullgraph=True, backend=backend),
    }
    check(layers["tilegen in torch.compile"], theirs, linear, x)
    if on_gpu:
        report(layers, x, 2 * tokens * inputs * outputs)


def check(layer: Any, theirs: Any, linear: nn.Linear, x: Any) -> None:
    """Compares the layer and its gradients with torch's. Ends the program where they are wrong."""
    with torch.no_grad():
        exact = F.gelu(F.linear(x.float(), linear.weight.float(), linear.bias.float()))
        errors = [(each(x).float() - exact).abs() for each in (layer, theirs)]
        print(f"  the largest error: {errors[0].max():.3g}, of torch's op by op {errors[1].max():.3g}")
        if not bool((errors[0] <= 2**-8 * exact.abs() + 1e-3).all()):
            sys.exit("the layer is wrong")
    wanted = [x, linear.weight, linear.bias]
    direction = torch.randn_like(exact).to(x.dtype)
    pairs = [torch.autograd.grad(each(x), wanted, direction) for each in (layer, theirs)]
    for word, mine, other in zip(("x", "weight", "bias"), *pairs, strict=True):
        off = float((mine - other).float().norm() / other.float().norm())
        print(f"  gradient of {word}: {off:.2g} of its norm from torch's")
        if off > 2**-6:
            sys.exit("the gradient is wrong")


def report(layers: dict[str, Any], x: Any, operations: int) -> None:
    """A row for each layer: microseconds and TFLOP/s forward, microseconds forward and backward."""
    direction = torch.ones_like(layers["torch"](x))

    def forward(layer: Any) -> Callable[[], None]:
        def call() -> None:
            with torch.no_grad():
                layer(x)

        return call

    def train(layer: Any) -> Callable[[], None]:
        return lambda: torch.autograd.backward(layer(x), direction)

    infer = time_in_turns({name: forward(layer) for name, layer in layers.items()})
    both = time_in_turns({name: train(layer) for name, layer in layers.items()})
    print(f"{'':26}{'forward us':>12}{'TFLOP/s':>10}{'with backward us':>18}")
    for name in layers:
        print(f"{name:26}{infer[name]:12.1f}{operations / infer[name] / 1e6:10.0f}{both[name]:18.1f}")


def time_in_turns(calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median microseconds of a call."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(ROUNDS):
        for name in sample(list(calls), len(calls)):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(CALLS):
                calls[name]()
            end.record()
            end.synchronize()
            found[name].append(start.elapsed_time(end) / CALLS * 1e3)
    return {name: median(times) for name, times in found.items()}


if __name__ == "__main__":
    main()
