// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
}

// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
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

// conv2d_K_global: grid (ceil(F/32), ceil(C/8)), block (32, 8)
// for K[F, C, 3, 3], arrays of fewer than 2^31 - 2^20 elements, ceil(C/8) <= 65535
// arrays K[F][C][3][3], K_global[C*9][F]; K_global overlaps no other
// K_global is scratch memory: float[C*9][F]
extern "C" __global__ void __launch_bounds__(256)
conv2d_K_global(const float* __restrict__ K, float* __restrict__ K_global, int C, int F)
{
    const int kf = blockIdx.x;  // transpose_filters()
    const int kc = blockIdx.y;
    const int kw = threadIdx.y;
    const int kl = threadIdx.x;

    if (kf * 32 + kl < F && kc * 8 + kw < C)
        for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s)
                K_global[(kc * 72 + kw * 9 + r * 3 + s) * F + kf * 32 + kl] =
                    K[(((kf * 32 + kl) * C + kc * 8 + kw) * 3 + r) * 3 + s];
}

// conv2d_Y: grid (ceil(W/8), ceil(H/8), ceil(B/2)), block (32, 4), 39168 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, as X[B + 1, C + 11, H + 13, W + 10] would have, ceil(H/8) <= 65535,
//     ceil(B/2) <= 65535
// arrays X[B][C][H][W], Y[B][F][H][W], K_global[C*9][F]; Y overlaps no other
// needs F % 4 == 0, W % 4 == 0, K.global aligned to 16 bytes, Y aligned to 16 bytes
// K_global is scratch memory: float[C*9][F]
extern "C" __global__ void __launch_bounds__(128, 4)
conv2d_Y(const float* __restrict__ X, float* __restrict__ Y, const float* __restrict__ K_global,
         int B, int C, int H, int W, int F)
{
    constexpr int TN = 2, TC = 4, TF = 64, OWN_F = 4, TY = 8, OWN_Y = 4, TX = 8, OWN_X = 4, STAGES = 3;
    const int bn = blockIdx.z;     // tile(n, TN) -> bn, wn; grid(bn, by, bx)
    const int by = blockIdx.y;     // tile_by_lanes(y, TY, 1, OWN_Y) -> by, wy, ly, vy
    const int bx = blockIdx.x;     // tile_by_lanes(x, TX, LANES_X, OWN_X) -> bx, wx, lx, vx; resident(bx, BLOCKS)
    const int w = threadIdx.y;     // collapse(wn, wp) -> w; threads(wf, w, lane)
    const int lane = threadIdx.x;  // collapse(lf, lp) -> lane
    const int tid = w * 32 + lane;

    // cache_shared(X, at=co, vector=LOAD)
    __shared__ __align__(16) float X_shared[STAGES][TN][TC][TY + 2][TX + 4];
    // cache_shared(K.global, at=co, vector=4)
    __shared__ __align__(16) float K_global_shared[STAGES][36][TF];

    // tile_by_lanes(f, TF, LANES_F, OWN_F) -> bf, wf, lf, vf
    for (int bf = 0; bf < (F + TF - 1) / TF; ++bf) {
        // cache_register(Y, at=bf, vector=STORE)
        float Y_reg[OWN_Y][OWN_F][OWN_X] = {};

        const auto load_shared = [&](int co, int ahead) {
            if (tid < 100 && ahead * TC + co * TC < C) {
                const int axis2 = tid / 10;
                const int axis3 = tid % 10;

                #pragma unroll
                for (int n = 0; n < 2; ++n)
                    #pragma unroll
                    for (int c = 0; c < 4; ++c)
                        copy_async_or_zero<4>(
                            &X_shared[(ahead + co) % STAGES][n][c][axis2][axis3],
                            &X[(((bn * TN + n) * C + ahead * TC + co * TC + c) * H + by * TY + axis2 - 1) * W + bx * TX
                               + axis3 - 1],
                            by * TY + axis2 >= 1 && by * TY + axis2 < H + 1 && bx * TX + axis3 >= 1
                                && bx * TX + axis3 < W + 1 && bn * TN + n < B && ahead * TC + co * TC + c < C);
            }

            if (bf * TF + (tid % 16) * 4 + 3 < F) {
                if (ahead * 36 + co * 36 + 39 < C * 9) {
                    #pragma unroll
                    for (int part = 0; part < 5; ++part) {
                        const int c_r_s = part * 8 + tid / 16;
                        const int f = tid % 16;
                        if (part * 128 + tid < 576)
                            copy_async<16>(&K_global_shared[(ahead + co) % STAGES][c_r_s][f * 4],
                                           &K_global[(ahead * 36 + co * 36 + c_r_s) * F + bf * TF + f * 4]);
                    }
                } else {
                    #pragma unroll
                    for (int part = 0; part < 5; ++part) {
                        const int c_r_s = part * 8 + tid / 16;
                        const int f = tid % 16;
                        if (part * 128 + tid < 576 && ahead * 36 + co * 36 + c_r_s < C * 9)
                            copy_async<16>(&K_global_shared[(ahead + co) % STAGES][c_r_s][f * 4],
                                           &K_global[(ahead * 36 + co * 36 + c_r_s) * F + bf * TF + f * 4]);
                    }
                }
            }
        };

        // tile(c, TC) -> co, ci
        // pipeline(co, STAGES)
        #pragma unroll
        for (int fill = 0; fill < 2; ++fill) {
            load_shared(fill, 0);
            end_copies();
        }

        wait_copies<1>();
        __syncthreads();  // X.shared and K.global.shared are complete: written above, read below

        for (int co = 0; co < (C + TC - 1) / TC; ++co) {
            load_shared(co, 2);
            end_copies();

            if (co * TC + (TC - 1) < C && bn * TN + (TN - 1) < B && bf * TF + (TF - 1) < F) {
                for (int ci = 0; ci < TC; ++ci) {
                    // cache_register(X.shared, at=ci)
                    float X_shared_reg[6][6];
                    #pragma unroll
                    for (int axis2 = 0; axis2 < 6; ++axis2)
                        #pragma unroll
                        for (int axis3 = 0; axis3 < 6; ++axis3)
                            X_shared_reg[axis2][axis3] =
                                X_shared[co % STAGES][w / 2][ci][(w % 2) * 4 + axis2][(lane % 2) * 4 + axis3];

                    // cache_register(K.global.shared, at=ci, vector=OWN_F)
                    float K_global_shared_reg[3][3][OWN_F];
                    // unroll(r)
                    #pragma unroll
                    for (int r = 0; r < 3; ++r) {
                        // unroll(s)
                        #pragma unroll
                        for (int s = 0; s < 3; ++s)
                            load_vector<float4>(K_global_shared_reg[r][s],
                                                &K_global_shared[co % STAGES][ci * 9 + r * 3 + s][(lane / 2) * 4]);
                    }

                    #pragma unroll
                    for (int r = 0; r < 3; ++r)
                        #pragma unroll
                        for (int s = 0; s < 3; ++s)
                            #pragma unroll
                            for (int vy = 0; vy < OWN_Y; ++vy)
                                #pragma unroll
                                for (int vf = 0; vf < OWN_F; ++vf)
                                    #pragma unroll
                                    for (int vx = 0; vx < OWN_X; ++vx)
                                        Y_reg[vy][vf][vx] +=
                                            X_shared_reg[r + vy][s + vx] * K_global_shared_reg[r][s][vf];
                }
            } else {
                for (int ci = 0; ci < TC; ++ci) {
                    float X_shared_reg[6][6];
                    #pragma unroll
                    for (int axis2 = 0; axis2 < 6; ++axis2)
                        #pragma unroll
                        for (int axis3 = 0; axis3 < 6; ++axis3)
                            X_shared_reg[axis2][axis3] =
                                X_shared[co % STAGES][w / 2][ci][(w % 2) * 4 + axis2][(lane % 2) * 4 + axis3];

                    if (co * TC + ci < C) {
                        float K_global_shared_reg[3][3][OWN_F];
                        if (bn * TN + w / 2 < B && bf * TF + (lane / 2) * 4 + 3 < F)
                            #pragma unroll
                            for (int r = 0; r < 3; ++r)
                                #pragma unroll
                                for (int s = 0; s < 3; ++s)
                                    load_vector<float4>(
                                        K_global_shared_reg[r][s],
                                        &K_global_shared[co % STAGES][ci * 9 + r * 3 + s][(lane / 2) * 4]);

                        #pragma unroll
                        for (int r = 0; r < 3; ++r)
                            #pragma unroll
                            for (int s = 0; s < 3; ++s)
                                #pragma unroll
                                for (int vy = 0; vy < OWN_Y; ++vy)
                                    #pragma unroll
                                    for (int vf = 0; vf < OWN_F; ++vf)
                                        #pragma unroll
                                        for (int vx = 0; vx < OWN_X; ++vx)
                                            Y_reg[vy][vf][vx] +=
                                                X_shared_reg[r + vy][s + vx] * K_global_shared_reg[r][s][vf];
                    }
                }
            }

            wait_copies<1>();
            __syncthreads();  // before the next co overwrites X.shared and K.global.shared
        }

        if (bn * TN + w / 2 < B && bx * TX + (lane % 2) * 4 + 3 < W) {
            if (by * TY + (TY - 1) < H && bf * TF + (TF - 1) < F) {
                #pragma unroll
                for (int vy = 0; vy < OWN_Y; ++vy)
                    #pragma unroll
                    for (int vf = 0; vf < OWN_F; ++vf)
                        store_vector<float4>(
                            &Y[(((bn * TN + w / 2) * F + bf * TF + (lane / 2) * 4 + vf) * H + by * TY + (w % 2) * 4
                                + vy) * W
                                + bx * TX + (lane % 2) * 4],
                            Y_reg[vy][vf]);
            } else {
                #pragma unroll
                for (int vy = 0; vy < OWN_Y; ++vy)
                    if (by * TY + (w % 2) * 4 + vy < H)
                        #pragma unroll
                        for (int vf = 0; vf < OWN_F; ++vf)
                            if (bf * TF + (lane / 2) * 4 + vf < F)
                                store_vector<float4>(
                                    &Y[(((bn * TN + w / 2) * F + bf * TF + (lane / 2) * 4 + vf) * H + by * TY
                                        + (w % 2) * 4 + vy) * W
                                        + bx * TX + (lane % 2) * 4],
                                    Y_reg[vy][vf]);
            }
        }
    }
}
