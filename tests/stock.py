"""The stock schedules, for tests: `cases()` lists them, `scheduled(file, name)` applies one."""

from functools import cache
from pathlib import Path

from tilegen.errors import Source
from tilegen.frontend import build, data_folder, parse
from tilegen.schedule import apply


@cache
def modules():
    folder = Path(str(data_folder("schedules")))
    return {path.stem: parse(Source(path.name, path.read_text())) for path in sorted(folder.glob("*.tg"))}


def cases():
    return [(name, s.name) for name, module in modules().items() for s in module.schedules]


# What the interpreter runs: tiles much larger than the sizes of tests are walked point by point, guard by guard.
_SPLIT = (("KP", 32), ("TM", 32), ("TN", 64), ("TK", 8), ("WI", 2), ("WJ", 2))
LIGHTER = {
    ("gemm_split", "split_k"): _SPLIT,
    ("gemm_split", "atomic"): _SPLIT,
    ("conv2d_winograd", "products"): (("COUNT", 32), ("TF", 32), ("TP", 32), ("TC", 4), ("WF", 1), ("WP", 1)),
}


def lighter(name, schedule):
    """`scheduled`, with smaller tiles where the schedule's own cost an interpreter minutes."""
    return scheduled(name, schedule, parameters=LIGHTER.get((name, schedule), ()))


@cache
def scheduled(name, schedule, values=(), parameters=()):
    module = modules()[name]
    found = next(s for s in module.schedules if s.name == schedule)
    defines = {d.word: d for m in modules().values() for d in m.defines}
    return apply(build(module.kernels[found.kernel], dict(values)), found, dict(parameters), defines)
