// gemm: grid (ceil(N/32), ceil(M/32)), block (32, 32), 8192 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, K <= A.pitch, N <= C.pitch, ceil(M/32) <= 65535
// arrays A[M][A.pitch], B[K][N], C[M][C.pitch]; C overlaps no other
// the rows of A begin A.pitch elements apart
// the rows of C begin C.pitch elements apart
extern "C" __global__ void __launch_bounds__(1024)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
     int M, int K, int N, int A_pitch, int C_pitch)
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
            A_shared[ti][tj] = A[(bi * TS + ti) * A_pitch + ko * TS + tj];

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
        C[(bi * TS + ti) * C_pitch + bj * TS + tj] = C_reg;
}
