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

// gemm_B_global: grid (ceil(N/256), ((K + 31)/32)*4), block (256)
// for arrays of fewer than 2^31 - 2^20 elements, ((K + 31)/32)*4 <= 65535
// arrays B[K][N], B_global[ceil(K/32)*32][ceil(N/256)*256]; B_global overlaps no other
// B_global is scratch memory: float[ceil(K/32)*32][ceil(N/256)*256]
extern "C" __global__ void __launch_bounds__(256)
gemm_B_global(const float* __restrict__ B, float* __restrict__ B_global, int K, int N)
{
    const int sk = blockIdx.y;  // copy_rows(B, B.global.k, B.global.j) -> sk, uk, sj, uj
    const int sj = blockIdx.x;
    const int uj = threadIdx.x;

    float B_reg[8];
    #pragma unroll
    for (int uk = 0; uk < 8; ++uk)
        B_reg[uk] = sj * 256 + uj < N && sk * 8 + uk < K ? B[(sk * 8 + uk) * N + sj * 256 + uj] : 0.0f;

    #pragma unroll
    for (int uk = 0; uk < 8; ++uk) {
        // cache_global(B, layout=[k, j], tiles=[32, TN])
        B_global[(sk * 8 + uk) * (((N + 255) / 256) * 256) + sj * 256 + uj] = B_reg[uk];
    }
}

// gemm_A_global: grid (ceil(K/32), ((M + 127)/128)*4), block (32, 8), 4224 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ((M + 127)/128)*4 <= 65535
// arrays A[M][K], A_global[ceil(K/32)*32][ceil(M/128)*128]; A_global overlaps no other
// A_global is scratch memory: float[ceil(K/32)*32][ceil(M/128)*128]
extern "C" __global__ void __launch_bounds__(256)
gemm_A_global(const float* __restrict__ A, float* __restrict__ A_global, int M, int K)
{
    const int pi = blockIdx.y;  // transpose_tiles(A, A.shared, A.global.i, A.global.k) -> pi, qi, pk, rk, qk
    const int pk = blockIdx.x;
    const int qk = threadIdx.y;
    const int qi = threadIdx.x;

    __shared__ float A_shared[32][33];

    #pragma unroll
    for (int part = 0; part < 4; ++part)
        A_shared[part * 8 + qk][qi] =
            pk * 32 + qi < K && pi * 32 + part * 8 + qk < M ? A[(pi * 32 + part * 8 + qk) * K + pk * 32 + qi] : 0.0f;

    __syncthreads();  // A.shared is complete: written above, read below

    #pragma unroll
    for (int rk = 0; rk < 4; ++rk) {
        // cache_global(A, layout=[k, i], tiles=[32, TM])
        A_global[(pk * 32 + rk * 8 + qk) * (((M + 127) / 128) * 128) + pi * 32 + qi] = A_shared[qi][rk * 8 + qk];
    }
}

// gemm_C: grid (ceil(N/256), ceil(M/128)), block (32, 2, 4), 24576 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128) <= 65535
// arrays C[M][N], A_global[ceil(K/32)*32][ceil(M/128)*128], B_global[ceil(K/32)*32][ceil(N/256)*256]; C overlaps no
//     other
// needs N % 4 == 0, A.global aligned to 16 bytes, B.global aligned to 16 bytes, C aligned to 16 bytes
// A_global is scratch memory: float[ceil(K/32)*32][ceil(M/128)*128]
// B_global is scratch memory: float[ceil(K/32)*32][ceil(N/256)*256]
extern "C" __global__ void __launch_bounds__(256)
gemm_C(float* __restrict__ C, const float* __restrict__ A_global, const float* __restrict__ B_global,
       int M, int K, int N)
{
    constexpr int TM = 128, TN = 256, TK = 8, STAGES = 2;
    const int bi = blockIdx.y;   // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;  // warp_tile(ti, WI, 4) -> wi, ci, li, vi; warp_threads(wi, wj, li, lj) -> lane
    const int wj = threadIdx.y;  // warp_tile(tj, WJ, 8) -> wj, cj, lj, vj
    const int lane = threadIdx.x;

    // cache_shared(A.global, at=ko, vector=4)
    __shared__ __align__(16) float A_global_shared[STAGES][TK][TM];
    // cache_shared(B.global, at=ko, vector=4)
    __shared__ __align__(16) float B_global_shared[STAGES][TK][TN];

    const int i0 = wi * 32 + (lane / 8) * 4;
    const int j0 = wj * 128 + (lane % 8) * 4;

    // cache_register(C, at=bj, vector=4)
    float C_reg[2][4][4][4] = {};
    copy_async<16>(&A_global_shared[0][wi * 2 + wj][lane * 4],
                   &A_global[(wi * 2 + wj) * (((M + TM - 1) / TM) * TM) + bi * TM + lane * 4]);

    const auto load_B_global_shared = [&](int ko, int ahead) {
        #pragma unroll
        for (int part = 0; part < 2; ++part)
            copy_async<16>(
                &B_global_shared[(ahead + ko) % STAGES][part * 4 + wi][wj * 128 + lane * 4],
                &B_global[(ahead * TK + ko * TK + part * 4 + wi) * (((N + TN - 1) / TN) * TN) + bj * TN + wj * 128
                          + lane * 4]);
    };

    load_B_global_shared(0, 0);
    end_copies();

    wait_copies<0>();
    __syncthreads();  // A.global.shared and B.global.shared are complete: written above, read below

    // cache_operands(A.global.shared, B.global.shared, ki)
    float A_global_shared_reg[2][2][4];

    const auto load_A_global_shared_reg = [&](int slot, int ki) {
        #pragma unroll
        for (int ci = 0; ci < 2; ++ci)
            load_vector<float4>(A_global_shared_reg[ki % 2][ci], &A_global_shared[slot][ki][ci * 16 + i0]);
    };

    load_A_global_shared_reg(0, 0);
    float B_global_shared_reg[2][4][4];

    const auto load_B_global_shared_reg = [&](int slot, int ki) {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            load_vector<float4>(B_global_shared_reg[ki % 2][cj], &B_global_shared[slot][ki][cj * 32 + j0]);
    };

    load_B_global_shared_reg(0, 0);

    const auto multiply = [&](int slot) {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            #pragma unroll
            for (int vj = 0; vj < 2; ++vj) {
                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        C_reg[ci][vi][cj][vj * 2] +=
                            A_global_shared_reg[slot][ci][vi] * B_global_shared_reg[slot][cj][vj * 2];

                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        C_reg[1 - ci][3 - vi][cj][vj * 2 + 1] +=
                            A_global_shared_reg[slot][1 - ci][3 - vi] * B_global_shared_reg[slot][cj][vj * 2 + 1];
            }
    };

    // tile(k, TK) -> ko, ki
    // pipeline(ko, STAGES)
    // peel(ko)
    for (int ko = 0; ko < ((K + 31) / 32) * 4 - 1; ++ko) {
        copy_async<16>(&A_global_shared[(ko + 1) % STAGES][wi * 2 + wj][lane * 4],
                       &A_global[(ko * TK + wi * 2 + wj + 8) * (((M + TM - 1) / TM) * TM) + bi * TM + lane * 4]);
        load_B_global_shared(ko, 1);
        end_copies();

        // pipeline(ki, 2, across=ko)
        #pragma unroll
        for (int ki = 0; ki < TK - 1; ++ki) {
            load_A_global_shared_reg(ko % STAGES, ki + 1);
            load_B_global_shared_reg(ko % STAGES, ki + 1);
            multiply(ki % 2);
        }

        wait_copies<0>();
        __syncthreads();  // A.global.shared and B.global.shared are complete: written above, read below

        load_A_global_shared_reg((ko + 1) % STAGES, 0);
        load_B_global_shared_reg((ko + 1) % STAGES, 0);
        multiply(1);
    }

    #pragma unroll
    for (int ki = 0; ki < TK - 1; ++ki) {
        load_A_global_shared_reg(1, ki + 1);
        load_B_global_shared_reg(1, ki + 1);
        multiply(ki % 2);
    }

    multiply(1);

    float* C_tile = &C[bi * TM * N + bj * TN];
    if (bj * TN + (TN - 1) < N && bi * TM + (TM - 1) < M) {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            #pragma unroll
            for (int ci = 0; ci < 2; ++ci)
                #pragma unroll
                for (int vi = 0; vi < 4; ++vi)
                    store_vector<float4>(&C_tile[(ci * 16 + i0 + vi) * N + cj * 32 + j0], C_reg[ci][vi][cj]);
    } else {
        #pragma unroll
        for (int cj = 0; cj < 4; ++cj)
            if (bj * TN + cj * 32 + j0 + 3 < N)
                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        if (bi * TM + ci * 16 + i0 + vi < M)
                            store_vector<float4>(&C_tile[(ci * 16 + i0 + vi) * N + cj * 32 + j0], C_reg[ci][vi][cj]);
    }
}
