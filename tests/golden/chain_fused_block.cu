// chain: grid (ceil(N/256)), block (512), 2048 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements
// arrays a[N], b[N], out[N]; out overlaps no other
extern "C" __global__ void __launch_bounds__(512)
chain(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int N)
{
    constexpr int T = 256;
    const int bi = blockIdx.x;   // fuse(bc, bd, bo) -> bi
    const int t = threadIdx.x;   // roles(tc, td) -> t
    const int to = threadIdx.x;  // blocks(out.i, T) -> bo, to

    // cache_shared(c, at=bi)
    __shared__ float c_shared[T];
    // cache_shared(d, at=bi)
    __shared__ float d_shared[T];

    const float* a_tile = &a[bi * 256];
    if (t < 256) {
        if (bi * 256 + t < N)
            c_shared[t] = sinf(a_tile[t]) + cosf(b[bi * 256 + t]);
    } else {
        const int td = t - 256;
        if (bi * 256 + td < N)
            d_shared[td] = logf(a_tile[td]);
    }

    __syncthreads();  // d.shared is complete: written above, read below

    if (to < 256 && bi * 256 + to < N)
        out[bi * 256 + to] = sqrtf(c_shared[to]) * d_shared[to];
}
