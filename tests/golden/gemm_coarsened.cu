// gemm: grid (ceil(N/32), ceil(M/32)), block (32, 4), 8192 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(128)
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
    float C_reg[8] = {};

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + 31) / 32; ++ko) {
        if (ko * 32 + 31 < K && bi * 32 + 31 < M && bj * 32 + 31 < N) {
            #pragma unroll
            for (int part = 0; part < 8; ++part)
                A_shared[part * 4 + ti][tj] = A[(bi * 32 + part * 4 + ti) * K + ko * 32 + tj];

            #pragma unroll
            for (int part = 0; part < 8; ++part)
                B_shared[part * 4 + ti][tj] = B[(ko * 32 + part * 4 + ti) * N + bj * 32 + tj];
        } else {
            if (ko * 32 + tj < K)
                #pragma unroll
                for (int part = 0; part < 8; ++part)
                    if (bi * 32 + part * 4 + ti < M)
                        A_shared[part * 4 + ti][tj] = A[(bi * 32 + part * 4 + ti) * K + ko * 32 + tj];

            if (bj * 32 + tj < N)
                #pragma unroll
                for (int part = 0; part < 8; ++part)
                    if (ko * 32 + part * 4 + ti < K)
                        B_shared[part * 4 + ti][tj] = B[(ko * 32 + part * 4 + ti) * N + bj * 32 + tj];
        }

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (bj * 32 + tj < N) {
            if (ko * 32 + 31 < K && bi * 32 + 31 < M) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < 32; ++ki) {
                    // cache_register(B.shared, at=ki)
                    float B_shared_reg = B_shared[ki][tj];

                    // coarsen(ti, WPT) -> ti, wi
                    #pragma unroll
                    for (int wi = 0; wi < 8; ++wi)
                        C_reg[wi] += A_shared[wi * 4 + ti][ki] * B_shared_reg;
                }
            } else {
                #pragma unroll
                for (int ki = 0; ki < 32; ++ki)
                    if (ko * 32 + ki < K) {
                        float B_shared_reg = B_shared[ki][tj];

                        #pragma unroll
                        for (int wi = 0; wi < 8; ++wi)
                            if (bi * 32 + wi * 4 + ti < M)
                                C_reg[wi] += A_shared[wi * 4 + ti][ki] * B_shared_reg;
                    }
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    if (bj * 32 + tj < N) {
        if (bi * 32 + 31 < M) {
            #pragma unroll
            for (int wi = 0; wi < 8; ++wi)
                C[(bi * 32 + wi * 4 + ti) * N + bj * 32 + tj] = C_reg[wi];
        } else {
            #pragma unroll
            for (int wi = 0; wi < 8; ++wi)
                if (bi * 32 + wi * 4 + ti < M)
                    C[(bi * 32 + wi * 4 + ti) * N + bj * 32 + tj] = C_reg[wi];
        }
    }
}
