// gemm_batched: grid (ceil(N/32), ceil(M/32), B*H), block (32, 32), 8192 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535, B*H <= 65535
// arrays A[B][H][M][K], V[B][H][K][N], C[B][H][M][N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(1024)
gemm_batched(const float* __restrict__ A, const float* __restrict__ V, float* __restrict__ C,
             int H, int M, int K, int N)
{
    constexpr int TS = 32;
    const int b = blockIdx.z / H;  // bind(b, block.z)
    const int h = blockIdx.z % H;  // bind(h, block.z)
    const int bi = blockIdx.y;     // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;     // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;    // bind(ti, thread.y)
    const int tj = threadIdx.x;    // bind(tj, thread.x)

    // cache_shared(A, at=ko)
    __shared__ float A_shared[TS][TS];
    // cache_shared(V, at=ko)
    __shared__ float V_shared[TS][TS];

    // cache_register(C, at=bj)
    float C_reg = 0.0f;

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + TS - 1) / TS; ++ko) {
        if (bi * TS + ti < M && ko * TS + tj < K)
            A_shared[ti][tj] = A[((b * H + h) * M + bi * TS + ti) * K + ko * TS + tj];

        if (ko * TS + ti < K && bj * TS + tj < N)
            V_shared[ti][tj] = V[((b * H + h) * K + ko * TS + ti) * N + bj * TS + tj];

        __syncthreads();  // A.shared and V.shared are complete: written above, read below

        if (bi * TS + ti < M && bj * TS + tj < N) {
            if (ko * TS + (TS - 1) < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    C_reg += A_shared[ti][ki] * V_shared[ki][tj];
            } else {
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    if (ko * TS + ki < K)
                        C_reg += A_shared[ti][ki] * V_shared[ki][tj];
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and V.shared
    }

    if (bi * TS + ti < M && bj * TS + tj < N)
        C[((b * H + h) * M + bi * TS + ti) * N + bj * TS + tj] = C_reg;
}
