// gemm: grid (ceil(N/32), ceil(M/32)), block (32, 32), 8192 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(1024)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K, int N)
{
    const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)

    // cache_shared(A, at=ko)
    __shared__ float A_shared[32][32];
    // cache_shared(B, at=ko)
    __shared__ float B_shared[32][32];

    // cache_register(C, at=bj)
    float C_reg = 0.0f;

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + 31) / 32; ++ko) {
        if (bi * 32 + ti < M && ko * 32 + tj < K)
            A_shared[ti][tj] = A[(bi * 32 + ti) * K + ko * 32 + tj];

        if (ko * 32 + ti < K && bj * 32 + tj < N)
            B_shared[ti][tj] = B[(ko * 32 + ti) * N + bj * 32 + tj];

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (bi * 32 + ti < M && bj * 32 + tj < N) {
            if (ko * 32 + 31 < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < 32; ++ki)
                    C_reg += A_shared[ti][ki] * B_shared[ki][tj];
            } else {
                #pragma unroll
                for (int ki = 0; ki < 32; ++ki)
                    if (ko * 32 + ki < K)
                        C_reg += A_shared[ti][ki] * B_shared[ki][tj];
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    if (bi * 32 + ti < M && bj * 32 + tj < N)
        C[(bi * 32 + ti) * N + bj * 32 + tj] = C_reg;
}
