// transpose: grid (ceil(N/32), ceil(M/32)), block (32, 8), 4096 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays X[M][N], Y[N][M]; Y overlaps no other
extern "C" __global__ void __launch_bounds__(256)
transpose(const float* __restrict__ X, float* __restrict__ Y, int M, int N)
{
    constexpr int TS = 32, ROWS = 8;
    const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int tj = threadIdx.y;  // bind(tj, thread.y)
    const int ti = threadIdx.x;  // bind(ti, thread.x)

    // cache_shared(X, at=bj)
    // element c of row r lies at c ^ (r & 31)
    __shared__ float X_shared[TS][TS];

    if (bj * TS + ti < N) {
        const float* X_tile = &X[bi * TS * N + bj * TS];
        if (bi * TS + (TS - 1) < M) {
            #pragma unroll
            for (int part = 0; part < 4; ++part)
                X_shared[part * 8 + tj][ti ^ ((part * 8 + tj) & 31)] = X_tile[(part * 8 + tj) * N + ti];
        } else {
            #pragma unroll
            for (int part = 0; part < 4; ++part)
                if (bi * TS + part * 8 + tj < M)
                    X_shared[part * 8 + tj][ti ^ ((part * 8 + tj) & 31)] = X_tile[(part * 8 + tj) * N + ti];
        }
    }

    __syncthreads();  // X.shared is complete: written above, read below

    if (bi * TS + ti < M) {
        float* Y_tile = &Y[bj * TS * M + bi * TS];
        if (bj * TS + (TS - 1) < N) {
            // tile(tj, ROWS) -> wj, tj
            // unroll(wj)
            #pragma unroll
            for (int wj = 0; wj < 4; ++wj)
                Y_tile[(wj * ROWS + tj) * M + ti] = X_shared[ti][(wj * ROWS + tj) ^ (ti & 31)];
        } else {
            #pragma unroll
            for (int wj = 0; wj < 4; ++wj)
                if (bj * TS + wj * ROWS + tj < N)
                    Y_tile[(wj * ROWS + tj) * M + ti] = X_shared[ti][(wj * ROWS + tj) ^ (ti & 31)];
        }
    }
}
