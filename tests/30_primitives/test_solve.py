"""Transposed convolutions by phase, and other loops of which an equation leaves one iteration."""

import pytest

from tests.support.simulator.threads import faults
from tilegen.backends.text import emit
from tilegen.errors import Source, StepError
from tilegen.frontend import build, parse
from tilegen.frontend.stock import standard_steps
from tilegen.ir.walk import find_loop, stmts
from tilegen.lowering import lower
from tilegen.proof import prove
from tilegen.schedule import apply

# R taps, S outputs for an input, D inputs between taps, P outputs cut off at each end.
KERNEL = """kernel conv(X: f32[K, L], W: f32[K, {R}]) -> Y: f32[{S}*L + {D}*({R} - 1) + 1 - {S} - 2*{P}]:
    Y[y] = sum[k, r]((X[k, (y + {P} - {D}*r)/{S}] else 0) * W[k, r]) for (y + {P} - {D}*r) % {S} == 0
"""
BOUND = """    tile(y, 8) -> b, t
    order(b, ph, t, k{r})
    bind(b, block.x)
    bind(t, thread.x)
    cache_register(Y, at=t)
"""


def scheduled(text, steps, name):
    module = parse(Source("solve.tg", f"{text}\nschedule s for {name}():\n{steps}"))
    return apply(build(module.kernels[name]), module.schedules[0], defines=standard_steps()).tree


@pytest.mark.parametrize(
    ("taps", "stride", "dilation", "padding"), [(4, 2, 1, 0), (5, 2, 1, 1), (7, 3, 1, 2), (5, 3, 2, 1), (3, 5, 2, 1)]
)
def test_a_phase_has_its_own_terms_alone(taps, stride, dilation, padding):
    text = KERNEL.format(R=taps, S=stride, D=dilation, P=padding)
    short = taps <= stride
    split = f"    tile(y, {stride}) -> y, ph\n    solve(r)\n" if short else f"    phases(y, r, {stride}) -> y, ph, r\n"
    tree = scheduled(text, split + BOUND.format(r="" if short else ", r"), "conv")
    assert short or find_loop(tree, "r").extent.const == -(-taps // stride)
    assert all(not c.equal for stmt in stmts(tree.body) for c in stmt.guard)
    launches = lower(tree)
    assert prove(tree.kernel, launches).verdict == "proved"
    for sizes in ({"K": 2, "L": 5}, {"K": 1, "L": 17}):
        assert faults(launches, tree, sizes) is None


def test_an_equation_with_the_loop_itself_leaves_one_iteration():
    text = "kernel scale(d: f32[N, N], B: f32[N, M]) -> C: f32[N, M]:\n"
    text += "    C[i, j] = sum[k](d[i, k] * B[k, j]) for k == i\n"
    tree = scheduled(text, "    solve(k)\n    bind(i, block.x)\n    bind(j, block.y)\n", "scale")
    assert "C[i * M + j] += d[i * N + i] * B[i * M + j]" in emit(lower(tree), "cuda")


@pytest.mark.parametrize(("taps", "stride", "dilation"), [(4, 3, 1), (4, 4, 2)])
def test_a_loop_with_several_iterations_of_a_remainder_stays(taps, stride, dilation):
    text = KERNEL.format(R=taps, S=stride, D=dilation, P=0)
    with pytest.raises(StepError, match="no equation in all guards leaves one iteration of 'r'"):
        scheduled(text, "    solve(r)\n", "conv")
