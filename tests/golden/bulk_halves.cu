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

// A proxy fence: reads by descriptor and bulk stores see what this thread has written to shared memory, and bulk copies
// overwrite nothing that it is still loading.
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
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

// D[i, k] = S[i, k]   by a warp; S: bf16[16, 16] in shared, D: bf16[16, 16]
// S points to the 16 bytes of this lane: S[i, k] in shared at lane i + k / 8 * 16, element k % 8
static __device__ __forceinline__ void ldmatrix_a_bf16(void* D, const void* S)
{
    unsigned* D_registers = static_cast<unsigned*>(D);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(D_registers[0]), "=r"(D_registers[1]), "=r"(D_registers[2]), "=r"(D_registers[3])
        : "r"((unsigned)__cvta_generic_to_shared(S))
        : "memory");
}

// D[k, j] = S[k, j]   by a warp; S: bf16[16, 16] in shared, D: bf16[16, 16]
// S points to the 16 bytes of this lane: S[k, j] in shared at lane k + j / 8 * 16, element j % 8
static __device__ __forceinline__ void ldmatrix_b_trans_bf16(void* D, const void* S)
{
    unsigned* D_registers = static_cast<unsigned*>(D);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(D_registers[0]), "=r"(D_registers[1]), "=r"(D_registers[2]), "=r"(D_registers[3])
        : "r"((unsigned)__cvta_generic_to_shared(S))
        : "memory");
}

// C[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))   by a warp; A: bf16[16, 16], B: bf16[16, 8], C: f32[16, 8]
static __device__ __forceinline__ void mma_m16n8k16_bf16(float* C, const void* A, const void* B)
{
    const unsigned* A_registers = static_cast<const unsigned*>(A);
    const unsigned* B_registers = static_cast<const unsigned*>(B);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3])
        : "r"(A_registers[0]), "r"(A_registers[1]), "r"(A_registers[2]), "r"(A_registers[3]), "r"(B_registers[0]),
            "r"(B_registers[1]));
}

// hgemm_f32: grid (ceil(N/128), ceil(M/128)), block (32, 2, 2), 98328 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 8 == 0, N % 8 == 0, A aligned to 16 bytes, B aligned to 16 bytes, C aligned to 8 bytes
// A_map describes A: BFLOAT16, dimensions (K, M), strides (2*K), box (64, 128), swizzle 128B
// B_map describes B: BFLOAT16, dimensions (N, K), strides (2*N), box (64, 64), swizzle 128B
extern "C" __global__ void __launch_bounds__(128)
hgemm_f32(float* __restrict__ C,
          const __grid_constant__ TensorMap A_map,
          const __grid_constant__ TensorMap B_map,
          int M, int K, int N)
{
    constexpr int TM = 128, TN = 128, TK = 64, WM = 64, WN = 64, STAGES = 3;
    const int bi = blockIdx.y;     // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;     // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;    // tile(ti, WM) -> wi, ii; bind(wi, thread.z)
    const int wj = threadIdx.y;    // tile(tj, WN) -> wj, jj; bind(wj, thread.y)
    const int lane = threadIdx.x;  // tile(ii, 16) -> fi, i16; tensorize(i16, j8, k16, by=mma_m16n8k16_bf16)
    const int tid = wi * WM + wj * 32 + lane;

    extern __shared__ __align__(1024) unsigned char shared[];
    // cache_shared(A, at=ko, vector=8) -> As
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*As)[TM][TK] = reinterpret_cast<__nv_bfloat16 (*)[TM][TK]>(shared);
    // cache_shared(B, at=ko, vector=8, panel=64) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*Bs)[2][TK][64] = reinterpret_cast<__nv_bfloat16 (*)[2][TK][64]>(shared + 49152);
    unsigned long long* filled = reinterpret_cast<unsigned long long*>(shared + 98304);

    const int i0 = wi * WM + lane / 4;
    const int j0 = wj * WN + (lane % 4) * 2;

    start_barriers(filled, 3, 1);
    __syncthreads();  // the barriers have been started

    // cache_register(C, at=bj, vector=2) -> Cf
    float Cf[4][4][2][4] = {};

    // tile(k, TK) -> ko, ki
    // pipeline(ko, STAGES)
    #pragma unroll
    for (int fill = 0; fill < 2; ++fill) {
        if (fill * 64 < K && tid == 0)
            fence_async();

        if (fill * 64 < K && tid == 0) {
            expect_bytes(&filled[fill], 32768);
            // bulk(As)
            copy_box_2d(As[fill], A_map, &filled[fill], fill * 64, bi * TM);

            #pragma unroll
            for (int p = 0; p < 2; ++p) {
                // bulk(Bs)
                copy_box_2d(Bs[fill][p], B_map, &filled[fill], bj * TN + p * 64, fill * 64);
            }
        }
    }

    wait_barrier(&filled[0], 0);  // As and Bs have arrived

    // cache_register(As, at=fk) -> Af
    __align__(4) __nv_bfloat16 Af[2][4][8];

    const auto load_Af = [&](int slot, int fk) {
        #pragma unroll
        for (int fi = 0; fi < 4; ++fi)
            ldmatrix_a_bf16(Af[fk % 2][fi],
                            &As[slot][wi * WM + fi * 16 + lane % 16][(fk * 16 + (lane / 16) * 8) ^ ((lane & 7) << 3)]);
    };

    load_Af(0, 0);

    // cache_register(Bs, at=fk) -> Bf
    __align__(4) __nv_bfloat16 Bf[2][4][2][4];

    const auto load_Bf = [&](int slot, int fk) {
        // tile(jj, 16) -> fj, jn
        #pragma unroll
        for (int fj = 0; fj < 4; ++fj) {
            // tile(jn, 8) -> nj, j8
            // tensorize(k16, nj, j8, by=ldmatrix_b_trans_bf16)
            ldmatrix_b_trans_bf16(Bf[fk % 2][fj][0],
                                  &Bs[slot][wj][fk * 16 + lane % 16][(fj * 16 + (lane / 16) * 8) ^ ((lane & 7) << 3)]);
        }
    };

    load_Bf(0, 0);

    const auto multiply = [&](int slot) {
        #pragma unroll
        for (int fi = 0; fi < 4; ++fi)
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    mma_m16n8k16_bf16(Cf[fi][fj][nj], Af[slot][fi], Bf[slot][fj][nj]);
    };

    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        if (ko * TK + 128 < K && tid == 0)
            fence_async();

        if (ko * TK + 128 < K && tid == 0) {
            expect_bytes(&filled[(ko + 2) % STAGES], 32768);
            copy_box_2d(As[(ko + 2) % STAGES], A_map, &filled[(ko + 2) % STAGES], ko * TK + 128, bi * TM);

            #pragma unroll
            for (int p = 0; p < 2; ++p)
                copy_box_2d(Bs[(ko + 2) % STAGES][p], B_map, &filled[(ko + 2) % STAGES], bj * TN + p * 64,
                            ko * TK + 128);
        }

        // tile(ki, 16) -> fk, k16
        // unroll(fk)
        // pipeline(fk, 2, across=ko)
        #pragma unroll
        for (int fk = 0; fk < 3; ++fk) {
            load_Af(ko % STAGES, fk + 1);
            load_Bf(ko % STAGES, fk + 1);
            multiply(fk % 2);
        }

        fence_async();
        __syncthreads();  // before the next ko overwrites As and Bs

        if (ko * TK + 64 < K) {
            wait_barrier(&filled[(ko + 1) % STAGES], ((ko + 1) / 3) % 2);  // As and Bs have arrived

            load_Af((ko + 1) % STAGES, 0);
            load_Bf((ko + 1) % STAGES, 0);
        }

        multiply(1);
    }

    float* C_tile = &C[bi * TM * N + bj * TN];
    if (bj * TN + (TN - 1) < N && bi * TM + (TM - 1) < M) {
        #pragma unroll
        for (int fi = 0; fi < 4; ++fi)
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    #pragma unroll
                    for (int i16_high = 0; i16_high < 2; ++i16_high)
                        store_vector<float2>(&C_tile[(fi * 16 + i16_high * 8 + i0) * N + fj * 16 + nj * 8 + j0],
                                             &Cf[fi][fj][nj][i16_high * 2]);
    } else {
        #pragma unroll
        for (int fi = 0; fi < 4; ++fi)
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    if (bj * TN + fj * 16 + nj * 8 + j0 + 1 < N)
                        #pragma unroll
                        for (int i16_high = 0; i16_high < 2; ++i16_high)
                            if (bi * TM + fi * 16 + i16_high * 8 + i0 < M)
                                store_vector<float2>(&C_tile[(fi * 16 + i16_high * 8 + i0) * N + fj * 16 + nj * 8 + j0],
                                                     &Cf[fi][fj][nj][i16_high * 2]);
    }
}
