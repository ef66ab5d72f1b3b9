// needs sm_90a, and no other: wgmma_m64n128k16_trans_f16
// needs sm_90 or later: bulk copies

#include <cuda_fp16.h>

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

// The max over groups of neighbouring lanes of a warp: each of them gets it.
template <int lanes, typename T> __device__ __forceinline__ T max_of_lanes(T value)
{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        value = max(value, other);
    }
    return value;
}

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

// The power of two next to x towards 0, with its sign.
__device__ __forceinline__ float power_of_two(float x)
{
    return isfinite(x) ? __uint_as_float(__float_as_uint(x) & 0xff800000) : x;
}

// A number that is the same in all lanes of a warp, so that the compiler knows it, too.
__device__ __forceinline__ int uniform(int number)
{
    return __shfl_sync(0xffffffffu, number, 0);
}

// What has been written to the registers of products is there for them.
__device__ __forceinline__ void begin_wgmma()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Waits for all products.
__device__ __forceinline__ void complete_wgmma()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// The compiler moves no use of these registers past this place.
template <int words> __device__ __forceinline__ void hold(float* registers)
{
#pragma unroll
    for (int r = 0; r < words; ++r)
        asm volatile("" : "+f"(registers[r])::"memory");
}
template <int words, class T> __device__ __forceinline__ void hold(T* registers)
{
#pragma unroll
    for (int r = 0; r < words; ++r)
        asm volatile("" : "+r"(reinterpret_cast<unsigned*>(registers)[r])::"memory");
}

// The descriptor of a matrix in shared memory in swizzled rows of 128 bytes: groups of eight rows are `stride` bytes
// apart, and pieces of 128 bytes of a longer row are `leading` bytes apart.
template <int stride, int leading> __device__ __forceinline__ unsigned long long describe_128(const void* start)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(start));
    return (place & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           1ull << 62;
}

// A tensor, and the boxes that are copied of it, as the hardware reads them: a CUtensorMap. The host makes it by
// cuTensorMapEncodeTiled, with the parameters that stand above the kernel, strides in bytes; not interleaved, element
// strides of 1 if none stand there, L2 promotion of 128 bytes, and OOB_FILL_NONE, which fills with zeros.
struct __align__(64) TensorMap {
    unsigned long long words[16];
};

// Starts the copy of a box of a tensor to shared memory, with zeros beyond the tensor; its bytes arrive at the barrier.
__device__ __forceinline__ void copy_box_3d(void* to, const TensorMap& map, unsigned long long* barrier, int c0, int c1, int c2)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(place), "l"(&map), "r"(at), "r"(c0), "r"(c1), "r"(c2) : "memory");
}

// Initializes barriers, each of which expects `arrivals` arrivals in a phase. A barrier of the block has to follow. Fences
// of shared memory alone: one of all memory takes as long as a load from it.
__device__ __forceinline__ void start_barriers(unsigned long long* barriers, int count, int arrivals)
{
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        for (int i = 0; i < count; ++i) {
            const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[i]));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
}

// Arrives at the barrier; its phase also waits for `bytes` bytes of copies.
__device__ __forceinline__ void expect_bytes(unsigned long long* barrier, int bytes)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

// One lane arrives at the barrier for its warp, when all lanes have read what the barrier guards.
__device__ __forceinline__ void arrive_once_a_warp(unsigned long long* barrier)
{
    __syncwarp();
    unsigned chosen;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(chosen));
    if (chosen) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
    }
}

// Waits until the phase of this parity of a barrier is complete.
__device__ __forceinline__ void wait_barrier(unsigned long long* barrier, int parity)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    unsigned done = 0;
    while (!done)
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done) : "r"(at), "r"(parity) : "memory");
}

// A ring of slots in shared memory, and where a thread is in it: a producer waits until its slot is emptied, fills it and
// advances; consumers wait until it is filled, release it and advance. After the last slot comes the first one, in a
// phase of the other parity.
template <int slots> struct Ring {
    unsigned long long *filled, *emptied;  // a barrier for each slot
    int parity = 0, slot = 0;
    __device__ __forceinline__ void wait_filled() { wait_barrier(&filled[slot], parity); }
    __device__ __forceinline__ void wait_emptied() { wait_barrier(&emptied[slot], parity ^ 1); }
    __device__ __forceinline__ void expect(int bytes) { expect_bytes(&filled[slot], bytes); }
    __device__ __forceinline__ void release() { arrive_once_a_warp(&emptied[slot]); }
    __device__ __forceinline__ void release_previous() { arrive_once_a_warp(&emptied[before(slot)]); }
    static __device__ __forceinline__ int before(int slot) { return slot > 0 ? slot - 1 : slots - 1; }
    __device__ __forceinline__ void advance()
    {
        slot = slot + 1 < slots ? slot + 1 : 0;
        parity ^= slot == 0;
    }
    template <class Count> __device__ __forceinline__ void skip(Count count)
    {
        parity ^= (slot + count) / slots % 2;
        slot = (slot + count) % slots;
    }
};

// Raises the registers of each thread of the warpgroup to `count`; waits until others have released enough.
template <int count> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// Lowers the registers of each thread of the warpgroup to `count`, and releases the others.
template <int count> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// Tiles in the order in which blocks take them: down the rows of a group, then down its next column, then the next
// group. The last group has the remaining rows. Matrices follow one another.
struct Tiles {
    int matrices, rows, columns, group;
};

// The number of tiles.
__device__ __forceinline__ int count_tiles(Tiles all)
{
    return all.matrices * all.rows * all.columns;
}

// Its row in the matrix.
__device__ __forceinline__ int row_of_tile(Tiles all, int tile)
{
    const int place = all.matrices == 1 ? tile : tile % (all.rows * all.columns);
    const int group = min(all.group, all.rows);
    const int above = place / (group * all.columns) * group;
    return above + (place - above * all.columns) % min(group, all.rows - above);
}

// Its column in the matrix.
__device__ __forceinline__ int column_of_tile(Tiles all, int tile)
{
    const int place = all.matrices == 1 ? tile : tile % (all.rows * all.columns);
    const int group = min(all.group, all.rows);
    const int above = place / (group * all.columns) * group;
    return (place - above * all.columns) / min(group, all.rows - above);
}

// C[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))   by a warpgroup; A: f16[64, 16] in shared, B: f16[16, 128] in shared,
//     C: f32[64, 128]
static __device__ __forceinline__ void wgmma_m64n128k16_trans_f16(float* C, unsigned long long A, unsigned long long B)
{
    asm volatile("{ "
                 ".reg .pred add; setp.eq.u32 add, 1, 1; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8,"
                 " %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
                 "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63}, %64, %65, add, 1, 1, 0, 1; }"
        : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3]), "+f"(C[4]), "+f"(C[5]), "+f"(C[6]), "+f"(C[7]), "+f"(C[8]),
            "+f"(C[9]), "+f"(C[10]), "+f"(C[11]), "+f"(C[12]), "+f"(C[13]), "+f"(C[14]), "+f"(C[15]), "+f"(C[16]),
            "+f"(C[17]), "+f"(C[18]), "+f"(C[19]), "+f"(C[20]), "+f"(C[21]), "+f"(C[22]), "+f"(C[23]), "+f"(C[24]),
            "+f"(C[25]), "+f"(C[26]), "+f"(C[27]), "+f"(C[28]), "+f"(C[29]), "+f"(C[30]), "+f"(C[31]), "+f"(C[32]),
            "+f"(C[33]), "+f"(C[34]), "+f"(C[35]), "+f"(C[36]), "+f"(C[37]), "+f"(C[38]), "+f"(C[39]), "+f"(C[40]),
            "+f"(C[41]), "+f"(C[42]), "+f"(C[43]), "+f"(C[44]), "+f"(C[45]), "+f"(C[46]), "+f"(C[47]), "+f"(C[48]),
            "+f"(C[49]), "+f"(C[50]), "+f"(C[51]), "+f"(C[52]), "+f"(C[53]), "+f"(C[54]), "+f"(C[55]), "+f"(C[56]),
            "+f"(C[57]), "+f"(C[58]), "+f"(C[59]), "+f"(C[60]), "+f"(C[61]), "+f"(C[62]), "+f"(C[63])
        : "l"(A), "l"(B)
        : "memory");
}

// gemm_f16x2_tops: grid (ceil(((N + 3)/4)/64), ceil(K/64)), block (64)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(K/64) <= 65535
// arrays B[K][N], tops[ceil(K/64)][N]; tops overlaps no other
// needs N % 4 == 0, B aligned to 16 bytes, tops aligned to 16 bytes
// tops is scratch memory: float[ceil(K/64)][N]
extern "C" __global__ void __launch_bounds__(64)
gemm_f16x2_tops(const float* __restrict__ B, float* __restrict__ tops, int K, int N)
{
    constexpr int HB = 64;
    const int rows = blockIdx.y;  // reduce_columns(top, top.r, top.c, HB, T) -> tops, h, tt
    const int block = blockIdx.x;
    const int tt = threadIdx.x;

    // cache_register(tops, at=tt, vector=4)
    float tops_reg[4];
    #pragma unroll
    for (int v_2 = 0; v_2 < 4; ++v_2)
        tops_reg[v_2] = -INFINITY;

    if (rows * HB + (HB - 1) < K && block * 256 + 255 < N) {
        for (int h = 0; h < HB; ++h) {
            // cache_register(B, at=h, vector=4)
            float B_reg[4];
            load_vector<float4>(B_reg, &B[(rows * HB + h) * N + block * 256 + tt * 4]);

            #pragma unroll
            for (int v_2 = 0; v_2 < 4; ++v_2)
                tops_reg[v_2] = fmaxf(tops_reg[v_2], fabsf(B_reg[v_2]));
        }
    } else {
        for (int h = 0; h < HB; ++h)
            if (rows * HB + h < K) {
                float B_reg[4];
                if (block * 256 + tt * 4 + 3 < N)
                    load_vector<float4>(B_reg, &B[(rows * HB + h) * N + block * 256 + tt * 4]);

                #pragma unroll
                for (int v_2 = 0; v_2 < 4; ++v_2)
                    if (block * 256 + tt * 4 + v_2 < N)
                        tops_reg[v_2] = fmaxf(tops_reg[v_2], fabsf(B_reg[v_2]));
            }
    }

    if (block * 256 + tt * 4 + 3 < N)
        store_vector<float4>(&tops[rows * N + block * 256 + tt * 4], tops_reg);
}

// gemm_f16x2_top: grid (ceil(N/64)), block (64)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays top[N], tops[ceil(K/64)][N]; top overlaps no other
// top is scratch memory: float[N]
// tops is scratch memory: float[ceil(K/64)][N]
extern "C" __global__ void __launch_bounds__(64)
gemm_f16x2_top(float* __restrict__ top, const float* __restrict__ tops, int K, int N)
{
    constexpr int T = 64;
    const int ub = blockIdx.x;  // blocks(top.c2, T) -> ub, ut
    const int ut = threadIdx.x;

    if (ub * T + ut < N) {
        // cache_register(top, at=ut)
        float top_reg = -INFINITY;

        // reduce_columns(top, top.r, top.c, HB, T) -> tops, h, tt
        for (int rows = 0; rows < (K + 63) / 64; ++rows)
            top_reg = fmaxf(top_reg, tops[rows * N + ub * T + ut]);

        top[ub * T + ut] = top_reg;
    }
}

// gemm_f16x2_lanes: grid (M), block (32, 8), 32 bytes of shared memory
// for R[2, M, K], arrays of fewer than 2^31 - 2^20 elements
// arrays A[M][K], most[M], R[2][M][K]; most and R overlap no other
// needs K % 4 == 0, A aligned to 16 bytes, R aligned to 8 bytes
// most is scratch memory: float[M]
// R is scratch memory: __half[2][M][K]
extern "C" __global__ void __launch_bounds__(256)
gemm_f16x2_lanes(const float* __restrict__ A, float* __restrict__ most, __half* __restrict__ R, int M, int K)
{
    const int row = blockIdx.x;  // fuse(most.r, R.r) -> row; bind_warps(row, w, l)
    const int w = threadIdx.y;   // rename(mw, rw) -> w
    const int l = threadIdx.x;   // rename(ml, rl) -> l

    // reduce_block(most, row, mw, ml) -> warps, lanes
    __shared__ float warps_shared[8];

    float lanes_reg = -INFINITY;

    // share_block(most.c, WARPS) -> mc, mw, ml, mv
    for (int mc = 0; mc < (K + 1023) / 1024; ++mc) {
        // cache_register(A, at=mc, vector=4)
        float A_reg[4];
        if (mc * 1024 + w * 128 + l * 4 + 3 < K)
            load_vector<float4>(A_reg, &A[row * K + mc * 1024 + w * 128 + l * 4]);

        if (mc * 1024 + 1023 < K) {
            #pragma unroll
            for (int mv = 0; mv < 4; ++mv)
                lanes_reg = fmaxf(lanes_reg, fabsf(A_reg[mv]));
        } else {
            #pragma unroll
            for (int mv = 0; mv < 4; ++mv)
                if (mc * 1024 + w * 128 + l * 4 + mv < K)
                    lanes_reg = fmaxf(lanes_reg, fabsf(A_reg[mv]));
        }
    }

    float warps_reg = -INFINITY;

    const float warps_lanes = max_of_lanes<32>(lanes_reg);

    if (l == 0) {
        warps_reg = fmaxf(warps_reg, warps_lanes);
        warps_shared[w] = warps_reg;
    }

    float most_reg = -INFINITY;

    __syncthreads();  // warps.shared is complete: written above, read below

    for (int mw2 = 0; mw2 < 8; ++mw2)
        most_reg = fmaxf(most_reg, warps_shared[mw2]);

    // cut_row(R.r, R.c, R.n, WARPS) -> rw, rl
    for (int chunk = 0; chunk < (K + 1023) / 1024; ++chunk)
        if (chunk * 1024 + w * 128 + l * 4 + 3 < K)
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float4 A_vec = *reinterpret_cast<const float4*>(&A[row * K + chunk * 1024 + w * 128 + l * 4]);
                __align__(8) __half R_vec[4];
                R_vec[0] = __float2half((n == 1
                               ? A_vec.x * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                               : A_vec.x * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                                   - __half2float(__float2half(A_vec.x
                                       * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))))));
                R_vec[1] = __float2half((n == 1
                               ? A_vec.y * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                               : A_vec.y * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                                   - __half2float(__float2half(A_vec.y
                                       * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))))));
                R_vec[2] = __float2half((n == 1
                               ? A_vec.z * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                               : A_vec.z * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                                   - __half2float(__float2half(A_vec.z
                                       * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))))));
                R_vec[3] = __float2half((n == 1
                               ? A_vec.w * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                               : A_vec.w * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))
                                   - __half2float(__float2half(A_vec.w
                                       * (16384.0f / power_of_two(fmaxf(most_reg, 7.888609052210118e-31f)))))));
                *reinterpret_cast<uint2*>(&R[(n * M + row) * K + chunk * 1024 + w * 128 + l * 4]) =
                    *reinterpret_cast<const uint2*>(R_vec);
            }

    if (l == 0 && w == 0)
        most[row] = most_reg;
}

// gemm_f16x2_S: grid (ceil(((N + 3)/4)/64), ceil(K/8)), block (64)
// for S[2, K, N], arrays of fewer than 2^31 - 2^20 elements, ceil(K/8) <= 65535
// arrays B[K][N], top[N], S[2][K][N]; S overlaps no other
// needs N % 4 == 0, S aligned to 8 bytes, B aligned to 16 bytes, top aligned to 16 bytes
// top is scratch memory: float[N]
// S is scratch memory: __half[2][K][N]
extern "C" __global__ void __launch_bounds__(64)
gemm_f16x2_S(const float* __restrict__ B, const float* __restrict__ top, __half* __restrict__ S, int K, int N)
{
    constexpr int H = 8;
    const int rows_2 = blockIdx.y;  // cut_rows(S.r, S.c, S.n, H, T) -> sb, st, sv
    const int sb = blockIdx.x;
    const int st = threadIdx.x;

    const auto store_S = [&](int slot) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const float4 B_vec = *reinterpret_cast<const float4*>(&B[(rows_2 * H + slot) * N + sb * 256 + st * 4]);
            const float4 top_vec = *reinterpret_cast<const float4*>(&top[sb * 256 + st * 4]);
            __align__(8) __half S_vec[4];
            S_vec[0] = __float2half((n == 1
                           ? B_vec.x * (16384.0f / power_of_two(fmaxf(top_vec.x, 7.888609052210118e-31f)))
                           : B_vec.x * (16384.0f / power_of_two(fmaxf(top_vec.x, 7.888609052210118e-31f)))
                               - __half2float(__float2half(B_vec.x
                                   * (16384.0f / power_of_two(fmaxf(top_vec.x, 7.888609052210118e-31f)))))));
            S_vec[1] = __float2half((n == 1
                           ? B_vec.y * (16384.0f / power_of_two(fmaxf(top_vec.y, 7.888609052210118e-31f)))
                           : B_vec.y * (16384.0f / power_of_two(fmaxf(top_vec.y, 7.888609052210118e-31f)))
                               - __half2float(__float2half(B_vec.y
                                   * (16384.0f / power_of_two(fmaxf(top_vec.y, 7.888609052210118e-31f)))))));
            S_vec[2] = __float2half((n == 1
                           ? B_vec.z * (16384.0f / power_of_two(fmaxf(top_vec.z, 7.888609052210118e-31f)))
                           : B_vec.z * (16384.0f / power_of_two(fmaxf(top_vec.z, 7.888609052210118e-31f)))
                               - __half2float(__float2half(B_vec.z
                                   * (16384.0f / power_of_two(fmaxf(top_vec.z, 7.888609052210118e-31f)))))));
            S_vec[3] = __float2half((n == 1
                           ? B_vec.w * (16384.0f / power_of_two(fmaxf(top_vec.w, 7.888609052210118e-31f)))
                           : B_vec.w * (16384.0f / power_of_two(fmaxf(top_vec.w, 7.888609052210118e-31f)))
                               - __half2float(__float2half(B_vec.w
                                   * (16384.0f / power_of_two(fmaxf(top_vec.w, 7.888609052210118e-31f)))))));
            *reinterpret_cast<uint2*>(&S[(n * K + rows_2 * H + slot) * N + sb * 256 + st * 4]) =
                *reinterpret_cast<const uint2*>(S_vec);
        }
    };

    if (sb * 256 + st * 4 + 3 < N) {
        if (rows_2 * H + (H - 1) < K) {
            #pragma unroll
            for (int r = 0; r < H; ++r)
                store_S(r);
        } else {
            #pragma unroll
            for (int r = 0; r < H; ++r)
                if (rows_2 * H + r < K)
                    store_S(r);
        }
    }
}

// gemm_f16x2_P: grid (any) with as many blocks as run at once for ceil(M/128)*ceil(N/128) tiles, block (128, 3), 196664
//     bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128)*ceil(N/128) <= 1073741824
// arrays C[M][N], most[M], top[N], R[2][M][K], S[2][K][N]; C overlaps no other
// needs K % 8 == 0, N % 8 == 0, R aligned to 16 bytes, S aligned to 16 bytes, C aligned to 8 bytes
// most is scratch memory: float[M]
// top is scratch memory: float[N]
// R_map describes R: FLOAT16, dimensions (K, M, 2), strides (2*K, 2*K*M), box (64, 128, 2), swizzle 128B
// S_map describes S: FLOAT16, dimensions (N, K, 2), strides (2*N, 2*N*K), box (64, 64, 2), swizzle 128B
extern "C" __global__ void __launch_bounds__(384, 1)
gemm_f16x2_P(float* __restrict__ C,
             const float* __restrict__ most,
             const float* __restrict__ top,
             const __grid_constant__ TensorMap R_map,
             const __grid_constant__ TensorMap S_map,
             int M, int K, int N)
{
    constexpr int TM = 128, TN = 128, KI = 16, STAGES = 3;
    const Tiles tiles = {1, (M + TM - 1) / TM, (N + TN - 1) / TN, 8};
    const int wi = uniform(threadIdx.y);  // tile(ti, 64) -> wi, i64; bind(wi, thread.y)
    const int lane = threadIdx.x;         // tensorize(i64, tj, kk, by=wgmma_m64n{TN}k{KI}_trans_{IN})
    const int tid = wi * 128 + lane;

    extern __shared__ __align__(1024) unsigned char shared[];
    // cache_shared(R, at=ko, vector=V) -> Rs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Rs)[2][TM][64] = reinterpret_cast<__half (*)[2][TM][64]>(shared);
    // cache_shared(S, at=ko, vector=V, panel=64) -> Ss
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Ss)[2][2][64][64] = reinterpret_cast<__half (*)[2][2][64][64]>(shared + 98304);
    unsigned long long* filled = reinterpret_cast<unsigned long long*>(shared + 196608);
    unsigned long long* emptied = reinterpret_cast<unsigned long long*>(shared + 196640);

    start_barriers(filled, 3, 1);
    start_barriers(emptied, 3, 8);
    __syncthreads();  // the barriers have been started

    const bool is_consumer = wi < 2;
    if (is_consumer) {
        take_registers<240>();

        Ring<STAGES> ring = {filled, emptied};

        for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
            const int bi = row_of_tile(tiles, tile);     // tile(i, TM) -> bi, ti; deal(bi, bj, group=GROUP)
            const int bj = column_of_tile(tiles, tile);  // tile(j, TN) -> bj, tj

            // cache_register(P, at=bj) -> Pf
            float Pf[64] = {};

            // sum_by_tiles(P, P.i, P.j, ko, p, q, ki, P.i2, P.j2, P.ko) -> part, i, j, ko
            // pipeline(ko, STAGES)
            // specialize(ko, registers=240)
            for (int ko = 0; ko < (K + 63) / 64; ++ko) {
                ring.wait_filled();  // Rs and Ss have arrived

                // cache_register(part, at=ko) -> Tf
                float Tf[64] = {};
                hold<64>(&Tf[0]);
                begin_wgmma();

                // unroll(p)
                #pragma unroll
                for (int p = 0; p < 2; ++p) {
                    if (p >= 1) {
                        // unroll(q)
                        #pragma unroll
                        for (int q = 0; q < 2; ++q) {
                            // tile(ki, KI) -> fk, kk
                            // unroll(fk)
                            #pragma unroll
                            for (int fk = 0; fk < 4; ++fk)
                                wgmma_m64n128k16_trans_f16(Tf, describe_128<1024,
                                                           0>(&Rs[ring.slot][p][wi * 64][fk * KI]), describe_128<1024,
                                                           16384>(&Ss[ring.slot][0][q][fk * KI][0]));
                        }
                    } else {
                        #pragma unroll
                        for (int q = 0; q < 2; ++q)
                            if (p + q >= 1)
                                #pragma unroll
                                for (int fk = 0; fk < 4; ++fk)
                                    wgmma_m64n128k16_trans_f16(Tf, describe_128<1024,
                                                               0>(&Rs[ring.slot][p][wi * 64][fk * KI]),
                                                               describe_128<1024,
                                                               16384>(&Ss[ring.slot][0][q][fk * KI][0]));
                    }
                }

                complete_wgmma();
                hold<64>(&Tf[0]);

                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high)
                    #pragma unroll
                    for (int tj_high = 0; tj_high < 16; ++tj_high)
                        #pragma unroll
                        for (int tj_low = 0; tj_low < 2; ++tj_low)
                            Pf[tj_high * 4 + i64_high * 2 + tj_low] += Tf[tj_high * 4 + i64_high * 2 + tj_low];

                ring.release();  // Rs and Ss have been read

                ring.advance();
            }

            const float* most_tile = &most[bi * TM];
            const float* top_tile = &top[bj * TN];
            float* C_tile = &C[bi * TM * N + bj * TN];
            if (bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < N) {
                // cache_register(C, at=bj, vector=2) -> Cf
                float Cf[64];
                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high)
                    #pragma unroll
                    for (int tj_high = 0; tj_high < 16; ++tj_high)
                        #pragma unroll
                        for (int tj_low = 0; tj_low < 2; ++tj_low)
                            Cf[tj_high * 4 + i64_high * 2 + tj_low] =
                                Pf[tj_high * 4 + i64_high * 2 + tj_low] * 3.725290298461914e-09f
                                * power_of_two(fmaxf(
                                    most_tile[wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8],
                                    7.888609052210118e-31f))
                                * power_of_two(fmaxf(top_tile[tj_high * 8 + (lane % 4) * 2 + tj_low],
                                                     7.888609052210118e-31f));

                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high)
                    #pragma unroll
                    for (int Cf_tj_high = 0; Cf_tj_high < 16; ++Cf_tj_high)
                        store_vector<float2>(
                            &C_tile[(wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8) * N + Cf_tj_high * 8
                                    + (lane % 4) * 2],
                            &Cf[Cf_tj_high * 4 + i64_high * 2]);
            } else {
                float Cf[64];
                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high)
                    if (bi * TM + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8 < M)
                        #pragma unroll
                        for (int tj_high = 0; tj_high < 16; ++tj_high)
                            #pragma unroll
                            for (int tj_low = 0; tj_low < 2; ++tj_low)
                                if (bj * TN + tj_high * 8 + (lane % 4) * 2 + tj_low < N)
                                    Cf[tj_high * 4 + i64_high * 2 + tj_low] =
                                        Pf[tj_high * 4 + i64_high * 2 + tj_low] * 3.725290298461914e-09f
                                        * power_of_two(fmaxf(
                                            most_tile[wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8],
                                            7.888609052210118e-31f))
                                        * power_of_two(fmaxf(top_tile[tj_high * 8 + (lane % 4) * 2 + tj_low],
                                                             7.888609052210118e-31f));

                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high)
                    if (bi * TM + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8 < M)
                        #pragma unroll
                        for (int Cf_tj_high = 0; Cf_tj_high < 16; ++Cf_tj_high)
                            if (bj * TN + Cf_tj_high * 8 + (lane % 4) * 2 + 1 < N)
                                store_vector<float2>(
                                    &C_tile[(wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8) * N
                                            + Cf_tj_high * 8 + (lane % 4) * 2],
                                    &Cf[Cf_tj_high * 4 + i64_high * 2]);
            }
        }
    } else {
        give_registers<24>();

        if (tid == 256) {
            Ring<STAGES> ring = {filled, emptied};

            for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
                const int bi = row_of_tile(tiles, tile);
                const int bj = column_of_tile(tiles, tile);

                for (int ko = 0; ko < (K + 63) / 64; ++ko) {
                    ring.wait_emptied();  // Rs and Ss have been read

                    ring.expect(65536);
                    // bulk(Rs)
                    copy_box_3d(Rs[ring.slot], R_map, &filled[ring.slot], ko * 64, bi * TM, 0);

                    #pragma unroll
                    for (int Ss_p = 0; Ss_p < 2; ++Ss_p) {
                        // bulk(Ss)
                        copy_box_3d(Ss[ring.slot][Ss_p], S_map, &filled[ring.slot], bj * TN + Ss_p * 64, ko * 64, 0);
                    }

                    ring.advance();
                }
            }
        }
    }
}
