"""Row sums, row argmax, softmax, layer norm and a long sum beside torch, torch.compile and a copy, on a GPU.

    python examples/rows.py [row_sum row_argmax softmax layer_norm total]

All of one kind are timed in turns, in another order each time, on random inputs that no cache holds; medians. Each
result is compared with torch's. `tilegen` is called as torch is, and makes its result at each call; `prepared` launches
on the same arrays again.
GB/s are those of the inputs read once and the outputs written once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import sample
from statistics import median
from typing import Any

import tilegen

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("torch is needed, and a GPU: pip install torch")
if not torch.cuda.is_available():
    sys.exit("torch finds no GPU: tilegen doctor says what is missing")

ROWS = ((16384, 16384), (262144, 1024))
# Schedule and its parameters for long rows and for short ones.
BEST: dict[str, tuple[tuple[str, dict[str, int]], ...]] = {
    "row_sum": (("blocks", {"WARPS": 32}), ("warps", {})),
    "row_argmax": (("blocks", {"WARPS": 8}), ("warps", {})),
    "softmax": (("blocks", {"WARPS": 32}), ("blocks", {"WARPS": 4})),
    "layer_norm": (("blocks", {"WARPS": 16}), ("blocks", {"WARPS": 4})),
}
TORCH: dict[str, Callable[..., Any]] = {
    "row_sum": lambda x: x.sum(1),
    "row_argmax": lambda x: x.argmax(1),
    "softmax": lambda x: torch.softmax(x, 1),
    "layer_norm": lambda x, scale, shift: F.layer_norm(x, scale.shape, scale, shift),
    "total": lambda x: x.sum(),
}


def main() -> None:
    wanted = sys.argv[1:] or list(TORCH)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: GB/s, and times the better of torch")
    for name, best in BEST.items():
        if name not in wanted:
            continue
        for (rows, length), (schedule, parameters) in zip(ROWS, best, strict=True):
            more = [torch.randn(length, device="cuda") for _ in range(2)] if name == "layer_norm" else []
            kernel = tilegen.load(name).kernel(name, N=length).schedule(schedule, **parameters)
            shown = f"{name} {rows}x{length} {schedule} {parameters or ''}"
            report(shown, name, kernel, [torch.randn(rows, length, device="cuda") for _ in range(2)], more)
    if "total" in wanted:
        vectors = [torch.randn(2**30, device="cuda") for _ in range(2)]
        report("total 2^30", "total", tilegen.load("total").schedule("atomic", PART=131072), vectors, [])


def report(shown: str, name: str, kernel: Any, inputs: list[Any], more: list[Any]) -> None:
    """One line: tilegen, torch, torch.compile, a copy of as many bytes."""
    mine, plain, compiled = kernel.compile(), TORCH[name], torch.compile(TORCH[name])
    got, wanted = mine(inputs[0], *more), plain(inputs[0], *more)
    moved = sum(t.numel() * t.element_size() for t in (inputs[0], *more, got))
    source = torch.empty(moved // 8, device="cuda")
    target = torch.empty_like(source)
    prepared = [mine.prepare(x, *more) for x in inputs]
    calls: dict[str, Callable[[int], Any]] = {
        "tilegen": lambda turn: mine(inputs[turn], *more),
        "prepared": lambda turn: prepared[turn](),
        "torch": lambda turn: plain(inputs[turn], *more),
        "compile": lambda turn: compiled(inputs[turn], *more),
        "copy": lambda turn: target.copy_(source),
    }
    times: dict[str, list[float]] = {word: [] for word in calls}
    for turn in range(24):
        for word, call in sample(sorted(calls.items()), len(calls)):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call(turn % 2)
            first.record()
            call((turn + 1) % 2)
            last.record()
            last.synchronize()
            times[word].append(first.elapsed_time(last))
    found = {word: median(all_[4:]) for word, all_ in times.items()}
    error = (got.double().flatten() - wanted.double().flatten()).abs().max() / wanted.double().abs().max()
    rates = "  ".join(f"{word} {moved / ms / 1e6:.0f}" for word, ms in found.items())
    ratio = min(found["torch"], found["compile"]) / found["tilegen"]
    print(f"{shown:44} {rates}  {ratio:.2f} x  error {float(error):.1e}")


if __name__ == "__main__":
    main()
