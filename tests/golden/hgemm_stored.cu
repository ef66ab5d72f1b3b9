// needs sm_80 or later: mma_m16n8k8_tf32

// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
}

// The number with 10 fraction bits next to x, ties away from 0.
__device__ __forceinline__ float round_tf32(float x)
{
    return isfinite(x) ? __uint_as_float((__float_as_uint(x) + 0x1000) & 0xffffe000) : x;
}

// An asynchronous copy of 4, 8 or 16 bytes from global to shared memory, of 16 past the L1 cache; plain before sm_80.
template <int bytes> __device__ __forceinline__ void copy_async(void* to, const void* from)
{
#if __CUDA_ARCH__ >= 800
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(bytes) : "memory");
#else
    for (int i = 0; i < bytes / 4; ++i)
        static_cast<int*>(to)[i] = static_cast<const int*>(from)[i];
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

// D[i, k] = S[i, k]   by a warp; S: f32[16, 8] in shared, D: f32[16, 8]
// S points to the 16 bytes of this lane: S[i, k] in shared at lane i + k / 4 * 16, element k % 4
static __device__ __forceinline__ void ldmatrix_a_tf32(float* D, const void* S)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(reinterpret_cast<unsigned&>(D[0])), "=r"(reinterpret_cast<unsigned&>(D[1])),
            "=r"(reinterpret_cast<unsigned&>(D[2])), "=r"(reinterpret_cast<unsigned&>(D[3]))
        : "r"((unsigned)__cvta_generic_to_shared(S))
        : "memory");
}

// D[k, j] = S[k, j]   by a warp; S: f32[8, 16] in shared, D: f32[8, 16]
// S points to the 16 bytes of this lane: S[k, j] in shared at lane j % 8 + k / 4 * 8 + j / 8 * 16, element k % 4
static __device__ __forceinline__ void ldmatrix_b_tf32(float* D, const void* S)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(reinterpret_cast<unsigned&>(D[0])), "=r"(reinterpret_cast<unsigned&>(D[1])),
            "=r"(reinterpret_cast<unsigned&>(D[2])), "=r"(reinterpret_cast<unsigned&>(D[3]))
        : "r"((unsigned)__cvta_generic_to_shared(S))
        : "memory");
}

// C[i, j] += sum[k](A[i, k] * B[k, j])   by a warp; A: f32[16, 8], B: f32[8, 8], C: f32[16, 8]
static __device__ __forceinline__ void mma_m16n8k8_tf32(float* C, const float* A, const float* B)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3])
        : "r"(__float_as_uint(A[0])), "r"(__float_as_uint(A[1])), "r"(__float_as_uint(A[2])),
            "r"(__float_as_uint(A[3])), "r"(__float_as_uint(B[0])), "r"(__float_as_uint(B[1])));
}

// hgemm_tf32_stored_R: grid (ceil(((K + 31)/32)/8), ((M + 255)/256)*32), block (256)
// for arrays of fewer than 2^31 - 2^20 elements, ((M + 255)/256)*32 <= 65535
// arrays A[M][K], R[ceil(M/256)*256][ceil(K/32)*32]; R overlaps no other
// R is scratch memory: float[ceil(M/256)*256][ceil(K/32)*32]
extern "C" __global__ void __launch_bounds__(256)
hgemm_tf32_stored_R(const float* __restrict__ A, float* __restrict__ R, int M, int K)
{
    const int ri = blockIdx.y;  // copy_rows(A, R.r, R.c) -> ri, ui, rk, uk
    const int rk = blockIdx.x;
    const int uk = threadIdx.x;

    if (rk * 256 + uk < ((K + 31) / 32) * 32) {
        float A_reg[8];
        #pragma unroll
        for (int ui = 0; ui < 8; ++ui)
            A_reg[ui] = rk * 256 + uk < K && ri * 8 + ui < M ? A[(ri * 8 + ui) * K + rk * 256 + uk] : 0.0f;

        #pragma unroll
        for (int ui = 0; ui < 8; ++ui)
            R[(ri * 8 + ui) * (((K + 31) / 32) * 32) + rk * 256 + uk] =
                ri * 8 + ui < M && rk * 256 + uk < K ? round_tf32(A_reg[ui]) : 0.0f;
    }
}

// hgemm_tf32_stored_S: grid (((N + 127)/128)*4, ceil(K/32)), block (32, 8), 4224 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(K/32) <= 65535
// arrays B[K][N], S[ceil(N/128)*128][ceil(K/32)*32]; S overlaps no other
// S is scratch memory: float[ceil(N/128)*128][ceil(K/32)*32]
extern "C" __global__ void __launch_bounds__(256)
hgemm_tf32_stored_S(const float* __restrict__ B, float* __restrict__ S, int K, int N)
{
    const int pk = blockIdx.y;  // transpose_tiles(B, B.shared, S.r, S.c) -> pk, qk, pj, rj, qj
    const int pj = blockIdx.x;
    const int qj = threadIdx.y;
    const int qk = threadIdx.x;

    __shared__ float B_shared[32][33];

    #pragma unroll
    for (int part = 0; part < 4; ++part)
        B_shared[part * 8 + qj][qk] =
            pj * 32 + qk < N && pk * 32 + part * 8 + qj < K ? B[(pk * 32 + part * 8 + qj) * N + pj * 32 + qk] : 0.0f;

    __syncthreads();  // B.shared is complete: written above, read below

    #pragma unroll
    for (int rj = 0; rj < 4; ++rj)
        S[(pj * 32 + rj * 8 + qj) * (((K + 31) / 32) * 32) + pk * 32 + qk] =
            pk * 32 + qk < K && pj * 32 + rj * 8 + qj < N ? round_tf32(B_shared[qk][rj * 8 + qj]) : 0.0f;
}

// hgemm_tf32_stored_C: grid (ceil(N/128), ceil(M/256)), block (32, 2, 4), 147456 bytes of shared memory (dynamic)
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/256) <= 65535
// arrays C[M][N], R[ceil(M/256)*256][ceil(K/32)*32], S[ceil(N/128)*128][ceil(K/32)*32]; C overlaps no other
// needs N % 2 == 0, R aligned to 16 bytes, S aligned to 16 bytes, C aligned to 8 bytes
// R is scratch memory: float[ceil(M/256)*256][ceil(K/32)*32]
// S is scratch memory: float[ceil(N/128)*128][ceil(K/32)*32]
extern "C" __global__ void __launch_bounds__(256)
hgemm_tf32_stored_C(float* __restrict__ C, const float* __restrict__ R, const float* __restrict__ S,
                    int M, int K, int N)
{
    constexpr int TM = 256, TN = 128, TK = 32, WM = 64, WN = 64, KI = 8, STAGES = 3;
    const int bi = blockIdx.y;     // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;     // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int wi = threadIdx.z;    // tile(ti, WM) -> wi, ii; bind(wi, thread.z)
    const int wj = threadIdx.y;    // tile(tj, WN) -> wj, jj; bind(wj, thread.y)
    const int lane = threadIdx.x;  // tile(ii, 16) -> fi, i16; tensorize(i16, j8, kk, by=mma_m16n8k{KI}_{IN})
    const int tid = wi * WM + wj * 32 + lane;

    extern __shared__ __align__(16) unsigned char shared[];
    // cache_shared(R, at=ko, vector=4) -> As
    // element c of row r lies at c ^ ((r & 7) << 2)
    float (*As)[TM][TK] = reinterpret_cast<float (*)[TM][TK]>(shared);
    // cache_shared(S, at=ko, vector=4) -> Bs
    // element c of row r lies at c ^ ((r & 7) << 2)
    float (*Bs)[TN][TK] = reinterpret_cast<float (*)[TN][TK]>(shared + 98304);

    const int i0 = wi * WM + lane / 4;
    const int j0 = wj * WN + (lane % 4) * 2;

    // cache_register(C, at=bj, vector=2) -> Cf
    float Cf[4][4][2][4] = {};

    const auto load_shared = [&](int ko, int ahead) {
        #pragma unroll
        for (int part = 0; part < 8; ++part) {
            const int r = part * 32 + tid / 8;
            const int c = tid % 8;
            copy_async<16>(&As[(ahead + ko) % STAGES][r][(c * 4) ^ ((r & 7) << 2)],
                           &R[(bi * TM + r) * (((K + TK - 1) / TK) * TK) + ahead * TK + ko * TK + c * 4]);
        }

        #pragma unroll
        for (int part = 0; part < 4; ++part) {
            const int c = part * 32 + tid / 8;
            const int r = tid % 8;
            copy_async<16>(&Bs[(ahead + ko) % STAGES][c][(r * 4) ^ ((c & 7) << 2)],
                           &S[(bj * TN + c) * (((K + TK - 1) / TK) * TK) + ahead * TK + ko * TK + r * 4]);
        }
    };

    // tile(k, TK) -> ko, ki
    // pipeline(ko, STAGES)
    #pragma unroll
    for (int fill = 0; fill < 2; ++fill) {
        if (fill * 32 < K)
            load_shared(fill, 0);

        end_copies();
    }

    wait_copies<1>();
    __syncthreads();  // As and Bs are complete: written above, read below

    // cache_register(As, at=fk) -> Af
    float Af[2][4][4];

    const auto load_Af = [&](int slot, int fk) {
        #pragma unroll
        for (int fi = 0; fi < 2; ++fi) {
            ldmatrix_a_tf32(Af[fk % 2][fi * 2],
                            &As[slot][wi * WM + fi * 32 + lane % 16][(fk * KI + (lane / 16) * 4) ^ ((lane & 7) << 2)]);
            ldmatrix_a_tf32(
                Af[fk % 2][fi * 2 + 1],
                &As[slot][wi * WM + fi * 32 + lane % 16 + 16][(fk * KI + (lane / 16) * 4) ^ ((lane & 7) << 2)]);
        }
    };

    load_Af(0, 0);

    // cache_register(Bs, at=fk) -> Bf
    float Bf[2][4][2][2];

    const auto load_Bf = [&](int slot, int fk) {
        // tile(jj, 16) -> fj, jn
        #pragma unroll
        for (int fj = 0; fj < 4; ++fj) {
            // tile(jn, 8) -> nj, j8
            // tensorize(kk, nj, j8, by=ldmatrix_b_{IN})
            ldmatrix_b_tf32(
                Bf[fk % 2][fj][0],
                &Bs[slot][wj * WN + fj * 16 + (lane / 16) * 8
                          + lane % 8][(fk * KI + ((lane / 8) % 2) * 4) ^ ((lane & 7) << 2)]);
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
                    mma_m16n8k8_tf32(Cf[fi * 2][fj][nj], Af[slot][fi * 2], Bf[slot][fj][nj]);

            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    mma_m16n8k8_tf32(Cf[fi * 2 + 1][3 - fj][1 - nj], Af[slot][fi * 2 + 1], Bf[slot][3 - fj][1 - nj]);
        }
    };

    for (int ko = 0; ko < (K + TK - 1) / TK; ++ko) {
        if (ko * TK + 64 < K)
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

        if (ko * TK + 32 < K) {
            load_Af((ko + 1) % STAGES, 0);
            load_Bf((ko + 1) % STAGES, 0);
        }

        multiply(1);
    }

    float* C_tile = &C[bi * TM * N + bj * TN];
    if (bj * TN + (TN - 1) < N && bi * TM + (TM - 1) < M) {
        #pragma unroll
        for (int fi = 0; fi < 2; ++fi) {
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    #pragma unroll
                    for (int i16_high = 0; i16_high < 2; ++i16_high)
                        store_vector<float2>(&C_tile[(fi * 32 + i16_high * 8 + i0) * N + fj * 16 + nj * 8 + j0],
                                             &Cf[fi * 2][fj][nj][i16_high * 2]);

            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    #pragma unroll
                    for (int i16_high = 0; i16_high < 2; ++i16_high)
                        store_vector<float2>(
                            &C_tile[(fi * 32 + i16_high * 8 + i0 + 16) * N + j0 - fj * 16 - nj * 8 + 56],
                            &Cf[fi * 2 + 1][3 - fj][1 - nj][i16_high * 2]);
        }
    } else {
        #pragma unroll
        for (int fi = 0; fi < 2; ++fi) {
            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    if (bj * TN + fj * 16 + nj * 8 + j0 + 1 < N)
                        #pragma unroll
                        for (int i16_high = 0; i16_high < 2; ++i16_high)
                            if (bi * TM + fi * 32 + i16_high * 8 + i0 < M)
                                store_vector<float2>(&C_tile[(fi * 32 + i16_high * 8 + i0) * N + fj * 16 + nj * 8 + j0],
                                                     &Cf[fi * 2][fj][nj][i16_high * 2]);

            #pragma unroll
            for (int fj = 0; fj < 4; ++fj)
                #pragma unroll
                for (int nj = 0; nj < 2; ++nj)
                    if (bj * TN + j0 + 57 < fj * 16 + nj * 8 + N)
                        #pragma unroll
                        for (int i16_high = 0; i16_high < 2; ++i16_high)
                            if (bi * TM + fi * 32 + i16_high * 8 + i0 + 16 < M)
                                store_vector<float2>(
                                    &C_tile[(fi * 32 + i16_high * 8 + i0 + 16) * N + j0 - fj * 16 - nj * 8 + 56],
                                    &Cf[fi * 2 + 1][3 - fj][1 - nj][i16_high * 2]);
        }
    }
}
