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

// hgemm: grid (ceil(N/128), ceil(M/128)), block (32, 2, 2), 32768 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, as A[M + 127, K + 56] and B[K + 63, N + 120] would have, ceil(M/128)
//     <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 8 == 0, N % 8 == 0, A aligned to 16 bytes, B aligned to 16 bytes, C aligned to 4 bytes
extern "C" __global__ void __launch_bounds__(128)
hgemm(const __nv_bfloat16* __restrict__ A,
      const __nv_bfloat16* __restrict__ B,
      __nv_bfloat16* __restrict__ C,
      int M, int K, int N)
{
    constexpr int TM = 128, TN = 128, TK = 64, WM = 64, WN = 64, KI = 16;
    const int bi = blockIdx.y;     // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;     // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;    // tile(ti, WM) -> wi, ii; bind(wi, thread.z)
    const int wj = threadIdx.y;    // tile(tj, WN) -> wj, jj; bind(wj, thread.y)
    const int lane = threadIdx.x;  // tile(ii, 16) -> fi, i16; tensorize(i16, j8, kk, by=mma_m16n8k{KI}_{IN})
    const int tid = wi * WM + wj * 32 + lane;

    // cache_shared(A, at=ko, vector=V) -> As
    // element c of row r lies at c ^ ((r & 7) << 3)
    __shared__ __align__(16) __nv_bfloat16 As[TM][TK];
    // cache_shared(B, at=ko, vector=V) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __shared__ __align__(16) __nv_bfloat16 Bs[TK][TN];

    // cache_register(P, at=bj) -> Pf
    float Pf[4][4][2][4] = {};

    // tile(k, TK) -> ko, ki
    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        #pragma unroll
        for (int part = 0; part < 8; ++part) {
            const int i = part * 16 + tid / 8;
            const int k = tid % 8;
            *reinterpret_cast<uint4*>(&As[i][(k * 8) ^ ((i & 7) << 3)]) =
                bi * TM + i < M && ko * TK + k * 8 + 7 < K
                ? *reinterpret_cast<const uint4*>(&A[(bi * TM + i) * K + ko * TK + k * 8])
                : uint4{};
        }

        #pragma unroll
        for (int part = 0; part < 8; ++part) {
            const int k = part * 8 + tid / 16;
            const int j = tid % 16;
            *reinterpret_cast<uint4*>(&Bs[k][(j * 8) ^ ((k & 7) << 3)]) =
                ko * TK + k < K && bj * TN + j * 8 + 7 < N
                ? *reinterpret_cast<const uint4*>(&B[(ko * TK + k) * N + bj * TN + j * 8])
                : uint4{};
        }

        __syncthreads();  // As and Bs are complete: written above, read below

        // tile(ki, KI) -> fk, kk
        // unroll(fk)
        #pragma unroll
        for (int fk = 0; fk < 4; ++fk) {
            // cache_register(As, at=fk) -> Af
            __align__(4) __nv_bfloat16 Af[4][8];
            #pragma unroll
            for (int fi = 0; fi < 4; ++fi)
                ldmatrix_a_bf16(Af[fi],
                                &As[wi * WM + fi * 16 + lane % 16][(fk * KI + (lane / 16) * 8) ^ ((lane & 7) << 3)]);

            // cache_register(Bs, at=fk) -> Bf
            __align__(4) __nv_bfloat16 Bf[4][2][4];
            // tile(jj, 16) -> fj, jn
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj) {
                // tile(jn, 8) -> nj, j8
                // tensorize(kk, nj, j8, by=[ldmatrix_b_{IN}, ldmatrix_b_trans_{IN}])
                ldmatrix_b_trans_bf16(
                    Bf[fj][0], &Bs[fk * KI + lane % 16][wj * WN + ((fj * 16 + (lane / 16) * 8) ^ ((lane & 7) << 3))]);
            }

            #pragma unroll
            for (int fi = 0; fi < 4; ++fi)
                #pragma unroll
                for (int fj = 0; fj < 4; ++fj)
                    #pragma unroll
                    for (int nj = 0; nj < 2; ++nj)
                        mma_m16n8k16_bf16(Pf[fi][fj][nj], Af[fi], Bf[fj][nj]);
        }

        __syncthreads();  // before the next ko overwrites As and Bs
    }

    // cache_register(C, at=bj, vector=2) -> Cf
    __align__(4) __nv_bfloat16 Cf[4][4][2][4];
    #pragma unroll
    for (int fi = 0; fi < 4; ++fi)
        #pragma unroll
        for (int fj = 0; fj < 4; ++fj)
            #pragma unroll
            for (int nj = 0; nj < 2; ++nj)
                #pragma unroll
                for (int i16_high = 0; i16_high < 2; ++i16_high)
                    #pragma unroll
                    for (int j8_low = 0; j8_low < 2; ++j8_low)
                        Cf[fi][fj][nj][i16_high * 2 + j8_low] = __float2bfloat16(Pf[fi][fj][nj][i16_high * 2 + j8_low]);

    __nv_bfloat16* C_tile = &C[bi * TM * N + bj * TN];
    if (bj * TN + (TN - 1) < N && bi * TM + (TM - 1) < M) {
        #pragma unroll
        for (int fi = 0; fi < 4; ++fi)
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    #pragma unroll
                    for (int i16_high = 0; i16_high < 2; ++i16_high)
                        store_vector<unsigned int>(
                            &C_tile[(wi * WM + fi * 16 + i16_high * 8 + lane / 4) * N + wj * WN + fj * 16 + nj * 8
                                    + (lane % 4) * 2],
                            &Cf[fi][fj][nj][i16_high * 2]);
    } else {
        #pragma unroll
        for (int fi = 0; fi < 4; ++fi)
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    if (bj * TN + wj * WN + fj * 16 + nj * 8 + (lane % 4) * 2 + 1 < N)
                        #pragma unroll
                        for (int i16_high = 0; i16_high < 2; ++i16_high)
                            if (bi * TM + wi * WM + fi * 16 + i16_high * 8 + lane / 4 < M)
                                store_vector<unsigned int>(
                                    &C_tile[(wi * WM + fi * 16 + i16_high * 8 + lane / 4) * N + wj * WN + fj * 16
                                            + nj * 8 + (lane % 4) * 2],
                                    &Cf[fi][fj][nj][i16_high * 2]);
    }
}
