// needs sm_90a, and no other: wgmma_m64n256k16_f16
// needs sm_90 or later: bulk copies

#include <cuda_fp16.h>

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

// A proxy fence: reads by descriptor and bulk stores see what this thread has written to shared memory, and bulk copies
// overwrite nothing that it is still loading.
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A named barrier of the first `threads` threads of the block.
template <int threads> __device__ __forceinline__ void wait_for_each_other()
{
    asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
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
__device__ __forceinline__ void copy_box_2d(void* to, const TensorMap& map, unsigned long long* barrier, int c0, int c1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(place), "l"(&map), "r"(at), "r"(c0), "r"(c1) : "memory");
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

// C[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))   by a warpgroup; A: f16[64, 16] in shared, B: f16[16, 256] in shared,
//     C: f32[64, 256]
static __device__ __forceinline__ void wgmma_m64n256k16_f16(float* C, unsigned long long A, unsigned long long B)
{
    asm volatile("{ "
                 ".reg .pred add; setp.eq.u32 add, 1, 1; "
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8,"
                 " %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
                 "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
                 "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "
                 "%94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, "
                 "%109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
                 "%123, %124, %125, %126, %127}, %128, %129, add, 1, 1, 0, 0; }"
        : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3]), "+f"(C[4]), "+f"(C[5]), "+f"(C[6]), "+f"(C[7]), "+f"(C[8]),
            "+f"(C[9]), "+f"(C[10]), "+f"(C[11]), "+f"(C[12]), "+f"(C[13]), "+f"(C[14]), "+f"(C[15]), "+f"(C[16]),
            "+f"(C[17]), "+f"(C[18]), "+f"(C[19]), "+f"(C[20]), "+f"(C[21]), "+f"(C[22]), "+f"(C[23]), "+f"(C[24]),
            "+f"(C[25]), "+f"(C[26]), "+f"(C[27]), "+f"(C[28]), "+f"(C[29]), "+f"(C[30]), "+f"(C[31]), "+f"(C[32]),
            "+f"(C[33]), "+f"(C[34]), "+f"(C[35]), "+f"(C[36]), "+f"(C[37]), "+f"(C[38]), "+f"(C[39]), "+f"(C[40]),
            "+f"(C[41]), "+f"(C[42]), "+f"(C[43]), "+f"(C[44]), "+f"(C[45]), "+f"(C[46]), "+f"(C[47]), "+f"(C[48]),
            "+f"(C[49]), "+f"(C[50]), "+f"(C[51]), "+f"(C[52]), "+f"(C[53]), "+f"(C[54]), "+f"(C[55]), "+f"(C[56]),
            "+f"(C[57]), "+f"(C[58]), "+f"(C[59]), "+f"(C[60]), "+f"(C[61]), "+f"(C[62]), "+f"(C[63]), "+f"(C[64]),
            "+f"(C[65]), "+f"(C[66]), "+f"(C[67]), "+f"(C[68]), "+f"(C[69]), "+f"(C[70]), "+f"(C[71]), "+f"(C[72]),
            "+f"(C[73]), "+f"(C[74]), "+f"(C[75]), "+f"(C[76]), "+f"(C[77]), "+f"(C[78]), "+f"(C[79]), "+f"(C[80]),
            "+f"(C[81]), "+f"(C[82]), "+f"(C[83]), "+f"(C[84]), "+f"(C[85]), "+f"(C[86]), "+f"(C[87]), "+f"(C[88]),
            "+f"(C[89]), "+f"(C[90]), "+f"(C[91]), "+f"(C[92]), "+f"(C[93]), "+f"(C[94]), "+f"(C[95]), "+f"(C[96]),
            "+f"(C[97]), "+f"(C[98]), "+f"(C[99]), "+f"(C[100]), "+f"(C[101]), "+f"(C[102]), "+f"(C[103]), "+f"(C[104]),
            "+f"(C[105]), "+f"(C[106]), "+f"(C[107]), "+f"(C[108]), "+f"(C[109]), "+f"(C[110]), "+f"(C[111]),
            "+f"(C[112]), "+f"(C[113]), "+f"(C[114]), "+f"(C[115]), "+f"(C[116]), "+f"(C[117]), "+f"(C[118]),
            "+f"(C[119]), "+f"(C[120]), "+f"(C[121]), "+f"(C[122]), "+f"(C[123]), "+f"(C[124]), "+f"(C[125]),
            "+f"(C[126]), "+f"(C[127])
        : "l"(A), "l"(B)
        : "memory");
}

// matching_f16_norm: grid (ceil(M/128)), block (128)
// for B[M, 128], arrays of fewer than 2^31 - 2^20 elements
// arrays B[M][128], norm[M]; norm overlaps no other
// needs B aligned to 8 bytes
// norm is scratch memory: float[M]
extern "C" __global__ void __launch_bounds__(128)
matching_f16_norm(const __half* __restrict__ B, float* __restrict__ norm, int M)
{
    const int nb = blockIdx.x;  // square_points()
    const int nt = threadIdx.x;

    if (nb * 128 + nt < M) {
        float norm_reg = 0.0f;

        #pragma unroll
        for (int dh = 0; dh < 16; ++dh) {
            __half Bv[8];
            #pragma unroll
            for (int Bv_dv = 0; Bv_dv < 2; ++Bv_dv)
                load_vector<uint2>(&Bv[Bv_dv * 4], &B[(nb * 128 + nt) * 128 + dh * 8 + Bv_dv * 4]);

            #pragma unroll
            for (int dv = 0; dv < 8; ++dv)
                norm_reg += __half2float(Bv[dv]) * __half2float(Bv[dv]);
        }

        norm[nb * 128 + nt] = norm_reg;
    }
}

// matching_f16_best: grid (ceil(N/128)), block (288), 196696 bytes of shared memory (dynamic)
// for A[N, 128], best[4, N], best.best[4, N], arrays of fewer than 2^31 - 2^20 elements
// arrays A[N][128], B[M][128], norm[M], best[4][N], best_best[4][N]; best and best_best overlap no other
// needs B aligned to 16 bytes, A aligned to 16 bytes
// norm is scratch memory: float[M]
// best is scratch memory: int[4][N]
// best_best is scratch memory: float[4][N]
// B_map describes B: FLOAT16, dimensions (128, M), strides (256), box (64, 256), swizzle 128B
extern "C" __global__ void __launch_bounds__(288)
matching_f16_best(const __half* __restrict__ A,
                  const float* __restrict__ norm,
                  int* __restrict__ best,
                  float* __restrict__ best_best,
                  const __grid_constant__ TensorMap B_map,
                  int N, int M)
{
    constexpr int TM = 128, TN = 256, TK = 64, KI = 16, STAGES = 5;
    const int bi = blockIdx.x;                  // tile(i, TM) -> bi, ti; bind(bi, block.x)
    const int lane = threadIdx.x % 128;         // tile(j8, 2) -> jq, jl
    const int wi = uniform(threadIdx.x / 128);  // tile(ti, 64) -> wi, i64; bind(wi, thread.y)
    const int tid = wi * 128 + lane;

    extern __shared__ __align__(1024) unsigned char shared[];
    // cache_shared(A, at=bi, vector=V, panel=8 * V) -> As
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*As)[TM][64] = reinterpret_cast<__half (*)[TM][64]>(shared);
    // cache_shared(B, at=ko, vector=V) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Bs)[TN][TK] = reinterpret_cast<__half (*)[TN][TK]>(shared + 32768);
    unsigned long long* filled = reinterpret_cast<unsigned long long*>(shared + 196608);
    unsigned long long* emptied = reinterpret_cast<unsigned long long*>(shared + 196656);

    const bool full_tile = bi * TM + (TM - 1) < N;

    start_barriers(filled, 5, 1);
    start_barriers(emptied, 5, 8);
    __syncthreads();  // the barriers have been started

    const bool is_consumer = wi < 2;
    if (is_consumer) {
        Ring<STAGES> ring = {filled, emptied};

        // cache_best(best, best.best, bi)
        float best_best_reg[2];
        int best_reg[2];
        // tensorize(i64, tj, kk, by=wgmma_m64n{TN}k{KI}_{IN})
        #pragma unroll
        for (int i64_high = 0; i64_high < 2; ++i64_high) {
            best_reg[i64_high] = 0;
            best_best_reg[i64_high] = INFINITY;
        }

        const __half* A_tile = &A[bi * TM * 128];
        if (full_tile) {
            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int i = part * 32 + tid / 8;
                const int d = tid % 8;

                #pragma unroll
                for (int p = 0; p < 2; ++p)
                    *reinterpret_cast<uint4*>(&As[p][i][(d * 8) ^ ((i & 7) << 3)]) =
                        *reinterpret_cast<const uint4*>(&A_tile[i * 128 + p * 64 + d * 8]);
            }
        } else {
            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int i = part * 32 + tid / 8;
                const int d = tid % 8;
                if (bi * TM + i < N)
                    #pragma unroll
                    for (int p = 0; p < 2; ++p)
                        *reinterpret_cast<uint4*>(&As[p][i][(d * 8) ^ ((i & 7) << 3)]) =
                            *reinterpret_cast<const uint4*>(&A_tile[i * 128 + p * 64 + d * 8]);
            }
        }

        fence_async();
        wait_for_each_other<256>();  // As is complete: written above, read below

        // tile(j, TN) -> bj, tj
        for (int bj = 0; bj < (M + TN - 1) / TN; ++bj) {
            // cache_register(dot, at=bj) -> Pf
            float Pf[128] = {};

            // tile(dot.d, TK) -> ko, ki
            // pipeline(ko, STAGES)
            // specialize(ko)
            for (int ko = 0; ko < 2; ++ko) {
                ring.wait_filled();  // Bs has arrived

                hold<128>(&Pf[0]);
                begin_wgmma();

                // tile(ki, KI) -> fk, kk
                // unroll(fk)
                #pragma unroll
                for (int fk = 0; fk < 4; ++fk)
                    wgmma_m64n256k16_f16(Pf, describe_128<1024, 0>(&As[ko][wi * 64][fk * KI]), describe_128<1024,
                                         0>(&Bs[ring.slot][0][fk * KI]));

                complete_wgmma();
                hold<128>(&Pf[0]);

                ring.release();  // Bs has been read

                ring.advance();
            }

            if (full_tile && bj * TN + (TN - 1) < M) {
                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high) {
                    // tile(sj, 8) -> jh, j8
                    #pragma unroll
                    for (int jh = 0; jh < 32; ++jh)
                        #pragma unroll
                        for (int jl = 0; jl < 2; ++jl) {
                            const float candidate =
                                norm[bj * TN + jh * 8 + (lane % 4) * 2 + jl] - 2.0f * Pf[jh * 4 + i64_high * 2 + jl];
                            if (candidate < best_best_reg[i64_high]) {
                                best_best_reg[i64_high] = candidate;
                                best_reg[i64_high] = bj * TN + jh * 8 + (lane % 4) * 2 + jl;
                            }
                        }
                }
            } else {
                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high)
                    if (bi * TM + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8 < N)
                        #pragma unroll
                        for (int jh = 0; jh < 32; ++jh)
                            #pragma unroll
                            for (int jl = 0; jl < 2; ++jl)
                                if (bj * TN + jh * 8 + (lane % 4) * 2 + jl < M) {
                                    const float candidate =
                                        norm[bj * TN + jh * 8 + (lane % 4) * 2 + jl]
                                        - 2.0f * Pf[jh * 4 + i64_high * 2 + jl];
                                    if (candidate < best_best_reg[i64_high]) {
                                        best_best_reg[i64_high] = candidate;
                                        best_reg[i64_high] = bj * TN + jh * 8 + (lane % 4) * 2 + jl;
                                    }
                                }
            }
        }

        float* best_best_tile = &best_best[bi * TM];
        int* best_tile = &best[bi * TM];
        if (full_tile) {
            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                best_best_tile[lane % 4 * N + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8] =
                    best_best_reg[i64_high];

            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                best_tile[lane % 4 * N + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8] =
                    best_reg[i64_high];
        } else {
            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                if (bi * TM + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8 < N)
                    best_best_tile[lane % 4 * N + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8] =
                        best_best_reg[i64_high];

            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                if (bi * TM + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8 < N)
                    best_tile[lane % 4 * N + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8] =
                        best_reg[i64_high];
        }
    } else {
        if (tid == 256) {
            Ring<STAGES> ring = {filled, emptied};

            for (int bj = 0; bj < (M + TN - 1) / TN; ++bj)
                for (int ko = 0; ko < 2; ++ko) {
                    ring.wait_emptied();  // Bs has been read

                    ring.expect(32768);
                    // bulk(Bs)
                    copy_box_2d(Bs[ring.slot], B_map, &filled[ring.slot], ko * TK, bj * TN);

                    ring.advance();
                }
        }
    }
}

// matching_f16_nearest: grid (ceil(N/128)), block (128)
// for best[4, N], best.best[4, N], arrays of fewer than 2^31 - 2^20 elements
// arrays nearest[N], best[4][N], best_best[4][N]; nearest overlaps no other
// best is scratch memory: int[4][N]
// best_best is scratch memory: float[4][N]
extern "C" __global__ void __launch_bounds__(128)
matching_f16_nearest(int* __restrict__ nearest, const int* __restrict__ best, const float* __restrict__ best_best,
                     int N)
{
    const int b = blockIdx.x;  // blocks(nearest.i, 128) -> b, t
    const int t = threadIdx.x;

    if (b * 128 + t < N) {
        // cache_best(nearest, nearest.best, t)
        int nearest_reg = 0;
        float nearest_best_reg = INFINITY;

        // rfactor(nearest, jq) -> best
        for (int jq = 0; jq < 4; ++jq) {
            const float candidate = best_best[jq * N + b * 128 + t];
            const int index = best[jq * N + b * 128 + t];
            if (candidate < nearest_best_reg || (candidate == nearest_best_reg && index < nearest_reg)) {
                nearest_best_reg = candidate;
                nearest_reg = index;
            }
        }

        nearest[b * 128 + t] = nearest_reg;
    }
}
