"""tile(ti, parts=8)"""

import numpy as np

from tests.support.written import tree_from
from tilegen.interpreter import run
from tilegen.lowering import lower
from tilegen.proof import prove


def test_a_loop_without_iterations_is_cut_in_parts():
    tree = tree_from("""kernel empty(X: i32[M]) -> out: i32[N]:
    out[i] = sum[k < 0](X[k])

schedule s for empty:
    tile(k, parts=1) -> a, b
""")
    found = run(tree, {"M": 2, "N": 3}, {"X": np.ones(2, np.int32)})
    assert np.array_equal(found["out"], np.zeros(3, np.int32))
    assert prove(tree.kernel, lower(tree)).verdict == "proved"
