"""Tensor maps: what the driver is told, what kernels are given, and what a GPU makes of them."""

import ctypes
import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from tests.support.bulk_kernels import CASES
from tests.support.written import tree_from
from tilegen.api import load
from tilegen.backends.calls.device_program import Program
from tilegen.backends.calls.engine import BoundMap, Run
from tilegen.backends.calls.host import HostArrays
from tilegen.backends.compiler import tensor_maps
from tilegen.backends.compiler.tensor_maps import DATA_TYPES, encode
from tilegen.backends.devices import cuda
from tilegen.backends.text import emit
from tilegen.errors import DeviceError
from tilegen.ir.affine import const, var
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.lowering import lower
from tilegen.lowering.launch.tensor_maps import TensorMap

COPY = """
kernel copy(A: f32[M, N]) -> C: f32[M, N]:
    C[i, j] = A[i, j]
schedule rows for copy():
    bind(i, block.x)
"""
ROWS = TensorMap("A.map", "A", "bf16", (var("K"), var("M")), (64, 128), 128)
WORDS = ctypes.POINTER(ctypes.c_uint64)
HALVES = ctypes.POINTER(ctypes.c_uint32)
FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_uint32,
    ctypes.c_void_p,
    WORDS,
    WORDS,
    HALVES,
    HALVES,
    *[ctypes.c_int] * 4,
)


class Driver:
    """The two functions of the driver, as C calls them. `calls` has what it was asked; it answers with `error`."""

    def __init__(self):
        self.calls, self.error = [], 0
        self.cuTensorMapEncodeTiled = FUNCTION(self._encode)
        self.cuTensorMapEncodeIm2col = self._encode_windows
        self.cuGetErrorName = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(self._name)
        self._text = ctypes.create_string_buffer(b"CUDA_ERROR_INVALID_VALUE")

    def _encode(self, place, dtype, rank, address, extents, strides, box, steps, *enumerations):
        numbers = (extents[:rank], strides[: rank - 1] if strides else None, box[:rank], steps[:rank])
        self.calls.append((dtype, rank, address, *numbers, *enumerations))
        assert place % 64 == 0
        ctypes.memset(place, len(self.calls), 128)
        return self.error

    def _encode_windows(self, *arguments):
        self.calls.append(
            [list(each) if isinstance(each, ctypes.Array) else getattr(each, "value", each) for each in arguments[1:]]
        )
        return self.error

    def _name(self, error, to):
        if error != 1:
            return 1
        ctypes.c_void_p.from_address(to).value = ctypes.addressof(self._text)
        return 0


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(tensor_maps, "load_driver", lambda: made)
    tensor_maps._encode_once.cache_clear()
    yield made
    tensor_maps._encode_once.cache_clear()


def test_the_driver_is_told_of_the_tensor(driver):
    made = encode(ROWS, 2**40 + 256, {"M": 300, "K": 72, "N": 5})
    assert driver.calls == [(9, 2, 2**40 + 256, [72, 300], [144], [64, 128], [1, 1], 0, 3, 2, 0)]
    assert made == b"\1" * 128


def test_a_tensor_of_one_dimension_has_an_array_of_no_strides(driver):
    # With a null pointer the driver refuses it.
    encode(TensorMap("x.map", "x", "i32", (var("N"),), (256,)), 512, {"N": 2**31})
    assert driver.calls == [(3, 1, 512, [2**31], [], [256], [1], 0, 0, 2, 0)]


def test_a_tensor_of_five_dimensions(driver):
    shape = (const(32), var("N"), var("N") + 1, const(7), const(3))
    encode(TensorMap("x.map", "x", "f64", shape, (4, 8, 1, 2, 1), 32), 512, {"N": 6})
    strides = [256, 256 * 6, 256 * 42, 256 * 294]
    assert driver.calls == [(8, 5, 512, [32, 6, 7, 7, 3], strides, [4, 8, 1, 2, 1], [1] * 5, 0, 1, 2, 0)]


def test_the_driver_is_told_where_windows_begin(driver):
    (launch,) = lower(load("hconv").kernel("hconv", stride=2).schedule("pixels").tree)
    encode(launch.maps[0], 512, {"B": 3, "H": 20, "W": 9, "C": 72})
    # Rows of 5 windows from -1 to 7, which is 1 before the last element; columns of 10 from -1 to 17, 2 before it.
    strides = [144, 144 * 9, 144 * 180]
    assert driver.calls == [[6, 4, 512, [72, 9, 20, 3], strides, [-1, -1], [-1, -2], 64, 128, [1, 2, 2, 1], 0, 3, 2, 0]]


def test_the_rows_of_a_tensor_may_be_apart(driver):
    sizes = {"M": 300, "K": 72, "A.pitch": 128}
    encode(replace(ROWS, pitch=var("A.pitch")), 512, sizes)
    assert driver.calls == [(9, 2, 512, [72, 300], [256], [64, 128], [1, 1], 0, 3, 2, 0)]
    encode(replace(ROWS, pitch=var("A.pitch")), 512, {**sizes, "A.pitch": 136})
    shape = (const(32), var("N"), const(7))
    encode(TensorMap("x.map", "x", "f64", shape, (4, 8, 1), 32, var("x.pitch")), 512, {"N": 6, "x.pitch": 40})
    assert [call[4] for call in driver.calls[1:]] == [[272], [320, 320 * 6]]


def test_each_type_has_a_number():
    assert DATA_TYPES.keys() == DTYPE_BYTES.keys()


def test_a_map_is_remembered_by_tensor_address_and_its_sizes(driver):
    sizes = {"M": 300, "K": 72, "N": 5}
    first = encode(ROWS, 512, sizes)
    assert encode(ROWS, 512, {"N": 7, "K": 72, "M": 300}) == first
    assert len(driver.calls) == 1
    for other in ((ROWS, 1024, sizes), (ROWS, 512, sizes | {"M": 301}), (ROWS, 512, sizes | {"M": 72, "K": 300})):
        assert encode(*other) != first
    wider = TensorMap("A.map2", "A", "bf16", ROWS.shape, (64, 64), 128)
    assert encode(wider, 512, sizes) != first
    assert len(driver.calls) == 5


def test_not_all_maps_are_remembered(driver):
    for number in range(2000):
        encode(ROWS, 512 * number, {"M": 8, "K": 8})
    assert tensor_maps._encode_once.cache_info().currsize < 2000
    assert len(driver.calls) == 2000


def test_a_refusal_names_the_tensor_its_extents_and_the_box(driver):
    driver.error = 1
    with pytest.raises(DeviceError) as caught:
        encode(ROWS, 520, {"M": 300, "K": 7})
    assert str(caught.value) == (
        "error: the CUDA driver makes no tensor map of A, bf16 at address 0x208, with extents (7, 300), strides of "
        "(14,) bytes and boxes of (64, 128): CUDA_ERROR_INVALID_VALUE\n"
        "  note: a schedule without bulk(...) needs no tensor map"
    )
    driver.error = 0
    encode(ROWS, 520, {"M": 300, "K": 7})
    driver.error = 12345
    with pytest.raises(DeviceError, match=r"boxes of \(64, 128\): error 12345"):
        encode(ROWS, 1024, {"M": 300, "K": 7})


def test_a_missing_or_old_driver_is_told(monkeypatch):
    def no_library(name):
        raise OSError(f"{name}: cannot open shared object file")

    for library, words in ((no_library, "does not load: libcuda.so.1"), (lambda _: object(), "CUDA 12.0 and later")):
        tensor_maps.load_driver.cache_clear()
        monkeypatch.setattr(ctypes, "CDLL", library)
        with pytest.raises(DeviceError, match=words):
            tensor_maps.load_driver()
    tensor_maps.load_driver.cache_clear()


# -- launches


class Recorder(HostArrays):
    """A device that keeps what it is asked to run."""

    name, language = "a recorder", "cuda"

    def __init__(self):
        self.runs = []

    def build(self, text, launches):
        return {launch.name: launch.name for launch in launches}

    def launcher(self, entry, run):
        self.runs.append(run)
        return lambda memory, addresses, scalars, stream: None


def test_a_launch_gets_its_maps_with_their_arrays():
    device, sizes = Recorder(), {"M": 40, "N": 72, "K": 24}
    aligned = {name: np.zeros(shape, np.float32) for name, shape in (("A", (40, 24)), ("B", (24, 72)), ("C", (40, 72)))}
    tree = tree_from(CASES["two stages"])
    if any(array.ctypes.data % 16 for array in aligned.values()):
        pytest.skip("numpy's arrays begin at no multiples of 16 bytes here")
    Program(tree, device).bind(sizes, aligned)
    (run,) = device.runs
    (launch,) = Program(tree, device).launches_at(sizes)
    assert [each.map for each in run.maps] == list(launch.maps)
    assert all(list(aligned)[each.array] == each.map.buffer for each in run.maps)
    assert all(each.map.extents(each.sizes) == list(aligned.values())[each.array].shape[::-1] for each in run.maps)


def test_a_launch_gets_the_pitch_of_its_arrays():
    device = Recorder()
    a, b = np.zeros((40, 64), np.float32)[:, 4:28], np.zeros((24, 80), np.float32)[:, :72]
    if any(array.ctypes.data % 16 for array in (a, b)):
        pytest.skip("numpy's arrays begin at no multiples of 16 bytes here")
    program = Program(tree_from(CASES["two stages"]), device)
    program(a, b)
    (run,) = device.runs
    assert {each.map.buffer for each in run.maps} == {"A", "B"}
    for each in run.maps:
        array = (a, b)[each.array]
        assert each.map.extents(each.sizes) == array.shape[::-1]
        assert each.map.strides(each.sizes) == array.strides[:1]


def test_a_call_keeps_the_arrays_that_it_launches_on():
    """An address is no reference: memory must not be given to another one before the launch."""
    array = np.zeros((4, 8), np.float32)
    call = Program(tree_from(COPY), Recorder()).bind({"M": 4, "N": 8}, {"A": array, "C": np.zeros_like(array)})
    seen = weakref.ref(array)
    del array
    gc.collect()
    call()
    assert seen() is not None
    del call
    gc.collect()
    assert seen() is None


def test_the_parameters_of_a_text_are_in_this_order():
    (launch,) = lower(tree_from(CASES["two stages"]))
    text = emit((launch,))
    names = ["C", "A_map", "B_map", "M", "K", "N"]
    signature = text[text.index('extern "C"') :].partition("(float")[2].partition(")")[0]
    assert [part.split()[-1] for part in signature.split(",")] == names


def test_a_text_tells_how_its_maps_are_made():
    def told(case):
        return [line for line in emit(lower(tree_from(CASES[case]))).splitlines() if " describes " in line]

    assert told("again") == [
        "// B_map describes B: FLOAT32, dimensions (N, 32, L), strides (4*N, 128*N), box (32, 8, 1), swizzle NONE"
    ]
    assert told("swizzled") == [
        "// X_map describes X: FLOAT32, dimensions (N, M), strides (4*N), box (32, 32), swizzle 128B"
    ]


# -- a kernel by hand, which writes out shared memory as a bulk copy has left it

KERNEL = """
struct __align__(64) Map { unsigned long long words[16]; };

extern "C" __global__ void copy_tile(uint4* out, const __grid_constant__ Map map, int bytes, int column, int row)
{
    __shared__ __align__(1024) uint4 tile[1024];
    __shared__ unsigned long long barrier;
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%3, %4}], [%2];"
                     ::"r"(place), "l"(&map), "r"(at), "r"(column), "r"(row) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at) : "memory");
    for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x)
        out[i] = tile[i];
}
"""
BOX_ROWS = 64


def shared_bytes(tensor, row_bytes, swizzle, column, row):
    """The bytes of a box of `row_bytes` by BOX_ROWS as they lie in shared memory; zeros for what is beyond."""
    flat = tensor.view(np.uint8).reshape(len(tensor), -1)
    box = np.zeros((BOX_ROWS, row_bytes), np.uint8)
    first = column * tensor.itemsize
    inside = flat[row : row + BOX_ROWS, first : first + row_bytes]
    box[: inside.shape[0], : inside.shape[1]] = inside
    place = np.arange(box.size)
    units = max(swizzle // 16, 1)  # of 16 bytes, whose number takes as many bits of the number of the 128-byte line
    place ^= ((place >> 7) & (units - 1)) << 4
    laid = np.empty(box.size, np.uint8)
    laid[place] = box.reshape(-1)
    return laid


def bound_copy(engine, each, tensor, out, column, row):
    """The call of the kernel that copies one box of the tensor, and its bytes to `out`."""
    entry = engine.load(KERNEL, ["copy_tile"], engine.arch)["copy_tile"]
    sizes = {"M": tensor.shape[0], "K": tensor.shape[1]}
    maps = (BoundMap(each, 1, sizes),)
    run = Run("copy_tile", (1, 1, 1), (128, 1, 1), 0, (0,), (), (out.size, column, row), False, maps)
    launch, memory = engine.launcher(entry, run), (out, tensor)
    addresses = [engine.pointer(array) for array in memory]
    return lambda: launch(memory, addresses, (), engine.xp.cuda.get_current_stream().ptr)


def capable_engine():
    engine = cuda.CudaEngine()
    if int(engine.arch.removeprefix("sm_")) < 90:
        pytest.skip(f"{engine.name} has no bulk copies")
    return engine


@pytest.mark.nvrtc
def test_the_kernel_by_hand_compiles():
    from tilegen.backends.compiler.nvrtc import compile_text

    assert set(compile_text(KERNEL, "sm_90").resources) == {"copy_tile"}


@pytest.mark.gpu
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", DATA_TYPES)
def test_a_gpu_copies_what_a_map_describes(dtype, swizzle):
    """All bits, those of numbers that are none among them; 100 rows of 1120 bytes, and boxes across each edge."""
    engine, size, row_bytes = capable_engine(), DTYPE_BYTES[dtype], swizzle or 96
    bits = np.random.default_rng(5).integers(0, 2 ** min(8 * size, 63), (100, 1120 // size), dtype=np.int64)
    values = bits.astype(f"u{size}")
    each = TensorMap("A.map", "A", dtype, ROWS.shape, (row_bytes // size, BOX_ROWS), swizzle)
    tensor, out = engine.xp.asarray(values), engine.xp.empty(BOX_ROWS * row_bytes, np.uint8)
    across = values.shape[1] - 48 // size
    for column, row in ((0, 0), (across, 0), (0, 70), (across, 99), (16 // size, 3), (-(16 // size), -5)):
        out.fill(7)
        bound_copy(engine, each, tensor, out, column, row)()
        padded = np.pad(values, ((max(0, -row), 0), (max(0, -column), 0)))
        expected = shared_bytes(padded, row_bytes, swizzle, max(0, column), max(0, row))
        np.testing.assert_array_equal(out.get(), expected)


@pytest.mark.gpu
def test_maps_go_into_a_graph():
    """A graph keeps the map as it was captured, and reads what is in the tensor when it is replayed."""
    engine = capable_engine()
    tensor, out = engine.xp.zeros((100, 560), np.uint16), engine.xp.empty(BOX_ROWS * 128, np.uint8)
    each = TensorMap("A.map", "A", "bf16", ROWS.shape, (64, BOX_ROWS), 128)
    call = bound_copy(engine, each, tensor, out, 520, 60)
    call()
    replay = engine.capture([call])
    for seed in (1, 2):
        values = np.random.default_rng(seed).integers(0, 2**16, tensor.shape, dtype=np.uint16)
        tensor.set(values)
        out.fill(7)
        engine.synchronize()
        replay()
        engine.synchronize()
        engine.xp.cuda.runtime.deviceSynchronize()
        np.testing.assert_array_equal(out.get(), shared_bytes(values, 128, 128, 520, 60))


@pytest.mark.gpu
def test_the_driver_refuses_rows_of_odd_lengths():
    engine = capable_engine()
    tensor = engine.xp.zeros((100, 7), np.uint16)
    with pytest.raises(
        DeviceError, match=r"no tensor map of A, bf16 .* extents \(7, 100\), .* CUDA_ERROR_INVALID_VALUE"
    ):
        encode(ROWS, engine.pointer(tensor), {"M": 100, "K": 7})
