"""Random reductions through bulk copies: each is proved, runs right on the simulator, and reads back.

Blocks have odd numbers of threads, of which few or none may read what all of them wait for.
"""

import random

import pytest

from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.written import tree_from
from tilegen.backends.text import emit
from tilegen.errors import LimitError
from tilegen.lowering import lower
from tilegen.proof import prove

CASES = 25


def text_of(rng):
    """A sum over tiles of TK elements, in `stages`; some blocks walk over several tiles of results, and rows."""
    threads, stages = rng.choice([2, 3, 5, 8, 32, 33]), rng.choice([1, 1, 2, 2, 3, 4])
    tk, several = 32 if stages > 1 else rng.choice([4, 8]), rng.choice([False, False, True])
    rows = rng.choice(["", "", "2", "3", "4" if several else "L"])
    count = rng.choice([*([] if rows or several else ["N"] * 3), *(str(n * tk) for n in (1, 2, 3, 5)), str(3 * tk + 4)])
    at, shape = ("l, k", f"{rows}, {count}") if rows else ("k", count)
    other, test = rng.choice(["", "", "*", "+"]), rng.choice(["", "", "k % 8 < 4", "z % 2 == 0", "k >= z"])
    term = f"(X[{at}] else 0)" + (f" {other} (Y[{at}] else 0)" if other else "")
    outer, ahead = rng.choice(["b, w", "w, b"]) if several else "b", rng.choice([False, False, True])
    steps = [
        f"tile(z, {threads}) -> b, t",
        f"tile(k, {tk}) -> ko, ki",
        *(["tile(b, 2) -> b, w"] if several else []),
        f"order({outer}, {'l, ' if rows else ''}ko, {rng.choice(['t, ki', 'ki, t'])})",
        f"bind({outer[0]}, block.x)",
        "bind(t, thread.x)",
        f"cache_register(s, at={outer[-1]})",
        "cache_shared(X, at=ko)",
        *(["cache_shared(Y, at=ko)"] if other else []),
        "bulk(X.shared)",
        *(rng.choice([[], ["bulk(Y.shared)"]]) if other else []),
        *(["cache_register(X.shared, at=ki)"] if ahead else []),
        *([f"pipeline(ko, {stages})"] if stages > 1 else []),
        *(["pipeline(ki, 2, across=ko)"] if stages > 1 and ahead else []),
    ]
    tensors = f"X: i32[{shape}]" + (f", Y: i32[{shape}]" if other else "")
    head = f"kernel f({tensors}) -> s: i32[{rng.choice(['1', '1', '2', 'Z', str(threads)])}]:\n"
    value = f"({term}) if {test} else 0" if test else term
    body = f"    s[z] = sum[{at}]({value})\n\nschedule s for f():\n"
    return head + body + "".join(f"    {step}\n" for step in steps)


@pytest.mark.parametrize("number", range(CASES))
def test_a_random_sum(number):
    rng = random.Random(number)
    tree = tree_from(text_of(rng))
    sizes = {name: rng.choice([1, 2, 3, 7, 9, 16]) for name in tree.kernel.sizes}
    sizes |= {"N": 4 * rng.randrange(1, 40)} if "N" in sizes else {}
    try:
        lower(tree)
    except LimitError as error:
        if "runs several times, and" not in str(error):
            raise
        return
    for version in ({}, {"whole": True}, {"wide": True}, {"vector": False}):
        launches = lower(tree, **version)
        assert prove(tree.kernel, launches, tree.reassociated).verdict == "proved", version
        assert difference(emit(launches), launches, "cuda") is None
    assert faults(lower(tree), tree, sizes) is None
