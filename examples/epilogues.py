"""What follows a product in its launch, and nearest neighbours, beside torch and torch.compile, on a GPU.

    python examples/epilogues.py [gelu short_gelu swiglu scaled_i8 scaled_e4m3 sums match_f16 match_tf32]

Timed as graphs.py says, over so many sets of random inputs that no cache holds them. After the ratio to the fastest
call of torch is the largest difference of a result from that of the first call, as a share of its largest number; of
indices, the share that differs. A schedule with `+` has dependent_launch(), and torch's calls have none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from graphs import CACHE, Calls, milliseconds_of_each, torch

import tilegen

F = torch.nn.functional
Inputs = tuple[Any, ...]


class Work(NamedTuple):
    """A kernel with its schedules at one size, and what torch has for it."""

    file: str
    kernel: str
    schedules: tuple[str, ...]
    inputs: Callable[[], Inputs]
    calls: dict[str, Callable[..., Any]]
    operations: float


def normal(*shape: int, dtype: Any = torch.float32, scale: float = 1.0) -> Any:
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def quantised(rows: int, columns: int, dtype: Any) -> Any:
    """Numbers of one byte."""
    if dtype == torch.int8:
        return torch.randint(-127, 128, (rows, columns), device="cuda", dtype=dtype)
    return normal(rows, columns).to(dtype)


def layer(m: int, n: int, k: int) -> Work:
    def gelu(a: Any, b: Any, bias: Any) -> Any:
        return F.gelu(torch.addmm(bias, a, b), approximate="tanh")

    half = torch.float16
    return Work(
        *("epilogues", "linear_gelu", ("activated", "activated+")),
        lambda: (normal(m, k, dtype=half), normal(k, n, dtype=half, scale=k**-0.5), normal(n, dtype=half)),
        {
            "cuBLASLt's epilogue": lambda a, b, bias: torch._addmm_activation(bias, a, b, use_gelu=True),
            "torch.compile": torch.compile(gelu),
        },
        2.0 * m * n * k,
    )


def swiglu(size: int) -> Work:
    def gated(a: Any, g: Any, u: Any) -> Any:
        return F.silu(a @ g) * (a @ u)

    def inputs() -> Inputs:
        weights = (normal(size, size, dtype=torch.bfloat16, scale=size**-0.5) for _ in range(2))
        return (normal(size, size, dtype=torch.bfloat16), *weights)

    schedules = ("side_by_side", "gated", "gated+")
    calls = {"torch.compile": torch.compile(gated), "torch": gated}
    return Work("epilogues", "swiglu", schedules, inputs, calls, 4.0 * size**3)


def scaled(word: str, size: int) -> Work:
    dtype = torch.int8 if word == "i8" else torch.float8_e4m3fn

    def integers(a: Any, b: Any, row: Any, column: Any) -> Any:
        return (torch._int_mm(a, b.T) * row[:, None] * column).bfloat16()

    def floats(a: Any, b: Any, row: Any, column: Any) -> Any:
        given = {"scale_a": row[:, None], "scale_b": column[None], "out_dtype": torch.bfloat16}
        return torch._scaled_mm(a, b.T, **given, use_fast_accum=True)

    def inputs() -> Inputs:
        scales = (torch.rand(size, device="cuda") + 0.5 for _ in range(2))
        return (quantised(size, size, dtype), quantised(size, size, dtype), *scales)

    calls = {"torch.compile": torch.compile(integers)} if word == "i8" else {"torch._scaled_mm": floats}
    return Work("epilogues", f"scaled_{word}", ("scaled",), inputs, calls, 2.0 * size**3)


def sums(size: int) -> Work:
    def op_by_op(a: Any, b: Any) -> Any:
        c = a @ b
        return c, c.float().sum(1), c.float().square().sum(1)

    def inputs() -> Inputs:
        b = normal(size, size, dtype=torch.bfloat16, scale=size**-0.5)
        return (normal(size, size, dtype=torch.bfloat16), b)

    calls = {"torch.compile": torch.compile(op_by_op)}
    return Work("epilogues", "linear_sums", ("summed",), inputs, calls, 2.0 * size**3)


def match(word: str, count: int) -> Work:
    dtype = torch.float16 if word == "f16" else torch.float32

    def nearest(a: Any, b: Any) -> Any:
        return torch.addmm((b * b).sum(1), a, b.T, alpha=-2).argmin(1)

    def inputs() -> Inputs:
        return (normal(count, 128, dtype=dtype), normal(count, 128, dtype=dtype))

    calls = {"matmul + argmin": nearest, "torch.compile": torch.compile(nearest)}
    schedule = "fused" if word == "f16" else "cut_off"
    return Work("matching_products", f"matching_{word}", (schedule,), inputs, calls, 2.0 * count**2 * 128)


WORKS: dict[str, Callable[[], Work]] = {
    "gelu": lambda: layer(4096, 4096, 4096),
    "short_gelu": lambda: layer(16384, 4096, 512),
    "swiglu": lambda: swiglu(8192),
    "scaled_i8": lambda: scaled("i8", 4096),
    "scaled_e4m3": lambda: scaled("e4m3", 4096),
    "sums": lambda: sums(4096),
    "match_f16": lambda: match("f16", 16384),
    "match_tf32": lambda: match("tf32", 16384),
}


def main() -> None:
    wanted = sys.argv[1:] or list(WORKS)
    unknown = [word for word in wanted if word not in WORKS]
    if unknown:
        sys.exit(f"{unknown[0]} is none of {', '.join(WORKS)}")
    torch.backends.cuda.matmul.allow_tf32 = True
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}: ms, TFLOP/s, of the fastest of torch, difference"
    )
    for word in wanted:
        print(word)
        report(WORKS[word]())
        torch.cuda.empty_cache()


def report(work: Work) -> None:
    """A line for each call of torch and each schedule."""
    first = work.inputs()
    size = sum(each.numel() * each.element_size() for each in first)
    sets = [first, *(work.inputs() for _ in range(min(12, 1 + CACHE // size)))]
    calls: dict[str, Calls] = {name: [partial(call, *each) for each in sets] for name, call in work.calls.items()}
    calls |= {name: prepared(work, name, sets) for name in work.schedules}
    results = {name: all_[0]() for name, all_ in calls.items()}
    found = milliseconds_of_each(calls)
    best = min(found[name] for name in work.calls)
    for name, ms in found.items():
        off = difference(results[name], results[next(iter(work.calls))])
        print(f"  {name:22} {ms:8.4f} {work.operations / ms / 1e9:7.0f}  {best / ms:.2f} x  {off:.1e}", flush=True)


def prepared(work: Work, name: str, sets: list[Inputs]) -> Calls:
    """A call of the schedule for each set of inputs, which keeps its results."""
    scheduled = tilegen.load(work.file).kernel(work.kernel).schedule(name.removesuffix("+"))
    program = (scheduled.dependent_launch() if name.endswith("+") else scheduled).compile("cuda")
    return [program.prepare(*each) for each in sets]


def difference(got: Any, wanted: Any) -> float:
    """Of the first results, where there are several."""
    got, wanted = (each[0] if isinstance(each, tuple) else each for each in (got, wanted))
    if not got.dtype.is_floating_point:
        return float((got != wanted).double().mean())
    return float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max())


if __name__ == "__main__":
    main()
