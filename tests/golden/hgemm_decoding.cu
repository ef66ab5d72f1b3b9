// needs sm_90a, and no other: wgmma_m64n128k16_trans_bf16
// needs sm_90 or later: bulk copies

#include <cuda_bf16.h>

// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
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

// Waits for all products but those since the last begin.
__device__ __forceinline__ void complete_earlier_wgmma()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
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

// C[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))   by a warpgroup; A: bf16[64, 16] in shared, B: bf16[16, 128] in
//     shared, C: f32[64, 128]
static __device__ __forceinline__ void wgmma_m64n128k16_trans_bf16(float* C, unsigned long long A, unsigned long long B)
{
    asm volatile("{ "
                 ".reg .pred add; setp.eq.u32 add, 1, 1; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
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

// hgemm_part: grid (ceil(N/128), ceil(M/64), ceil(K/4096)), block (160), 196736 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/64) <= 65535, ceil(K/4096) <= 65535
// arrays A[M][K], B[K][N], part[ceil(K/4096)][M][N]; part overlaps no other
// needs K % 8 == 0, N % 8 == 0, A aligned to 16 bytes, B aligned to 16 bytes, part aligned to 8 bytes
// part is scratch memory: float[ceil(K/4096)][M][N]
// A_map describes A: BFLOAT16, dimensions (K, M), strides (2*K), box (64, 64), swizzle 128B
// B_map describes B: BFLOAT16, dimensions (N, K), strides (2*N), box (64, 64), swizzle 128B
extern "C" __global__ void __launch_bounds__(160)
hgemm_part(float* __restrict__ part,
           const __grid_constant__ TensorMap A_map,
           const __grid_constant__ TensorMap B_map,
           int M, int N)
{
    constexpr int KP = 4096, TM = 64, TN = 128, TK = 64, KI = 16, STAGES = 8;
    const int kp = blockIdx.z;                  // tile(k, KP) -> kp, k; grid(kp, bi, bj)
    const int bi = blockIdx.y;                  // tile(i, TM) -> bi, ti
    const int bj = blockIdx.x;                  // tile(j, TN) -> bj, tj
    const int wi = uniform(threadIdx.x / 128);  // tile(ti, 64) -> wi, i64; bind(wi, thread.y)
    // tensorize(i64, tj, kk, by=[wgmma_m64n{TN}k{KI}_{IN}, wgmma_m64n{TN}k{KI}_trans_{IN}])
    const int lane = threadIdx.x % 128;
    const int tid = wi * 128 + lane;

    extern __shared__ __align__(1024) unsigned char shared[];
    // cache_shared(A, at=ko, vector=V) -> As
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*As)[TM][TK] = reinterpret_cast<__nv_bfloat16 (*)[TM][TK]>(shared);
    // cache_shared(B, at=ko, vector=V, panel=8 * V) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*Bs)[2][TK][64] = reinterpret_cast<__nv_bfloat16 (*)[2][TK][64]>(shared + 65536);
    unsigned long long* filled = reinterpret_cast<unsigned long long*>(shared + 196608);
    unsigned long long* emptied = reinterpret_cast<unsigned long long*>(shared + 196672);

    start_barriers(filled, 8, 1);
    start_barriers(emptied, 8, 4);
    __syncthreads();  // the barriers have been started

    const bool is_consumer = wi < 1;
    if (is_consumer) {
        Ring<STAGES> ring = {filled, emptied};

        // cache_register(part, at=bj, vector=2) -> Pf
        float Pf[64] = {};
        hold<64>(&Pf[0]);

        // tile(k, TK) -> ko, ki
        // pipeline(ko, STAGES)
        // specialize(ko, overlap=1)
        for (int ko = 0; ko < 64; ++ko) {
            ring.wait_filled();  // As and Bs have arrived

            begin_wgmma();

            // tile(ki, KI) -> fk, kk
            // unroll(fk)
            #pragma unroll
            for (int fk = 0; fk < 4; ++fk)
                wgmma_m64n128k16_trans_bf16(Pf, describe_128<1024, 0>(&As[ring.slot][wi * 64][fk * KI]),
                                            describe_128<1024, 8192>(&Bs[ring.slot][0][fk * KI][0]));

            complete_earlier_wgmma();

            if (ko >= 1)
                ring.release_previous();  // As and Bs have been read

            ring.advance();
        }

        complete_wgmma();
        hold<64>(&Pf[0]);

        ring.release_previous();  // As and Bs have been read

        float* part_tile = &part[(kp * M + bi * TM) * N + bj * TN];
        if (bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < N) {
            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                #pragma unroll
                for (int tj_high = 0; tj_high < 16; ++tj_high)
                    store_vector<float2>(
                        &part_tile[(wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8) * N + tj_high * 8
                                   + (lane % 4) * 2],
                        &Pf[tj_high * 4 + i64_high * 2]);
        } else {
            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                if (bi * TM + wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8 < M)
                    #pragma unroll
                    for (int tj_high = 0; tj_high < 16; ++tj_high)
                        if (bj * TN + tj_high * 8 + (lane % 4) * 2 + 1 < N)
                            store_vector<float2>(
                                &part_tile[(wi * 64 + (lane / 32) * 16 + i64_high * 8 + (lane / 4) % 8) * N
                                           + tj_high * 8 + (lane % 4) * 2],
                                &Pf[tj_high * 4 + i64_high * 2]);
        }
    } else {
        if (tid == 128) {
            Ring<STAGES> ring = {filled, emptied};

            for (int ko = 0; ko < 64; ++ko) {
                ring.wait_emptied();  // As and Bs have been read

                ring.expect(24576);
                // bulk(As)
                copy_box_2d(As[ring.slot], A_map, &filled[ring.slot], kp * KP + ko * TK, bi * TM);

                #pragma unroll
                for (int p = 0; p < 2; ++p) {
                    // bulk(Bs)
                    copy_box_2d(Bs[ring.slot][p], B_map, &filled[ring.slot], bj * TN + p * 64, kp * KP + ko * TK);
                }

                ring.advance();
            }
        }
    }
}

// hgemm_P: grid (ceil(((N + 3)/4)/64), M), block (64)
// for arrays of fewer than 2^31 - 2^20 elements, M <= 65535
// arrays C[M][N], part[ceil(K/4096)][M][N]; C overlaps no other
// needs N % 4 == 0, part aligned to 16 bytes, C aligned to 8 bytes
// part is scratch memory: float[ceil(K/4096)][M][N]
extern "C" __global__ void __launch_bounds__(64)
hgemm_P(__nv_bfloat16* __restrict__ C, const float* __restrict__ part, int M, int K, int N)
{
    const int row = blockIdx.y;  // fuse(P.i2, C.i) -> row; vectorize_rows(row, column, 64) -> b, t, v
    const int b = blockIdx.x;
    const int t = threadIdx.x;

    // cache_register(P, at=t, vector=4)
    float P_reg[4] = {};
    if (b * 256 + t * 4 + 3 < N) {
        // rfactor(P, kp) -> part
        for (int kp = 0; kp < (K + 4095) / 4096; ++kp) {
            const float4 part_vec = *reinterpret_cast<const float4*>(&part[(kp * M + row) * N + b * 256 + t * 4]);
            P_reg[0] += part_vec.x;
            P_reg[1] += part_vec.y;
            P_reg[2] += part_vec.z;
            P_reg[3] += part_vec.w;
        }
    }

    // cache_register(C, at=t, vector=4)
    __nv_bfloat16 C_reg[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        C_reg[v] = __float2bfloat16(P_reg[v]);

    if (b * 256 + t * 4 + 3 < N)
        store_vector<uint2>(&C[row * N + b * 256 + t * 4], C_reg);
}
