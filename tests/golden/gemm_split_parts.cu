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

// gemm_part: grid (ceil(N/128), ceil(M/128), 2), block (32, 2, 4), 82176 bytes of shared memory (dynamic)
// for part[2, M, N], arrays of fewer than 2^31 - 2^20 elements, as A[M + 127, K + 16] and B[K + 16, N + 124] would
//     have, ceil(M/128) <= 65535
// arrays A[M][K], B[K][N], part[2][M][N]; part overlaps no other
// needs N % 4 == 0, B aligned to 16 bytes
// part is scratch memory: float[2][M][N]
extern "C" __global__ void __launch_bounds__(256)
gemm_part(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ part,
          int M, int K, int N)
{
    constexpr int TK = 8, TM = 128, TN = 128, STAGES = 2;
    const int kp = blockIdx.z;   // split_by_number(C, k, TK, 1, PARTS) -> part, kp, ko, ki; grid(kp, bi, bj)
    const int bi = blockIdx.y;   // tile(i, TM) -> bi, ti
    const int bj = blockIdx.x;   // tile(j, TN) -> bj, tj
    const int wi = threadIdx.z;  // warp_tile(ti, WI, 4) -> wi, ci, li, vi; warp_threads(wi, wj, li, lj) -> lane
    const int wj = threadIdx.y;  // warp_tile(tj, WJ, 8) -> wj, cj, lj, vj
    const int lane = threadIdx.x;
    const int tid = wi * 64 + wj * 32 + lane;
    const int ko_count = (K + 15) / 16;

    extern __shared__ __align__(16) unsigned char shared[];
    // cache_shared(part, at=bj)
    float (*part_shared)[128] = reinterpret_cast<float (*)[128]>(shared);
    // cache_shared(A, at=ko, layout=[k, i])
    float (*A_shared)[TK][TM + 4] = reinterpret_cast<float (*)[TK][TM + 4]>(shared + 65536);
    // cache_shared(B, at=ko, vector=4)
    float (*B_shared)[TK][TN] = reinterpret_cast<float (*)[TK][TN]>(shared + 73984);

    // cache_register(part, at=bj, vector=4) -> Cf
    float Cf[2][4][2][4] = {};

    const auto load_A_shared = [&](int ko, int ahead) {
        #pragma unroll
        for (int A_shared_l = 0; A_shared_l < 4; ++A_shared_l) {
            const int i = A_shared_l * 32 + tid / 8;
            const int k = tid % 8;
            copy_async_or_zero<4>(&A_shared[(ahead + ko) % STAGES][k][i],
                                  &A[(bi * TM + i) * K + ahead * 16 + ko * 16 + kp * 8 + k],
                                  ahead * 16 + ko * 16 + kp * 8 + k < K && bi * TM + i < M);
        }
    };

    load_A_shared(0, 0);
    copy_async_or_zero<16>(&B_shared[0][wi * 2 + wj][lane * 4], &B[(kp * 8 + wi * 2 + wj) * N + bj * TN + lane * 4],
                           kp * 8 + wi * 2 + wj < K && bj * TN + lane * 4 + 3 < N);
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
    float B_shared_reg[2][2][4];

    const auto load_B_shared_reg = [&](int slot, int ki) {
        #pragma unroll
        for (int cj = 0; cj < 2; ++cj)
            load_vector<float4>(B_shared_reg[ki % 2][cj], &B_shared[slot][ki][wj * 64 + cj * 32 + (lane % 8) * 4]);
    };

    load_B_shared_reg(0, 0);

    const auto multiply = [&](int slot) {
        #pragma unroll
        for (int cj = 0; cj < 2; ++cj)
            #pragma unroll
            for (int vj = 0; vj < 2; ++vj) {
                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        Cf[ci][vi][cj][vj * 2] += A_shared_reg[slot][ci][vi] * B_shared_reg[slot][cj][vj * 2];

                #pragma unroll
                for (int ci = 0; ci < 2; ++ci)
                    #pragma unroll
                    for (int vi = 0; vi < 4; ++vi)
                        Cf[1 - ci][3 - vi][cj][vj * 2 + 1] +=
                            A_shared_reg[slot][1 - ci][3 - vi] * B_shared_reg[slot][cj][vj * 2 + 1];
            }
    };

    // pipeline(ko, STAGES)
    // peel(ko)
    for (int ko = 0; ko < ko_count - 1; ++ko) {
        load_A_shared(ko, 1);
        copy_async_or_zero<16>(&B_shared[(ko + 1) % STAGES][wi * 2 + wj][lane * 4],
                               &B[(ko * 16 + kp * 8 + wi * 2 + wj + 16) * N + bj * TN + lane * 4],
                               ko * 16 + kp * 8 + wi * 2 + wj + 16 < K && bj * TN + lane * 4 + 3 < N);
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
        load_A_shared_reg((ko_count + 1) % 2, ki + 1);
        load_B_shared_reg((ko_count + 1) % 2, ki + 1);
        multiply(ki % 2);
    }

    multiply(1);

    #pragma unroll
    for (int cj = 0; cj < 2; ++cj)
        #pragma unroll
        for (int ci = 0; ci < 2; ++ci)
            #pragma unroll
            for (int vi = 0; vi < 4; ++vi)
                store_vector<float4>(
                    &part_shared[wi * 32 + ci * 16 + (lane / 8) * 4 + vi][wj * 64 + cj * 32 + (lane % 8) * 4],
                    Cf[ci][vi][cj]);

    __syncthreads();  // part.shared is complete: written above, read below

    if (bj * TN + tid % 128 < N) {
        float* part_tile = &part[(kp * M + bi * TM) * N + bj * TN];
        if (bi * TM + (TM - 1) < M) {
            #pragma unroll
            for (int part_shared_l = 0; part_shared_l < 64; ++part_shared_l) {
                const int i = part_shared_l * 2 + tid / 128;
                const int j = tid % 128;
                part_tile[i * N + j] = part_shared[i][j];
            }
        } else {
            #pragma unroll
            for (int part_shared_l = 0; part_shared_l < 64; ++part_shared_l) {
                const int i = part_shared_l * 2 + tid / 128;
                const int j = tid % 128;
                if (bi * TM + i < M)
                    part_tile[i * N + j] = part_shared[i][j];
            }
        }
    }
}

// gemm_C: grid (ceil(N/32), ceil(M/8)), block (32, 8)
// for part[2, M, N], arrays of fewer than 2^31 - 2^20 elements, ceil(M/8) <= 65535
// arrays C[M][N], part[2][M][N]; C overlaps no other
// part is scratch memory: float[2][M][N]
extern "C" __global__ void __launch_bounds__(256)
gemm_C(float* __restrict__ C, const float* __restrict__ part, int M, int N)
{
    const int rows = blockIdx.y;  // element_tiles(C.i, C.j, 8, 32) -> r, c
    const int columns = blockIdx.x;
    const int r = threadIdx.y;
    const int c = threadIdx.x;

    if (rows * 8 + r < M && columns * 32 + c < N) {
        // cache_register(C, at=c)
        float C_reg = 0.0f;

        // split_by_number(C, k, TK, 1, PARTS) -> part, kp, ko, ki
        for (int kp = 0; kp < 2; ++kp)
            C_reg += part[(kp * M + rows * 8 + r) * N + columns * 32 + c];

        C[(rows * 8 + r) * N + columns * 32 + c] = C_reg;
    }
}
