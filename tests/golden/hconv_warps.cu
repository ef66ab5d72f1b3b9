// needs sm_80 or later: mma_m16n8k16_f16

#include <cuda_fp16.h>

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

// D[i, k] = S[i, k]   by a warp; S: f16[16, 16] in shared, D: f16[16, 16]
// S points to the 16 bytes of this lane: S[i, k] in shared at lane i + k / 8 * 16, element k % 8
static __device__ __forceinline__ void ldmatrix_a_f16(void* D, const void* S)
{
    unsigned* D_registers = static_cast<unsigned*>(D);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(D_registers[0]), "=r"(D_registers[1]), "=r"(D_registers[2]), "=r"(D_registers[3])
        : "r"((unsigned)__cvta_generic_to_shared(S))
        : "memory");
}

// D[k, j] = S[k, j]   by a warp; S: f16[16, 16] in shared, D: f16[16, 16]
// S points to the 16 bytes of this lane: S[k, j] in shared at lane j % 8 + k / 8 * 8 + j / 8 * 16, element k % 8
static __device__ __forceinline__ void ldmatrix_b_f16(void* D, const void* S)
{
    unsigned* D_registers = static_cast<unsigned*>(D);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(D_registers[0]), "=r"(D_registers[1]), "=r"(D_registers[2]), "=r"(D_registers[3])
        : "r"((unsigned)__cvta_generic_to_shared(S))
        : "memory");
}

// C[i, j] += sum[k](f32(A[i, k]) * f32(B[k, j]))   by a warp; A: f16[16, 16], B: f16[16, 8], C: f32[16, 8]
static __device__ __forceinline__ void mma_m16n8k16_f16(float* C, const void* A, const void* B)
{
    const unsigned* A_registers = static_cast<const unsigned*>(A);
    const unsigned* B_registers = static_cast<const unsigned*>(B);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3])
        : "r"(A_registers[0]), "r"(A_registers[1]), "r"(A_registers[2]), "r"(A_registers[3]), "r"(B_registers[0]),
            "r"(B_registers[1]));
}

// hconv: grid (ceil(W/8)*ceil(F/64), ceil(H/8), ceil(B/2)), block (32, 2, 2), 73728 bytes of shared memory (dynamic)
// for K[F, 3, 3, C], arrays of fewer than 2^31 - 2^20 elements, as X[B + 1, H + 11, W + 10, C + 56] and K[F + 63, 4, 3,
//     C + 56] would have, ceil(W/8)*ceil(F/64) <= 2147483647, ceil(H/8) <= 65535, ceil(B/2) <= 65535
// arrays X[B][H][W][C], K[F][3][3][C], Y[B][H][W][F]; Y overlaps no other
// needs C % 8 == 0, F % 2 == 0, X aligned to 16 bytes, K aligned to 16 bytes, Y aligned to 4 bytes
extern "C" __global__ void __launch_bounds__(128)
hconv(const __half* __restrict__ X, const __half* __restrict__ K, __half* __restrict__ Y,
      int B, int H, int W, int C, int F)
{
    constexpr int TN = 2, TY = 8, TX = 8, TF = 64, TC = 64, WM = 64, WF = 32, STAGES = 3;
    // boxes_of_pixels(TN, TY, TX, TF, TC) -> bn, by, bx, bf, co, tp, tf, ci; bind_boxes(bn, by, bx, bf)
    const int bn = blockIdx.z;
    const int by = blockIdx.y;
    const int bx = blockIdx.x / ((F + TF - 1) / TF);
    const int bf = blockIdx.x % ((F + TF - 1) / TF);
    const int wi = threadIdx.z;    // tile(tp, WM) -> wi, ii; bind(wi, thread.z)
    const int wj = threadIdx.y;    // tile(tf, WF) -> wj, jj; bind(wj, thread.y)
    const int lane = threadIdx.x;  // tile(ii, 16) -> fi, i16; tensorize(i16, j8, kk, by=mma_m16n8k16_{IN})
    const int tid = wi * WM + wj * WF + lane;

    extern __shared__ __align__(16) unsigned char shared[];
    // cache_shared(X, at=q, vector=8) -> Xs
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Xs)[TN][TY][TX][TC] = reinterpret_cast<__half (*)[TN][TY][TX][TC]>(shared);
    // cache_shared(K, at=q, vector=8) -> Ks
    // element c of row r lies at c ^ ((r & 7) << 3)
    __half (*Ks)[TF][TC] = reinterpret_cast<__half (*)[TF][TC]>(shared + 49152);

    // cache_register(P, at=bf) -> Pf
    float Pf[4][2][2][4] = {};

    for (int co = 0; co < (C + TC - 1) / TC; ++co) {
        const auto load_shared = [&](int slot, int slot2) {
            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int axis1 = part * 2 + tid / 64;
                const int axis2 = (tid / 8) % 8;
                const int c = tid % 8;

                #pragma unroll
                for (int n = 0; n < 2; ++n)
                    copy_async_or_zero<16>(
                        &Xs[slot2][n][axis1][axis2][(c * 8) ^ ((axis2 & 7) << 3)],
                        &X[(((bn * TN + n) * H + by * TY + axis1 + slot - 1) * W + bx * TX + axis2 + slot2 - 1) * C
                           + co * TC + c * 8],
                        bn * TN + n < B && by * TY + axis1 + slot >= 1 && by * TY + axis1 + slot < H + 1
                            && bx * TX + axis2 + slot2 >= 1 && bx * TX + axis2 + slot2 < W + 1
                            && co * TC + c * 8 + 7 < C);
            }

            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int f = part * 16 + tid / 8;
                const int c = tid % 8;
                copy_async_or_zero<16>(&Ks[slot2][f][(c * 8) ^ ((f & 7) << 3)],
                                       &K[(((bf * TF + f) * 3 + slot) * 3 + slot2) * C + co * TC + c * 8],
                                       bf * TF + f < F && co * TC + c * 8 + 7 < C);
            }
        };

        // collapse(r, s) -> q
        // pipeline(q, STAGES)
        #pragma unroll
        for (int fill = 0; fill < 2; ++fill) {
            load_shared(0, fill);
            end_copies();
        }

        wait_copies<1>();
        __syncthreads();  // Xs and Ks are complete: written above, read below

        for (int q = 0; q < 9; ++q) {
            if (q < 7)
                load_shared((q + 2) / 3, (q + 2) % STAGES);

            end_copies();

            if (bn * TN + (TN - 1) < B) {
                // tile(ci, 16) -> fk, kk
                // unroll(fk)
                #pragma unroll
                for (int fk = 0; fk < 4; ++fk) {
                    // cache_register(Xs, at=fk) -> Xf
                    __align__(4) __half Xf[4][8];
                    #pragma unroll
                    for (int fi = 0; fi < 4; ++fi)
                        ldmatrix_a_f16(
                            Xf[fi],
                            &Xs[q % STAGES][wi][fi * 2
                                + lane % 16 / 8][lane % 8][(fk * 16 + (lane / 16) * 8) ^ ((lane & 7) << 3)]);

                    // cache_register(Ks, at=fk) -> Kf
                    __align__(4) __half Kf[2][2][4];
                    // tile(jj, 16) -> fj, jn
                    #pragma unroll
                    for (int fj = 0; fj < 2; ++fj) {
                        // tile(jn, 8) -> nj, j8
                        // tensorize(kk, nj, j8, by=ldmatrix_b_{IN})
                        ldmatrix_b_f16(
                            Kf[fj][0],
                            &Ks[q % STAGES][wj * WF + fj * 16 + (lane / 16) * 8
                                            + lane % 8][(fk * 16 + ((lane / 8) % 2) * 8) ^ ((lane & 7) << 3)]);
                    }

                    #pragma unroll
                    for (int fi = 0; fi < 4; ++fi)
                        #pragma unroll
                        for (int fj = 0; fj < 2; ++fj)
                            #pragma unroll
                            for (int nj = 0; nj < 2; ++nj)
                                mma_m16n8k16_f16(Pf[fi][fj][nj], Xf[fi], Kf[fj][nj]);
                }
            } else {
                #pragma unroll
                for (int fk = 0; fk < 4; ++fk) {
                    __align__(4) __half Xf[4][8];
                    #pragma unroll
                    for (int fi = 0; fi < 4; ++fi)
                        ldmatrix_a_f16(
                            Xf[fi],
                            &Xs[q % STAGES][wi][fi * 2
                                + lane % 16 / 8][lane % 8][(fk * 16 + (lane / 16) * 8) ^ ((lane & 7) << 3)]);

                    __align__(4) __half Kf[2][2][4];
                    #pragma unroll
                    for (int fj = 0; fj < 2; ++fj)
                        ldmatrix_b_f16(
                            Kf[fj][0],
                            &Ks[q % STAGES][wj * WF + fj * 16 + (lane / 16) * 8
                                            + lane % 8][(fk * 16 + ((lane / 8) % 2) * 8) ^ ((lane & 7) << 3)]);

                    if (bn * TN + wi < B)
                        #pragma unroll
                        for (int fi = 0; fi < 4; ++fi)
                            #pragma unroll
                            for (int fj = 0; fj < 2; ++fj)
                                #pragma unroll
                                for (int nj = 0; nj < 2; ++nj)
                                    mma_m16n8k16_f16(Pf[fi][fj][nj], Xf[fi], Kf[fj][nj]);
                }
            }

            wait_copies<1>();
            __syncthreads();  // before the next q overwrites Xs and Ks
        }
    }

    if (bn * TN + wi < B && bx * TX + lane / 4 < W) {
        // cache_register(Y, at=bf, vector=2) -> Yf
        __align__(4) __half Yf[4][2][2][4];
        #pragma unroll
        for (int fi = 0; fi < 4; ++fi)
            #pragma unroll
            for (int fj = 0; fj < 2; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    #pragma unroll
                    for (int i16_high = 0; i16_high < 2; ++i16_high)
                        #pragma unroll
                        for (int j8_low = 0; j8_low < 2; ++j8_low)
                            Yf[fi][fj][nj][i16_high * 2 + j8_low] = __float2half(Pf[fi][fj][nj][i16_high * 2 + j8_low]);

        __half* Y_tile = &Y[((bn * TN * H + by * TY) * W + bx * TX) * F + bf * TF];
        if (bf * TF + (TF - 1) < F && by * TY + (TY - 1) < H) {
            #pragma unroll
            for (int fi = 0; fi < 4; ++fi)
                #pragma unroll
                for (int fj = 0; fj < 2; ++fj)
                    #pragma unroll
                    for (int nj = 0; nj < 2; ++nj)
                        #pragma unroll
                        for (int i16_high = 0; i16_high < 2; ++i16_high)
                            store_vector<unsigned int>(
                                &Y_tile[((wi * H + fi * 2 + i16_high) * W + lane / 4) * F + wj * WF + fj * 16 + nj * 8
                                        + (lane % 4) * 2],
                                &Yf[fi][fj][nj][i16_high * 2]);
        } else {
            #pragma unroll
            for (int fi = 0; fi < 4; ++fi)
                #pragma unroll
                for (int fj = 0; fj < 2; ++fj)
                    #pragma unroll
                    for (int nj = 0; nj < 2; ++nj)
                        if (bf * TF + wj * WF + fj * 16 + nj * 8 + (lane % 4) * 2 + 1 < F)
                            #pragma unroll
                            for (int i16_high = 0; i16_high < 2; ++i16_high)
                                if (by * TY + fi * 2 + i16_high < H)
                                    store_vector<unsigned int>(
                                        &Y_tile[((wi * H + fi * 2 + i16_high) * W + lane / 4) * F + wj * WF + fj * 16
                                                + nj * 8 + (lane % 4) * 2],
                                        &Yf[fi][fj][nj][i16_high * 2]);
        }
    }
}
