// chain_c: grid (((N + 255)/256)*2), block (256)
// for arrays of fewer than 2^31 - 2^20 elements, N*2 <= 2147483136
// arrays a[N], b[N], c[N], d[N]; c and d overlap no other
// c is scratch memory: float[N]
// d is scratch memory: float[N]
extern "C" __global__ void __launch_bounds__(256)
chain_c(const float* __restrict__ a,
        const float* __restrict__ b,
        float* __restrict__ c,
        float* __restrict__ d,
        int N)
{
    constexpr int T = 256;
    const int bi = blockIdx.x;   // roles(bc, bd) -> bi
    const int tc = threadIdx.x;  // blocks(c.i, T) -> bc, tc
    const int td = threadIdx.x;  // blocks(d.i, T) -> bd, td

    if (bi < (N + 255) / 256) {
        if (bi * 256 + tc < N)
            c[bi * 256 + tc] = sinf(a[bi * 256 + tc]) + cosf(b[bi * 256 + tc]);
    } else {
        const int bd = bi - (N + 255) / 256;
        if (bd * T + td < N)
            d[bd * T + td] = logf(a[bd * T + td]);
    }
}

// chain_out: grid (ceil(N/256)), block (256)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays out[N], c[N], d[N]; out overlaps no other
// c is scratch memory: float[N]
// d is scratch memory: float[N]
extern "C" __global__ void __launch_bounds__(256)
chain_out(float* __restrict__ out, const float* __restrict__ c, const float* __restrict__ d, int N)
{
    constexpr int T = 256;
    const int bo = blockIdx.x;  // blocks(out.i, T) -> bo, to
    const int to = threadIdx.x;

    if (bo * T + to < N)
        out[bo * T + to] = sqrtf(c[bo * T + to]) * d[bo * T + to];
}
