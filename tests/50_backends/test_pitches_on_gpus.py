"""Slices of rows on a GPU: `x[:, :K]` of torch and cupy, by threads and by bulk copies, in graphs too."""

import numpy as np
import pytest

import tilegen

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def program_of(dtype):
    from tilegen.backends.devices.cuda import CudaEngine

    if dtype == "float32":
        return tilegen.load("gemm").schedule("across").compile("cuda")
    if CudaEngine().arch != "sm_90":
        pytest.skip("no bulk copies and warpgroups here")
    return tilegen.load("hgemm").schedule("ping_pong").compile("cuda")


def numbers(torch, dtype, rows, columns, before, behind, seed):
    """(a tensor with so many elements beside each row, all of the memory), small integers."""
    drawn = np.random.default_rng(seed).integers(-4, 5, (rows, before + columns + behind))
    memory = torch.as_tensor(drawn, device="cuda").to(getattr(torch, dtype))
    return memory[:, before : before + columns], memory


def gaps(memory, before, columns):
    return memory[:, :before].clone(), memory[:, before + columns :].clone()


# The first are for vectors and tensor maps; then a row that ends in the middle of one, and what nothing is aligned for.
SHAPES = {
    "aligned": (256, 384, 192, 64, 64),
    "odd rows": (250, 200, 100, 8, 20),
    "odd pitch": (250, 200, 100, 3, 2),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_slices_of_torch(torch, dtype, shape):
    multiply, (m, n, k, before, behind) = program_of(dtype), SHAPES[shape]
    a, _ = numbers(torch, dtype, m, k, before, behind, 1)
    b, _ = numbers(torch, dtype, k, n, before, behind, 2)
    c, memory = numbers(torch, dtype, m, n, before, behind, 3)
    outside, expected = gaps(memory, before, n), (a.double() @ b.double()).to(c.dtype)
    assert multiply(a, b, C=c) is c
    assert torch.equal(c, expected)
    assert all(map(torch.equal, gaps(memory, before, n), outside))
    assert torch.equal(multiply(a, b), expected)
    assert torch.equal(multiply(a.contiguous(), b), expected)
    assert torch.equal(multiply(a.contiguous(), b.contiguous()), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_slices_are_captured(torch, dtype):
    multiply, (m, n, k, before, behind) = program_of(dtype), SHAPES["aligned"]
    a, memory = numbers(torch, dtype, m, k, before, behind, 1)
    b, _ = numbers(torch, dtype, k, n, before, behind, 2)
    run = multiply.prepare(a, b)
    multiply(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plain, prepared = multiply(a, b), run()
    memory.neg_()
    graph.replay()
    expected = (a.double() @ b.double()).to(a.dtype)
    assert torch.equal(plain, expected)
    assert torch.equal(prepared, expected)


def test_halves_of_one_tensor(torch):
    """What is read and what is written lie side by side in the same rows."""
    text = "kernel k(A: f32[I, J]) -> C: f32[I, J]:\n    C[i, j] = A[i, j] + 1\n"
    text += "schedule rows for k():\n    tile(j, 64) -> b, t\n    bind(i, block.x)\n    bind(t, thread.x)\n"
    add, memory = tilegen.load(text).schedule("rows").compile("cuda"), torch.zeros(40, 200, device="cuda")
    add(memory[:, :100], C=memory[:, 100:])
    add(memory[:, 100:], C=memory[:, :100])
    assert torch.equal(memory[:, :100], torch.full((40, 100), 2.0, device="cuda"))
    assert torch.equal(memory[:, 100:], torch.ones(40, 100, device="cuda"))


def test_slices_of_cupy():
    import cupy

    multiply, random = program_of("float32"), np.random.default_rng(0)
    a, b = (cupy.asarray(random.integers(-4, 5, (128, 160)).astype("f4"))[:, 16:144] for _ in range(2))
    memory = cupy.full((128, 200), 7, "f4")
    c = memory[:, 4:132]
    assert multiply(a, b, C=c) is c
    cupy.testing.assert_array_equal(c, a @ b)
    assert (memory[:, :4] == 7).all()
    assert (memory[:, 132:] == 7).all()
    cupy.testing.assert_array_equal(multiply(a[::2], b), a[::2] @ b)
