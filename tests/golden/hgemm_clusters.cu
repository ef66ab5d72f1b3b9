// needs sm_90a, and no other: wgmma_m64n256k16_trans_bf16
// needs sm_90 or later: bulk copies

#include <cuda_bf16.h>

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

// The same to one place in several blocks of the cluster, a bit mask; the bytes arrive at the barrier of each.
__device__ __forceinline__ void multicast_box_2d(void* to, const TensorMap& map, unsigned long long* barrier,
    int blocks, int c0, int c1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%4, %5}], [%2], %3;"
                 ::"r"(place), "l"(&map), "r"(at), "h"(static_cast<unsigned short>(blocks)), "r"(c0), "r"(c1) : "memory");
}

// All threads of the blocks of a cluster wait for each other.
__device__ __forceinline__ void wait_for_cluster()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
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

// The same at the barriers at this place in several blocks of the cluster, a bit mask.
__device__ __forceinline__ void release_in_cluster(unsigned long long* barrier, int blocks)
{
    __syncwarp();
    const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    if (blocks >> lane & 1) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        asm volatile("{\n"
                     ".reg .b32 remote;\n"
                     "mapa.shared::cluster.u32 remote, %0, %1;\n"
                     "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                     "}"
                     ::"r"(at), "r"(lane) : "memory");
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

// C[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))   by a warpgroup; A: bf16[64, 16] in shared, B: bf16[16, 256] in
//     shared, C: f32[64, 256]
static __device__ __forceinline__ void wgmma_m64n256k16_trans_bf16(float* C, unsigned long long A, unsigned long long B)
{
    asm volatile("{ "
                 ".reg .pred add; setp.eq.u32 add, 1, 1; "
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
                 "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
                 "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "
                 "%94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, "
                 "%109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
                 "%123, %124, %125, %126, %127}, %128, %129, add, 1, 1, 0, 1; }"
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

// D[i, j] = S[i, j]   by a warpgroup; S: bf16[64, 16], D: bf16[64, 16] in shared
// D points to the 16 bytes of this lane: D[i, j] in shared at lane i / 16 * 32 + i % 16 + j / 8 * 16, element j % 8
static __device__ __forceinline__ void stmatrix_c_warpgroup_bf16(void* D, const void* S)
{
    const unsigned* S_registers = static_cast<const unsigned*>(S);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        :
        : "r"((unsigned)__cvta_generic_to_shared(D)), "r"(S_registers[0]), "r"(S_registers[1]), "r"(S_registers[2]),
            "r"(S_registers[3])
        : "memory");
}

// hgemm: grid (any, 2) with as many blocks as run at once for ceil(((M + 127)/128)/2)*ceil(N/256) tiles, clusters of
//     (1, 2), block (288), 213056 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(((M + 127)/128)/2)*ceil(N/256) <= 1073741824
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 8 == 0, N % 8 == 0, A aligned to 16 bytes, B aligned to 16 bytes, C aligned to 16 bytes
// A_map describes A: BFLOAT16, dimensions (K, M), strides (2*K), box (64, 128), swizzle 128B
// B_map describes B: BFLOAT16, dimensions (N, K), strides (2*N), box (64, 64), swizzle 128B
extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(288)
hgemm(__nv_bfloat16* __restrict__ C,
      const __grid_constant__ TensorMap A_map,
      const __grid_constant__ TensorMap B_map,
      int M, int K, int N)
{
    constexpr int TM = 128, TN = 256, TK = 64, KI = 16, PC = 64, STAGES = 4;
    const Tiles tiles = {1, ((M + TM - 1) / TM + 1) / 2, (N + TN - 1) / TN, 4};
    const int ci = blockIdx.y;                  // tile(bi, 2) -> bi, ci; bind(ci, block.y)
    const int wi = uniform(threadIdx.x / 128);  // tile(ti, 64) -> wi, i64; bind(wi, thread.y)
    // tensorize(i64, tj, kk, by=[wgmma_m64n{TN}k{KI}_{IN}, wgmma_m64n{TN}k{KI}_trans_{IN}])
    const int lane = threadIdx.x % 128;
    const int tid = wi * 128 + lane;

    extern __shared__ __align__(1024) unsigned char shared[];
    // cache_shared(C, at=hj, vector=8) -> Cs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*Cs)[64] = reinterpret_cast<__nv_bfloat16 (*)[64]>(shared);
    // cache_shared(A, at=ko, vector=V) -> As
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*As)[TM][TK] = reinterpret_cast<__nv_bfloat16 (*)[TM][TK]>(shared + 16384);
    // cache_shared(B, at=ko, vector=V, panel=8 * V) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*Bs)[4][TK][64] = reinterpret_cast<__nv_bfloat16 (*)[4][TK][64]>(shared + 81920);
    unsigned long long* filled = reinterpret_cast<unsigned long long*>(shared + 212992);
    unsigned long long* emptied = reinterpret_cast<unsigned long long*>(shared + 213024);

    start_barriers(filled, 4, 1);
    start_barriers(emptied, 4, 16);
    wait_for_cluster();  // the barriers of all blocks have been started

    const bool is_consumer = wi < 2;
    if (is_consumer) {
        Ring<STAGES> ring = {filled, emptied};

        for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
            const int bi = row_of_tile(tiles, tile);     // tile(i, TM) -> bi, ti; deal(bi, bj, group=GROUP)
            const int bj = column_of_tile(tiles, tile);  // tile(j, TN) -> bj, tj

            // cache_register(P, at=bj) -> Pf
            float Pf[128] = {};

            // tile(k, TK) -> ko, ki
            // pipeline(ko, STAGES)
            // specialize(ko)
            for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
                ring.wait_filled();  // As and Bs have arrived

                hold<128>(&Pf[0]);
                begin_wgmma();

                // tile(ki, KI) -> fk, kk
                // unroll(fk)
                #pragma unroll
                for (int fk = 0; fk < 4; ++fk)
                    wgmma_m64n256k16_trans_bf16(Pf, describe_128<1024, 0>(&As[ring.slot][wi * 64][fk * KI]),
                                                describe_128<1024, 8192>(&Bs[ring.slot][0][fk * KI][0]));

                complete_wgmma();
                hold<128>(&Pf[0]);

                release_in_cluster(&emptied[ring.slot], 3);  // As and Bs have been read

                ring.advance();
            }

            // cache_register(C, at=bj) -> Cf
            __align__(4) __nv_bfloat16 Cf[128];
            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                #pragma unroll
                for (int tj_high = 0; tj_high < 32; ++tj_high)
                    #pragma unroll
                    for (int tj_low = 0; tj_low < 2; ++tj_low)
                        Cf[tj_high * 4 + i64_high * 2 + tj_low] =
                            __float2bfloat16(Pf[tj_high * 4 + i64_high * 2 + tj_low]);

            // tile(sj, PC) -> hj, jj
            #pragma unroll
            for (int hj = 0; hj < 4; ++hj) {
                // tile(jj, 16) -> fj, s16
                #pragma unroll
                for (int fj = 0; fj < 4; ++fj) {
                    // rename(i64, of=Cf) -> s64
                    // tensorize(s64, s16, by=stmatrix_c_warpgroup_{OUT})
                    stmatrix_c_warpgroup_bf16(
                        &Cs[wi * 64 + (lane / 32) * 16
                            + lane % 16][(fj * 16 + ((lane / 16) % 2) * 8) ^ ((lane & 7) << 3)],
                        &Cf[hj * 32 + fj * 8]);
                }

                wait_for_each_other<256>();  // Cs is complete: written above, read below

                if (bj * TN + hj * PC + (tid % 8) * 8 + 7 < N) {
                    if (bi * (2 * TM) + ci * TM + (TM - 1) < M) {
                        #pragma unroll
                        for (int part = 0; part < 4; ++part) {
                            const int i = part * 32 + tid / 8;
                            const int j = tid % 8;
                            *reinterpret_cast<uint4*>(&C[(bi * (2 * TM) + ci * TM + i) * N + bj * TN + hj * PC
                                + j * 8]) = *reinterpret_cast<const uint4*>(&Cs[i][(j * 8) ^ ((i & 7) << 3)]);
                        }
                    } else {
                        #pragma unroll
                        for (int part = 0; part < 4; ++part) {
                            const int i = part * 32 + tid / 8;
                            const int j = tid % 8;
                            if (bi * (2 * TM) + ci * TM + i < M)
                                *reinterpret_cast<uint4*>(&C[(bi * (2 * TM) + ci * TM + i) * N + bj * TN + hj * PC
                                    + j * 8]) = *reinterpret_cast<const uint4*>(&Cs[i][(j * 8) ^ ((i & 7) << 3)]);
                        }
                    }
                }

                wait_for_each_other<256>();  // before the next hj overwrites Cs
            }
        }
    } else {
        if (tid == 256) {
            Ring<STAGES> ring = {filled, emptied};

            for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
                const int bi = row_of_tile(tiles, tile);
                const int bj = column_of_tile(tiles, tile);

                for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
                    ring.wait_emptied();  // As and Bs have been read

                    ring.expect(49152);
                    // bulk(As)
                    copy_box_2d(As[ring.slot], A_map, &filled[ring.slot], ko * TK, bi * (2 * TM) + ci * TM);

                    #pragma unroll
                    for (int p = 0; p < 2; ++p) {
                        // bulk(Bs)
                        // multicast(Bs, ci)
                        multicast_box_2d(Bs[ring.slot][ci * 2 + p], B_map, &filled[ring.slot], 3,
                                         bj * TN + ci * TM + p * 64, ko * TK);
                    }

                    ring.advance();
                }
            }
        }
    }

    wait_for_cluster();  // no block leaves before all have been copied to and released
}
