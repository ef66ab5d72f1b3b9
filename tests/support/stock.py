"""The stock schedules, for tests: `cases()` lists them, `schedule_stock(file, name)` applies one."""

import re
from functools import cache, lru_cache
from pathlib import Path

from tilegen.backends.compiler import nvrtc
from tilegen.errors import TilegenError
from tilegen.frontend import build, data_folder
from tilegen.frontend.stock import stock, stock_instructions
from tilegen.judge.kernel.equations import check_equations
from tilegen.lowering import lower
from tilegen.schedule import apply


@cache
def instructions():
    """The stock instructions by name: of products by warpgroups a few widths."""
    columns = {8, 64, 128, 192, 256}
    found = ((name, re.match(r"wgmma_m64n(\d+)", name)) for name in stock_instructions())
    return {name: stock_instructions()[name] for name, wide in found if not wide or int(wide[1]) in columns}


@cache
def modules():
    names = (path.stem for path in sorted(Path(str(data_folder("schedules"))).glob("*.tg")))
    return {name: stock(name) for name in names if name != "instructions"}


LISTS = {"keypoints", "compaction"}  # files whose results are in any order


def cases():
    """(file, schedule) for each stock schedule; `kernel.schedule` for further kernels of one that is for several."""
    return [(name, label(s, name)) for name, module in modules().items() for s in module.schedules]


def label(schedule, file):
    alone = len(schedule.kernels) == 1 or schedule.kernel == file
    return schedule.name if alone else f"{schedule.kernel}.{schedule.name}"


def find(name, schedule):
    return next(s for s in modules()[name].schedules if label(s, name) == schedule)


LARGEST_TILE = 5000

# The interpreter walks every point of a launch, guards and all: of what only repeats it is given little. Blocks that
# compute one tile after the other, images of a tile, and points of a part of a long sum.
LITTLE = {"GZ": 2, "TN": 1, "KP": 64}
# Of rows that data give, tiles from each place where one may start.
TILES = {("grouped", "balanced"): {"TM": 64, "TN": 64}}
TILES |= {("sequences", schedule): {"T": 16} for schedule in ("threads", "tiles")}


def lighter(name, schedule):
    """`schedule_stock` with LITTLE of what only repeats, where its steps allow that."""
    found = find(name, schedule)
    own = {p.name: p.default for p in found.parameters}
    repeated = own.keys() & LITTLE.keys() - (set() if "conv" in found.kernel else {"TN"})
    little = dict(fewer(name, schedule)) | {each: LITTLE[each] for each in sorted(repeated)}
    little |= TILES.get((name, schedule), {})
    if "KP" in repeated:  # a part of a sum has whole tiles
        little["KP"] = max(LITTLE["KP"], own.get("TK", 1))
    try:
        return schedule_stock(name, schedule, smaller(name, schedule), tuple(little.items()))
    except TilegenError:  # as where images fill the rows that a warpgroup needs
        return schedule_stock(name, schedule)


# How many points a block or a launch takes is no tile, nor is the size of an image: fewer change nothing in the text.
FEWER = {
    ("gemm_split", "split_k"): (("KP", 64),),
    ("gemm_split", "split_transposed"): (("KP", 64),),
    ("gemm_split", "atomic"): (("KP", 64),),
    ("hgemm", "split_k"): (("KP", 448),),
    ("hgemm", "decoding"): (("KP", 576),),
    ("hgemm", "decoding_early"): (("KP", 384),),
    ("hgemm", "batched"): (("GZ", 2),),
    ("hgemm", "batched_small"): (("GZ", 2),),
    ("histogram", "shared"): (("PART", 2048), ("LOADS", 1)),
    ("histogram", "copies"): (("PART", 4096), ("LOADS", 1)),
    ("histogram_bytes", "copies"): (("PART", 2048), ("WARPS", 2)),
    ("nbody", "split"): (("PART", 512),),
    ("total", "two_launches"): (("PART", 4096),),
    ("total", "atomic"): (("PART", 4096),),
}
SMALLER = {"conv2d_winograd": (("H", 8), ("W", 8), ("TH", 2), ("TW", 2)), "histogram": (("B", 8),)}
SMALLER |= {"sequences": (("D", 8),), "sparse": (("P", 2), ("B", 1))}
SMALLER |= {"histogram_bytes": SMALLER["histogram"], "transposed_winograd": SMALLER["conv2d_winograd"]}


def fewer(name, schedule):
    """The parameters of FEWER."""
    return FEWER.get((name, schedule), ())


def smaller(name, schedule):
    """The constants of SMALLER that its kernel has."""
    known = stock(name).kernels[find(name, schedule).kernel].attributes
    return tuple((constant, value) for constant, value in SMALLER.get(name, ()) if constant in known)


def shorter(name, schedule):
    """`schedule_stock` with its own tiles, for fewer points."""
    return schedule_stock(name, schedule, smaller(name, schedule), fewer(name, schedule))


def tile(size, launches):
    """The least value of a size that meets what the launches require of it alone, as far as it can be met."""
    values = range(1, LARGEST_TILE)
    for launch in launches:
        for condition in launch.requires:
            if condition.value.names() == {size}:
                values = [n for n in values if condition.value.evaluate({size: n}) == 0] or values
    return values[0]


def schedule_stock(name, schedule, values=(), parameters=()):
    """The schedule applied, once for each worker however it is asked for."""
    return _schedule_once(name, schedule, values, parameters)


def lower_stock(name, schedule, *, vector=True, wide=None, whole=False, instructions=True):
    """The launches of a stock schedule in one of its versions."""
    return _lower_once(name, schedule, vector, wide, whole, instructions)


@lru_cache(maxsize=32)  # tests of one schedule follow each other
def _lower_once(name, schedule, vector, wide, whole, instructions):
    tree = schedule_stock(name, schedule).tree
    return lower(tree, vector=vector, wide=wide, whole=whole, instructions=instructions)


@lru_cache(maxsize=8)
def compile_stock(text, arch):
    """(machine code, PTX) of a text as it is shipped; several tests of a schedule ask for the same."""
    return nvrtc.compile_with_ptx(text, arch)


@cache
def _schedule_once(name, schedule, values, parameters):
    found = find(name, schedule)
    defines = {d.word: d for m in modules().values() for d in m.defines}
    kernel = check_equations(build(modules()[name].kernels[found.kernel], dict(values)))
    return apply(kernel, found, dict(parameters), defines, stock_instructions)
