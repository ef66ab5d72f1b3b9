"""What does a call cost the host? Microseconds of a call that adds two vectors, for tilegen and for others.

    python examples/call_cost.py [elements [calls]]

A GPU is needed, and cupy; rows of torch and Triton are there where these are installed. Each row is timed in rounds of
100 calls, which are not waited for, in another order each round: the median of the rounds, and between which values the
middle 60 % lie. `prepared` launches again on the same arrays, and rows with `into C` are given an output, as cupy's
RawKernel is; all others make a new output at each call. Without a GPU the same calls run on the CPU, beside numpy's:
there they return when the sum is there, so that these rows tell of PoCL, and of what Python does before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from random import sample
from statistics import quantiles
from time import perf_counter
from typing import Any

import numpy

import tilegen

ROUND = 100  # calls
RAW = """
extern "C" __global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""

Call = Callable[[], Any]


def main() -> None:
    if "--help" in sys.argv or not all(word.isdigit() for word in sys.argv[1:]):
        print(__doc__)
        return
    n, calls = (int(sys.argv[at]) if len(sys.argv) > at else usual for at, usual in ((1, 1024), (2, 2000)))
    add = tilegen.load("vector_add").schedule("vector").compile()
    a, b = (numpy.random.default_rng(seed).standard_normal(n, dtype="f4") for seed in (0, 1))
    rows, wait = rows_on_gpu(add, a, b) if add.on_gpu else rows_on_cpu(add, a, b)
    print(f"{add.device}, {n} elements: microseconds of the host a call, of {calls} calls each")
    report(rows, wait, max(3, calls // ROUND))


def rows_on_cpu(add: Any, a: Any, b: Any) -> tuple[dict[str, Call], Call]:
    """Ours beside numpy's."""
    print("no GPU is used here: `tilegen doctor` says what one needs")
    prepared = add.prepare(a, b)
    return {"tilegen, numpy": lambda: add(a, b), "tilegen, prepared": prepared, "numpy.add": lambda: a + b}, int


def rows_on_gpu(add: Any, host_a: Any, host_b: Any) -> tuple[dict[str, Call], Call]:
    """The calls by name, and one that waits for what they have launched."""
    import cupy

    a, b = cupy.asarray(host_a), cupy.asarray(host_b)
    c, n = cupy.empty_like(a), numpy.int32(len(a))
    raw, blocks = cupy.RawKernel(RAW, "add"), (-(-len(a) // 256),)
    rows: dict[str, Call] = {
        "tilegen, cupy": lambda: add(a, b),
        "tilegen, cupy, into C": lambda: add(a, b, C=c),
        "tilegen, prepared": add.prepare(a, b),
        "cupy.add": lambda: a + b,
        "cupy RawKernel": lambda: raw(blocks, (256,), (a, b, c, n)),
    }
    if find_spec("torch"):
        import torch

        x, y = torch.as_tensor(host_a, device="cuda"), torch.as_tensor(host_b, device="cuda")
        z = torch.empty_like(x)
        rows |= {
            "tilegen, torch": lambda: add(x, y),
            "tilegen, torch, into C": lambda: add(x, y, C=z),
            "tilegen, prepared, torch": add.prepare(x, y),
            "torch.add": lambda: torch.add(x, y),
        }
        if find_spec("triton"):
            sum_into = triton_sum(x.numel())
            rows["triton"] = lambda: sum_into(x, y, torch.empty_like(x))
            rows["triton, into C"] = lambda: sum_into(x, y, z)
    return rows, cupy.cuda.runtime.deviceSynchronize


def triton_sum(n: int) -> Callable[[Any, Any, Any], Any]:
    """A kernel of Triton's for n elements, which is given the output."""
    import triton
    import triton.language as tl

    globals()["tl"] = tl  # where Triton looks for it

    @triton.jit
    def add(a, b, c, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(c + i, tl.load(a + i, i < n) + tl.load(b + i, i < n), i < n)

    grid = (-(-n // 256),)
    return lambda x, y, z: add[grid](x, y, z, n, 256)


def report(rows: dict[str, Call], wait: Call, rounds: int) -> None:
    """One line for each row."""
    found: dict[str, list[float]] = {name: [] for name in rows}
    for turn in range(rounds + 2):
        for name, call in sample(sorted(rows.items()), len(rows)):
            call()
            wait()
            start = perf_counter()
            for _ in range(ROUND):
                call()
            passed = perf_counter() - start
            wait()
            if turn >= 2:  # the first rounds load and compile
                found[name].append(1e6 * passed / ROUND)
    print(f"{'':26} {'median':>7}  {'20 % .. 80 %':>16}")
    for name, times in found.items():
        p20, median, p80 = (quantiles(times, n=10, method="inclusive")[n] for n in (1, 4, 7))
        print(f"{name:26} {median:7.2f}  {p20:7.2f} .. {p80:6.2f}")


if __name__ == "__main__":
    main()
