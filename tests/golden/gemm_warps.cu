// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
}

// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
}

// gemm: grid (ceil(N/256), ceil(M/128)), block (32, 4, 2), 49664 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 4 == 0, N % 4 == 0, M % 4 == 0, A aligned to 16 bytes, B aligned to 16 bytes, C aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K, int N)
{
    constexpr int TM = 128, TN = 256, TK = 32;
    const int bi = blockIdx.y;   // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;  // warp_tile(ti, WI, 4) -> wi, ci, li, vi; warp_threads(wi, wj, li, lj) -> lane
    const int wj = threadIdx.y;  // warp_tile(tj, WJ, 8) -> wj, cj, lj, vj
    const int lane = threadIdx.x;
    const int tid = wi * 128 + wj * 32 + lane;

    extern __shared__ __align__(16) unsigned char shared[];
    // cache_shared(A, at=ko, layout=[k, i], vector=4)
    float (*A_shared)[TM + 4] = reinterpret_cast<float (*)[TM + 4]>(shared);
    // cache_shared(B, at=ko, vector=4)
    float (*B_shared)[TN] = reinterpret_cast<float (*)[TN]>(shared + 16896);

    const int i0 = wi * 64 + (lane / 8) * 4;
    const int j0 = wj * 64 + (lane % 8) * 4;
    const bool full_tile = bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < N;

    // cache_register(C, at=bj, vector=4)
    float C_reg[4][4][2][4] = {};

    // tile(k, TK) -> ko, ki
    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        if (full_tile && ko * TK + (TK - 1) < K) {
            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int i = part * 32 + tid / 8;
                const int k = tid % 8;
                const float4 A_vec = *reinterpret_cast<const float4*>(&A[(bi * TM + i) * K + ko * TK + k * 4]);
                A_shared[k * 4][i] = A_vec.x;
                A_shared[k * 4 + 1][i] = A_vec.y;
                A_shared[k * 4 + 2][i] = A_vec.z;
                A_shared[k * 4 + 3][i] = A_vec.w;
            }

            #pragma unroll
            for (int part = 0; part < 8; ++part) {
                const int k = part * 4 + tid / 64;
                const int j = tid % 64;
                *reinterpret_cast<float4*>(&B_shared[k][j * 4]) =
                    *reinterpret_cast<const float4*>(&B[(ko * TK + k) * N + bj * TN + j * 4]);
            }
        } else {
            if (ko * TK + (tid % 8) * 4 + 3 < K)
                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    const int i = part * 32 + tid / 8;
                    const int k = tid % 8;
                    if (bi * TM + i < M) {
                        const float4 A_vec = *reinterpret_cast<const float4*>(&A[(bi * TM + i) * K + ko * TK + k * 4]);
                        A_shared[k * 4][i] = A_vec.x;
                        A_shared[k * 4 + 1][i] = A_vec.y;
                        A_shared[k * 4 + 2][i] = A_vec.z;
                        A_shared[k * 4 + 3][i] = A_vec.w;
                    }
                }

            if (bj * TN + (tid % 64) * 4 + 3 < N)
                #pragma unroll
                for (int part = 0; part < 8; ++part) {
                    const int k = part * 4 + tid / 64;
                    const int j = tid % 64;
                    if (ko * TK + k < K)
                        *reinterpret_cast<float4*>(&B_shared[k][j * 4]) =
                            *reinterpret_cast<const float4*>(&B[(ko * TK + k) * N + bj * TN + j * 4]);
                }
        }

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (full_tile && ko * TK + (TK - 1) < K) {
            // cache_operands(A.shared, B.shared, ki)
            #pragma unroll
            for (int ki = 0; ki < TK; ++ki) {
                float A_shared_reg[4][4];
                #pragma unroll
                for (int ci = 0; ci < 4; ++ci)
                    load_vector<float4>(A_shared_reg[ci], &A_shared[ki][ci * 16 + i0]);

                float B_shared_reg[2][4];
                #pragma unroll
                for (int cj = 0; cj < 2; ++cj)
                    load_vector<float4>(B_shared_reg[cj], &B_shared[ki][cj * 32 + j0]);

                #pragma unroll
                for (int ci = 0; ci < 4; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 2; ++vi) {
                        #pragma unroll
                        for (int cj = 0; cj < 2; ++cj)
                            #pragma unroll
                            for (int vj = 0; vj < 4; ++vj)
                                C_reg[ci][vi * 2][cj][vj] += A_shared_reg[ci][vi * 2] * B_shared_reg[cj][vj];

                        #pragma unroll
                        for (int cj = 0; cj < 2; ++cj)
                            #pragma unroll
                            for (int vj = 0; vj < 4; ++vj)
                                C_reg[ci][vi * 2 + 1][1 - cj][3 - vj] +=
                                    A_shared_reg[ci][vi * 2 + 1] * B_shared_reg[1 - cj][3 - vj];
                    }
            }
        } else {
            #pragma unroll
            for (int ki = 0; ki < TK; ++ki)
                if (ko * TK + ki < K) {
                    float A_shared_reg[4][4];
                    #pragma unroll
                    for (int ci = 0; ci < 4; ++ci)
                        if (bi * TM + ci * 16 + i0 + 3 < M)
                            load_vector<float4>(A_shared_reg[ci], &A_shared[ki][ci * 16 + i0]);

                    float B_shared_reg[2][4];
                    #pragma unroll
                    for (int cj = 0; cj < 2; ++cj)
                        if (bj * TN + cj * 32 + j0 + 3 < N)
                            load_vector<float4>(B_shared_reg[cj], &B_shared[ki][cj * 32 + j0]);

                    #pragma unroll
                    for (int ci = 0; ci < 4; ++ci)
                        #pragma unroll
                        for (int vi = 0; vi < 2; ++vi) {
                            #pragma unroll
                            for (int cj = 0; cj < 2; ++cj)
                                #pragma unroll
                                for (int vj = 0; vj < 4; ++vj)
                                    C_reg[ci][vi * 2][cj][vj] += A_shared_reg[ci][vi * 2] * B_shared_reg[cj][vj];

                            #pragma unroll
                            for (int cj = 0; cj < 2; ++cj)
                                #pragma unroll
                                for (int vj = 0; vj < 4; ++vj)
                                    C_reg[ci][vi * 2 + 1][1 - cj][3 - vj] +=
                                        A_shared_reg[ci][vi * 2 + 1] * B_shared_reg[1 - cj][3 - vj];
                        }
                }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    float* C_tile = &C[bi * TM * N + bj * TN];
    if (full_tile) {
        #pragma unroll
        for (int ci = 0; ci < 4; ++ci)
            #pragma unroll
            for (int vi = 0; vi < 2; ++vi) {
                const auto store_C = [&](int slot) {
                    #pragma unroll
                    for (int cj = 0; cj < 2; ++cj)
                        store_vector<float4>(&C_tile[(ci * 16 + vi * 2 + i0 + slot) * N + cj * 32 + j0],
                                             C_reg[ci][vi * 2 + slot][cj]);
                };

                store_C(0);
                store_C(1);
            }
    } else {
        #pragma unroll
        for (int ci = 0; ci < 4; ++ci)
            #pragma unroll
            for (int vi = 0; vi < 2; ++vi) {
                const auto store_C_partial = [&](int slot) {
                    if (bi * TM + ci * 16 + vi * 2 + i0 + slot < M)
                        #pragma unroll
                        for (int cj = 0; cj < 2; ++cj)
                            if (bj * TN + cj * 32 + j0 + 3 < N)
                                store_vector<float4>(&C_tile[(ci * 16 + vi * 2 + i0 + slot) * N + cj * 32 + j0],
                                                     C_reg[ci][vi * 2 + slot][cj]);
                };

                store_C_partial(0);
                store_C_partial(1);
            }
    }
}
