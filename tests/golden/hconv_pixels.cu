// needs sm_90a, and no other: wgmma_m64n128k16_f16
// needs sm_90 or later: bulk copies

#include <cuda_fp16.h>

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
__device__ __forceinline__ void copy_box_4d(void* to, const TensorMap& map, unsigned long long* barrier, int c0, int c1, int c2, int c3)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"(place), "l"(&map), "r"(at), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

// Starts the copy of a box of windows (im2col): of as many as the box has, from the one that begins at c0, .. on, what is
// o0, .. from where each begins. After the last window of a row comes the first of the next one.
__device__ __forceinline__ void copy_windows_4d(void* to, const TensorMap& map, unsigned long long* barrier,
    int c0, int c1, int c2, int c3, int o0, int o1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 ::"r"(place), "l"(&map), "r"(at), "r"(c0), "r"(c1), "r"(c2), "r"(c3),
                   "h"((unsigned short)o0), "h"((unsigned short)o1) : "memory");
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
static __device__ __forceinline__ void wgmma_m64n128k16_f16(float* C, unsigned long long A, unsigned long long B)
{
    asm volatile("{ "
                 ".reg .pred add; setp.eq.u32 add, 1, 1; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8,"
                 " %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                 "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
                 "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63}, %64, %65, add, 1, 1, 0, 0; }"
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

// D[i, j] = S[i, j]   by a warpgroup; S: f16[64, 16], D: f16[64, 16] in shared
// D points to the 16 bytes of this lane: D[i, j] in shared at lane i / 16 * 32 + i % 16 + j / 8 * 16, element j % 8
static __device__ __forceinline__ void stmatrix_c_warpgroup_f16(void* D, const void* S)
{
    const unsigned* S_registers = static_cast<const unsigned*>(S);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        :
        : "r"((unsigned)__cvta_generic_to_shared(D)), "r"(S_registers[0]), "r"(S_registers[1]), "r"(S_registers[2]),
            "r"(S_registers[3])
        : "memory");
}

// hconv: grid (any) with as many blocks as run at once for ceil((B*H*W)/128)*ceil(F/128) tiles, block (288), 213088
//     bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil((B*H*W)/128)*ceil(F/128) <= 1073741824
// arrays X[B][H][W][C], K[F][3][3][C], Y[B*H*W][F]; Y overlaps no other
// needs C % 8 == 0, F % 8 == 0, X aligned to 16 bytes, K aligned to 16 bytes, Y aligned to 16 bytes
// X_windows_map describes X.windows: FLOAT16, dimensions (C, W, H, B), strides (2*C, 2*C*W, 2*C*W*H), im2col from (-1,
//     -1) to (-1, -1), 64 channels, 128 pixels, swizzle 128B
// K_map describes K: FLOAT16, dimensions (C, 3, 3, F), strides (2*C, 6*C, 18*C), box (64, 1, 1, 128), swizzle 128B
// Y_map describes Y: FLOAT16, dimensions (F, B*H*W), strides (2*F), box (64, 128), swizzle 128B
extern "C" __global__ void __launch_bounds__(288)
hconv(const __grid_constant__ TensorMap X_windows_map,
      const __grid_constant__ TensorMap K_map,
      const __grid_constant__ TensorMap Y_map,
      int B, int H, int W, int C, int F)
{
    constexpr int TM = 128, TF = 128, PANEL = 64, STAGES = 6;
    const Tiles tiles = {1, (B * H * W + TM - 1) / TM, (F + TF - 1) / TF, 8};
    const int wi = uniform(threadIdx.x / 128);  // tile(tp, 64) -> wi, i64; bind(wi, thread.y)
    const int lane = threadIdx.x % 128;         // tensorize(i64, tf, kk, by=wgmma_m64n{TF}k16_{IN})
    const int tid = wi * 128 + lane;

    extern __shared__ __align__(1024) unsigned char shared[];
    // store_panels(bf, wi, i64, tf, PANEL) -> s64, s16
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Ys)[64] = reinterpret_cast<__half (*)[64]>(shared);
    // cache_shared(X.windows, at=q, vector=8) -> Xs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Xs)[128][1][1][64] = reinterpret_cast<__half (*)[128][1][1][64]>(shared + 16384);
    // cache_shared(K, at=q, vector=8) -> Ks
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Ks)[128][1][1][64] = reinterpret_cast<__half (*)[128][1][1][64]>(shared + 114688);
    unsigned long long* filled = reinterpret_cast<unsigned long long*>(shared + 212992);
    unsigned long long* emptied = reinterpret_cast<unsigned long long*>(shared + 213040);

    start_barriers(filled, 6, 1);
    start_barriers(emptied, 6, 8);
    __syncthreads();  // the barriers have been started

    const bool is_consumer = wi < 2;
    if (is_consumer) {
        Ring<STAGES> ring = {filled, emptied};

        for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
            const int bp = row_of_tile(tiles, tile);     // tile(p, TM) -> bp, tp; deal(bp, bf)
            const int bf = column_of_tile(tiles, tile);  // tile(f, TF) -> bf, tf

            // cache_register(P, at=bf) -> Pf
            float Pf[64] = {};
            hold<64>(&Pf[0]);

            // collapse(co, rs) -> q
            // pipeline(q, STAGES)
            // specialize(q, overlap=1)
            for (int q = 0; q < ((C + 63) / 64) * 9; ++q) {
                ring.wait_filled();  // Xs and Ks have arrived

                begin_wgmma();

                // tile(ci, 16) -> fk, kk
                // unroll(fk)
                #pragma unroll
                for (int fk = 0; fk < 4; ++fk)
                    wgmma_m64n128k16_f16(Pf, describe_128<1024, 0>(&Xs[ring.slot][wi * 64][0][0][fk * 16]),
                                         describe_128<1024, 0>(&Ks[ring.slot][0][0][0][fk * 16]));

                complete_earlier_wgmma();

                if (q >= 1)
                    ring.release_previous();  // Xs and Ks have been read

                ring.advance();
            }

            complete_wgmma();
            hold<64>(&Pf[0]);

            if (((C + 63) / 64) * 9 >= 1)
                ring.release_previous();  // Xs and Ks have been read

            __align__(4) __half Yf[64];
            #pragma unroll
            for (int i64_high = 0; i64_high < 2; ++i64_high)
                #pragma unroll
                for (int tf_high = 0; tf_high < 16; ++tf_high)
                    #pragma unroll
                    for (int tf_low = 0; tf_low < 2; ++tf_low)
                        Yf[tf_high * 4 + i64_high * 2 + tf_low] = __float2half(Pf[tf_high * 4 + i64_high * 2 + tf_low]);

            #pragma unroll
            for (int hf = 0; hf < 2; ++hf) {
                if (tid == 0)
                    wait_stores_read();  // Ys has been read

                wait_for_each_other<256>();  // before the next hf overwrites Ys

                #pragma unroll
                for (int ff = 0; ff < 4; ++ff) {
                    // tensorize(s64, s16, by=stmatrix_c_warpgroup_{IN})
                    stmatrix_c_warpgroup_f16(
                        &Ys[wi * 64 + (lane / 32) * 16
                            + lane % 16][(ff * 16 + ((lane / 16) % 2) * 8) ^ ((lane & 7) << 3)],
                        &Yf[hf * 32 + ff * 8]);
                }

                fence_async();
                wait_for_each_other<256>();  // Ys is complete: written above, read below

                if (tid == 0) {
                    store_box_2d(Y_map, Ys, bf * TF + hf * PANEL, bp * TM);
                    end_stores();
                }
            }
        }

        if (tid == 0)
            wait_stores_read();  // Ys has been read
    } else {
        if (tid == 256) {
            Ring<STAGES> ring = {filled, emptied};

            for (int tile = blockIdx.x; tile < count_tiles(tiles); tile += gridDim.x) {
                const int bp = row_of_tile(tiles, tile);
                const int bf = column_of_tile(tiles, tile);

                const int n = bp * TM / W / H;
                const int y = bp * TM / W % H;
                const int x = bp * TM % W;
                for (int q = 0; q < ((C + 63) / 64) * 9; ++q) {
                    ring.wait_emptied();  // Xs and Ks have been read

                    ring.expect(32768);
                    // bulk(Xs)
                    copy_windows_4d(Xs[ring.slot], X_windows_map, &filled[ring.slot], (q / 9) * 64, x - 1, y - 1, n,
                                    q % 3, q % 9 / 3);

                    // bulk(Ks)
                    copy_box_4d(Ks[ring.slot], K_map, &filled[ring.slot], (q / 9) * 64, q % 3, q % 9 / 3, bf * TF);

                    ring.advance();
                }
            }
        }
    }
}
