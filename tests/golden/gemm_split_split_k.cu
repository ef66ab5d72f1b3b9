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

// The same where `inside` holds; elsewhere nothing is read, and zeros are written.
template <int bytes> __device__ __forceinline__ void copy_async_or_zero(void* to, const void* from, bool inside)
{
#if __CUDA_ARCH__ >= 800
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int read = inside ? bytes : 0;
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(read)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(bytes), "r"(read)
                     : "memory");
#else
    for (int i = 0; i < bytes / 4; ++i)
        static_cast<int*>(to)[i] = inside ? static_cast<const int*>(from)[i] : 0;
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

// gemm_split_part: grid (ceil(N/256), ceil(M/128), ceil(K/4096)), block (32, 2, 4), 24832 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, as A[M + 127, K + 4095] and B[K + 4095, N + 252] would have,
//     ceil(M/128) <= 65535, ceil(K/4096) <= 65535
// arrays A[M][K], B[K][N], part[ceil(K/4096)][M][N]; part overlaps no other
// needs N % 4 == 0, B aligned to 16 bytes, part aligned to 16 bytes
// part is scratch memory: float[ceil(K/4096)][M][N]
extern "C" __global__ void __launch_bounds__(256)
gemm_split_part(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ part,
                int M, int K, int N)
{
    constexpr int KP = 4096, TM = 128, TN = 256, TK = 8, STAGES = 2;
    const int kp = blockIdx.z;   // tile(k, KP) -> kp, k; grid(kp, bi, bj)
    const int bi = blockIdx.y;   // tile(i, TM) -> bi, ti
    const int bj = blockIdx.x;   // tile(j, TN) -> bj, tj
    const int wi = threadIdx.z;  // warp_tile(ti, WI, 4) -> wi, ci, li, vi; warp_threads(wi, wj, li, lj) -> lane
    const int wj = threadIdx.y;  // warp_tile(tj, WJ, 8) -> wj, cj, lj, vj
    const int lane = threadIdx.x;
    const int tid = wi * 64 + wj * 32 + lane;

    // cache_shared(A, at=ko, layout=[k, i])
    __shared__ __align__(16) float A_shared[STAGES][TK][TM + 4];
    // cache_shared(B, at=ko, vector=4)
    __shared__ __align__(16) float B_shared[STAGES][TK][TN];

    // cache_register(part, at=bj, vector=4)
    float part_reg[2][4][4][4] = {};

    const auto load_shared = [&](int ko, int ahead) {
        #pragma unroll
        for (int A_shared_l = 0; A_shared_l < 4; ++A_shared_l) {
            const int i = A_shared_l * 32 + tid / 8;
            const int k = tid % 8;
            copy_async_or_zero<4>(&A_shared[(ahead + ko) % STAGES][k][i],
                                  &A[(bi * TM + i) * K + kp * KP + ahead * TK + ko * TK + k],
                                  kp * KP + ahead * TK + ko * TK + k < K && bi * TM + i < M);
        }

        #pragma unroll
        for (int B_shared_l = 0; B_shared_l < 2; ++B_shared_l)
            copy_async_or_zero<16>(
                &B_shared[(ahead + ko) % STAGES][B_shared_l * 4 + wi][wj * 128 + lane * 4],
                &B[(kp * KP + ahead * TK + ko * TK + B_shared_l * 4 + wi) * N + bj * TN + wj * 128 + lane * 4],
                kp * KP + ahead * TK + ko * TK + B_shared_l * 4 + wi < K && bj * TN + wj * 128 + lane * 4 + 3 < N);
    };

    load_shared(0, 0);
    end_copies();

    wait_copies<0>();
    __syncthreads();  // A.shared and B.shared are complete: written above, read below

    // cache_operands(A.shared, B.shared, ki)
    float A_shared_reg[2][2][4];

    const auto load_A_shared_reg = [&](int slot, int ki) {
        #pragma unroll
        for (int ci = 0; ci < 2; ++ci)
            load_vector<float4>(A_shared_reg[ki % 2][ci], &A_shared[slot][ki][wi * 32 + ci * 16 + (lane / 8) * 4]);
    };

    load_A_shared_reg(0, 0);
    float B_shared_reg[2][4][4];

    const auto load_B_shared_reg = [&](int slot, int ki) {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            load_vector<float4>(B_shared_reg[ki % 2][cj], &B_shared[slot][ki][wj * 128 + cj * 32 + (lane % 8) * 4]);
    };

    load_B_shared_reg(0, 0);

    const auto multiply = [&](int slot) {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            #pragma unroll
            for (int vj = 0; vj < 2; ++vj) {
                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        part_reg[ci][vi][cj][vj * 2] += A_shared_reg[slot][ci][vi] * B_shared_reg[slot][cj][vj * 2];

                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        part_reg[1 - ci][3 - vi][cj][vj * 2 + 1] +=
                            A_shared_reg[slot][1 - ci][3 - vi] * B_shared_reg[slot][cj][vj * 2 + 1];
            }
    };

    // tile(k, TK) -> ko, ki
    // pipeline(ko, STAGES)
    // peel(ko)
    for (int ko = 0; ko < 511; ++ko) {
        load_shared(ko, 1);
        end_copies();

        // pipeline(ki, 2, across=ko)
        #pragma unroll
        for (int ki = 0; ki < TK - 1; ++ki) {
            load_A_shared_reg(ko % STAGES, ki + 1);
            load_B_shared_reg(ko % STAGES, ki + 1);
            multiply(ki % 2);
        }

        wait_copies<0>();
        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        load_A_shared_reg((ko + 1) % STAGES, 0);
        load_B_shared_reg((ko + 1) % STAGES, 0);
        multiply(1);
    }

    #pragma unroll
    for (int ki = 0; ki < TK - 1; ++ki) {
        load_A_shared_reg(1, ki + 1);
        load_B_shared_reg(1, ki + 1);
        multiply(ki % 2);
    }

    multiply(1);

    float* part_tile = &part[(kp * M + bi * TM) * N + bj * TN];
    if (bj * TN + (TN - 1) < N && bi * TM + (TM - 1) < M) {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            #pragma unroll
            for (int ci = 0; ci < 2; ++ci)
                #pragma unroll
                for (int vi = 0; vi < 4; ++vi)
                    store_vector<float4>(
                        &part_tile[(wi * 32 + ci * 16 + (lane / 8) * 4 + vi) * N + wj * 128 + cj * 32 + (lane % 8) * 4],
                        part_reg[ci][vi][cj]);
    } else {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            if (bj * TN + wj * 128 + cj * 32 + (lane % 8) * 4 + 3 < N)
                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        if (bi * TM + wi * 32 + ci * 16 + (lane / 8) * 4 + vi < M)
                            store_vector<float4>(
                                &part_tile[(wi * 32 + ci * 16 + (lane / 8) * 4 + vi) * N + wj * 128 + cj * 32
                                           + (lane % 8) * 4],
                                part_reg[ci][vi][cj]);
    }
}

// gemm_split_C: grid (ceil(N/64), ceil(M/16)), block (16, 16)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/16) <= 65535
// arrays C[M][N], part[ceil(K/4096)][M][N]; C overlaps no other
// needs N % 4 == 0, part aligned to 16 bytes, C aligned to 16 bytes
// part is scratch memory: float[ceil(K/4096)][M][N]
extern "C" __global__ void __launch_bounds__(256)
gemm_split_C(float* __restrict__ C, const float* __restrict__ part, int M, int K, int N)
{
    const int C_i = blockIdx.y;  // rfactor(C, kp) -> part; vectorize_tiles(C.i, C.j, 16, 16) -> r, t, v
    const int C_j = blockIdx.x;
    const int r = threadIdx.y;
    const int t = threadIdx.x;

    if (C_i * 16 + r < M) {
        // cache_register(C, at=t, vector=4)
        float C_reg[4] = {};
        if (C_j * 64 + t * 4 + 3 < N) {
            for (int kp = 0; kp < (K + 4095) / 4096; ++kp) {
                const float4 part_vec =
                    *reinterpret_cast<const float4*>(&part[(kp * M + C_i * 16 + r) * N + C_j * 64 + t * 4]);
                C_reg[0] += part_vec.x;
                C_reg[1] += part_vec.y;
                C_reg[2] += part_vec.z;
                C_reg[3] += part_vec.w;
            }

            store_vector<float4>(&C[(C_i * 16 + r) * N + C_j * 64 + t * 4], C_reg);
        }
    }
}
