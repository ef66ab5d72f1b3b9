"""Dimensions seen as one: kernels with some side by side, and the first step of random schedules."""

from __future__ import annotations

from itertools import combinations

from tilegen.errors import StepError
from tilegen.ir.reductions.flattened import flatten as flat_kernel
from tilegen.ir.reductions.windowed import see_windows


def flatten(pick, tree) -> str | None:
    """Neighbouring loops of an equation as one, which is the first step of a schedule; None where there are none.

    Most are those that can be, if there are such.
    """
    loops = [[r.name for r in some] for e in tree.kernel.equations for some in (e.loops, e.reduced)]
    runs = [
        some[start:end] for some in loops for start, end in combinations(range(len(some) + 1), 2) if end > start + 1
    ]
    fitting = [run for run in runs if _can_be(flat_kernel, tree.kernel, tuple(run), "flat")]
    some = fitting if fitting and pick([True] * 4 + [False]) else runs
    return f"flatten({', '.join(pick(some))}) -> flat" if some else None


def windows(pick, tree) -> str | None:
    """An input that is read through windows as a tensor of its own; None where there is none."""
    inputs = [t.name for t in tree.kernel.tensors if t.role == "input" and _can_be(see_windows, tree.kernel, t.name)]
    return f"windows({pick(inputs)})" if inputs else None


def _can_be(change, *given):
    try:
        return bool(change(*given))
    except StepError:
        return False


def flat_text(pick) -> str:
    """The text of a kernel with two or three dimensions side by side, which all that goes along them uses alike."""
    words = pick([["b", "t"], ["b", "t", "u"]])
    many, sizes = ", ".join(words), ", ".join(pick([["B", "T", "U"], ["B", "3", "U"]])[: len(words)])
    whole = f"X: i32[{sizes}, K], W: i32[K, N], s: i32[N], Y: i32[{sizes}, N]"
    product = f"sum[k](X[{many}, k] * W[k, n])"
    text = pick(
        [
            f"kernel random({whole}) -> out: i32[{sizes}, N]:\n    out[{many}, n] = {product}\n",
            f"kernel random({whole}) -> out: i32[{sizes}, N]:\n"
            f"    var P: i32[{sizes}, N]\n    P[{many}, n] = {product}\n"
            f"    out[{many}, n] = max(P[{many}, n] + s[n], Y[{many}, n])\n",
            f"kernel random(Y: i32[{sizes}, N], s: i32[N]) -> out: i32[{sizes}, N]:\n"
            f"    out[{many}, n] = Y[{many}, n] * s[n]\n",
            f"kernel random(Z: i32[N, {sizes}]) -> out: i32[N]:\n    out[n] = sum[{many}](Z[n, {many}])\n",
            "kernel random(X: i32[B, H, W, K], V: i32[N, 2, 3, K]) -> out: i32[B, (H - 1)/2 + 1, W, N]:\n"
            "    out[b, y, x, n] = sum[r, t, k]((X[b, y*2 + r, x + t*2 - 2, k] else 0) * V[n, r, t, k])\n",
            f"kernel random(Z: i32[N, {sizes}], m: i32[{sizes}]) -> out: i32[N, {sizes}]:\n"
            f"    out[n, {many}] = (Z[n, {many}] if m[{many}] > 0 else n)\n",
        ]
    )
    where = pick(["", "", " where B % 2 == 0"])
    return text.replace("]:\n", f"]{where}:\n", 1)
