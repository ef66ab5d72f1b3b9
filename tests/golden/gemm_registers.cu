// gemm: grid (ceil(N/128), ceil(M/128)), block (16, 16), 16384 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 4 == 0, N % 4 == 0, A aligned to 16 bytes, B aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K, int N)
{
    constexpr int TM = 128, TN = 128, TK = 16, WM = 8, WN = 8;
    const int bi = blockIdx.y;   // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)
    const int tid = ti * 16 + tj;

    // cache_shared(A, at=ko, layout=[k, i], vector=4)
    // element c of row r lies at c ^ ((r & 7) << 1)
    __shared__ float A_shared[TK][TM];
    // cache_shared(B, at=ko, vector=4)
    __shared__ __align__(16) float B_shared[TK][TN];

    const bool full_tile = bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < N;

    // cache_register(C, at=bj)
    float C_reg[WM][WN] = {};

    // tile(k, TK) -> ko, ki
    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        if (full_tile && ko * TK + (TK - 1) < K) {
            #pragma unroll
            for (int part = 0; part < 2; ++part) {
                const int i = part * 64 + tid / 4;
                const int k = tid % 4;
                const float4 A_vec = *reinterpret_cast<const float4*>(&A[(bi * TM + i) * K + ko * TK + k * 4]);
                A_shared[k * 4][i ^ (((k * 4) & 7) << 1)] = A_vec.x;
                A_shared[k * 4 + 1][i ^ (((k * 4 + 1) & 7) << 1)] = A_vec.y;
                A_shared[k * 4 + 2][i ^ (((k * 4 + 2) & 7) << 1)] = A_vec.z;
                A_shared[k * 4 + 3][i ^ (((k * 4 + 3) & 7) << 1)] = A_vec.w;
            }

            #pragma unroll
            for (int part = 0; part < 2; ++part) {
                const int k = part * 8 + tid / 32;
                const int j = tid % 32;
                *reinterpret_cast<float4*>(&B_shared[k][j * 4]) =
                    *reinterpret_cast<const float4*>(&B[(ko * TK + k) * N + bj * TN + j * 4]);
            }
        } else {
            if (ko * TK + (tid % 4) * 4 + 3 < K)
                #pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const int i = part * 64 + tid / 4;
                    const int k = tid % 4;
                    if (bi * TM + i < M) {
                        const float4 A_vec = *reinterpret_cast<const float4*>(&A[(bi * TM + i) * K + ko * TK + k * 4]);
                        A_shared[k * 4][i ^ (((k * 4) & 7) << 1)] = A_vec.x;
                        A_shared[k * 4 + 1][i ^ (((k * 4 + 1) & 7) << 1)] = A_vec.y;
                        A_shared[k * 4 + 2][i ^ (((k * 4 + 2) & 7) << 1)] = A_vec.z;
                        A_shared[k * 4 + 3][i ^ (((k * 4 + 3) & 7) << 1)] = A_vec.w;
                    }
                }

            if (bj * TN + (tid % 32) * 4 + 3 < N)
                #pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const int k = part * 8 + tid / 32;
                    const int j = tid % 32;
                    if (ko * TK + k < K)
                        *reinterpret_cast<float4*>(&B_shared[k][j * 4]) =
                            *reinterpret_cast<const float4*>(&B[(ko * TK + k) * N + bj * TN + j * 4]);
                }
        }

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (full_tile && ko * TK + (TK - 1) < K) {
            // unroll(ki)
            #pragma unroll
            for (int ki = 0; ki < TK; ++ki) {
                // cache_register(A.shared, at=ki)
                float A_shared_reg[WM];
                // coarsen(ti, WM) -> ti, wi
                #pragma unroll
                for (int wi = 0; wi < WM; ++wi)
                    A_shared_reg[wi] = A_shared[ki][wi * 16 + (ti ^ ((ki & 7) << 1))];

                // cache_register(B.shared, at=ki)
                float B_shared_reg[WN];
                // coarsen(tj, WN) -> tj, wj
                #pragma unroll
                for (int wj = 0; wj < WN; ++wj)
                    B_shared_reg[wj] = B_shared[ki][wj * 16 + tj];

                #pragma unroll
                for (int wi = 0; wi < WM; ++wi)
                    #pragma unroll
                    for (int wj = 0; wj < WN; ++wj)
                        C_reg[wi][wj] += A_shared_reg[wi] * B_shared_reg[wj];
            }
        } else {
            #pragma unroll
            for (int ki = 0; ki < TK; ++ki)
                if (ko * TK + ki < K) {
                    float A_shared_reg[WM];
                    #pragma unroll
                    for (int wi = 0; wi < WM; ++wi)
                        if (bi * TM + wi * 16 + ti < M)
                            A_shared_reg[wi] = A_shared[ki][wi * 16 + (ti ^ ((ki & 7) << 1))];

                    float B_shared_reg[WN];
                    #pragma unroll
                    for (int wj = 0; wj < WN; ++wj)
                        if (bj * TN + wj * 16 + tj < N)
                            B_shared_reg[wj] = B_shared[ki][wj * 16 + tj];

                    #pragma unroll
                    for (int wi = 0; wi < WM; ++wi)
                        #pragma unroll
                        for (int wj = 0; wj < WN; ++wj)
                            C_reg[wi][wj] += A_shared_reg[wi] * B_shared_reg[wj];
                }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    float* C_tile = &C[bi * TM * N + bj * TN];
    if (full_tile) {
        #pragma unroll
        for (int wi = 0; wi < WM; ++wi)
            #pragma unroll
            for (int wj = 0; wj < WN; ++wj)
                C_tile[(wi * 16 + ti) * N + wj * 16 + tj] = C_reg[wi][wj];
    } else {
        #pragma unroll
        for (int wi = 0; wi < WM; ++wi)
            if (bi * TM + wi * 16 + ti < M)
                #pragma unroll
                for (int wj = 0; wj < WN; ++wj)
                    if (bj * TN + wj * 16 + tj < N)
                        C_tile[(wi * 16 + ti) * N + wj * 16 + tj] = C_reg[wi][wj];
    }
}
