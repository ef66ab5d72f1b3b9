"""Graphs hold the memory of the calls that they are of."""

import weakref

import pytest

from tilegen.backends.devices.devices import engine


class Fill:
    """Fills its array, which nothing else holds."""

    def __init__(self, xp) -> None:
        self.array = xp.zeros(64, "float32")

    def __call__(self) -> None:
        self.array.fill(1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_what_a_graph_replays_is_held_until_it_is_gone(device):
    there = engine(device)
    call = Fill(there.xp)
    call()
    replay, held = there.capture([call]), weakref.ref(call)
    del call
    assert held() is not None
    replay()
    there.synchronize()
    del replay
    assert held() is None


@pytest.mark.gpu
@pytest.mark.parametrize("by_torch", [False, True])
def test_a_graph_of_a_gpu_that_is_not_current(by_torch):
    if by_torch:
        pytest.importorskip("torch")
    xp = engine("cuda").xp
    if xp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU")
    first, second = engine("cuda").at(0), engine("cuda").at(1)
    with first.use():
        other = Fill(xp)
        other()
    first.capture([other])  # torch has a stream of its own for graphs, on the GPU of the first one
    with second.use():
        call = Fill(xp)
        call()

    def fill() -> None:
        with second.use():
            call()

    replay = second.capture([fill])
    with second.use():
        call.array.fill(0)
    replay()
    with second.use():
        second.synchronize()
        assert (call.array == 1).all()
