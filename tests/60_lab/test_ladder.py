"""The ladder: every line of a schedule is there, with its figures or with the reason why it has none."""

from tilegen.api import load
from tilegen.backends.devices.devices import engine
from tilegen.lab.measure import ladder as rungs
from tilegen.lab.measure.ladder import LadderRun, Rung
from tilegen.lab.measure.timing import Time

TEXT = """
kernel scale(A: f32[M, N]) -> C: f32[M, N]:
    C[i, j] = A[i, j] * 2.0

schedule wide for scale():
    tile(i, 64) -> bi, ti
    tile(j, 64) -> bj, tj
    order(bi, bj, ti, tj)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(ti, thread.y)
    bind(tj, thread.x)
    tile(ti, parts=8) -> wi, ti
"""


def test_a_prefix_that_cannot_be_launched_says_why():
    scheduled = load(TEXT.replace("    tile(ti, parts=8) -> wi, ti\n", "")).schedule("wide")
    found = LadderRun(scheduled.core, engine("interpreter"), {"M": 128, "N": 128}).run()
    assert len(found.rungs) == 8
    last = found.rungs[-1]
    assert last.step == "bind(tj, thread.x)"
    assert "4096 threads" in last.error
    assert last.exit_code == 3
    assert all(rung.trials or rung.same for rung in found.rungs[:-1])


def test_what_is_not_timed_says_so():
    scheduled = load("gemm").schedule("tiled")
    found = LadderRun(scheduled.core, engine("interpreter"), {}).run()
    assert all(rung.untimed or rung.same for rung in found.rungs)
    assert all(rung.predicted_time for rung in found.rungs)


def test_a_slow_prefix_is_not_timed():
    scheduled = load("gemm").schedule("naive")

    class Gpu:
        on_gpu = True

    rung = Rung("x", "", LadderRun(scheduled.core, engine("interpreter"), {}).run().rungs[0].launches)
    slow = rungs._skip_if_slow(rung, scheduled.kernel, Gpu(), {"M": 64, "N": 64, "K": 64}, 1e-6)
    assert slow.untimed.startswith("not timed: ")
    assert rungs._skip_if_slow(rung, scheduled.kernel, Gpu(), {"M": 64, "N": 64, "K": 64}, 1e9).untimed is None


def test_a_gain_inside_the_spread_is_none():
    times = [Time(10, 9, 11, 5), Time(9.5, 9, 11, 5), Time(5, 4, 6, 5), Time(8, 7, 9, 5)]
    found = rungs._with_gains([Rung("", "", time=t) for t in times])
    assert [r.gain for r in found] == [None, 1.0, 9.5 / 5, 5 / 8]
