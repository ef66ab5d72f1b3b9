"""Places that depend on data: what is printed, what runs, what is refused, and which faults are seen."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tilegen
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.ir.affine import const
from tilegen.ir.nodes import Const, Load, Loop, Op, Stmt
from tilegen.ir.walk import rewrite
from tilegen.judge import judge
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If
from tilegen.proof import prove

COUNTED = """
kernel counted(x: i32[N]) -> h: i32[5]:
    h[b] = sum[i](1 if x[i] == b else 0)

schedule s for counted():
    reassociate(h)
    tile(i, 8) -> p, r
    tile(r, 4) -> c, t
    rfactor(h, [p, t]) -> mine
    rfactor(h, h.p) -> part
    reassociate(mine, part)
    atomic(h)
    tile(c, 1) -> w, c
    order(p, w, t, c, b)
    scatter(b)
    order(h.p, h.b, h.t)
    order(h.p2, h.b2)
    fuse(p, h.p) -> p
    fuse(p, h.p2) -> p
    fuse(h.b, h.b2) -> k
    cache_shared(mine, at=p, layout=[b, t])
    atomic(mine)
    cache_register(part, at=k)
    rename(t, h.t) -> t
    bind(p, block.x)
    bind(w, thread.y)
    bind(t, thread.x)
"""
TREE = tree_from(COUNTED)
EMBEDDED = """
kernel embedded(token: i64[T], dY: f32[T, D]) -> dW: f32[V, D]:
    dW[v, d] = sum[t](dY[t, d] if token[t] == v else 0)

schedule s for embedded():
    reassociate(dW)
    atomic(dW)
    order(t, v, d)
    scatter(v)
    bind(t, block.x)
    tile(d, 4) -> c, l
    bind(l, thread.x)
"""


def test_the_text_computes_the_place():
    launches = lower(TREE)
    text = emit(launches)
    assert "const int b = x[p * 8 + w * 4 + t];" in text
    assert "if (b >= 0 && b < 5)" in text
    assert "atomicAdd(&mine_shared[b][t], 1);" in text
    assert "const long long v = token[t];" in emit(lower(tree_from(EMBEDDED)))


@pytest.mark.pocl
@pytest.mark.parametrize("values", [[0] * 17, [4] * 8, [-1, 5, 2**31 - 1, -(2**31), 3], [7], [0, 1, 2, 3, 4] * 5])
def test_all_equal_and_out_of_range(values):
    x = np.array(values, np.int32)
    inside = x[(x >= 0) & (x < 5)]
    program = tilegen.load(COUNTED).schedule("s").compile("cpu")
    assert np.array_equal(program(x), np.bincount(inside, minlength=5))


def change(tree, what):
    return replace(tree, body=rewrite(tree.body, what))


def neutral(value):
    """What does not run would have added 1."""
    match value:
        case Op("select", (test, one, Const(0, dtype))):
            return Op("select", (test, one, Const(1, dtype)), dtype)
    return value


def one_place(value):
    """The lanes share a copy."""
    match value:
        case Stmt(reduce="sum", atomic=True) if value.target.buffer == "mine.shared":
            return replace(value, target=replace(value.target, index=(*value.target.index[:1], const(0), const(0))))
    return value


def plain(value):
    return replace(value, atomic=False) if isinstance(value, Stmt) and value.atomic else value


def unpicked(value):
    """Data would pick from a loop whose iterations all do something."""
    return replace(value, kind="scatter") if isinstance(value, Loop) and value.name == "k" else value


def moved(value):
    """The place is read anew in each iteration of the loop inside."""
    match value:
        case Load("x", (index,)):
            return replace(value, index=(index - index + const(0),))
    return value


@pytest.mark.parametrize("fault", [neutral, one_place, plain, unpicked, moved])
def test_the_judge_refuses_faults(fault):
    assert judge(TREE) is None
    assert judge(change(TREE, fault)) is not None


def dropped(value):
    """A copy is not added."""
    return replace(value, extent=const(4)) if isinstance(value, For) and value.name == "k" else value


def early_place(value):
    """The place is read before the test that it is there."""
    match value:
        case If(test, (For(kind="scatter") as loop,)):
            return replace(loop, body=(If(test, loop.body),))
    return value


@pytest.mark.parametrize("fault", [neutral, plain, dropped, early_place])
def test_the_proof_refuses_faults(fault):
    launches = tuple(replace(launch, body=rewrite(launch.body, fault)) for launch in lower(TREE))
    assert prove(TREE.kernel, launches, TREE.reassociated).violation is not None
    if fault is not early_place:
        assert faults(launches, TREE, {"N": 13}) is not None


@pytest.mark.parametrize(
    ("pattern", "other"),
    [("(const int b = )", r"\g<1>1 + "), ("b < 5", "b <= 5"), ("b >= 0", "b >= 1"), (r"\[b\]\[t\]", "[t][b]")],
)
def test_faults_in_the_text_are_read(pattern, other):
    launches = lower(TREE)
    text = emit(launches)
    changed = re.sub(pattern, other, text)
    assert changed != text
    assert difference(changed, launches, "cuda") is not None


def test_it_takes_a_sum_of_what_is_equal():
    text = "kernel k(x: i32[N, B]) -> h: i32[B]:\n    h[b] = sum[i](x[i, b])\n\nschedule s for k():\n    scatter(b)\n"
    with pytest.raises(tilegen.TilegenError, match="no data pick an iteration of 'b'"):
        tree_from(text)
    text = COUNTED.split("    reassociate")[0] + "    scatter(b)\n"
    with pytest.raises(tilegen.TilegenError, match=r"'h.init' does something in every iteration of 'b'"):
        tree_from(text)
