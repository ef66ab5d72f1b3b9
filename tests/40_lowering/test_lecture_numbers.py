"""The numbers that the lectures give for their kernels, read off the lowered trees."""

from math import prod

from tests.support.stock import schedule_stock
from tilegen.ir.nodes import THREAD_KINDS
from tilegen.ir.walk import leaves, loads
from tilegen.lowering import lower


def launch_of(name, schedule, position=-1, **parameters):
    return lower(schedule_stock(name, schedule, parameters=tuple(parameters.items())).tree)[position]


def paths(launch, buffer):
    """(loops, statement) of every statement that writes `buffer`."""
    return [(path, stmt) for path, stmt in leaves((launch.distributed,)) if stmt.target.buffer == buffer]


def loads_a_thread(launch, buffer):
    """Iterations of the copy into `buffer` that one thread runs in one turn of the loops outside."""
    ((path, _),) = paths(launch, buffer)
    first = next(n for n, loop in enumerate(path) if loop.kind in THREAD_KINDS)
    return prod(loop.extent.const for loop in path[first:] if loop.kind not in THREAD_KINDS)


def test_s12_support_region_is_130_loads_and_520_bytes():
    launch = launch_of("conv1d", "shared")
    assert launch.block == (128, 1, 1)
    assert launch.shared_bytes == 520
    copy = schedule_stock("conv1d", "shared").tree
    (elements,) = [
        prod(loop.extent.const for loop in path if loop.kind == "cooperative")
        for path, stmt in leaves(copy.body)
        if stmt.name == "X.shared"
    ]
    assert elements == 130
    # Without the shared tile: three loads of each of 128 elements.
    ((path, _),) = [(p, s) for p, s in leaves(schedule_stock("conv1d", "plain").tree.body) if s.reduce]
    assert path[-1].extent.const * 128 == 384


def test_s2_two_tiles_of_32_take_8_kilobytes():
    launch = launch_of("gemm", "tiled")
    assert launch.shared_bytes == 8 * 1024
    assert launch.block == (32, 32, 1)
    assert loads_a_thread(launch, "A.shared") == loads_a_thread(launch, "B.shared") == 1


def test_s3_nine_shared_loads_for_eight_multiply_adds():
    launch = launch_of("gemm", "coarsened")
    assert launch.block == (32, 4, 1)
    per_k = {}
    for path, stmt in leaves((launch.distributed,)):
        if any(loop.name == "ki" for loop in path):
            below = path[[loop.name for loop in path].index("ki") + 1 :]
            count = prod(loop.extent.const for loop in below)
            shared = sum(load.buffer in ("A.shared", "B.shared") for load in loads(stmt.value))
            per_k["loads"] = per_k.get("loads", 0) + shared * count
            per_k["fmas"] = per_k.get("fmas", 0) + bool(stmt.reduce) * count
    assert per_k == {"loads": 9, "fmas": 8}


def test_s6_eight_loads_a_thread_and_256_threads():
    launch = launch_of("gemm", "registers")
    assert launch.block == (16, 16, 1)
    assert loads_a_thread(launch, "A.shared") == loads_a_thread(launch, "B.shared") == 8
    # A's tile is stored transposed: 16 rows of 128 elements, swizzled.
    assert launch.shared_bytes == 4 * (16 * 128 + 16 * 128)


def test_s5_rectangular_tiles_padded_by_two():
    launch = launch_of("gemm", "rectangular")
    assert launch.block == (8, 64, 1)
    assert launch.shared_bytes == 4 * (64 * 32 + 32 * (64 + 2))
    assert loads_a_thread(launch, "A.shared") == loads_a_thread(launch, "B.global.shared") == 4


def test_s18_one_launch_instead_of_three():
    assert len(schedule_stock("chain", "three_launches").tree.body) == 3
    for name in ("fused_registers", "fused_shared", "fused_vector"):
        tree = schedule_stock("chain", name).tree
        assert len(tree.body) == 1
        # Nothing but a, b and out is left in global memory: three passes.
        assert [b.name for b in tree.buffers if b.space == "global"] == ["a", "b", "out"]
