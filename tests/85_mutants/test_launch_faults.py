"""Faults in copies, rings, turns, clusters, products and launches: the proof refuses them, and they are seen to run.

The simulation knows nothing of the proof. One program with each kind of fault is tried; that the others are refused is
long, and that they are seen to run nightly, beyond one kind of each family.
"""

from dataclasses import replace

import pytest

from tests.support.mutants.families import FAMILIES, KERNELS, missed, program
from tests.support.mutants.places import nodes, put
from tests.support.reader.readback import difference
from tests.support.simulator.threads import faults
from tests.support.stock import schedule_stock
from tests.support.warpgroup_kernels import BUDGETS, RINGS
from tilegen.backends.text import emit
from tilegen.lowering import lower
from tilegen.lowering.launch.timelines import BLOCK, REGISTERS, Arrive, Await, Fence
from tilegen.proof import prove

KINDS = [(name, kind) for name, family in FAMILIES.items() for kind in family.kinds]
each_kind = pytest.mark.parametrize(
    ("family", "kind"), [pytest.param(FAMILIES[name], kind, id=f"{name}-{kind.__name__}") for name, kind in KINDS]
)
SHOWN = {"once", "stored", "ring, narrow", "turns, stored", "cluster, narrow", "products, cluster"}
SLOW = {"windows", "panels", *BUDGETS, *(f"products, {name}" for name in RINGS)} - {"products, ring, again"}
SLOW_FAMILIES = {"products by warpgroups", "windows"}


def sizes_of(tree, sizes):
    return {size: sizes[size] for size in tree.kernel.sizes}


@each_kind
def test_a_fault_is_refused(family, kind):
    """Each in the first kernel that has what it breaks."""
    name, faulty = next(family.faulty(kind))
    assert not missed(family.texts[name], faulty[:1])


@pytest.mark.long
@each_kind
def test_each_fault_is_refused(family, kind):
    for name, faulty in family.faulty(kind):
        assert not missed(family.texts[name], faulty), name


def marks_of(name):
    return () if name in SHOWN else pytest.mark.nightly if name in SLOW else pytest.mark.long


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in KERNELS])
def test_what_is_proved_runs_and_reads_back(name):
    text, sizes = KERNELS[name]
    tree, launch = program(text)
    assert prove(tree.kernel, (launch,), tree.reassociated).verdict == "proved"
    assert difference(emit((launch,)), (launch,), "cuda") is None
    assert faults((launch,), tree, sizes_of(tree, sizes)) is None


def test_products_of_a_batch_run_with_their_rows_by_way_of_shared_memory():
    """A barrier of the consumers is one for what a warp has stored together, too."""
    tree = schedule_stock("hgemm", "batched_small", (), (("GZ", 1), ("TM", 64), ("STAGES", 2))).tree
    assert faults(lower(tree), tree, {"Z": 2, "M": 10, "N": 8, "K": 8}) is None


# A lies beside the slots, for all iterations.
BESIDE = """
kernel sums(A: bf16[M, 64], B: bf16[R, N, 64]) -> C: f32[M, N]:
    C[i, j] = sum[r, k](f32(A[i, k]) * f32(B[r, j, k]))

schedule s for sums():
    tile(i, 64) -> bi, ti
    tile(j, 64) -> bj, tj
    tile(ti, 64) -> wi, i64
    tile(k, 16) -> fk, k16
    order(bi, bj, r, wi, fk, i64, tj, k16)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.y)
    cache_register(C, at=bj, vector=2) -> Cf
    cache_shared(A, at=bj, vector=8) -> As
    cache_shared(B, at=r, vector=8) -> Bs
    swizzle(As, 8)
    swizzle(Bs, 8)
    tensorize(i64, tj, k16, by=wgmma_m64n64k16_bf16)
    bulk(Bs)
    pipeline(r, 2)
    specialize(r, overlap=1)
"""


def test_products_run_on_whatever_they_read_that_the_loop_does_not_write():
    tree, launch = program(BESIDE)
    assert "complete_earlier_wgmma();" in emit((launch,))
    assert prove(tree.kernel, (launch,), tree.reassociated).verdict == "proved"
    assert difference(emit((launch,)), (launch,), "cuda") is None
    assert faults((launch,), tree, {"M": 64, "N": 2, "R": 2}) is None


def without_all(launch):
    """(what goes, the launch without it): all that is said of a timeline, or all its waits, arrivals or fences.

    Without budgets of registers a launch is right, and most barriers have a fence beside those of one thread.
    """
    said = {}
    for path, node in nodes(launch.body):
        if isinstance(node, Arrive | Await | Fence) and node.line not in (REGISTERS, BLOCK):
            said.setdefault((node.line.name, "all"), []).append(path)
            said.setdefault((node.line.name, type(node).__name__), []).append(path)
    for what, paths in said.items():
        body = launch.body
        for path in reversed(paths):
            body = put(body, path, ())
        yield what, replace(launch, body=body)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SHOWN else pytest.mark.long) for n in KERNELS])
def test_nothing_that_is_said_of_a_timeline_goes_unseen(name):
    """Where one of these nodes is gone, the others may ask for it: here all of a kind are."""
    text, _ = KERNELS[name]
    tree, launch = program(text)
    for what, faulty in without_all(launch):
        assert prove(tree.kernel, (faulty,), tree.reassociated).verdict.startswith("refused"), what


def printed(launch):
    """The text; None where the printer has no words for it, such as a wait for a phase that its ring is not in."""
    try:
        return emit((launch,))
    except AssertionError:
        return None


def listed(name, kind):
    """The first kind of each family is long, and the others, like all that take tens of seconds, nightly."""
    is_first = kind is FAMILIES[name].kinds[0]
    marks = pytest.mark.long if is_first and name not in SLOW_FAMILIES else pytest.mark.nightly
    return pytest.param(FAMILIES[name], kind, id=f"{name}-{kind.__name__}", marks=marks)


@pytest.mark.parametrize(("family", "kind"), [listed(*each) for each in KINDS])
def test_a_fault_is_seen_where_it_runs(family, kind):
    """What is not seen changes nothing in the text; of kinds that are mild a part may do no harm otherwise."""
    if kind.__name__ in family.beyond or not family.runs:
        pytest.skip(family.beyond.get(kind.__name__, "its kernels are simulated elsewhere"))
    seen = unseen = 0
    for name, sizes in family.runs.items():
        tree, launch = program(family.texts[name])
        for faulty in kind(launch):
            if faults((faulty,), tree, sizes_of(tree, sizes)):
                seen += 1
            elif printed(faulty) not in (None, emit((launch,))):
                unseen += 1
    assert 2 * seen >= unseen
    assert not unseen or kind.__name__ in family.mild
