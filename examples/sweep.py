"""Random shapes beside torch: what the families of the stock files choose, and how far it is from torch, on a GPU.

    python examples/sweep.py KIND [--seed S] [--count N] [--file F.jsonl] [--seconds T] [--machine M] [--members]
        [--prepare] [--late]

KIND is one of KINDS below. Each size is log-uniform from 16 to 16384, columns of rows from 16 to 2^20, vectors to
2^30; in three fourths of the shapes all are multiples of 16 (of e4m3, as torch wants it, in all); products have 10^8
multiply-adds at least. Layers have 1 to 64 images of 7 x 7 to 224 x 224 pixels, 16 to 2048 channels and filters, and
10^8 to 10^11 multiply-adds; conv3_2 has filters of 3 x 3 at every second pixel. Both sides run in CUDA graphs, on
inputs that no cache holds; ratios are torch's time over ours (of rows, columns and totals: that of the faster of torch
and torch.compile). Each result is held against torch's. What has been measured stands in the file, and is not measured
again: where --seconds end it, the same command goes on.

--machine is the one whose figures choose, an H100 if none is named. --prepare judges, proves and compiles what will run
there, on all cores and without a GPU: the times find it on the disk (TILEGEN_CACHE_DIR). --members times all members of
the family that are not predicted to be four times as slow: by these times `examples/fit.py` fits the model. --late
leaves out the members whose launches begin while the one before them still runs: torch's do not, and in a graph of one
product after the other that is worth a launch.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean
from time import monotonic
from typing import Any

import tilegen
from tilegen.backends.compiler.architectures import compiled_architecture, instructions_of
from tilegen.backends.compiler.nvrtc import compile_text
from tilegen.lab.choice.family import Chooser
from tilegen.lab.counts import metric

# The file, the kernel, the type of the inputs, the kernel's constants.
KINDS: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "bf16": ("hgemm", "hgemm", "bfloat16", {}),
    "f16": ("hgemm", "hgemm_f16", "float16", {}),
    "bf16_nt": ("hgemm", "hgemm_nt", "bfloat16", {}),
    "f32": ("gemm", "gemm", "float32", {}),
    "softmax": ("rows", "softmax_rows", "float32", {}),
    "layer_norm": ("rows", "layer_norm_rows", "float32", {}),
    "sums": ("rows", "sum_rows", "float32", {}),
    "argmax": ("rows", "argmax_rows", "float32", {}),
    "tf32": ("hgemm", "hgemm_tf32_rz", "float32", {}),
    "e4m3": ("hgemm", "hgemm_e4m3", "float8_e4m3fn", {}),
    "columns": ("columns", "sum_columns", "float32", {}),
    "totals": ("total", "total", "float32", {}),
    "transposes": ("transpose", "transpose", "float32", {}),
    "conv1": ("hconv", "hconv_1x1", "float16", {}),
    "conv3": ("hconv", "hconv", "float16", {}),
    "conv3_2": ("hconv", "hconv", "float16", {"stride": 2}),
    "conv7_2": ("hconv", "hconv", "float16", {"R": 7, "stride": 2, "pad": 3}),
}
LIMITS = {"B": (1, 64), "C": (16, 2048), "F": (16, 2048), "H": (7, 224), "W": (7, 224)}  # of layers
Sizes = dict[str, int]


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("kind", choices=KINDS)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--count", type=int, default=60)
    words.add_argument("--file", default="")
    words.add_argument("--seconds", type=float, default=math.inf)
    words.add_argument("--members", action="store_true")
    words.add_argument("--prepare", action="store_true")
    words.add_argument("--late", action="store_true")
    words.add_argument("--machine", default="h100")
    given = words.parse_args()
    chooser = chooser_of(given.kind, given.late, given.machine)
    wanted = list(draw(given.kind, given.seed, given.count, chooser))
    if given.prepare:
        prepare(given.kind, given.machine, chooser, wanted, given.members)
        return
    file = Path(given.file or f"sweep-{given.kind}-{given.seed}.jsonl")
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    done = {(tuple(each["sizes"].items()), each["member"]) for each in found}
    ends = monotonic() + given.seconds
    with file.open("a") as out:
        for line in measure(given.kind, chooser, wanted, given.members, done, ends):
            found.append(line)
            print(json.dumps(line), file=out, flush=True)
    report(given.kind, chooser, found)


@cache
def chooser_of(kind: str, late: bool = False, machine: str = "h100") -> Chooser:
    file, kernel, _, constants = KINDS[kind]
    found = tilegen.load(file).kernel(kernel, **constants).family(machine)
    assert found
    if not late:
        return found
    there = [each for each in found.candidates if not each.tree.dependent]
    return Chooser(found.name, found.kernel, there, found.machine, found.values, known=not constants)


def draw(kind: str, seed: int, count: int, chooser: Chooser) -> Iterator[Sizes]:
    """The shapes, the same for each seed."""
    chance, names, left = random.Random(seed), sorted(chooser.kernel.sizes), count
    for_layers, product = "H" in names, "K" in names
    most = 2**30 if names == ["N"] else 2**20
    while left:
        whole = chance.random() < 0.75 or kind == "e4m3"
        sizes = {}
        for name in names:
            low, high = LIMITS[name] if for_layers else (16, most if name == "N" and not product else 16384)
            size = round(math.exp(chance.uniform(math.log(low), math.log(high))))
            sizes[name] = size // 16 * 16 if whole and name in stepped(names) else size
        if for_layers:
            sizes["W"] = sizes["H"]
        work = metric.operations(chooser.kernel, sizes) / 2 if for_layers else math.prod(sizes.values())
        if 1e8 <= work <= (1e11 if for_layers else math.inf) if product or for_layers else work <= 2**31:
            left -= 1
            yield sizes


def stepped(names: Iterable[str]) -> set[str]:
    """The sizes whose multiples of 16 are a group of their own."""
    return {"C", "F"} if "H" in names else set(names)


def members(chooser: Chooser, sizes: Sizes, every: bool) -> list[Any]:
    """The member chosen, or all that are worth a measurement."""
    if not every:
        return [chooser.choose(**sizes)]
    served = [each for each in chooser.candidates if each.serves({**chooser.values, **sizes})]
    least = min(each.microseconds(sizes) for each in served)
    near = [each for each in served if each.microseconds(sizes) < 4 * least]
    return [each for each in near if not chooser.fault(each)]


def prepare(kind: str, machine: str, chooser: Chooser, wanted: list[Sizes], every: bool) -> None:
    names: dict[str, list[Sizes]] = {}
    for sizes in wanted:
        for each in members(chooser, sizes, every):
            names.setdefault(each.name, []).append(sizes)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for name, count in pool.map(_prepare, repeat(kind), repeat(machine), names, names.values()):
            print(f"{name}: {count} texts", flush=True)


def _prepare(kind: str, machine: str, name: str, wanted: list[Sizes]) -> tuple[str, int]:
    """Proves and compiles the versions of a member that these sizes choose."""
    member = next(each for each in chooser_of(kind, machine=machine).candidates if each.name == name)
    versions = member.scheduled().versions("cuda")
    chosen = {versions.choose(sizes, {}) for sizes in wanted}
    for version in chosen:
        text = versions.text(version, unproved=False)
        compile_text(text, compiled_architecture(instructions_of(versions.launches(version)), "sm_90"))
    return name, len(chosen)


def measure(
    kind: str, chooser: Chooser, wanted: list[Sizes], every: bool, done: set[Any], ends: float
) -> Iterator[dict[str, Any]]:
    """A line for each shape and each of torch and the members, which are timed in turns."""
    from graphs import CACHE, milliseconds_of_each, torch

    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    torch.backends.cudnn.benchmark = True
    programs = dict[str, Any]()
    for sizes in wanted:
        there = members(chooser, sizes, every)
        if all((tuple(sizes.items()), each.name) in done for each in there):
            continue
        if monotonic() > ends:
            return
        for each in (each for each in there if each.name not in programs):
            programs[each.name] = each.scheduled().compile("cuda")
        first = inputs(torch, kind, chooser, sizes)
        count = 1 + CACHE // sum(each.nbytes for each in first)
        sets = [first, *(inputs(torch, kind, chooser, sizes) for _ in range(min(8, count) - 1))]
        calls: dict[str, Any] = {}
        for name, call in of_torch(torch, kind).items():
            calls[name] = [lambda given=given, call=call: call(*given) for given in sets]
        for each in there:
            calls[each.name] = [programs[each.name].prepare(*given) for given in sets]
        expected = next(iter(calls.values()))[0]()
        for each in there:
            check(torch, kind, programs[each.name](*sets[0]), expected, sizes)
        for name, milliseconds in milliseconds_of_each(calls, 5).items():
            line = {"kind": kind, "sizes": sizes, "member": name, "us": round(1e3 * milliseconds, 3)}
            yield {**line, "device": torch.cuda.get_device_name()}


def shapes(chooser: Chooser, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    tensors = (chooser.kernel.tensor(name) for name in chooser.kernel.parameters)
    return {each.name: tuple(extent.evaluate(sizes) for extent in each.shape) for each in tensors}


def inputs(torch: Any, kind: str, chooser: Chooser, sizes: Sizes) -> list[Any]:
    dtype = getattr(torch, KINDS[kind][2])
    return [torch.randn(shape, device="cuda").to(dtype) for shape in shapes(chooser, sizes).values()]


def of_torch(torch: Any, kind: str) -> dict[str, Any]:
    """The calls of torch by name."""
    norm, one = torch.nn.functional.layer_norm, torch.ones((), device="cuda")
    given = {"pad": int(kind != "conv1"), "stride": 1} | KINDS[kind][3]
    step = {"stride": given["stride"], "padding": given["pad"]}

    def layer(x: Any, k: Any) -> Any:
        k = k[:, None, None] if kind == "conv1" else k
        return torch.conv2d(x.permute(0, 3, 1, 2), k.permute(0, 3, 1, 2), **step).permute(0, 2, 3, 1)

    plain = {
        "bf16_nt": lambda a, b: torch.mm(a, b.T),
        "softmax": lambda x: torch.softmax(x, 1),
        "layer_norm": lambda x, scale, shift: norm(x, scale.shape, scale, shift),
        "sums": lambda x: x.sum(1),
        "argmax": lambda x: x.argmax(1),
        "e4m3": lambda a, b: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True),
        "columns": lambda x: x.sum(0),
        "totals": lambda x: x.sum(0, keepdim=True),
        "transposes": lambda x: x.T.contiguous(),
    }.get(kind, layer if KINDS[kind][0] == "hconv" else torch.mm)
    sums = KINDS[kind][0] in ("rows", "columns", "total")
    return {"torch": plain, **({"torch.compile": torch.compile(plain, dynamic=True)} if sums else {})}


def check(torch: Any, kind: str, found: Any, expected: Any, sizes: Sizes) -> None:
    """Ends where a result is wrong; errors of rounding are allowed for."""
    if kind == "argmax":
        right = bool((found == expected).all())
    else:
        scale = expected.float().abs().max().item()
        if kind in ("sums", "columns", "totals"):
            scale += math.sqrt(max(sizes.values()))
        right = (found.float() - expected.float()).abs().max().item() <= 2e-2 * scale
    if not right:
        raise SystemExit(f"{kind} {sizes}: the result is wrong")


def multiples(sizes: Sizes) -> bool:
    return all(sizes[name] % 16 == 0 for name in stepped(sizes))


def report(kind: str, chooser: Chooser, found: list[dict[str, Any]]) -> None:
    """The ratios: of multiples of 16 and of others, those below 5 us apart."""
    machine = chooser.machine
    ratios: dict[str, list[tuple[float, str]]] = {}
    lost = []
    for key in {tuple(each["sizes"].items()) for each in found}:
        times = {each["member"]: each["us"] for each in found if tuple(each["sizes"].items()) == key}
        sizes, own = dict(key), {name: us for name, us in times.items() if not name.startswith("torch")}
        chosen = chooser.choose(**sizes).name
        if chosen not in own:
            continue
        bytes_, operations = metric.moved_bytes(chooser.kernel, sizes), metric.operations(chooser.kernel, sizes)
        word = {"bfloat16": "bf16", "float16": "f16", "float8_e4m3fn": "e4m3"}.get(KINDS[kind][2], kind)
        rate = machine.tensor.peaks.get(word, machine.multiply_adds)
        short = max(bytes_ / machine.copy, operations / rate) / 1e6 < 5
        group = "below 5 us" if short else "multiples of 16" if multiples(sizes) else "others"
        beside = min(us for name, us in times.items() if name.startswith("torch"))
        words = "x".join(str(sizes[name]) for name in chooser.kernel.sizes)
        ratios.setdefault(group, []).append((beside / own[chosen], f"{words} {chosen} {own[chosen]:.1f} us"))
        lost.append(own[chosen] / min(own.values()))
    for group, each in sorted(ratios.items()):
        each.sort()
        print(
            f"{kind}, {group}: {len(each)} shapes, mean {geometric_mean(r for r, _ in each):.3f}, "
            f"5th percentile {each[len(each) // 20][0]:.3f}, worst {each[0][0]:.3f}"
        )
        for ratio, words in each[:5]:
            print(f"  {ratio:.3f}  {words}")
    if lost:
        print(f"{kind}: the choice takes {geometric_mean(lost):.3f} of the best member's time")


if __name__ == "__main__":
    main()
