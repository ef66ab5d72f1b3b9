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

// An asynchronous copy of 4, 8 or 16 bytes from global to shared memory, of 16 past the L1 cache; plain before sm_80.
template <int bytes> __device__ __forceinline__ void copy_async(void* to, const void* from)
{
#if __CUDA_ARCH__ >= 800
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(bytes) : "memory");
#else
    for (int i = 0; i < bytes / 4; ++i)
        static_cast<int*>(to)[i] = static_cast<const int*>(from)[i];
#endif
}

// The asynchronous copies made since the last call form a group.
__device__ __forceinline__ void end_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `groups` groups of copies, the latest ones, are still under way.
template <int groups> __device__ __forceinline__ void wait_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

// gemm: grid (ceil(N/256), ceil(M/128)), block (32, 4, 2), 148992 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs N % 4 == 0, M % 4 == 0, B aligned to 16 bytes, C aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K, int N)
{
    constexpr int TM = 128, TN = 256, TK = 32, STAGES = 3;
    const int bi = blockIdx.y;   // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;  // warp_tile(ti, WI, 4) -> wi, ci, li, vi; warp_threads(wi, wj, li, lj) -> lane
    const int wj = threadIdx.y;  // warp_tile(tj, WJ, 8) -> wj, cj, lj, vj
    const int lane = threadIdx.x;
    const int tid = wi * 128 + wj * 32 + lane;

    extern __shared__ __align__(16) unsigned char shared[];
    // cache_shared(A, at=ko, layout=[k, i])
    float (*A_shared)[TK][TM + 4] = reinterpret_cast<float (*)[TK][TM + 4]>(shared);
    // cache_shared(B, at=ko, vector=4)
    float (*B_shared)[TK][TN] = reinterpret_cast<float (*)[TK][TN]>(shared + 50688);

    const int i0 = wi * 64 + (lane / 8) * 4;
    const int j0 = wj * 64 + (lane % 8) * 4;
    const bool full_tile = bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < N;

    // cache_register(C, at=bj, vector=4)
    float C_reg[4][4][2][4] = {};

    const auto load_shared = [&](int ko, int ahead) {
        #pragma unroll
        for (int part = 0; part < 16; ++part)
            copy_async<4>(&A_shared[(ahead + ko) % STAGES][lane][part * 8 + wi * 4 + wj],
                          &A[(bi * TM + part * 8 + wi * 4 + wj) * K + ahead * TK + ko * TK + lane]);

        #pragma unroll
        for (int part = 0; part < 8; ++part) {
            const int k = part * 4 + tid / 64;
            const int j = tid % 64;
            copy_async<16>(&B_shared[(ahead + ko) % STAGES][k][j * 4],
                           &B[(ahead * TK + ko * TK + k) * N + bj * TN + j * 4]);
        }
    };

    const auto load_shared_partial = [&](int ko, int ahead) {
        if (ahead * TK + ko * TK + lane < K)
            #pragma unroll
            for (int part = 0; part < 16; ++part)
                if (bi * TM + part * 8 + wi * 4 + wj < M)
                    copy_async<4>(&A_shared[(ahead + ko) % STAGES][lane][part * 8 + wi * 4 + wj],
                                  &A[(bi * TM + part * 8 + wi * 4 + wj) * K + ahead * TK + ko * TK + lane]);

        if (bj * TN + (tid % 64) * 4 + 3 < N)
            #pragma unroll
            for (int part = 0; part < 8; ++part) {
                const int k = part * 4 + tid / 64;
                const int j = tid % 64;
                if (ahead * TK + ko * TK + k < K)
                    copy_async<16>(&B_shared[(ahead + ko) % STAGES][k][j * 4],
                                   &B[(ahead * TK + ko * TK + k) * N + bj * TN + j * 4]);
            }
    };

    // tile(k, TK) -> ko, ki
    // pipeline(ko, STAGES)
    #pragma unroll
    for (int fill = 0; fill < 2; ++fill) {
        if (full_tile && fill * 32 + 31 < K)
            load_shared(fill, 0);
        else
            load_shared_partial(fill, 0);

        end_copies();
    }

    wait_copies<1>();
    __syncthreads();  // A.shared and B.shared are complete: written above, read below

    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        if (full_tile && ko * TK + (3 * TK - 1) < K)
            load_shared(ko, 2);
        else
            load_shared_partial(ko, 2);

        end_copies();

        if (full_tile && ko * TK + (TK - 1) < K) {
            // cache_operands(A.shared, B.shared, ki)
            float A_shared_reg[2][4][4];

            const auto load_A_shared_reg = [&](int ki) {
                #pragma unroll
                for (int ci = 0; ci < 4; ++ci)
                    load_vector<float4>(A_shared_reg[ki % 2][ci], &A_shared[ko % STAGES][ki][ci * 16 + i0]);
            };

            load_A_shared_reg(0);
            float B_shared_reg[2][2][4];

            const auto load_B_shared_reg = [&](int ki) {
                #pragma unroll
                for (int cj = 0; cj < 2; ++cj)
                    load_vector<float4>(B_shared_reg[ki % 2][cj], &B_shared[ko % STAGES][ki][cj * 32 + j0]);
            };

            load_B_shared_reg(0);

            // pipeline(ki, 2)
            #pragma unroll
            for (int ki = 0; ki < TK; ++ki) {
                if (ki < 31) {
                    load_A_shared_reg(ki + 1);
                    load_B_shared_reg(ki + 1);
                }

                #pragma unroll
                for (int ci = 0; ci < 4; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 2; ++vi) {
                        #pragma unroll
                        for (int cj = 0; cj < 2; ++cj)
                            #pragma unroll
                            for (int vj = 0; vj < 4; ++vj)
                                C_reg[ci][vi * 2][cj][vj] +=
                                    A_shared_reg[ki % 2][ci][vi * 2] * B_shared_reg[ki % 2][cj][vj];

                        #pragma unroll
                        for (int cj = 0; cj < 2; ++cj)
                            #pragma unroll
                            for (int vj = 0; vj < 4; ++vj)
                                C_reg[ci][vi * 2 + 1][1 - cj][3 - vj] +=
                                    A_shared_reg[ki % 2][ci][vi * 2 + 1] * B_shared_reg[ki % 2][1 - cj][3 - vj];
                    }
            }
        } else {
            float A_shared_reg[2][4][4];

            const auto load_A_shared_reg_partial = [&](int ki) {
                #pragma unroll
                for (int ci = 0; ci < 4; ++ci)
                    if (bi * TM + ci * 16 + i0 + 3 < M)
                        load_vector<float4>(A_shared_reg[ki % 2][ci], &A_shared[ko % STAGES][ki][ci * 16 + i0]);
            };

            load_A_shared_reg_partial(0);
            float B_shared_reg[2][2][4];

            const auto load_B_shared_reg_partial = [&](int ki) {
                #pragma unroll
                for (int cj = 0; cj < 2; ++cj)
                    if (bj * TN + cj * 32 + j0 + 3 < N)
                        load_vector<float4>(B_shared_reg[ki % 2][cj], &B_shared[ko % STAGES][ki][cj * 32 + j0]);
            };

            load_B_shared_reg_partial(0);

            #pragma unroll
            for (int ki = 0; ki < TK; ++ki) {
                if (ki < 31 && ko * TK + ki + 1 < K) {
                    load_A_shared_reg_partial(ki + 1);
                    load_B_shared_reg_partial(ki + 1);
                }

                if (ko * TK + ki < K)
                    #pragma unroll
                    for (int ci = 0; ci < 4; ++ci)
                        #pragma unroll
                        for (int vi = 0; vi < 2; ++vi) {
                            #pragma unroll
                            for (int cj = 0; cj < 2; ++cj)
                                #pragma unroll
                                for (int vj = 0; vj < 4; ++vj)
                                    C_reg[ci][vi * 2][cj][vj] +=
                                        A_shared_reg[ki % 2][ci][vi * 2] * B_shared_reg[ki % 2][cj][vj];

                            #pragma unroll
                            for (int cj = 0; cj < 2; ++cj)
                                #pragma unroll
                                for (int vj = 0; vj < 4; ++vj)
                                    C_reg[ci][vi * 2 + 1][1 - cj][3 - vj] +=
                                        A_shared_reg[ki % 2][ci][vi * 2 + 1] * B_shared_reg[ki % 2][1 - cj][3 - vj];
                        }
            }
        }

        wait_copies<1>();
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
