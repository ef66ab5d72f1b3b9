"""Roles in the lowered program: one choice of who does what, no test that another one makes, and the same meaning."""

from functools import partial

import numpy as np
import pytest

from tests.support.simulator.threads import faults
from tests.support.stored import drawn
from tests.support.written import tree_from
from tilegen import api
from tilegen.backends.text import emit
from tilegen.interpreter import reference, run
from tilegen.lowering import lower
from tilegen.proof import prove

THREE = """
kernel three(a: i32[N], b: i32[N, 4]) -> c: i32[N], d: i32[N], e: i32[N]:
    c[i] = a[i] * 2
    d[i] = sum[k](b[i, k])
    e[i] = (a[i + 1] else 7)
"""
PRODUCTS = """
kernel products(A: i32[M, K], B: i32[K, N], C: i32[K, M]) -> P: i32[M, N], Q: i32[M, N]:
    P[i, j] = sum[k](A[i, k] * B[k, j])
    Q[i, j] = sum[k](C[k, i] * B[k, j])
"""
TILES = ["tile(c.i, 48) -> bc, tc", "tile(d.i, 48) -> bd, td", "tile(e.i, 48) -> be, te"]
THREADS = [*TILES, "fuse(bc, bd, be) -> b1", "bind(b1, block.x)"]
BLOCKS = [
    step
    for name in "PQ"
    for step in (
        f"tile({name}.i, 4) -> bi{name}, ti{name}",
        f"tile({name}.j, 4) -> bj{name}, tj{name}",
        f"tile({name}.k, 4) -> ko{name}, ki{name}",
        f"order(bi{name}, bj{name}, ko{name}, ti{name}, tj{name}, ki{name})",
        f"bind(bi{name}, block.y)",
        f"bind(bj{name}, block.x)",
        f"bind(ti{name}, thread.y)",
        f"bind(tj{name}, thread.x)",
        f"cache_register({name}, at=bj{name})",
    )
]
CASES = {
    "three roles of threads": (THREE, [*THREADS, "roles(tc, td, te) -> t", "bind(t, thread.x)"]),
    "each in warps of its own": (THREE, [*THREADS, "roles(tc, td, te, align=32) -> t", "bind(t, thread.x)"]),
    "roles of roles": (THREE, [*THREADS, "roles(tc, td) -> t", "roles(t, te) -> t2", "bind(t2, thread.x)"]),
    "one beside a loop over threads": (THREE, [*THREADS, "roles(tc, te) -> t", "bind(t, thread.x)"]),
    "three roles of blocks": (THREE, [*TILES, "roles(bc, bd, be) -> b1", "bind(b1, block.x)", "bind(td, thread.x)"]),
    "one after the other": (THREE, [*TILES, "roles(bc, bd, be) -> b1"]),
    "two products": (PRODUCTS, [*BLOCKS, "roles(biP, biQ) -> bi"]),
    "two products in shared memory": (
        PRODUCTS,
        [*BLOCKS, "cache_shared(A, at=koP)", "cache_shared(B, at=koQ)", "roles(biP, biQ) -> bi"],
    ),
}
SIZES = [{"N": 100, "M": 9, "K": 7}, {"N": 1, "M": 1, "K": 1}, {"N": 48, "M": 8, "K": 4}]


def scheduled(case):
    text, steps = CASES[case]
    name = text.split("(")[0].split()[1]
    body = "".join(f"    {step}\n" for step in steps)
    return tree_from(f"{text}\nschedule s for {name}():\n{body}")


@pytest.mark.parametrize("case", CASES)
def test_roles_are_the_kernel(case):
    tree = scheduled(case)
    kernel = tree.kernel
    rng = np.random.default_rng(0)
    for version in ({}, {"whole": True}):
        assert prove(kernel, lower(tree, **version), tree.reassociated).verdict == "proved"
    for sizes in SIZES:
        here = {size: sizes[size] for size in kernel.sizes}
        arrays = drawn(kernel, here, partial(rng.integers, -9, 9))
        got = run(tree, here, arrays)
        for name, expected in reference(kernel, here, arrays).items():
            np.testing.assert_array_equal(got[name], expected.value)
        assert faults(lower(tree), tree, here) is None


def test_a_role_is_named_and_tested_once():
    text = emit(lower(scheduled("three roles of threads")), "cuda")
    assert text.count("t < 48)") == 1
    assert text.count("} else {") == 2
    assert text.count("t < 96)") == 1
    assert "const int td = t - 48;" in text
    assert "const int te = t - 96;" in text
    assert "t >= " not in text
    assert "b1 * 48 + te + 1 < N ? a_tile[te + 1] : 7" in text


def test_what_begins_with_a_warp_leaves_threads_idle():
    launch = lower(scheduled("each in warps of its own"))[0]
    assert launch.block == (64 + 64 + 48, 1, 1)
    text = emit((launch,), "cuda")
    assert "t >= 64" in text
    assert "const int te = t - 128;" in text


NOTHING = """\
kernel twice(A: bf16[2, M, K], B: bf16[2, K, N]) -> C: bf16[M, N]:
    var P: f32[M, N]
    P[i, j] = sum[h, k](f32(A[h, i, k]) * f32(B[h, k, j])) for h >= 2
    C[i, j] = bf16(P[i, j])

schedule consumers for twice extends hgemm.persistent:
    instead of order(bi):
        order(bi, bj, ko, wi, h, fk, i64, tj, kk)
    unroll(h)

schedule turns for twice extends hgemm.ping_pong:
    instead of order(w):
        order(w, bi, bj, ko, wi, h, fk, i64, tj, kk)
    unroll(h)
"""


@pytest.mark.parametrize("schedule", ["consumers", "turns"])
def test_where_no_term_is_used_nothing_is_copied_and_nobody_waits(schedule: str) -> None:
    found = api.from_text(NOTHING).schedule(schedule)
    assert found.prove().verdict == "proved"
    assert "copy_box" not in found.source()
    assert "is_consumer" not in found.source()
