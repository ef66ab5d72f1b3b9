// gemm: grid (ceil(N/32), ceil(M/32)), block (32, 32), 8192 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(1024)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K, int N)
{
    constexpr int TS = 32;
    const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)

    // cache_shared(A, at=ko)
    __shared__ float A_shared[TS][TS];
    // cache_shared(B, at=ko)
    __shared__ float B_shared[TS][TS];

    // cache_register(C, at=bj)
    float C_reg = 0.0f;

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + TS - 1) / TS; ++ko) {
        if (bi * TS + ti < M && ko * TS + tj < K)
            A_shared[ti][tj] = A[(bi * TS + ti) * K + ko * TS + tj];

        if (ko * TS + ti < K && bj * TS + tj < N)
            B_shared[ti][tj] = B[(ko * TS + ti) * N + bj * TS + tj];

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (bi * TS + ti < M && bj * TS + tj < N) {
            if (ko * TS + (TS - 1) < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    C_reg += A_shared[ti][ki] * B_shared[ki][tj];
            } else {
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    if (ko * TS + ki < K)
                        C_reg += A_shared[ti][ki] * B_shared[ki][tj];
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    if (bi * TS + ti < M && bj * TS + tj < N)
        C[(bi * TS + ti) * N + bj * TS + tj] = C_reg;
}
