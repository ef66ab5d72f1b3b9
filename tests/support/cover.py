"""Two covers of the stock schedules: what the tests look at, and what the long ones do.

Those of the first have every feature of all schedules; those of the second every two features that a schedule has
together. `features` says what is counted, `greedy_cover` picks the schedules. Which they are is stored in tests/golden;
a nightly test computes them again (tests/35_schedule/test_stock_cover.py, which writes the files with --update-golden).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from tests.support.stock import cases, find, lower_stock, modules, schedule_stock
from tilegen.frontend.build import build_with_defaults
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import DTYPE_BYTES, Cast, Loop, Op, Stmt
from tilegen.ir.printing.show import show
from tilegen.ir.walk import loops, walk
from tilegen.ir.written import tree_of
from tilegen.lowering.launch.program import Start
from tilegen.lowering.launch.timelines import Arrive, Await, Barrier, Box

COVERS = {"features": "cover.txt", "pairs": "cover_of_pairs.txt"}
Marks = pytest.MarkDecorator | tuple[()]
_WAYS = {f.name: f.default for f in fields(Loop) if f.type in ("bool", "int", "str") and f.name not in ("name", "step")}


def stored(counted: str) -> Path:
    """The file that lists a cover of "features" or of "pairs"."""
    return Path(__file__).parents[1] / "golden" / COVERS[counted]


@cache
def cover(counted: str = "features") -> frozenset[tuple[str, str]]:
    """(file, schedule) of those that are stored."""
    names = stored(counted).read_text().split()
    return frozenset((name, schedule) for name, _, schedule in (line.partition(".") for line in names))


def features(name: str, schedule: str) -> set[tuple[str, ...]]:
    """Steps with their keywords, ways in which loops run, buffers, and what is in the lowered program."""
    made = schedule_stock(name, schedule)
    launches = lower_stock(name, schedule)
    found = {("step", each.step.word, *sorted(k.name for k in each.step.keywords)) for each in made.stages if each.step}
    for buffer in made.tree.buffers:
        found.add(("buffer", buffer.space, buffer.dtype, "of a fragment" if buffer.fragment else ""))
        found |= {("buffer", way) for way in ("joined", "pad", "panels", "pitch", "streamed") if getattr(buffer, way)}
        if buffer.swizzle:
            found.add(("swizzle", str(buffer.swizzle)))
    for loop in loops(made.tree.body):
        found |= {("loop", way) for way, usual in _WAYS.items() if getattr(loop, way) != usual and way != "kind"}
        found.add(("loop", loop.kind))
    found |= {("launches",)} if len(launches) > 1 else set()
    for launch in launches:
        found |= {("cluster",)} if launch.cluster else set()
        for node in walk(launch.body):
            found.add(("node", type(node).__name__))
            match node:
                case Affine():
                    found |= {("index", type(atom).__name__) for atom, _ in node.terms}
                case Start(line) | Arrive(line) | Await(line) | Barrier(line) | Box(line):
                    found.add(("timeline", type(node).__name__, line.name))
                case Op(name=operation, dtype=dtype):
                    found.add(("operation", operation, dtype))
                case Cast(arg=arg, dtype=dtype):
                    found.add(("cast", arg.dtype, dtype))
                case Stmt(reduce=str(reduce), value=value, atomic=atomic):
                    found.add(("reduction", reduce, value.dtype, "atomic" if atomic else ""))
    return found


def pairs(name: str, schedule: str) -> set[tuple[tuple[str, ...], ...]]:
    """Every two steps, ways of loops and waits that stand in it together."""
    found = features(name, schedule)
    return set(combinations(sorted(each for each in found if each[0] in ("step", "loop", "timeline")), 2))


def greedy_cover(counted: str) -> list[tuple[str, str]]:
    """Always the schedule that has most of what is missing for the size of its program.

    Then each of them gives way to the smallest one that has what it alone has, if there is anything.
    """
    has = {case: {"features": features, "pairs": pairs}[counted](*case) for case in cases()}
    size = {case: sum(1 for launch in lower_stock(*case) for _ in walk(launch.body)) for case in has}
    every, chosen = set().union(*has.values()), []
    missing = set(every)
    while missing:
        chosen.append(max(has, key=lambda case: len(has[case] & missing) / size[case]))
        missing -= has[chosen[-1]]
    for case in sorted(chosen, key=size.__getitem__, reverse=True):
        chosen.remove(case)
        if alone := every.difference(*(has[other] for other in chosen)):
            chosen.append(min((other for other in has if alone <= has[other]), key=size.__getitem__))
    return chosen


def first(values: Iterable[object], count: int = 1, long: int | None = None) -> list[object]:
    """Values of a parametrized test: after the first `count` they are long, after `long` more, if given, nightly."""
    given = [each if isinstance(each, tuple) else (each,) for each in values]
    ends = count, len(given) if long is None else count + long
    marks = [(), pytest.mark.long, pytest.mark.nightly]
    return [pytest.param(*each, marks=marks[sum(n >= end for end in ends)]) for n, each in enumerate(given)]


def is_repeated(name: str, schedule: str) -> bool:
    """True if the schedule is for a kernel that differs from one before it in types of the same size alone."""
    found = find(name, schedule)
    before = found.kernels[: found.kernels.index(found.kernel)]
    return any(_meaning(name, kernel) == _meaning(name, found.kernel) for kernel in before)


@cache
def _meaning(name: str, kernel: str) -> str:
    """The kernel as a tree as it is written, of types their bytes."""
    text = show(tree_of(build_with_defaults(modules()[name].kernels[kernel])))
    return re.sub(r"\w+", lambda word: f"bytes{DTYPE_BYTES.get(word[0], word[0])}", text)


def _listed(of_cover: Marks, of_pairs: Marks, others: Marks) -> pytest.MarkDecorator:
    def marks(case: tuple[str, str]) -> Marks:
        if case in cover():
            return of_cover
        return pytest.mark.nightly if is_repeated(*case) else of_pairs if case in cover("pairs") else others

    given = [pytest.param(*case, id=".".join(case), marks=marks(case)) for case in cases()]
    return pytest.mark.parametrize(("name", "schedule"), given)


# A test of every stock schedule, by its `name` and `schedule`: the cover at once, that of pairs before a change is in,
# the others nightly, like those that do for f16 what they do for bf16. What proves or counts sees the others before it
# is in, too.
each_stock_schedule = _listed((), pytest.mark.long, pytest.mark.nightly)
each_stock_schedule_short_or_long = _listed((), pytest.mark.long, pytest.mark.long)
each_stock_schedule_long_or_nightly = _listed(pytest.mark.long, pytest.mark.nightly, pytest.mark.nightly)
