"""Blocks that hand on a value: judged, proved, printed, simulated; and faults, each of which is seen."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import accumulate

import pytest

from tests.support.reader.readback import difference
from tests.support.simulator.handing_on import FAULTS, Stuck, blocks_hand_on
from tests.support.simulator.threads import faults
from tilegen import load
from tilegen.backends.text import emit
from tilegen.errors import TilegenError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import Const, Stmt
from tilegen.ir.walk import rewrite
from tilegen.lowering import lower
from tilegen.lowering.launch.grid import Product
from tilegen.lowering.launch.program import For, If
from tilegen.lowering.launch.timelines import LookBack
from tilegen.proof import prove

STEPS = """
    reassociate(y)
    split_scan(y, 32) -> total, local, ahead
    scan(local, along=total)
    scan(ahead) -> run
    tile(total.io, parts=1) -> o, c
    tile(y.io, parts=1) -> o2, c2
    fuse(o, ahead.o, o2) -> o
    fuse(c, ahead.io, c2) -> c
    cache_register(run, at=o)
    cache_register(total, at=c)
    cache_register(ahead, at=c)
    bind(total.ki, thread.x)
    bind(y.ii, thread.x)
    cache_register(local, at=c)
    look_back(c)
"""


PAIRS = """
    reassociate(y)
    split_scan(y, 32) -> total, local, ahead, factor, factors
    scan(local, along=total)
    scan(factors, along=factor)
    scan(ahead) -> run
    fuse(total.io, factor.io) -> c
    fuse(total.ki, factor.ki) -> k
    tile(c, parts=1) -> o, c
    tile(y.io, parts=1) -> o2, c2
    fuse(o, ahead.o, o2) -> o
    fuse(c, ahead.io, c2) -> c
    cache_register(run, at=o)
    cache_register(total, at=c)
    cache_register(factor, at=c)
    cache_register(ahead, at=c)
    bind(k, thread.x)
    bind(y.ii, thread.x)
    cache_register(local, at=c)
    cache_register(factors, at=c)
    look_back(c)
"""


def scheduled(equation="y[i] = sum[k <= i](x[k])", steps=STEPS, dtype="f32"):
    text = f"kernel sums(x: {dtype}[N], z: {dtype}[N]) -> y: {dtype}[N]:\n    {equation}\nschedule s for sums():{steps}"
    return load(text).schedule("s").tree


@cache
def small():
    return scheduled()


@cache
def pairs():
    return scheduled("y[i] = z[i] * (y[i - 1] else 0) + x[i]", PAIRS)


@cache
def stock():
    return load("prefix").schedule("look_back", WARPS=2).tree


@pytest.mark.parametrize("tree", [small, pairs, stock])
@pytest.mark.parametrize("version", [{}, {"whole": True}, {"vector": False}])
def test_launches_are_proved_and_read_back(tree, version):
    tree = tree()
    launches = lower(tree, **version)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
    loop = lower(tree, instructions=False, **version)
    assert not any(isinstance(node, LookBack) for node in loop[0].nodes)  # OpenCL runs one block
    assert difference(emit(loop, "opencl"), loop, "opencl") is None


@pytest.mark.parametrize("tree", [small, pairs])
@pytest.mark.parametrize("sizes", [{"N": 1}, {"N": 64}, {"N": 99}])
def test_every_thread_of_every_block_is_simulated(tree, sizes):
    assert faults(lower(tree()), tree(), sizes) is None


@pytest.mark.parametrize(
    ("equation", "dtype"),
    [
        ("y[i] = sum[k < i](x[k])", "f32"),
        ("y[i] = sum[k >= i](x[k])", "f32"),
        ("y[i] = max[k > i](x[k])", "i32"),
        ("y[i] = prod[k <= i](x[k])", "f32"),
        ("y[i] = max[k <= i](x[k])", "f32"),
        ("y[i] = min[k < i](x[k])", "i32"),
        ("y[i] = sum[k <= i](x[k] if z[k] > 0 else 0)", "f32"),
        ("y[i] = sum[k <= i](x[k] * z[k])", "f32"),
    ],
)
def test_any_running_reduction_looks_back(equation, dtype):
    tree = scheduled(equation, dtype=dtype)
    launches = lower(tree)
    assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved"
    assert difference(emit(launches), launches, "cuda") is None
    assert faults(launches, tree, {"N": 70}) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    reassociate(y)\n", "    reassociate(y)\n    look_back(i)\n", "one register"),
        ("look_back(c)", "look_back(o)", "one register"),
        (
            "look_back(c)",
            "look_back(c)\n    cache_shared(x, at=c)\n    pipeline(c, 2)",
            "copies for one start in another",
        ),
    ],
)
def test_steps_that_share_more_are_refused(old, new, message):
    with pytest.raises(TilegenError, match=message):
        scheduled(steps=STEPS.replace(old, new))


def test_values_of_64_bits_have_no_word():
    with pytest.raises(TilegenError, match="32 bits"):
        scheduled(dtype="f64")


# -- faults in programs


def nodes_changed(launch, change):
    """The launch with `change` made to what finds the value."""
    return replace(launch, body=rewrite(launch.body, lambda v: change(v) if isinstance(v, LookBack) else v))


def moved_behind(launch):
    """The look-back stands at the end of the iteration."""

    def change(node):
        if isinstance(node, For) and node.kind == "handed":
            node = replace(node, body=(*rewrite(node.body, lambda v: () if isinstance(v, LookBack) else v), found))
        return node

    (found,) = [node for node in launch.nodes if isinstance(node, LookBack)]
    return replace(launch, body=rewrite(launch.body, change))


def some_threads(launch):
    """A few threads alone look back."""
    test = load("kernel f(x: f32[N]) -> y: f32[N]:\n    y[i] = x[i] for i < 3\n").kernel().ir.equations[0].conditions
    ((name, *_),) = [c for c in launch.coordinates if c[1] == "thread.x"][:1]
    tests = tuple(c._replace(value=c.value.substitute({"i": var(name)})) for c in test)
    return nodes_changed(launch, lambda node: If(tests, (node,)))


def in_sequence_still(launch):
    """The loop is a loop, and each of the blocks runs all of it."""
    kinds = rewrite(
        launch.body, lambda v: replace(v, kind="serial") if isinstance(v, For) and v.kind == "handed" else v
    )
    return replace(launch, body=kinds)


def handed(launch):
    """The name of what blocks hand on."""
    (name,) = {node.buffer for node in launch.nodes if isinstance(node, LookBack)}
    return name


def of_64_bits(launch):
    name = handed(launch)
    return replace(launch, buffers={**launch.buffers, name: replace(launch.buffers[name], dtype="f64")})


def updated_twice(launch):
    name = handed(launch)

    def change(node):
        return (node, node) if isinstance(node, Stmt) and node.reduce and node.target.buffer == name else node

    return replace(launch, body=rewrite(launch.body, change))


MUTANTS = {
    "of 64 bits": of_64_bits,
    "updated twice": updated_twice,
    "left out": lambda launch: nodes_changed(launch, lambda node: ()),
    "twice": lambda launch: nodes_changed(launch, lambda node: (node, node)),
    "another operation": lambda launch: nodes_changed(launch, lambda node: replace(node, reduce="max")),
    "another total": lambda launch: nodes_changed(launch, lambda node: replace(node, value=Const(1.0, "f32"))),
    "another factor": lambda launch: nodes_changed(launch, lambda node: replace(node, factor=Const(1.0, "f32"))),
    "fewer blocks": lambda launch: nodes_changed(launch, lambda node: replace(node, blocks=node.blocks - 1)),
    "another loop": lambda launch: nodes_changed(launch, lambda node: replace(node, block="o")),
    "a grid of one more": lambda launch: replace(
        launch, grid=(Product((launch.grid[0].factors[0] + 1,)), *launch.grid[1:])
    ),
    "blocks along y": lambda launch: replace(launch, grid=(launch.grid[0], Product((const(2),)), launch.grid[2])),
    "behind its uses": moved_behind,
    "by some threads": some_threads,
    "in sequence still": in_sequence_still,
    "too few words": lambda launch: replace(
        launch,
        buffers={
            n: replace(b, shape=(b.shape[0] - 1,)) if b.role == "states" else b for n, b in launch.buffers.items()
        },
    ),
}


@pytest.mark.parametrize("tree", [small, pairs])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_in_the_program_is_seen(tree, name):
    tree = tree()
    (launch,) = lower(tree)
    proof = prove(tree.kernel, (MUTANTS[name](launch),), tree.reassociated)
    assert proof.verdict.startswith("refused"), name


def test_terms_that_keep_their_order_are_not_handed_on():
    tree = small()
    free = tuple(name for name in tree.reassociated if name != "run")
    assert prove(tree.kernel, lower(tree), free).verdict.startswith("refused")


# -- the words, with blocks in any order

TOTALS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
FACTORS = [2, 3, 1, 1, 2, 1, 3, 1, 2, 1, 1]


def before(launch, factors):
    """What the blocks before each make of 0, in a launch of a number."""
    steps = zip([f + launch for f in factors] if factors else [1] * len(TOTALS), TOTALS, strict=True)
    return [*accumulate(list(steps)[:-1], lambda value, step: step[0] * value + step[1] * launch, initial=0)]


def runs(fault, factors, cases=60):
    """What comes of many orders: "right", "wrong" or "stuck"."""
    for number in range(cases):
        pick = random.Random(number).choice
        resident = pick([1, 2, 3, 7, 20])
        try:
            found = blocks_hand_on(TOTALS, resident, pick, fault, factors=factors)
            wanted = [before(launch, factors) for launch in (1, 2)]
            yield "right" if found == wanted else "wrong"
        except Stuck:
            yield "stuck"


@pytest.mark.parametrize("factors", [None, FACTORS])
def test_blocks_in_any_order_find_what_is_before_them(factors):
    assert set(runs(None, factors, 300)) == {"right"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_words_is_seen(fault):
    ways = (FACTORS,) if "factor" in fault else (None, FACTORS)
    assert all(set(runs(fault, factors)) - {"right"} for factors in ways), fault
