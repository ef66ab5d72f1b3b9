#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
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

// matching_dot_B_global: grid (ceil(M/8)), block (8, 128)
// for B[M, 128], arrays of fewer than 2^31 - 2^20 elements
// arrays B[M][128], B_global[128][M]; B_global overlaps no other
// B_global is scratch memory: float[128][M]
extern "C" __global__ void __launch_bounds__(1024)
matching_dot_B_global(const float* __restrict__ B, float* __restrict__ B_global, int M)
{
    const int gb = blockIdx.x;  // transpose_points()
    const int gt = threadIdx.x;
    const int B_global_d = threadIdx.y;

    if (gb * 8 + gt < M)
        B_global[B_global_d * M + gb * 8 + gt] = B[(gb * 8 + gt) * 128 + B_global_d];
}

// matching_dot_norm: grid (ceil(M/128)), block (128)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays norm[M], B_global[128][M]; norm overlaps no other
// norm is scratch memory: float[M]
// B_global is scratch memory: float[128][M]
extern "C" __global__ void __launch_bounds__(128)
matching_dot_norm(float* __restrict__ norm, const float* __restrict__ B_global, int M)
{
    const int nb = blockIdx.x;  // blocks(norm.j, 128) -> nb, nt
    const int nt = threadIdx.x;

    if (nb * 128 + nt < M) {
        float* norm_tile = &norm[nb * 128];
        norm_tile[nt] = 0.0f;

        for (int d = 0; d < 128; ++d)
            norm_tile[nt] += B_global[d * M + nb * 128 + nt] * B_global[d * M + nb * 128 + nt];
    }
}

// matching_dot_best: grid (ceil(N/128)), block (32, 4, 2), 116736 bytes of shared memory (dynamic)
// for A[N, 128], best[4, 4, N], best.best[4, 4, N], arrays of fewer than 2^31 - 2^20 elements
// arrays A[N][128], norm[M], best[4][4][N], best_best[4][4][N], B_global[128][M]; best and best_best overlap no other
// needs M % 4 == 0, N % 4 == 0, B.global aligned to 16 bytes
// norm is scratch memory: float[M]
// B_global is scratch memory: float[128][M]
// best is scratch memory: int[4][4][N]
// best_best is scratch memory: float[4][4][N]
extern "C" __global__ void __launch_bounds__(256)
matching_dot_best(const float* __restrict__ A,
                  const float* __restrict__ norm,
                  const float* __restrict__ B_global,
                  int* __restrict__ best,
                  float* __restrict__ best_best,
                  int N, int M)
{
    constexpr int TM = 128, TN = 256, TK = 16, STAGES = 3;
    const int bi = blockIdx.x;   // tile(i, TM) -> bi, ti; bind(bi, block.x)
    const int wi = threadIdx.z;  // warp_tile(ti, 2, 8) -> wi, ci, li, vi; warp_threads(wi, wj, li, lj) -> lane
    const int wj = threadIdx.y;  // warp_tile(tj, 4, 4) -> wj, cj, lj, vj
    const int lane = threadIdx.x;
    const int tid = wi * 128 + wj * 32 + lane;

    extern __shared__ __align__(16) unsigned char shared[];
    // cache_shared(A, at=bi, layout=[d, i])
    float (*A_shared)[TM + 4] = reinterpret_cast<float (*)[TM + 4]>(shared);
    // cache_shared(B.global, at=ko, layout=[d, j], vector=4)
    float (*B_global_shared)[TK][TN] = reinterpret_cast<float (*)[TK][TN]>(shared + 67584);

    const bool full_tile = bi * TM + (TM - 1) < N;

    // cache_best(best, best.best, bi)
    float best_best_reg[2][4];
    int best_reg[2][4];
    #pragma unroll
    for (int ci = 0; ci < 2; ++ci)
        #pragma unroll
        for (int vi = 0; vi < 4; ++vi) {
            best_reg[ci][vi] = 0;
            best_best_reg[ci][vi] = INFINITY;
        }

    const float* A_tile = &A[bi * TM * 128];
    if (full_tile) {
        #pragma unroll
        for (int part = 0; part < 64; ++part)
            A_shared[wj * 32 + lane][part * 2 + wi] = A_tile[(part * 2 + wi) * 128 + wj * 32 + lane];
    } else {
        #pragma unroll
        for (int part = 0; part < 64; ++part)
            if (bi * TM + part * 2 + wi < N)
                A_shared[wj * 32 + lane][part * 2 + wi] = A_tile[(part * 2 + wi) * 128 + wj * 32 + lane];
    }

    // tile(j, TN) -> bj, tj
    for (int bj = 0; bj < (M + TN - 1) / TN; ++bj) {
        // cache_register(dot, at=bj)
        float dot_reg[4][4][2][4] = {};

        const auto load_B_global_shared = [&](int ko, int ahead) {
            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int d = part * 4 + tid / 64;
                const int j = tid % 64;
                copy_async<16>(&B_global_shared[(ahead + ko) % STAGES][d][j * 4],
                               &B_global[(ahead * TK + ko * TK + d) * M + bj * TN + j * 4]);
            }
        };

        // tile(dot.d, TK) -> ko, ki
        // pipeline(ko, STAGES)
        #pragma unroll
        for (int fill = 0; fill < 2; ++fill) {
            if (bj * TN + (tid % 64) * 4 + 3 < M)
                load_B_global_shared(fill, 0);

            end_copies();
        }

        wait_copies<1>();
        __syncthreads();  // A.shared and B.global.shared are complete: written above, read below

        // cache_operands(A.shared, B.global.shared, ki)
        float B_global_shared_reg[2][4][4];
        float A_shared_reg[2][2][4];

        const auto load_A_shared_reg = [&](int ki, int ahead) {
            #pragma unroll
            for (int ci = 0; ci < 2; ++ci)
                load_vector<float4>(A_shared_reg[(ahead + ki) % 2][ci],
                                    &A_shared[ahead + ki][wi * 64 + ci * 32 + (lane / 4) * 4]);
        };

        const auto load_B_global_shared_reg = [&](int slot, int ki) {
            #pragma unroll
            for (int cj = 0; cj < 4; ++cj)
                load_vector<float4>(B_global_shared_reg[ki % 2][cj],
                                    &B_global_shared[slot][ki][wj * 64 + cj * 16 + (lane % 4) * 4]);
        };

        const auto load_A_shared_reg_partial = [&](int ki, int ahead) {
            #pragma unroll
            for (int ci = 0; ci < 2; ++ci)
                if (bi * TM + wi * 64 + ci * 32 + (lane / 4) * 4 + 3 < N)
                    load_vector<float4>(A_shared_reg[(ahead + ki) % 2][ci],
                                        &A_shared[ahead + ki][wi * 64 + ci * 32 + (lane / 4) * 4]);
        };

        const auto load_B_global_shared_reg_partial = [&](int slot, int ki) {
            #pragma unroll
            for (int cj = 0; cj < 4; ++cj)
                if (bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + 3 < M)
                    load_vector<float4>(B_global_shared_reg[ki % 2][cj],
                                        &B_global_shared[slot][ki][wj * 64 + cj * 16 + (lane % 4) * 4]);
        };

        if (full_tile && bj * TN + (TN - 1) < M) {
            load_A_shared_reg(0, 0);
            load_B_global_shared_reg(0, 0);
        } else {
            load_A_shared_reg_partial(0, 0);
            load_B_global_shared_reg_partial(0, 0);
        }

        const auto multiply = [&](int slot) {
            #pragma unroll
            for (int cj = 0; cj < 4; ++cj)
                #pragma unroll
                for (int vj = 0; vj < 2; ++vj) {
                    #pragma unroll
                    for (int ci = 0; ci < 2; ++ci)
                        #pragma unroll
                        for (int vi = 0; vi < 4; ++vi)
                            dot_reg[cj][vj * 2][ci][vi] +=
                                A_shared_reg[slot][ci][vi] * B_global_shared_reg[slot][cj][vj * 2];

                    #pragma unroll
                    for (int ci = 0; ci < 2; ++ci)
                        #pragma unroll
                        for (int vi = 0; vi < 4; ++vi)
                            dot_reg[cj][vj * 2 + 1][1 - ci][3 - vi] +=
                                A_shared_reg[slot][1 - ci][3 - vi] * B_global_shared_reg[slot][cj][vj * 2 + 1];
                }
        };

        for (int ko = 0; ko < 8; ++ko) {
            if (ko < 6 && bj * TN + (tid % 64) * 4 + 3 < M)
                load_B_global_shared(ko, 2);

            end_copies();

            if (full_tile && bj * TN + (TN - 1) < M) {
                // pipeline(ki, 2, across=ko)
                #pragma unroll
                for (int ki = 0; ki < TK - 1; ++ki) {
                    load_A_shared_reg(ko * TK + ki, 1);
                    load_B_global_shared_reg(ko % STAGES, ki + 1);
                    multiply(ki % 2);
                }
            } else {
                #pragma unroll
                for (int ki = 0; ki < TK - 1; ++ki) {
                    load_A_shared_reg_partial(ko * TK + ki, 1);
                    load_B_global_shared_reg_partial(ko % STAGES, ki + 1);
                    multiply(ki % 2);
                }
            }

            wait_copies<1>();
            __syncthreads();  // before the next ko overwrites B.global.shared

            if (ko < 7) {
                if (full_tile && bj * TN + (TN - 1) < M) {
                    load_A_shared_reg(ko * TK, 16);
                    load_B_global_shared_reg((ko + 1) % STAGES, 0);
                } else {
                    load_A_shared_reg_partial(ko * TK, 16);
                    load_B_global_shared_reg_partial((ko + 1) % STAGES, 0);
                }
            }

            multiply(1);
        }

        __syncthreads();  // before the next bj overwrites B.global.shared

        if (full_tile && bj * TN + (TN - 1) < M) {
            #pragma unroll
            for (int cj = 0; cj < 4; ++cj)
                #pragma unroll
                for (int vj = 0; vj < 2; ++vj) {
                    #pragma unroll
                    for (int ci = 0; ci < 2; ++ci)
                        #pragma unroll
                        for (int vi = 0; vi < 4; ++vi) {
                            const float candidate =
                                norm[bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2]
                                - 2.0f * dot_reg[cj][vj * 2][ci][vi];
                            if (candidate < best_best_reg[ci][vi]) {
                                best_best_reg[ci][vi] = candidate;
                                best_reg[ci][vi] = bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2;
                            }
                        }

                    #pragma unroll
                    for (int ci = 0; ci < 2; ++ci)
                        #pragma unroll
                        for (int vi = 0; vi < 4; ++vi) {
                            const float candidate =
                                norm[bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2 + 1]
                                - 2.0f * dot_reg[cj][vj * 2 + 1][1 - ci][3 - vi];
                            if (candidate < best_best_reg[1 - ci][3 - vi]) {
                                best_best_reg[1 - ci][3 - vi] = candidate;
                                best_reg[1 - ci][3 - vi] = bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2 + 1;
                            }
                        }
                }
        } else {
            #pragma unroll
            for (int cj = 0; cj < 4; ++cj)
                #pragma unroll
                for (int vj = 0; vj < 2; ++vj) {
                    if (bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2 < M)
                        #pragma unroll
                        for (int ci = 0; ci < 2; ++ci)
                            #pragma unroll
                            for (int vi = 0; vi < 4; ++vi)
                                if (bi * TM + wi * 64 + ci * 32 + (lane / 4) * 4 + vi < N) {
                                    const float candidate =
                                        norm[bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2]
                                        - 2.0f * dot_reg[cj][vj * 2][ci][vi];
                                    if (candidate < best_best_reg[ci][vi]) {
                                        best_best_reg[ci][vi] = candidate;
                                        best_reg[ci][vi] = bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2;
                                    }
                                }

                    if (bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2 + 1 < M)
                        #pragma unroll
                        for (int ci = 0; ci < 2; ++ci)
                            #pragma unroll
                            for (int vi = 0; vi < 4; ++vi)
                                if (bi * TM + wi * 64 + (lane / 4) * 4 + 35 < ci * 32 + N + vi) {
                                    const float candidate =
                                        norm[bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2 + 1]
                                        - 2.0f * dot_reg[cj][vj * 2 + 1][1 - ci][3 - vi];
                                    if (candidate < best_best_reg[1 - ci][3 - vi]) {
                                        best_best_reg[1 - ci][3 - vi] = candidate;
                                        best_reg[1 - ci][3 - vi] =
                                            bj * TN + wj * 64 + cj * 16 + (lane % 4) * 4 + vj * 2 + 1;
                                    }
                                }
                }
        }
    }

    float* best_best_tile = &best_best[bi * TM];
    int* best_tile = &best[bi * TM];
    if (full_tile) {
        #pragma unroll
        for (int ci = 0; ci < 2; ++ci)
            #pragma unroll
            for (int vi = 0; vi < 4; ++vi)
                best_best_tile[(wj * 4 + lane % 4) * N + wi * 64 + ci * 32 + (lane / 4) * 4 + vi] =
                    best_best_reg[ci][vi];

        #pragma unroll
        for (int ci = 0; ci < 2; ++ci)
            #pragma unroll
            for (int vi = 0; vi < 4; ++vi)
                best_tile[(wj * 4 + lane % 4) * N + wi * 64 + ci * 32 + (lane / 4) * 4 + vi] = best_reg[ci][vi];
    } else {
        #pragma unroll
        for (int ci = 0; ci < 2; ++ci)
            #pragma unroll
            for (int vi = 0; vi < 4; ++vi)
                if (bi * TM + wi * 64 + ci * 32 + (lane / 4) * 4 + vi < N)
                    best_best_tile[(wj * 4 + lane % 4) * N + wi * 64 + ci * 32 + (lane / 4) * 4 + vi] =
                        best_best_reg[ci][vi];

        #pragma unroll
        for (int ci = 0; ci < 2; ++ci)
            #pragma unroll
            for (int vi = 0; vi < 4; ++vi)
                if (bi * TM + wi * 64 + ci * 32 + (lane / 4) * 4 + vi < N)
                    best_tile[(wj * 4 + lane % 4) * N + wi * 64 + ci * 32 + (lane / 4) * 4 + vi] = best_reg[ci][vi];
    }
}

// matching_dot_nearest: grid (ceil(N/128)), block (128)
// for best[4, 4, N], best.best[4, 4, N], arrays of fewer than 2^31 - 2^20 elements
// arrays nearest[N], best[4][4][N], best_best[4][4][N]; nearest overlaps no other
// best is scratch memory: int[4][4][N]
// best_best is scratch memory: float[4][4][N]
extern "C" __global__ void __launch_bounds__(128)
matching_dot_nearest(int* __restrict__ nearest, const int* __restrict__ best, const float* __restrict__ best_best,
                     int N)
{
    const int b = blockIdx.x;  // blocks(nearest.i, 128) -> b, t
    const int t = threadIdx.x;

    if (b * 128 + t < N) {
        // cache_best(nearest, nearest.best, t)
        int nearest_reg = 0;
        float nearest_best_reg = INFINITY;

        // rfactor(nearest, [wj, lj]) -> best
        for (int wj = 0; wj < 4; ++wj)
            for (int lj = 0; lj < 4; ++lj) {
                const float candidate = best_best[(wj * 4 + lj) * N + b * 128 + t];
                const int index = best[(wj * 4 + lj) * N + b * 128 + t];
                if (candidate < nearest_best_reg || (candidate == nearest_best_reg && index < nearest_reg)) {
                    nearest_best_reg = candidate;
                    nearest_reg = index;
                }
            }

        nearest[b * 128 + t] = nearest_reg;
    }
}
