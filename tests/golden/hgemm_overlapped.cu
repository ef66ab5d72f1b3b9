// needs sm_80 or later: mma_m16n8k16_bf16

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

// hgemm: grid (ceil(N/128), ceil(M/256)), block (32, 2, 4), 147456 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, as A[M + 255, K + 184] and B[K + 191, N + 120] would have, ceil(M/256)
//     <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 8 == 0, N % 8 == 0, A aligned to 16 bytes, B aligned to 16 bytes, C aligned to 4 bytes
extern "C" __global__ void __launch_bounds__(256)
hgemm(const __nv_bfloat16* __restrict__ A,
      const __nv_bfloat16* __restrict__ B,
      __nv_bfloat16* __restrict__ C,
      int M, int K, int N)
{
    constexpr int TM = 256, TN = 128, TK = 64, WM = 64, WN = 64, KI = 16, STAGES = 3;
    const int bi = blockIdx.y;     // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;     // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;    // tile(ti, WM) -> wi, ii; bind(wi, thread.z)
    const int wj = threadIdx.y;    // tile(tj, WN) -> wj, jj; bind(wj, thread.y)
    const int lane = threadIdx.x;  // tile(ii, 16) -> fi, i16; tensorize(i16, j8, kk, by=mma_m16n8k{KI}_{IN})
    const int tid = wi * WM + wj * 32 + lane;

    extern __shared__ __align__(16) unsigned char shared[];
    // cache_shared(A, at=ko, vector=V) -> As
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*As)[TM][TK] = reinterpret_cast<__nv_bfloat16 (*)[TM][TK]>(shared);
    // cache_shared(B, at=ko, vector=V) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __nv_bfloat16 (*Bs)[TK][TN] = reinterpret_cast<__nv_bfloat16 (*)[TK][TN]>(shared + 98304);

    // cache_register(P, at=bj) -> Pf
    float Pf[4][4][2][4] = {};

    const auto load_shared = [&](int ko, int ahead) {
        #pragma unroll
        for (int part = 0; part < 8; ++part) {
            const int i = part * 32 + tid / 8;
            const int k = tid % 8;
            copy_async_or_zero<16>(&As[(ahead + ko) % STAGES][i][(k * 8) ^ ((i & 7) << 3)],
                                   &A[(bi * TM + i) * K + ahead * TK + ko * TK + k * 8],
                                   bi * TM + i < M && ahead * TK + ko * TK + k * 8 + 7 < K);
        }

        #pragma unroll
        for (int part = 0; part < 4; ++part) {
            const int k = part * 16 + tid / 16;
            const int j = tid % 16;
            copy_async_or_zero<16>(&Bs[(ahead + ko) % STAGES][k][(j * 8) ^ ((k & 7) << 3)],
                                   &B[(ahead * TK + ko * TK + k) * N + bj * TN + j * 8],
                                   ahead * TK + ko * TK + k < K && bj * TN + j * 8 + 7 < N);
        }
    };

    // tile(k, TK) -> ko, ki
    // pipeline(ko, STAGES)
    #pragma unroll
    for (int fill = 0; fill < 2; ++fill) {
        if (fill * 64 < K)
            load_shared(fill, 0);

        end_copies();
    }

    wait_copies<1>();
    __syncthreads();  // As and Bs are complete: written above, read below

    // cache_register(As, at=fk) -> Af
    __align__(4) __nv_bfloat16 Af[2][4][8];

    const auto load_Af = [&](int slot, int fk) {
        #pragma unroll
        for (int fi = 0; fi < 2; ++fi) {
            ldmatrix_a_bf16(Af[fk % 2][fi * 2],
                            &As[slot][wi * WM + fi * 32 + lane % 16][(fk * KI + (lane / 16) * 8) ^ ((lane & 7) << 3)]);
            ldmatrix_a_bf16(
                Af[fk % 2][fi * 2 + 1],
                &As[slot][wi * WM + fi * 32 + lane % 16 + 16][(fk * KI + (lane / 16) * 8) ^ ((lane & 7) << 3)]);
        }
    };

    load_Af(0, 0);

    // cache_register(Bs, at=fk) -> Bf
    __align__(4) __nv_bfloat16 Bf[2][4][2][4];

    const auto load_Bf = [&](int slot, int fk) {
        // tile(jj, 16) -> fj, jn
        #pragma unroll
        for (int fj = 0; fj < 4; ++fj) {
            // tile(jn, 8) -> nj, j8
            // tensorize(kk, nj, j8, by=[ldmatrix_b_{IN}, ldmatrix_b_trans_{IN}])
            ldmatrix_b_trans_bf16(
                Bf[fk % 2][fj][0],
                &Bs[slot][fk * KI + lane % 16][wj * WN + ((fj * 16 + (lane / 16) * 8) ^ ((lane & 7) << 3))]);
        }
    };

    load_Bf(0, 0);

    const auto multiply = [&](int slot) {
        #pragma unroll
        for (int fi = 0; fi < 2; ++fi) {
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    mma_m16n8k16_bf16(Pf[fi * 2][fj][nj], Af[slot][fi * 2], Bf[slot][fj][nj]);

            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    mma_m16n8k16_bf16(Pf[fi * 2 + 1][3 - fj][1 - nj], Af[slot][fi * 2 + 1], Bf[slot][3 - fj][1 - nj]);
        }
    };

    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        if (ko * TK + 128 < K)
            load_shared(ko, 2);

        end_copies();

        // tile(ki, KI) -> fk, kk
        // unroll(fk)
        // pipeline(fk, 2, across=ko)
        #pragma unroll
        for (int fk = 0; fk < 3; ++fk) {
            load_Af(ko % STAGES, fk + 1);
            load_Bf(ko % STAGES, fk + 1);
            multiply(fk % 2);
        }

        wait_copies<1>();
        __syncthreads();  // before the next ko overwrites As and Bs

        if (ko * TK + 64 < K) {
            load_Af((ko + 1) % STAGES, 0);
            load_Bf((ko + 1) % STAGES, 0);
        }

        multiply(1);
    }

    // cache_register(C, at=bj, vector=2) -> Cf
    __align__(4) __nv_bfloat16 Cf[4][4][2][4];
    #pragma unroll
    for (int fi = 0; fi < 2; ++fi) {
        const auto compute_Cf = [&](int slot, int fj, int nj) {
            #pragma unroll
            for (int i16_high = 0; i16_high < 2; ++i16_high)
                #pragma unroll
                for (int j8_low = 0; j8_low < 2; ++j8_low)
                    Cf[fi * 2 + slot][fj][nj][i16_high * 2 + j8_low] =
                        __float2bfloat16(Pf[fi * 2 + slot][fj][nj][i16_high * 2 + j8_low]);
        };

        #pragma unroll
        for (int fj = 0; fj < 4; ++fj)
            #pragma unroll
            for (int nj = 0; nj < 2; ++nj)
                compute_Cf(0, fj, nj);

        #pragma unroll
        for (int fj = 0; fj < 4; ++fj)
            #pragma unroll
            for (int nj = 0; nj < 2; ++nj)
                compute_Cf(1, 3 - fj, 1 - nj);
    }

    __nv_bfloat16* C_tile = &C[bi * TM * N + bj * TN];
    if (bj * TN + (TN - 1) < N && bi * TM + (TM - 1) < M) {
        #pragma unroll
        for (int fi = 0; fi < 2; ++fi) {
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    #pragma unroll
                    for (int i16_high = 0; i16_high < 2; ++i16_high)
                        store_vector<unsigned int>(
                            &C_tile[(wi * WM + fi * 32 + i16_high * 8 + lane / 4) * N + wj * WN + fj * 16 + nj * 8
                                    + (lane % 4) * 2],
                            &Cf[fi * 2][fj][nj][i16_high * 2]);

            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    #pragma unroll
                    for (int i16_high = 0; i16_high < 2; ++i16_high)
                        store_vector<unsigned int>(
                            &C_tile[(wi * WM + fi * 32 + i16_high * 8 + lane / 4 + 16) * N + wj * WN + (lane % 4) * 2
                                    - fj * 16 - nj * 8 + 56],
                            &Cf[fi * 2 + 1][3 - fj][1 - nj][i16_high * 2]);
        }
    } else {
        #pragma unroll
        for (int fi = 0; fi < 2; ++fi) {
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    if (bj * TN + wj * WN + fj * 16 + nj * 8 + (lane % 4) * 2 + 1 < N)
                        #pragma unroll
                        for (int i16_high = 0; i16_high < 2; ++i16_high)
                            if (bi * TM + wi * WM + fi * 32 + i16_high * 8 + lane / 4 < M)
                                store_vector<unsigned int>(
                                    &C_tile[(wi * WM + fi * 32 + i16_high * 8 + lane / 4) * N + wj * WN + fj * 16
                                            + nj * 8 + (lane % 4) * 2],
                                    &Cf[fi * 2][fj][nj][i16_high * 2]);

            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    if (bj * TN + wj * WN + (lane % 4) * 2 + 57 < fj * 16 + nj * 8 + N)
                        #pragma unroll
                        for (int i16_high = 0; i16_high < 2; ++i16_high)
                            if (bi * TM + wi * WM + fi * 32 + i16_high * 8 + lane / 4 + 16 < M)
                                store_vector<unsigned int>(
                                    &C_tile[(wi * WM + fi * 32 + i16_high * 8 + lane / 4 + 16) * N + wj * WN
                                            + (lane % 4) * 2 - fj * 16 - nj * 8 + 56],
                                    &Cf[fi * 2 + 1][3 - fj][1 - nj][i16_high * 2]);
        }
    }
}
