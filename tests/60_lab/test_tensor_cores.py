"""What explain and asm say of instructions that warps run together: counts, rows of shared memory, the roofline."""

import re
from math import prod

import pytest

import tilegen
from tests.support.stock import instructions, schedule_stock
from tests.support.tensor_core_kernels import PRODUCT, PRODUCT_F64, by_one_warp
from tilegen.backends.compiler import sass, toolkit
from tilegen.backends.text import emit
from tilegen.cli.commands.asm import mix_line
from tilegen.cli.looks import explain_printing
from tilegen.ir.hardware.instructions import ARCHITECTURES
from tilegen.lab.counts.sites import program_of
from tilegen.lab.counts.tensor_cores import TENSOR_CORES, operations_of
from tilegen.lab.counts.traffic import arithmetic, traffic
from tilegen.lab.measure.ladder import Rung, _skip_if_large
from tilegen.lab.predict.explain import MOST_KEPT, explain, explain_tree
from tilegen.lab.predict.machine import H200
from tilegen.lab.predict.occupancy import SM
from tilegen.lowering import lower

# A block of 2 x 2 warps has a tile of 64 x 64, each warp 32 x 32: two fragments of A, four of B, eight of C.
TEXT = f"""{PRODUCT}
schedule warps for product(TK=32):
    round_up(k, TK)
    tile(i, 64) -> bi, ti
    tile(j, 64) -> bj, tj
    tile(k, TK) -> ko, ki
    tile(ti, 32) -> wi, ii
    tile(tj, 32) -> wj, jj
    tile(ii, 16) -> fi, i16
    tile(jj, 16) -> fj, jf
    tile(jf, 8) -> f2, j8
    tile(ki, 16) -> fk, k16
    order(bi, bj, ko, wi, wj, fk, fi, fj, f2, i16, j8, k16)
    bind(bi, block.y)
    bind(bj, block.x)
    bind(wi, thread.z)
    bind(wj, thread.y)
    cache_register(C, at=bj, vector=2)
    cache_shared(A, at=ko, vector=8)
    cache_shared(B, at=ko, vector=8)
    cache_register(A.shared, at=fk)
    cache_register(B.shared, at=fk)
    tensorize(i16, j8, k16, by=mma_m16n8k16_bf16)
    tensorize(i16, k16, by=ldmatrix_a_bf16)
    tensorize(k16, f2, j8, by=ldmatrix_b_trans_bf16)

schedule moved extends warps:
    swizzle(A.shared, 8, 4, 2)
    swizzle(B.shared, 8)
"""
TEXT += PRODUCT_F64 + by_one_warp("tiny", "product_f64", "mma_m8n8k4_f64", 8, 8, 4)
CUBE = {"M": 4096, "N": 4096, "K": 4096}
STEPS = CUBE["K"] // 16


def tree(schedule, kernel="product"):
    return tilegen.load(TEXT).kernel(kernel).schedule(schedule).tree


def report(schedule, kernel="product"):
    return explain_tree(tree(schedule, kernel), CUBE, compiled=False)[0]


def test_every_warp_runs_so_many_instructions():
    counts = {count.name: count for count in report("warps").work.by_warps}
    blocks = 64 * 64
    assert {name: count.of_a_unit for name, count in counts.items()} == {
        "mma_m16n8k16_bf16": 8 * STEPS,
        "ldmatrix_a_bf16": 2 * STEPS,
        "ldmatrix_b_trans_bf16": 2 * STEPS,
    }
    product = counts["mma_m16n8k16_bf16"]
    assert product.runs == blocks * 4 * 8 * STEPS
    assert (product.operations, product.format) == (2 * 16 * 8 * 16, "bf16")
    assert product.runs * product.operations == 2 * 4096**3
    assert report("warps").work.operations == 2 * 4096**3


def test_an_iteration_is_told_in_instructions_of_the_warp():
    inner = report("warps").inner
    assert (inner.loop, inner.shared, inner.by_warps, inner.fused) == ("fk", 4, 8, 0)


def test_fragments_are_registers_of_each_lane():
    assert report("warps").fragments == {"C.reg": 8 * 4, "A.shared.reg": 2 * 4, "B.shared.reg": 4 * 2}
    assert report("tiny", "product_f64").fragments == {"C.reg": 4, "A.reg": 2, "B.reg": 2}


def rows_of(schedule):
    launch = lower(tree(schedule))[0]
    return {t.site.by: t for t in traffic(program_of(launch), CUBE) if t.site.by}


def test_the_rows_of_ldmatrix_meet_in_the_banks():
    found = rows_of("warps")
    a, b = found["ldmatrix_a_bf16"], found["ldmatrix_b_trans_bf16"]
    assert a.bytes == a.requests * 512
    # Eight rows a phase: those of A lie 64 bytes apart, two in each line of all banks; those of B 128 bytes apart.
    assert (a.conflict.degree, a.wavefronts / a.requests) == (4, 16)
    assert (b.conflict.degree, b.wavefronts / b.requests) == (8, 32)
    assert all(t.conflict.degree == 1 and t.wavefronts == 4 * t.requests for t in rows_of("moved").values())


def test_only_lanes_that_give_an_address_read_a_row():
    text = TEXT.replace("ldmatrix_b_trans_bf16", "half_rows").replace("tensorize(k16, f2, j8,", "tensorize(k16, j8,")
    text += """
instruction half_rows(S: bf16[16, 8]) -> D: bf16[16, 8] by warp since sm_75:
    D[k, j] = S[k, j]
    S[k, j] in shared at lane k, element j
    D[k, j] in lane j * 4 + k % 8 / 2, register k % 2 + k / 8 * 2
    ptx "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {D}, [{S}];"
"""
    launch = lower(tilegen.load(text).kernel("product").schedule("warps").tree)[0]
    (found,) = (t for t in traffic(program_of(launch), CUBE) if t.site.by == "half_rows")
    assert found.bytes == found.requests * 256
    assert [lane >= 0 for lane in found.conflict.lanes] == [True] * 16 + [False] * 16


def test_the_remedy_is_a_swizzle_of_whole_rows():
    remedies = report("warps").remedies
    assert any(r.step.startswith("swizzle(A.shared, 8") and r.degree == 1 for r in remedies["A.shared"])
    assert any(r.step.startswith("swizzle(B.shared, 8") and r.degree == 1 for r in remedies["B.shared"])


def test_the_tensor_pipe_stands_in_the_roofline():
    bounds = report("moved").prediction.bounds
    assert bounds["tensor cores"] == pytest.approx(2 * 4096**3 / (0.65 * 989.4e12) * 1e3, rel=0.05)
    # No multiply-add is left for the scalar pipe.
    assert "multiply-adds" not in bounds
    double = report("tiny", "product_f64").prediction.bounds
    assert double["tensor cores"] == pytest.approx(2 * 4096**3 / 67e12 * 1e3, rel=0.05)


def test_peaks_are_those_of_the_data_sheets():
    assert H200.tensor == TENSOR_CORES["sm_90"]
    assert {arch: cores.peaks["bf16"] for arch, cores in TENSOR_CORES.items()} == {
        "sm_80": 312.0, "sm_86": 149.7, "sm_89": 362.0, "sm_90": 989.4, "sm_100": 2250.0,
    }  # fmt: skip
    assert set(TENSOR_CORES) <= {*ARCHITECTURES, *SM}
    for cores in TENSOR_CORES.values():
        assert cores.peaks["tf32"] == pytest.approx(cores.peaks["bf16"] / 2, rel=0.03)
        assert cores.peaks["i8"] == pytest.approx(cores.peaks["bf16"] * 2, rel=0.03)
    # Floats of one byte have the rate of integers of one byte, where the cores know them.
    known = {arch: cores.peaks["e4m3"] for arch, cores in TENSOR_CORES.items() if "e4m3" in cores.peaks}
    assert known == {arch: TENSOR_CORES[arch].peaks["i8"] for arch in ("sm_89", "sm_90", "sm_100")}


def test_operations_come_from_the_declaration():
    found = {name: operations_of(each) for name, each in instructions().items()}
    assert found["mma_m8n8k4_f64"] == 2 * 8 * 8 * 4
    assert found["mma_m16n8k32_i8"] == 2 * 16 * 8 * 32
    assert found["mma_m16n8k8_tf32_rz"] == found["mma_m16n8k8_tf32"] == 2 * 16 * 8 * 8
    assert found["mma_m16n8k16_f16_f16"] == found["mma_m16n8k16_bf16"] == 2 * 16 * 8 * 16
    assert all(count == 0 for name, count in found.items() if "matrix" in name)


def test_explain_prints_what_warps_do():
    (launch,) = explain_tree(tree("warps"), CUBE, compiled=False)
    lines = explain_printing.warp_lines(launch)
    assert lines[0].startswith(
        "ldmatrix_a_bf16: 512 by each warp, 8.39 M in all; 512 bytes each of A.shared, 4.29 GB, in 16"
    )
    assert lines[0].endswith("4 times as many as without bank conflicts")
    assert lines[2].endswith("of 4096 operations in bf16: 137 G operations")
    assert lines[3] == "fragments: 48 registers of each lane (C.reg 32, A.shared.reg 8, B.shared.reg 8)"


@pytest.mark.nvrtc
def test_a_tile_that_lanes_will_have_is_not_compiled():
    """The compiler would write out the loops of a whole tile for one thread, for minutes."""
    steps = explain(tilegen.load(TEXT).kernel("product").schedule("warps").core, CUBE).steps
    found = {step.step: step.launches[0] for step in steps if step.step and step.launches}
    before = found["cache_register(B.shared, at=fk)"]
    assert before.kept == 4 * 32 * 32 + 2 * 2 * 32 * 16 > MOST_KEPT
    assert before.resources is None
    after = steps[-1].launches[0]
    assert (after.kept, sum(after.fragments.values())) == (48 * 4, 48)
    assert after.resources.registers > 48
    assert (
        _skip_if_large(Rung(None, "", (before,)), Gpu()).untimed
        == "not compiled: a thread keeps 6144 bytes in registers"
    )
    assert _skip_if_large(Rung(None, "", (after,)), Gpu()).untimed is None


class Gpu:
    on_gpu = True


@pytest.mark.nvrtc
@pytest.mark.skipif(toolkit.nvdisasm() is None, reason="no nvdisasm")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_machine_code_names_tensor_cores(arch):
    hot = sass.hot(sass.sass(emit(lower(tree("warps")), "cuda"), arch)["product"])
    assert hot.mix["tensor"] == hot.useful == 2 * 8
    assert hot.mix["matrix load"] == 2 * 4
    line = mix_line(hot)
    assert "16 tensor (HMMA)" in line
    assert "8 matrix load (LDSM)" in line


@pytest.mark.nvrtc
def test_ptx_names_tensor_cores():
    hot = sass.hot(sass.ptx(emit(lower(tree("warps")), "cuda"))["product"])
    assert re.match(r"16 tensor \(mma\), 8 matrix load \(ldmatrix\)", mix_line(hot))


@pytest.mark.nvrtc
@pytest.mark.skipif(toolkit.nvdisasm() is None, reason="no nvdisasm")
def test_instructions_of_doubles_are_named():
    hot = sass.hot(sass.sass(emit(lower(tree("tiny", "product_f64")), "cuda"))["product_f64"])
    assert hot.words["tensor"] == ("DMMA",)


def test_no_gpu_is_listed_that_lacks_an_instruction():
    assert "sm_75" in SM
    assert set(report("warps").elsewhere) == set(SM) - {"sm_75", "sm_90"}


SIZES_OF_WARPGROUPS = {"M": 512, "N": 512, "K": 256}


@pytest.fixture(scope="module")
def by_warpgroups():
    tree = schedule_stock("hgemm", "warpgroups").tree
    (launch,) = explain_tree(tree, SIZES_OF_WARPGROUPS, compiled=False)
    return launch


def test_every_warpgroup_runs_so_many_instructions(by_warpgroups):
    (count,) = by_warpgroups.work.by_warps
    assert (count.unit, count.warps, count.of_a_unit, count.runs) == ("warpgroup", 4, 256 / 16, 256 / 16 * 2 * 4 * 2)
    assert count.runs * count.operations == 2 * 512 * 512 * 256
    assert by_warpgroups.inner.unit == "warpgroup"
    assert (by_warpgroups.inner.by_warps, by_warpgroups.inner.shared) == (1, 0)


def test_a_warpgroup_reads_each_operand_once_and_without_conflicts(by_warpgroups):
    """64 x 16 of A and 16 x 256 of B, 2 bytes each, in wavefronts of 128 bytes."""
    (count,) = by_warpgroups.work.by_warps
    rows = {t.site.buffer: t for t in by_warpgroups.traffic if t.site.by == count.name}
    assert {name: t.bytes / count.runs for name, t in rows.items()} == {"As": 64 * 16 * 2, "Bs": 16 * 256 * 2}
    assert {name: t.wavefronts / count.runs for name, t in rows.items()} == {"As": 16, "Bs": 64}


def test_warpgroups_reach_the_peak_and_run_on_one_architecture(by_warpgroups):
    assert H200.tensor.rate("bf16", "warpgroup") == 989.4 > H200.tensor.rate("bf16", "warp")
    seconds = 2 * 512 * 512 * 256 / 989.4e12
    assert by_warpgroups.prediction.bounds["tensor cores"] >= 1e3 * seconds
    assert by_warpgroups.tensor_elsewhere == {}
    assert by_warpgroups.elsewhere == {}


@pytest.mark.parametrize(("schedule", "columns", "groups"), [("specialized", 256, 2), ("ping_pong", 128, 2)])
def test_what_consumers_and_a_producer_do_is_counted_once(schedule, columns, groups):
    """Beside two warpgroups, a part of a third is there for the one thread that starts the copies."""
    m, n, k = 33 * 128, 2048, 256
    (launch,) = explain_tree(schedule_stock("hgemm", schedule).tree, {"M": m, "N": n, "K": k}, compiled=False)
    count = launch.work.computing[0]
    assert count.runs * count.operations == 2 * m * n * k
    assert count.of_a_unit == count.runs / groups / launch.blocks
    copied = {t.site.buffer: t.bytes for t in launch.traffic if t.in_bulk and not t.store}
    assert copied == {"A": m * k * (n // columns) * 2, "B": k * n * (m // 128) * 2}
    assert launch.prediction.bounds["bulk copies"] < launch.prediction.bounds["tensor cores"]


@pytest.mark.nvrtc
@pytest.mark.skipif(toolkit.nvdisasm() is None, reason="no nvdisasm")
@pytest.mark.parametrize(
    ("schedule", "word", "count"), [("warpgroups", "HGMMA", 4), ("hgemm_i8.sums_in_turns", "IGMMA", 8)]
)
def test_machine_code_names_instructions_of_warpgroups(schedule, word, count):
    """Loads that never run hold the instructions apart; they are no loads."""
    launches = lower(schedule_stock("hgemm", schedule).tree)
    hot = sass.hot(sass.sass(emit(launches, "cuda"), "sm_90a")[launches[0].name])
    assert hot.mix["tensor"] == hot.useful == count
    assert hot.words["tensor"] == (word,)
    assert "shared load" not in hot.mix
    # The producer starts bulk copies in a loop of its own.
    assert ("asynchronous copy" in hot.mix) == (schedule == "warpgroups")


@pytest.mark.parametrize(("schedule", "products"), [("promoted", 6), ("two_f16", 3)])
def test_pieces_that_are_left_out_are_not_counted(schedule: str, products: int) -> None:
    launch = lower(schedule_stock("gemm_pieces", schedule).tree)[-1]
    sizes = {"M": 33 * 128, "N": 4 * 128, "K": 128}
    (count,) = arithmetic(program_of(launch), sizes).by_warps
    assert count.runs * count.operations == products * 2 * prod(sizes.values())
