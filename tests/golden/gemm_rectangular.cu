// gemm_B_global: grid (ceil(K/16), ceil(N/16)), block (16, 16)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(N/16) <= 65535
// arrays B[K][N], B_global[N][K]; B_global overlaps no other
// B_global is scratch memory: float[N][K]
extern "C" __global__ void __launch_bounds__(256)
gemm_B_global(const float* __restrict__ B, float* __restrict__ B_global, int K, int N)
{
    const int pk = blockIdx.x;   // tile(B.global.k, 16) -> pk, qk; bind(pk, block.x)
    const int pj = blockIdx.y;   // tile(B.global.j, 16) -> pj, qj; bind(pj, block.y)
    const int qj = threadIdx.y;  // bind(qj, thread.y)
    const int qk = threadIdx.x;  // bind(qk, thread.x)

    if (pk * 16 + qk < K && pj * 16 + qj < N) {
        // cache_global(B, layout=[j, k])
        B_global[(pj * 16 + qj) * K + pk * 16 + qk] = B[(pk * 16 + qk) * N + pj * 16 + qj];
    }
}

// gemm_C: grid (ceil(N/64), ceil(M/64)), block (8, 64), 16640 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/64) <= 65535
// arrays A[M][K], C[M][N], B_global[N][K]; C overlaps no other
// B_global is scratch memory: float[N][K]
extern "C" __global__ void __launch_bounds__(512)
gemm_C(const float* __restrict__ A, float* __restrict__ C, const float* __restrict__ B_global,
       int M, int K, int N)
{
    constexpr int TSM = 64, TSN = 64, TSK = 32, WPTN = 8;
    const int bi = blockIdx.y;   // tile(i, TSM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TSN) -> bj, tj; bind(bj, block.x)
    const int tj = threadIdx.x;  // bind(tj, thread.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tid = ti * 8 + tj;

    // cache_shared(A, at=ko)
    __shared__ float A_shared[TSM][TSK];
    // cache_shared(B.global, at=ko, layout=[k, j])
    __shared__ float B_global_shared[TSK][TSN + 2];

    const bool full_tile = bj * TSN + (TSN - 1) < N;

    // cache_register(C, at=bj)
    float C_reg[WPTN] = {};

    // tile(k, TSK) -> ko, ki
    for (int ko = 0; ko < (K + TSK - 1) / TSK; ++ko) {
        if (ko * TSK + tid % 32 < K) {
            if (bi * TSM + (TSM - 1) < M && bj * TSN + (TSN - 1) < N) {
                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int i = part * 16 + tid / 32;
                    const int k = tid % 32;
                    A_shared[i][k] = A[(bi * TSM + i) * K + ko * TSK + k];
                }

                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int j = part * 16 + tid / 32;
                    const int k = tid % 32;
                    B_global_shared[k][j] = B_global[(bj * TSN + j) * K + ko * TSK + k];
                }
            } else {
                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int i = part * 16 + tid / 32;
                    const int k = tid % 32;
                    if (bi * TSM + i < M)
                        A_shared[i][k] = A[(bi * TSM + i) * K + ko * TSK + k];
                }

                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int j = part * 16 + tid / 32;
                    const int k = tid % 32;
                    if (bj * TSN + j < N)
                        B_global_shared[k][j] = B_global[(bj * TSN + j) * K + ko * TSK + k];
                }
            }
        }

        __syncthreads();  // A.shared and B.global.shared are complete: written above, read below

        if (bi * TSM + ti < M) {
            if (full_tile && ko * TSK + (TSK - 1) < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < TSK; ++ki) {
                    // cache_register(A.shared, at=ki)
                    float A_shared_reg = A_shared[ti][ki];

                    // coarsen(tj, WPTN) -> tj, wj
                    #pragma unroll
                    for (int wj = 0; wj < WPTN; ++wj)
                        C_reg[wj] += A_shared_reg * B_global_shared[ki][wj * 8 + tj];
                }
            } else {
                #pragma unroll
                for (int ki = 0; ki < TSK; ++ki)
                    if (ko * TSK + ki < K) {
                        float A_shared_reg = A_shared[ti][ki];

                        #pragma unroll
                        for (int wj = 0; wj < WPTN; ++wj)
                            if (bj * TSN + wj * 8 + tj < N)
                                C_reg[wj] += A_shared_reg * B_global_shared[ki][wj * 8 + tj];
                    }
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.global.shared
    }

    if (bi * TSM + ti < M) {
        float* C_tile = &C[bi * TSM * N + bj * TSN];
        if (full_tile) {
            #pragma unroll
            for (int wj = 0; wj < WPTN; ++wj)
                C_tile[ti * N + wj * 8 + tj] = C_reg[wj];
        } else {
            #pragma unroll
            for (int wj = 0; wj < WPTN; ++wj)
                if (bj * TSN + wj * 8 + tj < N)
                    C_tile[ti * N + wj * 8 + tj] = C_reg[wj];
        }
    }
}
