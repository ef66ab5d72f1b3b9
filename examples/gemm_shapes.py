"""The matrix product in fp32 beside cuBLAS, with the schedule and the tiles that suit each shape, on a GPU.

    python examples/gemm_shapes.py [4096x4096x4096 ...]

Both are called plainly, and make their results; `prepared` launches on the same arrays again. All are timed in turns,
on random inputs that no cache holds; medians, in TFLOP/s. Each result is held against a product in float64. What one
row does, `tilegen compare gemm --schedule across --set TM=64 --size M=1024 ...` does too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import tilegen

try:
    import torch
except ImportError:
    sys.exit("torch is needed, and a GPU: pip install torch")
if not torch.cuda.is_available():
    sys.exit("torch finds no GPU: tilegen doctor says what is missing")

# M, N, K; a schedule of schedules/gemm.tg, or one of schedules/gemm_split.tg; its parameters.
SHAPES: tuple[tuple[tuple[int, int, int], str, dict[str, int]], ...] = (
    ((1024, 1024, 1024), "across", {"TM": 64, "TN": 128, "TK": 16, "WI": 2}),
    ((2048, 2048, 2048), "across", {}),
    ((4096, 4096, 4096), "across", {}),
    ((8192, 8192, 8192), "across", {}),
    ((16384, 1024, 4096), "across", {}),
    ((128, 8192, 8192), "split_k", {"KP": 2048}),
    ((512, 512, 65536), "split_k", {}),
    ((4095, 4093, 4097), "padded", {}),
)


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    programs: dict[str, Any] = {}
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: TFLOP/s, and of cuBLAS")
    for (m, n, k), schedule, parameters in SHAPES:
        if sys.argv[1:] and f"{m}x{n}x{k}" not in sys.argv[1:]:
            continue
        words = " ".join(f"{name}={value}" for name, value in parameters.items())
        program = programs.get(key := f"{schedule} {words}")
        if program is None:
            file = "gemm_split" if schedule == "atomic" or schedule.startswith("split") else "gemm"
            program = programs[key] = tilegen.load(file).schedule(schedule, **parameters).compile()
        report(program, (m, n, k), key)


def report(program: Any, shape: tuple[int, int, int], words: str) -> None:
    """One line: tilegen, cuBLAS, the ratio, the largest error of both."""
    m, n, k = shape
    # So many sets of inputs that none is still in the cache when its turn comes again.
    sets = 1 + 200_000_000 // (4 * (m * k + k * n))
    inputs = [(torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")) for _ in range(sets)]
    out = torch.empty(m, n, device="cuda")
    prepared = [program.prepare(*pair, C=out) for pair in inputs]
    calls: dict[str, Callable[[int], Any]] = {
        "tilegen": lambda turn: program(*inputs[turn % sets]),
        "prepared": lambda turn: prepared[turn % sets](),
        "cuBLAS": lambda turn: torch.matmul(*inputs[turn % sets]),
    }
    # Many short ones at a time: between two of them the host is not waited for.
    count = max(1, round(1e11 / (m * n * k)))
    found: dict[str, list[float]] = {word: [] for word in calls}
    for _ in range(15):
        for word, call in calls.items():
            call(0)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for turn in range(count):
                call(turn)
            end.record()
            end.synchronize()
            found[word].append(start.elapsed_time(end) / count)
    rates = {word: 2 * m * n * k / median(times[2:]) / 1e9 for word, times in found.items()}
    exact = inputs[0][0][:256].double() @ inputs[0][1].double()
    errors = [float((calls[word](0)[:256].double() - exact).abs().max()) for word in ("tilegen", "cuBLAS")]
    name, ratio = "x".join(map(str, shape)), rates["tilegen"] / rates["cuBLAS"]
    shown = "  ".join(f"{word} {rate:5.1f}" for word, rate in rates.items())
    print(f"{name:18} {shown}  {ratio:.3f} x  errors {errors[0]:.1e} {errors[1]:.1e}  {words}", flush=True)


if __name__ == "__main__":
    main()
