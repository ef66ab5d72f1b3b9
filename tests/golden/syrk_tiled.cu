// syrk: grid (ceil(M/32), ceil(M/32)), block (32, 32), 8320 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays A[M][K], C[M][M]; C overlaps no other
extern "C" __global__ void __launch_bounds__(1024)
syrk(const float* __restrict__ A, float* __restrict__ C, int M, int K)
{
    const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)

    // cache_shared(A, at=ko, using=[ti]) -> Ai
    __shared__ float Ai[32][32];
    // cache_shared(A, at=ko, using=[tj]) -> Aj
    __shared__ float Aj[32][33];

    // cache_register(C, at=bj)
    float C_reg = 0.0f;

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + 31) / 32; ++ko) {
        if (ko * 32 + tj < K) {
            if (bi * 32 + ti < M)
                Ai[ti][tj] = A[(bi * 32 + ti) * K + ko * 32 + tj];

            if (bj * 32 + ti < M)
                Aj[ti][tj] = A[(bj * 32 + ti) * K + ko * 32 + tj];
        }

        __syncthreads();  // Ai and Aj are complete: written above, read below

        if (bj * 32 + tj <= bi * 32 + ti && bi * 32 + ti < M) {
            if (ko * 32 + 31 < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < 32; ++ki)
                    C_reg += Ai[ti][ki] * Aj[tj][ki];
            } else {
                #pragma unroll
                for (int ki = 0; ki < 32; ++ki)
                    if (ko * 32 + ki < K)
                        C_reg += Ai[ti][ki] * Aj[tj][ki];
            }
        }

        __syncthreads();  // before the next ko overwrites Ai and Aj
    }

    if (bj * 32 + tj <= bi * 32 + ti && bi * 32 + ti < M)
        C[(bi * 32 + ti) * M + bj * 32 + tj] = C_reg;
}
