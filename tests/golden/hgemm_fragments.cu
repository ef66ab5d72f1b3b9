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

// hgemm: grid (ceil(N/32), ceil(M/64)), block (32, 4, 4)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/64) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs N % 2 == 0, C aligned to 4 bytes
extern "C" __global__ void __launch_bounds__(512)
hgemm(const __nv_bfloat16* __restrict__ A,
      const __nv_bfloat16* __restrict__ B,
      __nv_bfloat16* __restrict__ C,
      int M, int K, int N)
{
    constexpr int TM = 64, TN = 32, KI = 16;
    const int bi = blockIdx.y;     // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;     // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;    // tile(ti, 16) -> wi, i16; bind(wi, thread.z)
    const int wj = threadIdx.y;    // tile(tj, 8) -> wj, j8; bind(wj, thread.y)
    const int lane = threadIdx.x;  // tensorize(i16, j8, kk, by=mma_m16n8k{KI}_{IN})

    // cache_register(P, at=wj) -> Pf
    float Pf[4] = {};
    __nv_bfloat16* C_tile = &C[bi * TM * N + bj * TN];
    if (bi * TM + (TM - 1) < M && bj * TN + (TN - 1) < N) {
        // tile(k, KI) -> ko, kk
        for (int ko = 0; ko < (K + KI - 1) / KI; ++ko) {
            // cache_register(A, at=ko) -> Af
            __align__(4) __nv_bfloat16 Af[8];
            #pragma unroll
            for (int i16_high = 0; i16_high < 2; ++i16_high)
                #pragma unroll
                for (int kk_high = 0; kk_high < 2; ++kk_high)
                    #pragma unroll
                    for (int kk_low = 0; kk_low < 2; ++kk_low)
                        Af[kk_high * 4 + i16_high * 2 + kk_low] =
                            __float2bfloat16((ko * KI + kk_high * 8 + (lane % 4) * 2 + kk_low < K
                                ? __bfloat162float(A[(bi * TM + wi * 16 + i16_high * 8 + lane / 4) * K + ko * KI
                                                     + kk_high * 8 + (lane % 4) * 2 + kk_low])
                                : 0.0f));

            // cache_register(B, at=ko) -> Bf
            __align__(4) __nv_bfloat16 Bf[4];
            #pragma unroll
            for (int kk_high = 0; kk_high < 2; ++kk_high)
                #pragma unroll
                for (int kk_low = 0; kk_low < 2; ++kk_low)
                    Bf[kk_high * 2 + kk_low] =
                        __float2bfloat16((ko * KI + kk_high * 8 + (lane % 4) * 2 + kk_low < K
                            ? __bfloat162float(B[(ko * KI + kk_high * 8 + (lane % 4) * 2 + kk_low) * N + bj * TN
                                                 + wj * 8 + lane / 4])
                            : 0.0f));

            mma_m16n8k16_bf16(Pf, Af, Bf);
        }

        // cache_register(C, at=wj, vector=2) -> Cf
        __align__(4) __nv_bfloat16 Cf[4];
        #pragma unroll
        for (int i16_high = 0; i16_high < 2; ++i16_high)
            #pragma unroll
            for (int j8_low = 0; j8_low < 2; ++j8_low)
                Cf[i16_high * 2 + j8_low] = __float2bfloat16(Pf[i16_high * 2 + j8_low]);

        #pragma unroll
        for (int i16_high = 0; i16_high < 2; ++i16_high)
            store_vector<unsigned int>(&C_tile[(wi * 16 + i16_high * 8 + lane / 4) * N + wj * 8 + (lane % 4) * 2],
                                       &Cf[i16_high * 2]);
    } else {
        for (int ko = 0; ko < (K + KI - 1) / KI; ++ko) {
            __align__(4) __nv_bfloat16 Af[8];
            #pragma unroll
            for (int i16_high = 0; i16_high < 2; ++i16_high)
                if (bi * TM + wi * 16 + i16_high * 8 + lane / 4 < M)
                    #pragma unroll
                    for (int kk_high = 0; kk_high < 2; ++kk_high)
                        #pragma unroll
                        for (int kk_low = 0; kk_low < 2; ++kk_low)
                            Af[kk_high * 4 + i16_high * 2 + kk_low] =
                                __float2bfloat16((ko * KI + kk_high * 8 + (lane % 4) * 2 + kk_low < K
                                    ? __bfloat162float(A[(bi * TM + wi * 16 + i16_high * 8 + lane / 4) * K + ko * KI
                                                         + kk_high * 8 + (lane % 4) * 2 + kk_low])
                                    : 0.0f));

            __align__(4) __nv_bfloat16 Bf[4];
            if (bj * TN + wj * 8 + lane / 4 < N)
                #pragma unroll
                for (int kk_high = 0; kk_high < 2; ++kk_high)
                    #pragma unroll
                    for (int kk_low = 0; kk_low < 2; ++kk_low)
                        Bf[kk_high * 2 + kk_low] =
                            __float2bfloat16((ko * KI + kk_high * 8 + (lane % 4) * 2 + kk_low < K
                                ? __bfloat162float(B[(ko * KI + kk_high * 8 + (lane % 4) * 2 + kk_low) * N + bj * TN
                                                     + wj * 8 + lane / 4])
                                : 0.0f));

            mma_m16n8k16_bf16(Pf, Af, Bf);
        }

        __align__(4) __nv_bfloat16 Cf[4];
        #pragma unroll
        for (int i16_high = 0; i16_high < 2; ++i16_high)
            #pragma unroll
            for (int j8_low = 0; j8_low < 2; ++j8_low)
                Cf[i16_high * 2 + j8_low] = __float2bfloat16(Pf[i16_high * 2 + j8_low]);

        if (bj * TN + wj * 8 + (lane % 4) * 2 + 1 < N)
            #pragma unroll
            for (int i16_high = 0; i16_high < 2; ++i16_high)
                if (bi * TM + wi * 16 + i16_high * 8 + lane / 4 < M)
                    store_vector<unsigned int>(
                        &C_tile[(wi * 16 + i16_high * 8 + lane / 4) * N + wj * 8 + (lane % 4) * 2], &Cf[i16_high * 2]);
    }
}
