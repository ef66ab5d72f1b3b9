// needs sm_90a, and no other: wgmma_m64n128k16_trans_bf16
// needs sm_90 or later: bulk copies

#include <cuda_bf16.h>

// A proxy fence: reads by descriptor and bulk stores see what this thread has written to shared memory, and bulk copies
// overwrite nothing that it is still loading.
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A named barrier of one of two groups, each of `threads` threads.
template <int threads> __device__ __forceinline__ void wait_for_group(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(threads) : "memory");
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

// Waits for the turn of a group; both groups together have `threads` threads.
template <int threads> __device__ __forceinline__ void take_turn(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(3 + group), "n"(threads) : "memory");
}

// Gives the turn to a group, without waiting.
template <int threads> __device__ __forceinline__ void pass_turn(int group)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(3 + group), "n"(threads) : "memory");
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

// Starts the store of a box from shared memory to a tensor; nothing is written beyond the tensor.
__device__ __forceinline__ void store_box_2d(const TensorMap& map, const void* from, int c0, int c1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(from));
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(&map), "r"(place), "r"(c0), "r"(c1) : "memory");
}

// Ends a group of stores: those that this thread has started since it ended the last group.
__device__ __forceinline__ void end_stores()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all of this thread's groups of stores have read shared memory.
__device__ __forceinline__ void wait_stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

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

// hgemm: grid (any) with as many blocks as run at once for ceil(M/128)*ceil(((N + 127)/128)/2) tiles, block (128, 3),
//     229472 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128)*ceil(((N + 127)/128)/2) <= 1073741824
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 8 == 0, N % 8 == 0, A aligned to 16 bytes, B aligned to 16 bytes, C aligned to 16 bytes
// A_map describes A: BFLOAT16, dimensions (K, M), strides (2*K), box (64, 128), swizzle 128B
// B_map describes B: BFLOAT16, dimensions (N, K), strides (2*N), box (64, 64), swizzle 128B
// C_map describes C: BFLOAT16, dimensions (N, M), strides (2*N), box (64, 128), swizzle 128B
extern "C" __global__ void __launch_bounds__(384, 1)
hgemm(const __grid_constant__ TensorMap A_map,
      const __grid_constant__ TensorMap B_map,
      const __grid_constant__ TensorMap C_map,
      int M, int K, int N)
{
    constexpr int TM = 128, TN = 128, TK = 64, KI = 16, PC = 64, STAGES = 6;
    const Tiles tiles = {1, (M + TM - 1) / TM, ((N + TN - 1) / TN + 1) / 2, 4};
    const int w = uniform(threadIdx.y);  // tile(bj, 2) -> bj, w; bind(w, block.z)
    // tile(ti, 64) -> wi, i64; tensorize(i64, tj, kk, by=[wgmma_m64n{TN}k{KI}_{IN}, wgmma_m64n{TN}k{KI}_trans_{IN}])
    const int lane = threadIdx.x;
    const int ko_count = (K + TK - 1) / TK;

    extern __shared__ __align__(1024) unsigned char shared[];
    // cache_shared(C, at=hj, vector=8) -> Cs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*Cs)[128][64] = reinterpret_cast<__nv_bfloat16 (*)[128][64]>(shared);
    // cache_shared(A, at=ko, vector=V) -> As
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*As)[TM][TK] = reinterpret_cast<__nv_bfloat16 (*)[TM][TK]>(shared + 32768);
    // cache_shared(B, at=ko, vector=V, panel=8 * V) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*Bs)[2][TK][64] = reinterpret_cast<__nv_bfloat16 (*)[2][TK][64]>(shared + 131072);
    unsigned long long* filled = reinterpret_cast<unsigned long long*>(shared + 229376);
    unsigned long long* emptied = reinterpret_cast<unsigned long long*>(shared + 229424);

    start_barriers(filled, 6, 1);
    start_barriers(emptied, 6, 4);
    __syncthreads();  // the barriers have been started

    const bool is_consumer = w < 2;
    if (is_consumer) {
        take_registers<240>();

        Ring<STAGES> ring = {filled, emptied};

        if (w >= 1)
            ring.skip(ko_count);  // the slots of the other group

        for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
            const int bi = row_of_tile(tiles, tile);     // tile(i, TM) -> bi, ti; deal(bi, bj, group=GROUP)
            const int bj = column_of_tile(tiles, tile);  // tile(j, TN) -> bj, tj

            // cache_register(P, at=bj) -> Pf
            float Pf[2][64] = {};
            hold<128>(&Pf[0][0]);

            if (w >= 1)
                take_turn<256>(w);  // the operands of the tile before have arrived

            // tile(k, TK) -> ko, ki
            // pipeline(ko, STAGES)
            // specialize(ko, turns=w, overlap=1, registers=240)
            for (int ko = 0; ko < ko_count; ++ko) {
                ring.wait_filled();  // As and Bs have arrived

                begin_wgmma();

                // unroll(wi)
                #pragma unroll
                for (int wi = 0; wi < 2; ++wi) {
                    // tile(ki, KI) -> fk, kk
                    // unroll(fk)
                    #pragma unroll
                    for (int fk = 0; fk < 4; ++fk)
                        wgmma_m64n128k16_trans_bf16(Pf[wi], describe_128<1024, 0>(&As[ring.slot][wi * 64][fk * KI]),
                                                    describe_128<1024, 8192>(&Bs[ring.slot][0][fk * KI][0]));
                }

                complete_earlier_wgmma();

                if (ko >= 1)
                    ring.release_previous();  // As and Bs have been read

                ring.advance();
            }

            pass_turn<256>(1 - w);  // the operands of this tile have arrived

            complete_wgmma();
            hold<128>(&Pf[0][0]);

            if (ko_count >= 1)
                ring.release_previous();  // As and Bs have been read

            // cache_register(C, at=bj) -> Cf
            __align__(4) __nv_bfloat16 Cf[2][64];
            #pragma unroll
            for (int wi = 0; wi < 2; ++wi)
                #pragma unroll
                for (int i64_high = 0; i64_high < 2; ++i64_high)
                    #pragma unroll
                    for (int tj_high = 0; tj_high < 16; ++tj_high)
                        #pragma unroll
                        for (int tj_low = 0; tj_low < 2; ++tj_low)
                            Cf[wi][tj_high * 4 + i64_high * 2 + tj_low] =
                                __float2bfloat16(Pf[wi][tj_high * 4 + i64_high * 2 + tj_low]);

            // tile(sj, PC) -> hj, jj
            #pragma unroll
            for (int hj = 0; hj < 2; ++hj) {
                if (lane == 0)
                    wait_stores_read();  // Cs has been read

                wait_for_group<128>(w);  // before the next hj overwrites Cs

                #pragma unroll
                for (int wi = 0; wi < 2; ++wi) {
                    // tile(jj, 16) -> fj, s16
                    #pragma unroll
                    for (int fj = 0; fj < 4; ++fj) {
                        // rename(i64, of=Cf) -> s64
                        // tensorize(s64, s16, by=stmatrix_c_warpgroup_{OUT})
                        stmatrix_c_warpgroup_bf16(
                            &Cs[w][wi * 64 + (lane / 32) * 16
                                   + lane % 16][(fj * 16 + ((lane / 16) % 2) * 8) ^ ((lane & 7) << 3)],
                            &Cf[wi][hj * 32 + fj * 8]);
                    }
                }

                fence_async();
                wait_for_group<128>(w);  // Cs is complete: written above, read below

                if (lane == 0) {
                    store_box_2d(C_map, Cs[w], bj * (2 * TN) + w * TN + hj * PC, bi * TM);
                    end_stores();
                }
            }

            ring.skip(ko_count);  // the slots of the other group

            if (w < 1)
                take_turn<256>(w);  // the operands of the tile before have arrived
        }

        if (lane == 0)
            wait_stores_read();  // Cs has been read
    } else {
        give_registers<24>();

        if (lane == 0) {
            Ring<STAGES> ring = {filled, emptied};

            for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
                const int bi = row_of_tile(tiles, tile);
                const int bj = column_of_tile(tiles, tile);

                for (int turn = 0; turn < 2; ++turn)
                    for (int ko = 0; ko < ko_count; ++ko) {
                        ring.wait_emptied();  // As and Bs have been read

                        ring.expect(32768);
                        // bulk(As)
                        copy_box_2d(As[ring.slot], A_map, &filled[ring.slot], ko * TK, bi * TM);

                        #pragma unroll
                        for (int p = 0; p < 2; ++p) {
                            // bulk(Bs)
                            copy_box_2d(Bs[ring.slot][p], B_map, &filled[ring.slot],
                                        bj * (2 * TN) + turn * 128 + p * 64, ko * TK);
                        }

                        ring.advance();
                    }
            }
        }
    }
}
