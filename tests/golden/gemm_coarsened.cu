// gemm: grid (ceil(N/32), ceil(M/32)), block (32, 4), 8192 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(128)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K, int N)
{
    constexpr int TS = 32, WPT = 8;
    const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)

    // cache_shared(A, at=ko)
    __shared__ float A_shared[TS][TS];
    // cache_shared(B, at=ko)
    __shared__ float B_shared[TS][TS];

    const bool full_tile = bi * TS + (TS - 1) < M;

    // cache_register(C, at=bj)
    float C_reg[WPT] = {};

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + TS - 1) / TS; ++ko) {
        if (ko * TS + (TS - 1) < K && bi * TS + (TS - 1) < M && bj * TS + (TS - 1) < N) {
            #pragma unroll
            for (int part = 0; part < 8; ++part)
                A_shared[part * 4 + ti][tj] = A[(bi * TS + part * 4 + ti) * K + ko * TS + tj];

            #pragma unroll
            for (int part = 0; part < 8; ++part)
                B_shared[part * 4 + ti][tj] = B[(ko * TS + part * 4 + ti) * N + bj * TS + tj];
        } else {
            if (ko * TS + tj < K)
                #pragma unroll
                for (int part = 0; part < 8; ++part)
                    if (bi * TS + part * 4 + ti < M)
                        A_shared[part * 4 + ti][tj] = A[(bi * TS + part * 4 + ti) * K + ko * TS + tj];

            if (bj * TS + tj < N)
                #pragma unroll
                for (int part = 0; part < 8; ++part)
                    if (ko * TS + part * 4 + ti < K)
                        B_shared[part * 4 + ti][tj] = B[(ko * TS + part * 4 + ti) * N + bj * TS + tj];
        }

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (bj * TS + tj < N) {
            if (full_tile && ko * TS + (TS - 1) < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki) {
                    // cache_register(B.shared, at=ki)
                    float B_shared_reg = B_shared[ki][tj];

                    // coarsen(ti, WPT) -> ti, wi
                    #pragma unroll
                    for (int wi = 0; wi < WPT; ++wi)
                        C_reg[wi] += A_shared[wi * 4 + ti][ki] * B_shared_reg;
                }
            } else {
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    if (ko * TS + ki < K) {
                        float B_shared_reg = B_shared[ki][tj];

                        #pragma unroll
                        for (int wi = 0; wi < WPT; ++wi)
                            if (bi * TS + wi * 4 + ti < M)
                                C_reg[wi] += A_shared[wi * 4 + ti][ki] * B_shared_reg;
                    }
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    if (bj * TS + tj < N) {
        float* C_tile = &C[bi * TS * N + bj * TS];
        if (full_tile) {
            #pragma unroll
            for (int wi = 0; wi < WPT; ++wi)
                C_tile[(wi * 4 + ti) * N + tj] = C_reg[wi];
        } else {
            #pragma unroll
            for (int wi = 0; wi < WPT; ++wi)
                if (bi * TS + wi * 4 + ti < M)
                    C_tile[(wi * 4 + ti) * N + tj] = C_reg[wi];
        }
    }
}
