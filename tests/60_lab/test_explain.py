"""The numbers of the lectures, as explain gives them for the stock schedules."""

import pytest

from tests.support.cover import each_stock_schedule
from tests.support.stock import schedule_stock
from tilegen.api import load
from tilegen.backends.compiler import toolkit
from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
from tilegen.lab.counts.footprint import moved_at_least
from tilegen.lab.counts.sites import program_of
from tilegen.lab.counts.traffic import traffic
from tilegen.lab.predict.explain import explain, explain_tree, stages_by_line
from tilegen.lowering import lower

CUBE = {"M": 4096, "N": 4096, "K": 4096}


def report(name, schedule, sizes, position=-1, **parameters):
    tree = schedule_stock(name, schedule, parameters=tuple(parameters.items())).tree
    return explain_tree(tree, sizes, compiled=False)[position]


def test_s3_nine_loads_for_eight_multiply_adds():
    assert (report("gemm", "coarsened", CUBE).inner.shared, report("gemm", "coarsened", CUBE).inner.fused) == (9, 8)
    tiled = report("gemm", "tiled", CUBE).inner
    assert (tiled.shared, tiled.fused) == (2, 1)
    registers = report("gemm", "registers", CUBE).inner
    assert (registers.shared, registers.global_, registers.fused) == (16, 0, 64)


def test_s14_traffic_as_formulas():
    assert str(report("gemm", "naive", CUBE).loads("global")) == "2*K*M*N"
    tiled = report("gemm", "tiled", CUBE)
    assert str(tiled.loads("global")) == "2*K*M*N/32"
    assert str(tiled.loads("shared")) == "2*K*M*N"
    registers = report("gemm", "registers", CUBE)
    assert str(registers.loads("global")) == "2*K*M*N/128"
    assert str(registers.loads("shared")) == "2*K*M*N/8"
    other = report("gemm", "registers", CUBE, TM=64, TN=64, WM=4, WN=4)
    assert (str(other.loads("global")), str(other.loads("shared"))) == ("2*K*M*N/64", "2*K*M*N/4")


def test_s12_130_loads_instead_of_384():
    sizes = {"N": 128 * 64}
    for schedule, loads in (("plain", 384), ("shared", 130)):
        found = report("conv1d", schedule, sizes)
        assert found.loads("global").evaluate(sizes) / found.blocks == loads
    assert report("conv1d", "shared", sizes).shared_bytes == 520


def test_s18_fusion_leaves_three_passes():
    sizes = {"N": 2**20}
    parts = explain_tree(schedule_stock("chain", "three_launches").tree, sizes, compiled=False)
    assert sum(p.global_bytes for p in parts) == 8 * 4 * 2**20  # a is read twice
    assert report("chain", "fused_registers", sizes).global_bytes == 3 * 4 * 2**20


# Sectors of loads and stores of global memory, wavefronts of loads from shared memory and the conflicts among them, as
# Nsight Compute counted them on an H200.
COUNTED = [
    ("gemm", "naive", CUBE, 10_737_418_240, 2_097_152, 0, 0),
    ("gemm", "tiled", CUBE, 536_870_912, 2_097_152, 3_289_291_301, 956_965),
    ("gemm", "coarsened", CUBE, 536_870_912, 2_097_152, 1_354_992_587, 12_815_307),
    ("gemm", "wider", CUBE, 536_870_912, 2_097_152, 2.685e9, 2.689e8),
    ("gemm", "rectangular", CUBE, 268_435_456, 2_097_152, 2.421e9, 1.393e8),
    ("gemm", "registers", CUBE, 134_217_728, 2_097_152, 5.369e8, 26_180),
    ("transpose", "naive", {"M": 16384, "N": 16384}, 268_435_456, 33_554_432, 0, 0),
    ("transpose", "tiled", {"M": 16384, "N": 16384}, 33_554_432, 33_554_432, 2.724e8, 2.640e8),
    ("transpose", "padded", {"M": 16384, "N": 16384}, 33_554_432, 33_554_432, 8.876e6, 487_800),
]


@pytest.mark.parametrize("case", COUNTED, ids=lambda c: f"{c[0]}-{c[1]}")
def test_counts_are_those_of_the_hardware(case):
    name, schedule, sizes, loaded, stored, wavefronts, conflicts = case
    launch = lower(schedule_stock(name, schedule).tree)[-1]
    found = traffic(program_of(launch), sizes)
    blocks = report(name, schedule, sizes).blocks
    assert sum(t.sectors for t in found if not t.store) == loaded
    assert sum(t.sectors for t in found if t.store) == stored
    mine = sum(t.wavefronts for t in found if not t.store)
    assert mine == pytest.approx(wavefronts, rel=0.06)
    met = sum(t.wavefronts - blocks * t.conflict.least for t in found if t.conflict and not t.store)
    assert met == pytest.approx(conflicts, abs=0.06 * wavefronts)


def test_a_pipelined_loop_that_has_only_its_last_iteration_is_counted():
    one, two = (report("gemm", "across", {"M": 128, "N": 256, "K": k}) for k in (8, 16))
    assert 0 < one.work.fused < two.work.fused
    assert one.work.fused == 128 * 256 * 8


@pytest.mark.parametrize("part", [512, 1024])
def test_the_pass_over_a_long_array_is_coalesced(part):
    (launch,) = lower(schedule_stock("prefix", "look_back", parameters=(("PART", part),)).tree)
    found = traffic(program_of(launch), {"N": 2**20})
    assert {each.coalesced_share for each in found if each.site.buffer in ("x", "y")} == {1}
    assert {each.conflict.degree for each in found if each.site.buffer == "tile"} == {1}
    assert {each.requests * each.site.width * 32 for each in found if each.site.buffer in ("x", "y")} == {2**20}  # once


@pytest.mark.parametrize(("name", "schedule"), [("compaction", "strided"), ("compaction_ordered", "look_back")])
def test_what_a_list_stores_is_that_of_its_hits(name, schedule):
    (launch,) = [each for each in lower(schedule_stock(name, schedule).tree) if each.threads > 1]
    points, moved, least = 2**20, [], []
    for hits in (0.0, 0.25, 1.0):
        (store,) = [t for t in traffic(program_of(launch), {"N": points}, hits) if t.site.buffer == "Y"]
        assert (store.store, store.bytes, store.distinct, store.coalesced_share) == (True, *[hits * points * 4] * 2, 1)
        moved.append(store.sectors * 32)
        least.append(moved_at_least(launch, {"N": points}, hits))
    assert moved == [0, points, 4 * points]
    assert [each - least[0] for each in least] == moved


def test_uncoalesced_reads_show():
    naive = report("transpose", "naive", {"M": 4096, "N": 4096})
    by_buffer = {t.site.buffer: t for t in naive.traffic}
    assert by_buffer["X"].coalesced_share == 0.125
    assert by_buffer["X"].sectors / by_buffer["X"].requests == 32
    assert by_buffer["Y"].coalesced_share == 1


def test_the_prediction_names_what_limits():
    assert report("gemm", "naive", CUBE).prediction.limit == "shared and L1"
    assert report("transpose", "padded", {"M": 16384, "N": 16384}).prediction.limit == "global memory"
    assert report("transpose", "tiled", {"M": 16384, "N": 16384}).prediction.limit == "shared and L1"


@pytest.mark.nvrtc
@pytest.mark.skipif(toolkit.nvdisasm() is None, reason="no nvdisasm: the instructions of the text are counted instead")
def test_what_the_compiler_computes_once_counts_once():
    # 13 instructions a pair, beside loads and jumps; the text has the distances twice.
    (launch,) = explain_tree(schedule_stock("nbody", "coarsened").tree, {"N": 262144})
    pairs = 262144**2 / 32 / (132 * 4 * 1.98e6)  # ms of one instruction a pair
    assert 13 * pairs < launch.prediction.milliseconds < 15 * pairs


# What the block multiplies it makes itself, in a loop of its threads with another name than the product's lanes.
OWN_FACTOR = """
kernel windows(x: bf16[2, M*8 + 8], B: bf16[2, N, 16]) -> C: f32[M, N]:
    var z: bf16[2, M*8 + 8]
    z[r, e] = x[r, e] + x[r, e]
    C[i, j] = sum[r, k](f32(z[r, i*8 + k]) * f32(B[r, j, k]))

schedule s for windows():
    tile(i, 64) -> bi, i64
    tile(j, 64) -> bj, tj
    order(bi, bj, C.r, i64, tj, k)
    compute_at(z, at=bj)
    tile(z.e, 128) -> eo, et
    bind(bi, block.y)
    bind(bj, block.x)
    bind(et, thread.x)
    cache_register(C, at=bj, vector=2) -> Cf
    cache_shared(z, at=bj) -> zs
    cache_shared(B, at=bj, vector=8) -> Bs
    swizzle(Bs, 8, 2, 4)
    tensorize(i64, tj, k, by=wgmma_m64n64k16_bf16)
"""


def test_threads_may_have_two_names_beside_an_instruction():
    launch = explain_tree(load(OWN_FACTOR).schedule("s").tree, {"M": 64, "N": 64}, compiled=False)[-1]
    # of 64 x 64 results for each of two r: 64 rows of both factors, 16 elements each
    assert launch.loads("shared").evaluate({"M": 64, "N": 64}) == 2 * (64 + 64) * 16


def test_a_step_that_changes_no_text_gives_the_same_program():
    derivation = schedule_stock("row_sum", "warps")
    steps = explain(derivation, power_sizes(derivation.kernel, {}, GPU_LIMITS), compiled=False).steps
    assert [step.name for step in steps if step.same] == ["reassociate(y)"]


def test_every_line_of_a_schedule_has_its_row():
    found = schedule_stock("gemm", "registers")
    rows = [stage.step.text for stage in stages_by_line(found.stages) if stage.step]
    assert len(rows) == 17
    assert rows.count("coarsen(ti, WM) -> ti, wi") == 1
    steps = explain(found, CUBE, compiled=False).steps
    assert [s.step for s in steps][1:] == rows
    assert steps[-1].milliseconds < steps[0].milliseconds / 1000


@each_stock_schedule
def test_every_stock_schedule_is_explained(name, schedule):
    found = schedule_stock(name, schedule)
    sizes = power_sizes(found.kernel, {}, GPU_LIMITS)
    result = explain(found, sizes, compiled=False, last=True)
    assert result.steps[0].launches
    for launch in result.steps[0].launches:
        assert launch.prediction.milliseconds > 0
        assert 0 < launch.coalesced_share <= 1
        assert launch.conflicts >= 1
