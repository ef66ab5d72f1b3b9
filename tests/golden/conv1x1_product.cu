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

// conv1x1: grid (ceil(P/64), ceil(F/64), B), block (32, 2), 25344 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(F/64) <= 65535, B <= 65535
// arrays X[B][C][P], K[F][C], Y[B][F][P]; Y overlaps no other
// needs P % 4 == 0, F % 4 == 0, X aligned to 16 bytes, Y aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(64, 6)
conv1x1(const float* __restrict__ X, const float* __restrict__ K, float* __restrict__ Y, int C, int P, int F)
{
    constexpr int TF = 64, TP = 64, TC = 16, STAGES = 3;
    const int n = blockIdx.z;      // bind(n, block.z)
    const int bf = blockIdx.y;     // tile(f, TF) -> bf, tf; bind(bf, block.y)
    const int bp = blockIdx.x;     // tile(p, TP) -> bp, tp; bind(bp, block.x); resident(bp, BLOCKS)
    const int wp = threadIdx.y;    // warp_tile(tp, PWARPS, 8) -> wp, cp, lp, vp; bind(wp, thread.y)
    const int lane = threadIdx.x;  // collapse(lf, lp) -> lane; bind(lane, thread.x)
    const int tid = wp * 32 + lane;

    // cache_shared(X, at=co, vector=4)
    __shared__ __align__(16) float X_shared[STAGES][TC][TP];
    // cache_shared(K, at=co, layout=[c, f])
    __shared__ __align__(16) float K_shared[STAGES][TC][TF + 4];

    const int p0 = wp * 32 + (lane % 8) * 4;
    const bool full_tile = bp * TP + (TP - 1) < P && bf * TF + (TF - 1) < F;

    // cache_register(Y, at=bp, vector=4)
    float Y_reg[4][4][4] = {};

    const auto load_shared = [&](int co, int ahead) {
        #pragma unroll
        for (int part = 0; part < 4; ++part) {
            const int c = part * 4 + tid / 16;
            const int p = tid % 16;
            copy_async<16>(&X_shared[(ahead + co) % STAGES][c][p * 4],
                           &X[(n * C + ahead * TC + co * TC + c) * P + bp * TP + p * 4]);
        }

        #pragma unroll
        for (int part = 0; part < 16; ++part) {
            const int f = part * 4 + tid / 16;
            const int c = tid % 16;
            copy_async<4>(&K_shared[(ahead + co) % STAGES][c][f], &K[(bf * TF + f) * C + ahead * TC + co * TC + c]);
        }
    };

    const auto load_shared_partial = [&](int co, int ahead) {
        if (bp * TP + (tid % 16) * 4 + 3 < P)
            #pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int c = part * 4 + tid / 16;
                const int p = tid % 16;
                if (ahead * TC + co * TC + c < C)
                    copy_async<16>(&X_shared[(ahead + co) % STAGES][c][p * 4],
                                   &X[(n * C + ahead * TC + co * TC + c) * P + bp * TP + p * 4]);
            }

        if (ahead * TC + co * TC + tid % 16 < C)
            #pragma unroll
            for (int part = 0; part < 16; ++part) {
                const int f = part * 4 + tid / 16;
                const int c = tid % 16;
                if (bf * TF + f < F)
                    copy_async<4>(&K_shared[(ahead + co) % STAGES][c][f],
                                  &K[(bf * TF + f) * C + ahead * TC + co * TC + c]);
            }
    };

    // tile(c, TC) -> co, ci
    // pipeline(co, STAGES)
    #pragma unroll
    for (int fill = 0; fill < 2; ++fill) {
        if (full_tile && fill * 16 + 15 < C)
            load_shared(fill, 0);
        else
            load_shared_partial(fill, 0);

        end_copies();
    }

    wait_copies<1>();
    __syncthreads();  // X.shared and K.shared are complete: written above, read below

    for (int co = 0; co < (C + TC - 1) / TC; ++co) {
        if (full_tile && co * TC + (3 * TC - 1) < C)
            load_shared(co, 2);
        else
            load_shared_partial(co, 2);

        end_copies();

        // cache_register(X.shared, at=ci, vector=4)
        float X_shared_reg[2][4];
        if (bp * TP + p0 + 3 < P)
            load_vector<float4>(X_shared_reg[0], &X_shared[co % STAGES][0][p0]);

        if (bf * TF + (TF - 1) < F && co * TC + (TC - 1) < C && bp * TP + (TP - 1) < P) {
            // cache_register(K.shared, at=ci, vector=4)
            float K_shared_reg[2][4][4];

            const auto load_K_shared_reg = [&](int ci) {
                // warp_tile(tf, FWARPS, 4) -> wf, cf, lf, vf
                #pragma unroll
                for (int cf = 0; cf < 4; ++cf)
                    load_vector<float4>(K_shared_reg[ci % 2][cf], &K_shared[co % STAGES][ci][cf * 16 + (lane / 8) * 4]);
            };

            load_K_shared_reg(0);

            // unroll(ci)
            // pipeline(ci, 2)
            #pragma unroll
            for (int ci = 0; ci < TC; ++ci) {
                if (ci < 15) {
                    load_vector<float4>(X_shared_reg[(ci + 1) % 2], &X_shared[co % STAGES][ci + 1][p0]);
                    load_K_shared_reg(ci + 1);
                }

                #pragma unroll
                for (int cf = 0; cf < 4; ++cf)
                    #pragma unroll
                    for (int vf = 0; vf < 2; ++vf) {
                        #pragma unroll
                        for (int vp = 0; vp < 4; ++vp)
                            Y_reg[cf][vf * 2][vp] += X_shared_reg[ci % 2][vp] * K_shared_reg[ci % 2][cf][vf * 2];

                        #pragma unroll
                        for (int vp = 0; vp < 4; ++vp)
                            Y_reg[cf][vf * 2 + 1][3 - vp] +=
                                X_shared_reg[ci % 2][3 - vp] * K_shared_reg[ci % 2][cf][vf * 2 + 1];
                    }
            }
        } else {
            float K_shared_reg[2][4][4];

            const auto load_K_shared_reg_partial = [&](int ci) {
                #pragma unroll
                for (int cf = 0; cf < 4; ++cf)
                    if (bf * TF + cf * 16 + (lane / 8) * 4 + 3 < F)
                        load_vector<float4>(K_shared_reg[ci % 2][cf],
                                            &K_shared[co % STAGES][ci][cf * 16 + (lane / 8) * 4]);
            };

            load_K_shared_reg_partial(0);

            #pragma unroll
            for (int ci = 0; ci < TC; ++ci) {
                if (ci < 15 && co * TC + ci + 1 < C) {
                    if (bp * TP + p0 + 3 < P)
                        load_vector<float4>(X_shared_reg[(ci + 1) % 2], &X_shared[co % STAGES][ci + 1][p0]);

                    load_K_shared_reg_partial(ci + 1);
                }

                if (co * TC + ci < C)
                    #pragma unroll
                    for (int cf = 0; cf < 4; ++cf)
                        #pragma unroll
                        for (int vf = 0; vf < 2; ++vf) {
                            #pragma unroll
                            for (int vp = 0; vp < 4; ++vp)
                                Y_reg[cf][vf * 2][vp] += X_shared_reg[ci % 2][vp] * K_shared_reg[ci % 2][cf][vf * 2];

                            #pragma unroll
                            for (int vp = 0; vp < 4; ++vp)
                                Y_reg[cf][vf * 2 + 1][3 - vp] +=
                                    X_shared_reg[ci % 2][3 - vp] * K_shared_reg[ci % 2][cf][vf * 2 + 1];
                        }
            }
        }

        wait_copies<1>();
        __syncthreads();  // before the next co overwrites X.shared and K.shared
    }

    if (bp * TP + p0 + 3 < P) {
        float* Y_tile = &Y[(n * F + bf * TF) * P + bp * TP];
        if (bf * TF + (TF - 1) < F) {
            #pragma unroll
            for (int cf = 0; cf < 4; ++cf)
                #pragma unroll
                for (int vf = 0; vf < 2; ++vf) {
                    store_vector<float4>(&Y_tile[(cf * 16 + (lane / 8) * 4 + vf * 2) * P + p0], Y_reg[cf][vf * 2]);
                    store_vector<float4>(&Y_tile[(cf * 16 + (lane / 8) * 4 + vf * 2 + 1) * P + p0],
                                         Y_reg[cf][vf * 2 + 1]);
                }
        } else {
            #pragma unroll
            for (int cf = 0; cf < 4; ++cf)
                #pragma unroll
                for (int vf = 0; vf < 2; ++vf) {
                    if (bf * TF + cf * 16 + (lane / 8) * 4 + vf * 2 < F)
                        store_vector<float4>(&Y_tile[(cf * 16 + (lane / 8) * 4 + vf * 2) * P + p0], Y_reg[cf][vf * 2]);

                    if (bf * TF + cf * 16 + (lane / 8) * 4 + vf * 2 + 1 < F)
                        store_vector<float4>(&Y_tile[(cf * 16 + (lane / 8) * 4 + vf * 2 + 1) * P + p0],
                                             Y_reg[cf][vf * 2 + 1]);
                }
        }
    }
}
