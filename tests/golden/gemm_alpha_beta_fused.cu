// kernel gemm, schedule fused (T=16)

// gemm: grid (ceil(N/16), ceil(M/16)), block (16, 16), 2048 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/16) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(256)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
     float alpha, float beta, int M, int K, int N)
{
    constexpr int T = 16;
    const int bi = blockIdx.y;   // tile(i, T) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, T) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)

    // cache_shared(A, at=ko)
    __shared__ float A_shared[T][T];
    // cache_shared(B, at=ko)
    __shared__ float B_shared[T][T];

    // cache_register(P, at=bj)
    float P_reg = 0.0f;

    // tile(k, T) -> ko, ki
    for (int ko = 0; ko < (K + T - 1) / T; ++ko) {
        if (bi * T + ti < M && ko * T + tj < K)
            A_shared[ti][tj] = A[(bi * T + ti) * K + ko * T + tj];

        if (ko * T + ti < K && bj * T + tj < N)
            B_shared[ti][tj] = B[(ko * T + ti) * N + bj * T + tj];

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (bi * T + ti < M && bj * T + tj < N) {
            if (ko * T + (T - 1) < K) {
                for (int ki = 0; ki < T; ++ki)
                    P_reg += A_shared[ti][ki] * B_shared[ki][tj];
            } else {
                for (int ki = 0; ki < T; ++ki)
                    if (ko * T + ki < K)
                        P_reg += A_shared[ti][ki] * B_shared[ki][tj];
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    if (bi * T + ti < M && bj * T + tj < N) {
        float* C_tile = &C[bi * T * N + bj * T];
        C_tile[ti * N + tj] = alpha * P_reg + beta * C_tile[ti * N + tj];
    }
}
