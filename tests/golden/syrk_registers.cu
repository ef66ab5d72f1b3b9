// syrk: grid (ceil(M/128), ceil(M/128)), block (16, 16), 16384 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128) <= 65535
// arrays A[M][K], C[M][M]; C overlaps no other
// needs K % 4 == 0, A aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
syrk(const float* __restrict__ A, float* __restrict__ C, int M, int K)
{
    constexpr int TM = 128, TN = 128, TK = 16, WM = 8, WN = 8;
    const int bi = blockIdx.y;   // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)
    const int tid = ti * 16 + tj;

    // cache_shared(A, at=ko, using=[ti], layout=[k, i], vector=4) -> Ai
    // element c of row r lies at c ^ ((r & 15) << 1)
    __shared__ float Ai[TK][TM];
    // cache_shared(A, at=ko, using=[tj], layout=[k, i], vector=4) -> Aj
    // element c of row r lies at c ^ ((r & 15) << 1)
    __shared__ float Aj[TK][TN];

    const bool full_tile = bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < M;

    // cache_register(C, at=bj)
    float C_reg[WM][WN] = {};

    // tile(k, TK) -> ko, ki
    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        if (ko * TK + (tid % 4) * 4 + 3 < K) {
            if (full_tile) {
                #pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const int i = part * 64 + tid / 4;
                    const int k = tid % 4;
                    const float4 A_vec = *reinterpret_cast<const float4*>(&A[(bi * TM + i) * K + ko * TK + k * 4]);
                    Ai[k * 4][i ^ (((k * 4) & 15) << 1)] = A_vec.x;
                    Ai[k * 4 + 1][i ^ (((k * 4 + 1) & 15) << 1)] = A_vec.y;
                    Ai[k * 4 + 2][i ^ (((k * 4 + 2) & 15) << 1)] = A_vec.z;
                    Ai[k * 4 + 3][i ^ (((k * 4 + 3) & 15) << 1)] = A_vec.w;
                }

                #pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const int i = part * 64 + tid / 4;
                    const int k = tid % 4;
                    const float4 A_vec2 = *reinterpret_cast<const float4*>(&A[(bj * TN + i) * K + ko * TK + k * 4]);
                    Aj[k * 4][i ^ (((k * 4) & 15) << 1)] = A_vec2.x;
                    Aj[k * 4 + 1][i ^ (((k * 4 + 1) & 15) << 1)] = A_vec2.y;
                    Aj[k * 4 + 2][i ^ (((k * 4 + 2) & 15) << 1)] = A_vec2.z;
                    Aj[k * 4 + 3][i ^ (((k * 4 + 3) & 15) << 1)] = A_vec2.w;
                }
            } else {
                #pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const int i = part * 64 + tid / 4;
                    const int k = tid % 4;
                    if (bi * TM + i < M) {
                        const float4 A_vec = *reinterpret_cast<const float4*>(&A[(bi * TM + i) * K + ko * TK + k * 4]);
                        Ai[k * 4][i ^ (((k * 4) & 15) << 1)] = A_vec.x;
                        Ai[k * 4 + 1][i ^ (((k * 4 + 1) & 15) << 1)] = A_vec.y;
                        Ai[k * 4 + 2][i ^ (((k * 4 + 2) & 15) << 1)] = A_vec.z;
                        Ai[k * 4 + 3][i ^ (((k * 4 + 3) & 15) << 1)] = A_vec.w;
                    }
                }

                #pragma unroll
                for (int part = 0; part < 2; ++part) {
                    const int i = part * 64 + tid / 4;
                    const int k = tid % 4;
                    if (bj * TN + i < M) {
                        const float4 A_vec2 = *reinterpret_cast<const float4*>(&A[(bj * TN + i) * K + ko * TK + k * 4]);
                        Aj[k * 4][i ^ (((k * 4) & 15) << 1)] = A_vec2.x;
                        Aj[k * 4 + 1][i ^ (((k * 4 + 1) & 15) << 1)] = A_vec2.y;
                        Aj[k * 4 + 2][i ^ (((k * 4 + 2) & 15) << 1)] = A_vec2.z;
                        Aj[k * 4 + 3][i ^ (((k * 4 + 3) & 15) << 1)] = A_vec2.w;
                    }
                }
            }
        }

        __syncthreads();  // Ai and Aj are complete: written above, read below

        if (full_tile && ko * TK + (TK - 1) < K) {
            // unroll(ki)
            #pragma unroll
            for (int ki = 0; ki < TK; ++ki) {
                // cache_register(Ai, at=ki)
                float Ai_reg[WM];
                // coarsen(ti, WM) -> ti, wi
                #pragma unroll
                for (int wi = 0; wi < WM; ++wi)
                    Ai_reg[wi] = Ai[ki][(wi * 16 + ti) ^ ((ki & 15) << 1)];

                // cache_register(Aj, at=ki)
                float Aj_reg[WN];
                // coarsen(tj, WN) -> tj, wj
                #pragma unroll
                for (int wj = 0; wj < WN; ++wj)
                    Aj_reg[wj] = Aj[ki][(wj * 16 + tj) ^ ((ki & 15) << 1)];

                #pragma unroll
                for (int wi = 0; wi < WM; ++wi)
                    #pragma unroll
                    for (int wj = 0; wj < WN; ++wj)
                        C_reg[wi][wj] += Ai_reg[wi] * Aj_reg[wj];
            }
        } else {
            #pragma unroll
            for (int ki = 0; ki < TK; ++ki)
                if (ko * TK + ki < K) {
                    float Ai_reg[WM];
                    #pragma unroll
                    for (int wi = 0; wi < WM; ++wi)
                        if (bi * TM + wi * 16 + ti < M)
                            Ai_reg[wi] = Ai[ki][(wi * 16 + ti) ^ ((ki & 15) << 1)];

                    float Aj_reg[WN];
                    #pragma unroll
                    for (int wj = 0; wj < WN; ++wj)
                        if (bj * TN + wj * 16 + tj < M)
                            Aj_reg[wj] = Aj[ki][(wj * 16 + tj) ^ ((ki & 15) << 1)];

                    #pragma unroll
                    for (int wi = 0; wi < WM; ++wi)
                        #pragma unroll
                        for (int wj = 0; wj < WN; ++wj)
                            C_reg[wi][wj] += Ai_reg[wi] * Aj_reg[wj];
                }
        }

        __syncthreads();  // before the next ko overwrites Ai and Aj
    }

    float* C_tile = &C[bi * TM * M + bj * TN];
    if (bi * TM + (TM - 1) < M && bj * TN + 126 < bi * TM) {
        #pragma unroll
        for (int wi = 0; wi < WM; ++wi)
            #pragma unroll
            for (int wj = 0; wj < WN; ++wj)
                C_tile[(wi * 16 + ti) * M + wj * 16 + tj] = C_reg[wi][wj];
    } else {
        #pragma unroll
        for (int wi = 0; wi < WM; ++wi)
            if (bi * TM + wi * 16 + ti < M)
                #pragma unroll
                for (int wj = 0; wj < WN; ++wj)
                    if (bj * TN + wj * 16 + tj <= bi * TM + wi * 16 + ti)
                        C_tile[(wi * 16 + ti) * M + wj * 16 + tj] = C_reg[wi][wj];
    }
}
