// permute: grid (ceil(D/64), B, A), block (64, 4), 16640 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, B <= 65535, A <= 65535
// arrays X[A][B][C][D], Y[D][B][A][C]; Y overlaps no other
extern "C" __global__ void __launch_bounds__(256)
permute(const float* __restrict__ X, float* __restrict__ Y, int A, int B, int C, int D)
{
    constexpr int TC = 64, TD = 64, ROWS = 4;
    const int a = blockIdx.z;    // bind(a, block.z)
    const int b = blockIdx.y;    // bind(b, block.y)
    const int bd = blockIdx.x;   // tile(d, TD) -> bd, td; bind(bd, block.x)
    const int td = threadIdx.y;  // bind(td, thread.y)
    const int tc = threadIdx.x;  // tile(c, TC) -> bc, tc; bind(tc, thread.x)

    // cache_shared(X, at=bc)
    __shared__ float X_shared[TC][65];

    for (int bc = 0; bc < (C + TC - 1) / TC; ++bc) {
        if (bd * TD + tc < D) {
            if (bc * TC + (TC - 1) < C) {
                #pragma unroll
                for (int part = 0; part < 16; ++part)
                    X_shared[part * 4 + td][tc] = X[((a * B + b) * C + bc * TC + part * 4 + td) * D + bd * TD + tc];
            } else {
                #pragma unroll
                for (int part = 0; part < 16; ++part)
                    if (bc * TC + part * 4 + td < C)
                        X_shared[part * 4 + td][tc] = X[((a * B + b) * C + bc * TC + part * 4 + td) * D + bd * TD + tc];
            }
        }

        __syncthreads();  // X.shared is complete: written above, read below

        if (bc * TC + tc < C) {
            if (bd * TD + (TD - 1) < D) {
                // tile(td, ROWS) -> wd, td
                // unroll(wd)
                #pragma unroll
                for (int wd = 0; wd < 16; ++wd)
                    Y[(((bd * TD + wd * ROWS + td) * B + b) * A + a) * C + bc * TC + tc] = X_shared[tc][wd * ROWS + td];
            } else {
                #pragma unroll
                for (int wd = 0; wd < 16; ++wd)
                    if (bd * TD + wd * ROWS + td < D)
                        Y[(((bd * TD + wd * ROWS + td) * B + b) * A + a) * C + bc * TC + tc] =
                            X_shared[tc][wd * ROWS + td];
            }
        }

        __syncthreads();  // before the next bc overwrites X.shared
    }
}
