"""Copies to shared memory of windows with a halo: as vectors, in rows that are longer than what is used."""

import pytest

from tests.support.simulator.threads import faults
from tilegen.backends.text import emit
from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.lowering import lower, unmet
from tilegen.lowering.launch.program import VectorCopy, nodes
from tilegen.proof import prove
from tilegen.schedule import apply

WINDOW = """kernel window(X: f32[{size}]) -> Y: f32[N]:
    Y[i] = sum[r < {taps}]({read})

schedule s for window():
    tile(i, 16) -> b, t
    bind(b, block.x)
    bind(t, thread.x)
    cache_shared(X, at=b, vector=4)
"""


@pytest.mark.parametrize(
    ("size", "taps", "read", "elements"),
    [
        ("N + 4", 5, "X[i + r]", 20),
        ("N + 2", 3, "X[i + r]", 20),  # two more than the 18 that are used
        ("N", 4, "X[i + r - 2] else 0", 24),  # from 4 elements before the tensor, of which 2 are used
        ("N + 9", 3, "X[i + 3*r + 3]", 28),
        ("2*N + 1", 3, "X[2*i + r]", 36),
    ],
)
def test_a_halo_is_copied_in_whole_vectors(size, taps, read, elements):
    module = parse(Source("window.tg", WINDOW.format(size=size, taps=taps, read=read)))
    tree = apply(build(module.kernels["window"]), module.schedules[0]).tree
    assert [b.shape[0].const for b in tree.buffers if b.space == "shared"] == [elements]
    for vector in (True, False):
        launches = lower(tree, vector=vector)
        assert prove(tree.kernel, launches).verdict == "proved"
        for n in (1, 14, 16, 37, 64, 79):
            if not unmet(launches, {"N": n}, {}):
                assert faults(launches, tree, {"N": n}) is None
        assert vector == any(isinstance(v, VectorCopy) for launch in launches for v in nodes(launch.body))
        assert vector == ("float4" in emit(launches, "cuda"))
