"""Calls on a GPU as programs make them: torch's memory and streams, graphs, several devices, threads."""

from contextlib import contextmanager
from threading import Event, Thread

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tilegen.errors import ArgumentError

pytestmark = pytest.mark.gpu

# One launch; two with memory between them; a first launch that starts what blocks then add to; bulk copies.
KERNELS = {
    "one launch": ("gemm", "tiled", {}),
    "memory between": ("gemm_split", "split_k", {"KP": 64}),
    "atomic": ("gemm_split", "atomic", {"KP": 64}),
    "maps": ("hgemm", "whole_rows", {}),
}


def program_of(kind):
    from tilegen.backends.devices.cuda import CudaEngine

    file, schedule, parameters = KERNELS[kind]
    if kind == "maps" and CudaEngine().arch != "sm_90":
        pytest.skip("no bulk copies and warpgroups here")
    return tilegen.load(file).schedule(schedule, **parameters).compile("cuda")


def numbers(kind, seed, m=128, n=256, k=192):
    random = np.random.default_rng(seed)
    a, b = random.integers(-4, 5, (m, k)), random.integers(-4, 5, (k, n))
    return a, b, a @ b


@pytest.fixture(params=KERNELS)
def kind(request):
    return request.param


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def tensors(torch, kind, seed):
    dtype = torch.bfloat16 if kind == "maps" else torch.float32
    a, b, expected = numbers(kind, seed)
    return *(torch.as_tensor(each, device="cuda").to(dtype) for each in (a, b)), expected


def arrays(kind, seed):
    """cupy's."""
    import cupy

    a, b, expected = numbers(kind, seed)
    dtype = ml_dtypes.bfloat16 if kind == "maps" else np.float32
    return *(cupy.asarray(each.astype(dtype)) for each in (a, b)), expected


def check(got, expected):
    host = got.float().cpu().numpy() if hasattr(got, "cpu") else got.get()
    # Small integers are exact in f32; bf16 rounds the result to 8 bits.
    np.testing.assert_allclose(host.astype(np.float32), expected, rtol=2**-8, atol=0)


def test_repeated_calls_read_the_arrays_of_the_call(torch, kind) -> None:
    product = program_of(kind)
    for seed in range(4):
        a, b, expected = tensors(torch, kind, seed)
        kept = [product(a, b) for _ in range(3)]
        for got in kept:
            check(got, expected)
        assert len({got.data_ptr() for got in kept}) == 3
        x, y, expected = arrays(kind, seed)
        check(product(x, y), expected)


def test_torch_gets_memory_of_torch_and_cupy_of_cupy(torch, kind) -> None:
    import cupy

    product = program_of(kind)
    a, b, _ = tensors(torch, kind, 0)
    x, y, _ = arrays(kind, 0)
    pool = cupy.get_default_memory_pool()
    product(a, b), product(x, y)
    torch.cuda.reset_peak_memory_stats()
    taken, before = pool.used_bytes(), torch.cuda.memory_allocated()
    c = product(a, b)
    assert pool.used_bytes() == taken
    assert torch.cuda.memory_allocated() - before >= c.numel() * c.element_size()
    grown, before = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    if kind == "memory between":
        assert grown > before
    torch.cuda.reset_peak_memory_stats()
    z = product(x, y)
    assert torch.cuda.max_memory_allocated() == before
    assert pool.used_bytes() - taken >= z.nbytes


@pytest.mark.parametrize("prepared", [False, True], ids=["call", "prepared"])
def test_torch_captures_it(torch, kind, prepared) -> None:
    """In the strictest mode: nothing is loaded, waited for, or allocated by anyone else."""
    product = program_of(kind)
    a, b, _ = tensors(torch, kind, 0)
    run = product.prepare(a, b) if prepared else lambda: product(a, b)
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="global"):
        c = run()
    # Whatever is allocated now is not what the graph writes to.
    others = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(8)]
    for seed in (1, 2):
        new_a, new_b, expected = tensors(torch, kind, seed)
        a.copy_(new_a), b.copy_(new_b)
        graph.replay()
        check(c, expected)
    assert all(bool((other == 7).all()) for other in others)


@pytest.mark.parametrize("prepared", [False, True], ids=["call", "prepared"])
def test_cupy_captures_it(kind, prepared) -> None:
    import cupy

    product = program_of(kind)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        a, b, _ = arrays(kind, 0)
        run = product.prepare(a, b) if prepared else lambda: product(a, b)
        run(), stream.synchronize()
        stream.begin_capture()
        c = run()
        graph = stream.end_capture()
        others = [cupy.full(c.size, 7, np.float32) for _ in range(8)]
        for seed in (1, 2):
            new_a, new_b, expected = arrays(kind, seed)
            a[:], b[:] = new_a, new_b
            graph.launch(stream)
            stream.synchronize()
            check(c, expected)
        assert all(bool((other == 7).all()) for other in others)


@contextmanager
def held(stream):
    """Nothing runs on the stream before the block ends, or after a minute where something waits for it within."""
    import cupy

    ended = Event()
    cupy.cuda.ExternalStream(stream.cuda_stream).launch_host_func(lambda _: ended.wait(60), None)
    try:
        yield
    finally:
        ended.set()


def test_launches_go_to_the_stream_that_is_current(torch, kind) -> None:
    """A stream is held: what is launched on it has not run when the other one is done."""
    product, side = program_of(kind), torch.cuda.Stream()
    a, b, expected = tensors(torch, kind, 0)
    c = product(a, b, C=product(a, b)).fill_(7)
    assert bool((c == 7).all())  # and all is loaded: a load may wait for streams
    with held(side):
        with torch.cuda.stream(side):
            product(a, b, C=c)
        assert bool((c == 7).all())
        assert not side.query()
    side.synchronize()
    check(c, expected)


def test_a_prepared_call_reads_what_is_in_its_arrays_now(torch, kind) -> None:
    product = program_of(kind)
    a, b, expected = tensors(torch, kind, 0)
    run = product.prepare(a, b)
    check(run(), expected)
    new_a, new_b, expected = tensors(torch, kind, 1)
    a.copy_(new_a), b.copy_(new_b)
    assert run() is run.outputs
    check(run.outputs, expected)


def test_wrong_tensors_after_right_ones_are_refused(torch) -> None:
    product = program_of("one launch")
    a, b, expected = tensors(torch, "one launch", 0)
    for wrong, message in [
        ((a, b.double()), "B is float64, and the kernel takes f32"),
        ((a, b.to(torch.bfloat16)), "B is bfloat16, and the kernel takes f32"),
        ((a, b.cpu()), "B is on the CPU"),
        ((a, b.t().contiguous().t()), "B is not contiguous"),
        ((a, b[:-1]), "B has shape"),
        ((a, b.to_sparse()), "B is torch.sparse_coo"),
        ((a, b.clone().requires_grad_()), "B requires a gradient"),
        ((a, torch._neg_view(b)), "B is negated"),
    ]:
        check(product(a, b), expected)
        for _ in range(2):
            with pytest.raises(ArgumentError, match=message):
                product(*wrong)
    square = torch.ones(64, 64, device="cuda")
    with pytest.raises(ArgumentError, match="C and A share memory"):
        product(square, square.clone(), C=square)


def test_an_output_of_torch_in_another_storage_order(torch) -> None:
    text = "kernel turn(A: f32[M, N]) -> C: f32[M, N] col_major:\n    C[i, j] = A[i, j]\n"
    kernel = tilegen.load(text).kernel().schedule().bind("i", "block.x")
    a = torch.randn(5, 7, device="cuda")
    c = kernel.compile("cuda")(a)
    assert torch.equal(c, a)
    assert c.stride() == (1, 5)


def test_empty_results(torch, kind) -> None:
    import cupy

    product = program_of(kind)
    a, b, _ = tensors(torch, kind, 0)
    got = product(a[:0], b)
    assert (got.shape, got.dtype, got.device) == ((0, 256), a.dtype, a.device)
    x, y, _ = arrays(kind, 0)
    assert product(cupy.zeros((0, 192), x.dtype), y).shape == (0, 256)
    with pytest.raises(ArgumentError, match="size K is 0"):
        product(a[:, :0].contiguous(), b[:0])


def test_elements_that_a_kernel_leaves_out_are_0_in_torch(torch) -> None:
    syrk = tilegen.load("syrk").schedule("tiled").compile("cuda")
    a = torch.randint(-4, 5, (70, 30), device="cuda").float()
    for _ in range(3):
        assert torch.equal(syrk(a), torch.tril(a @ a.t()))


def test_a_thread_that_has_not_used_the_gpu_yet(torch) -> None:
    product, found = program_of("one launch"), []
    a, b, expected = tensors(torch, "one launch", 0)
    c = product(a, b)
    thread = Thread(target=lambda: found.append(product(a, b, C=c)))
    thread.start()
    thread.join()
    assert found
    check(found[0], expected)


def test_threads_at_once_have_arguments_of_their_own(torch) -> None:
    product = program_of("one launch")
    cases = [tensors(torch, "one launch", seed) for seed in range(8)]
    product(*cases[0][:2])
    results = [[] for _ in cases]

    def work(number):
        a, b, _ = cases[number]
        for _ in range(200):
            results[number][:] = [product(a, b)]

    threads = [Thread(target=work, args=(number,)) for number in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    for (_, _, expected), (got,) in zip(cases, results, strict=True):
        check(got, expected)


def test_a_call_goes_to_the_device_of_its_tensors(torch, kind) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    product = program_of(kind)
    for device in (1, 0, 1):
        a, b, expected = (
            each.to(f"cuda:{device}") if hasattr(each, "to") else each for each in tensors(torch, kind, 0)
        )
        c = product(a, b)
        assert c.device.index == device
        assert torch.cuda.current_device() == 0
        check(c, expected)
        run = product.prepare(a, b)
        check(run(), expected)
    with pytest.raises(ArgumentError, match="B is on GPU 1, and A on GPU 0"):
        product(a.to("cuda:0"), b.to("cuda:1"))
