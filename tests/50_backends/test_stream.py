"""Inputs that the caches need not keep: how their loads are printed, by whatever way they are loaded."""

import tilegen

ROWS = """
kernel scaled(X: f32[M, 64], s: f32[M]) -> Y: f32[M, 64]:
    Y[i, j] = s[i] * X[i, j]

schedule streamed for scaled():
    tile(j, 4) -> t, v
    vectorize(v)
    bind(i, block.x)
    bind(t, thread.x)
    stream(X)
    stream(s)
"""


def test_cuda_loads_with_a_hint_and_opencl_as_ever():
    scheduled = tilegen.load(ROWS).schedule("streamed")
    text = scheduled.source("cuda")
    assert "const float4 X_vec = __ldcs(reinterpret_cast<const float4*>(&X[i * 64 + t * 4]));" in text
    assert "Y_vec.x = __ldcs(&s[i]) * X_vec.x;" in text
    assert "*reinterpret_cast<float4*>(&Y[i * 64 + t * 4]) = Y_vec;" in text
    assert "__ldcs(&X[i * 64 + t * 4 + v])" in scheduled.source("cuda", vector=False)
    assert "__ldcs" not in scheduled.source("opencl")


def test_a_register_is_filled_with_it_and_an_asynchronous_copy_is_as_before():
    file = tilegen.load("gemm")
    text = file.schedule("across").step("stream", "A").source("cuda")
    assert "__ldcs" not in text
    assert "__ldcs(&A[" in file.schedule("tiled").step("stream", "A").source("cuda")
