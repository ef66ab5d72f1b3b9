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
    const int kf = blockIdx.x;   // transpose_filters()
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
    const int bn = blockIdx.z;      // tile(n, TN) -> bn, wn; grid(bn, by, bx)
    const int by = blockIdx.y;      // tile_by_lanes(y, TY, 1, OWN_Y) -> by, wy, ly, vy
    const int bx = blockIdx.x;      // tile_by_lanes(x, TX, LANES_X, OWN_X) -> bx, wx, lx, vx; resident(bx, BLOCKS)
    const int w = threadIdx.y;      // collapse(wn, wp) -> w; threads(wf, w, lane)
    const int lane = threadIdx.x;   // collapse(lf, lp) -> lane
    const int tid = w * 32 + lane;

    // cache_shared(X, at=co, vector=LOAD)
    __shared__ __align__(16) float X_shared[3][2][4][10][12];
    // cache_shared(K.global, at=co, vector=4)
    __shared__ __align__(16) float K_global_shared[3][36][64];

    // tile_by_lanes(f, TF, LANES_F, OWN_F) -> bf, wf, lf, vf
    for (int bf = 0; bf < (F + 63) / 64; ++bf) {
        // cache_register(Y, at=bf, vector=STORE)
        float Y_reg[4][4][4] = {};

        const auto load_shared = [&](int co, int ahead) {
            if (tid < 100 && ahead * 4 + co * 4 < C) {
                const int axis2 = tid / 10;
                const int axis3 = tid % 10;

                #pragma unroll
                for (int n = 0; n < 2; ++n)
                    #pragma unroll
                    for (int c = 0; c < 4; ++c)
                        copy_async_or_zero<4>(&X_shared[(ahead + co) % 3][n][c][axis2][axis3],
                            &X[(((bn * 2 + n) * C + ahead * 4 + co * 4 + c) * H + by * 8 + axis2 - 1) * W + bx * 8
                                + axis3 - 1],
                            by * 8 + axis2 >= 1 && by * 8 + axis2 < H + 1 && bx * 8 + axis3 >= 1
                                && bx * 8 + axis3 < W + 1 && bn * 2 + n < B && ahead * 4 + co * 4 + c < C);
            }

            if (bf * 64 + (tid % 16) * 4 + 3 < F) {
                if (ahead * 36 + co * 36 + 39 < C * 9) {
                    #pragma unroll
                    for (int part = 0; part < 5; ++part) {
                        const int c_r_s = part * 8 + tid / 16;
                        const int f = tid % 16;
                        if (part * 128 + tid < 576)
                            copy_async<16>(&K_global_shared[(ahead + co) % 3][c_r_s][f * 4],
                                &K_global[(ahead * 36 + co * 36 + c_r_s) * F + bf * 64 + f * 4]);
                    }
                } else {
                    #pragma unroll
                    for (int part = 0; part < 5; ++part) {
                        const int c_r_s = part * 8 + tid / 16;
                        const int f = tid % 16;
                        if (part * 128 + tid < 576 && ahead * 36 + co * 36 + c_r_s < C * 9)
                            copy_async<16>(&K_global_shared[(ahead + co) % 3][c_r_s][f * 4],
                                &K_global[(ahead * 36 + co * 36 + c_r_s) * F + bf * 64 + f * 4]);
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

        for (int co = 0; co < (C + 3) / 4; ++co) {
            load_shared(co, 2);
            end_copies();

            if (co * 4 + 3 < C && bn * 2 + 1 < B && bf * 64 + 63 < F) {
                for (int ci = 0; ci < 4; ++ci) {
                    // cache_register(X.shared, at=ci)
                    float X_shared_reg[6][6];
                    #pragma unroll
                    for (int axis2 = 0; axis2 < 6; ++axis2)
                        #pragma unroll
                        for (int axis3 = 0; axis3 < 6; ++axis3)
                            X_shared_reg[axis2][axis3] =
                                X_shared[co % 3][w / 2][ci][(w % 2) * 4 + axis2][(lane % 2) * 4 + axis3];

                    // cache_register(K.global.shared, at=ci, vector=OWN_F)
                    float K_global_shared_reg[3][3][4];
                    // unroll(r)
                    #pragma unroll
                    for (int r = 0; r < 3; ++r) {
                        // unroll(s)
                        #pragma unroll
                        for (int s = 0; s < 3; ++s)
                            load_vector<float4>(K_global_shared_reg[r][s],
                                &K_global_shared[co % 3][ci * 9 + r * 3 + s][(lane / 2) * 4]);
                    }

                    #pragma unroll
                    for (int r = 0; r < 3; ++r)
                        #pragma unroll
                        for (int s = 0; s < 3; ++s)
                            #pragma unroll
                            for (int vy = 0; vy < 4; ++vy)
                                #pragma unroll
                                for (int vf = 0; vf < 4; ++vf)
                                    #pragma unroll
                                    for (int vx = 0; vx < 4; ++vx)
                                        Y_reg[vy][vf][vx] +=
                                            X_shared_reg[r + vy][s + vx] * K_global_shared_reg[r][s][vf];
                }
            } else {
                for (int ci = 0; ci < 4; ++ci) {
                    float X_shared_reg[6][6];
                    #pragma unroll
                    for (int axis2 = 0; axis2 < 6; ++axis2)
                        #pragma unroll
                        for (int axis3 = 0; axis3 < 6; ++axis3)
                            X_shared_reg[axis2][axis3] =
                                X_shared[co % 3][w / 2][ci][(w % 2) * 4 + axis2][(lane % 2) * 4 + axis3];

                    if (co * 4 + ci < C) {
                        float K_global_shared_reg[3][3][4];
                        if (bn * 2 + w / 2 < B && bf * 64 + (lane / 2) * 4 + 3 < F)
                            #pragma unroll
                            for (int r = 0; r < 3; ++r)
                                #pragma unroll
                                for (int s = 0; s < 3; ++s)
                                    load_vector<float4>(K_global_shared_reg[r][s],
                                        &K_global_shared[co % 3][ci * 9 + r * 3 + s][(lane / 2) * 4]);

                        #pragma unroll
                        for (int r = 0; r < 3; ++r)
                            #pragma unroll
                            for (int s = 0; s < 3; ++s)
                                #pragma unroll
                                for (int vy = 0; vy < 4; ++vy)
                                    #pragma unroll
                                    for (int vf = 0; vf < 4; ++vf)
                                        #pragma unroll
                                        for (int vx = 0; vx < 4; ++vx)
                                            Y_reg[vy][vf][vx] +=
                                                X_shared_reg[r + vy][s + vx] * K_global_shared_reg[r][s][vf];
                    }
                }
            }

            wait_copies<1>();
            __syncthreads();  // before the next co overwrites X.shared and K.global.shared
        }

        if (bn * 2 + w / 2 < B && bx * 8 + (lane % 2) * 4 + 3 < W) {
            if (by * 8 + 7 < H && bf * 64 + 63 < F) {
                #pragma unroll
                for (int vy = 0; vy < 4; ++vy)
                    #pragma unroll
                    for (int vf = 0; vf < 4; ++vf)
                        store_vector<float4>(&Y[(((bn * 2 + w / 2) * F + bf * 64 + (lane / 2) * 4 + vf) * H + by * 8
                            + (w % 2) * 4 + vy)
                            * W
                            + bx * 8 + (lane % 2) * 4],
                            Y_reg[vy][vf]);
            } else {
                #pragma unroll
                for (int vy = 0; vy < 4; ++vy)
                    if (by * 8 + (w % 2) * 4 + vy < H)
                        #pragma unroll
                        for (int vf = 0; vf < 4; ++vf)
                            if (bf * 64 + (lane / 2) * 4 + vf < F)
                                store_vector<float4>(&Y[(((bn * 2 + w / 2) * F + bf * 64 + (lane / 2) * 4 + vf) * H
                                    + by * 8 + (w % 2) * 4 + vy)
                                    * W
                                    + bx * 8 + (lane % 2) * 4],
                                    Y_reg[vy][vf]);
            }
        }
    }
}
