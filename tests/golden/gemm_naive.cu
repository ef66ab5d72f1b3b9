// gemm: grid (ceil(N/32), ceil(M/32)), block (32, 32)
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

    if (bi * TS + ti < M && bj * TS + tj < N) {
        // cache_register(C, at=tj)
        float C_reg = 0.0f;

        for (int k = 0; k < K; ++k)
            C_reg += A[(bi * TS + ti) * K + k] * B[k * N + bj * TS + tj];

        C[(bi * TS + ti) * N + bj * TS + tj] = C_reg;
    }
}
