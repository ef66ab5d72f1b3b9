// syrk: grid (ceil(M/32), ceil(M/32)), block (32, 32), 8320 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays A[M][K], C[M][M]; C overlaps no other
extern "C" __global__ void __launch_bounds__(1024)
syrk(const float* __restrict__ A, float* __restrict__ C, int M, int K)
{
    constexpr int TS = 32;
    const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)

    // cache_shared(A, at=ko, using=[ti]) -> Ai
    __shared__ float Ai[TS][TS];
    // cache_shared(A, at=ko, using=[tj]) -> Aj
    __shared__ float Aj[TS][TS + 1];

    // cache_register(C, at=bj)
    float C_reg = 0.0f;

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + TS - 1) / TS; ++ko) {
        if (ko * TS + tj < K) {
            if (bi * TS + ti < M)
                Ai[ti][tj] = A[(bi * TS + ti) * K + ko * TS + tj];

            if (bj * TS + ti < M)
                Aj[ti][tj] = A[(bj * TS + ti) * K + ko * TS + tj];
        }

        __syncthreads();  // Ai and Aj are complete: written above, read below

        if (bj * TS + tj <= bi * TS + ti && bi * TS + ti < M) {
            if (ko * TS + (TS - 1) < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    C_reg += Ai[ti][ki] * Aj[tj][ki];
            } else {
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    if (ko * TS + ki < K)
                        C_reg += Ai[ti][ki] * Aj[tj][ki];
            }
        }

        __syncthreads();  // before the next ko overwrites Ai and Aj
    }

    if (bj * TS + tj <= bi * TS + ti && bi * TS + ti < M)
        C[(bi * TS + ti) * M + bj * TS + tj] = C_reg;
}
