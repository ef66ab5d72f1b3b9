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

// conv2d_winograd_KC: grid (ceil(F/32), C), block (32)
// for K[F, C, 3, 3], KT[6, 6, C, F], arrays of fewer than 2^31 - 2^20 elements, C <= 65535
// arrays K[F][C][3][3], KT[6][6][C][F]; KT overlaps no other
// KT is scratch memory: float[6][6][C][F]
extern "C" __global__ void __launch_bounds__(32)
conv2d_winograd_KC(const float* __restrict__ K, float* __restrict__ KT, int C, int F)
{
    const int kc = blockIdx.y;  // transform_filters()
    const int kb = blockIdx.x;
    const int kt = threadIdx.x;

    if (kb * 32 + kt < F) {
        float K_reg[3][3];
        #pragma unroll
        for (int axis2 = 0; axis2 < 3; ++axis2)
            #pragma unroll
            for (int K_reg_s = 0; K_reg_s < 3; ++K_reg_s)
                K_reg[axis2][K_reg_s] = K[(((kb * 32 + kt) * C + kc) * 3 + axis2) * 3 + K_reg_s];

        float KC_reg[6][3];
        #pragma unroll
        for (int u = 0; u < 6; ++u)
            #pragma unroll
            for (int s = 0; s < 3; ++s)
                KC_reg[u][s] =
                    u == 0
                    ? K_reg[0][s]
                    : (u == 1
                        ? -0.6666666666666666f * (K_reg[0][s] + sqrtf(0.5f) * K_reg[1][s] + 0.5f * K_reg[2][s])
                        : (u == 2
                            ? -0.6666666666666666f * (K_reg[0][s] - sqrtf(0.5f) * K_reg[1][s] + 0.5f * K_reg[2][s])
                            : (u == 3
                                ? 0.16666666666666666f * (K_reg[0][s] + sqrtf(2.0f) * K_reg[1][s] + 2.0f * K_reg[2][s])
                                : (u == 4
                                    ? 0.16666666666666666f
                                        * (K_reg[0][s] - sqrtf(2.0f) * K_reg[1][s] + 2.0f * K_reg[2][s])
                                    : K_reg[2][s]))));

        #pragma unroll
        for (int u = 0; u < 6; ++u)
            #pragma unroll
            for (int v = 0; v < 6; ++v)
                KT[((u * 6 + v) * C + kc) * F + kb * 32 + kt] =
                    v == 0
                    ? KC_reg[u][0]
                    : (v == 1
                        ? -0.6666666666666666f * (KC_reg[u][0] + sqrtf(0.5f) * KC_reg[u][1] + 0.5f * KC_reg[u][2])
                        : (v == 2
                            ? -0.6666666666666666f * (KC_reg[u][0] - sqrtf(0.5f) * KC_reg[u][1] + 0.5f * KC_reg[u][2])
                            : (v == 3
                                ? 0.16666666666666666f
                                    * (KC_reg[u][0] + sqrtf(2.0f) * KC_reg[u][1] + 2.0f * KC_reg[u][2])
                                : (v == 4
                                    ? 0.16666666666666666f
                                        * (KC_reg[u][0] - sqrtf(2.0f) * KC_reg[u][1] + 2.0f * KC_reg[u][2])
                                    : KC_reg[u][2]))));
    }
}

// conv2d_winograd_D: grid (ceil((B*49)/128), C), block (128)
// for X[B, C, 28, 28], DT[6, 6, C, B*49], arrays of fewer than 2^31 - 2^20 elements, C <= 65535
// arrays X[B][C][28][28], DT[6][6][C][B*49]; DT overlaps no other
// DT is scratch memory: float[6][6][C][B*49]
extern "C" __global__ void __launch_bounds__(128)
conv2d_winograd_D(const float* __restrict__ X, float* __restrict__ DT, int B, int C)
{
    constexpr int COUNT = 128;
    const int dc = blockIdx.y;  // transform_images(COUNT)
    const int db = blockIdx.x;
    const int dt = threadIdx.x;

    if (db * COUNT + dt < B * 49) {
        float D_reg[6][6];
        #pragma unroll
        for (int i = 0; i < 6; ++i)
            #pragma unroll
            for (int j = 0; j < 6; ++j)
                D_reg[i][j] =
                    ((db * 4 + (db * 2 + dt) / 7) % 7) * 4 + i >= 1 && ((db * 4 + (db * 2 + dt) / 7) % 7) * 4 + i < 29
                        && ((db * 2 + dt) % 7) * 4 + j >= 1 && ((db * 2 + dt) % 7) * 4 + j < 29
                    ? X[(((db * 2 + (db * 30 + dt) / 49) * C + dc) * 28 + ((db * 4 + (db * 2 + dt) / 7) % 7) * 4 + i
                         - 1) * 28
                        + ((db * 2 + dt) % 7) * 4 + j - 1]
                    : 0.0f;

        float DC_reg[6][6];
        #pragma unroll
        for (int u = 0; u < 6; ++u)
            #pragma unroll
            for (int j = 0; j < 6; ++j)
                DC_reg[u][j] =
                    u == 0
                    ? D_reg[0][j] - 2.5f * D_reg[2][j] + D_reg[4][j]
                    : (u == 1
                        ? D_reg[4][j] - 2.0f * D_reg[2][j] + sqrtf(0.5f) * (D_reg[3][j] - 2.0f * D_reg[1][j])
                        : (u == 2
                            ? D_reg[4][j] - 2.0f * D_reg[2][j] - sqrtf(0.5f) * (D_reg[3][j] - 2.0f * D_reg[1][j])
                            : (u == 3
                                ? D_reg[4][j] - 0.5f * D_reg[2][j] + sqrtf(2.0f) * (D_reg[3][j] - 0.5f * D_reg[1][j])
                                : (u == 4
                                   ? D_reg[4][j] - 0.5f * D_reg[2][j] - sqrtf(2.0f) * (D_reg[3][j] - 0.5f * D_reg[1][j])
                                   : D_reg[1][j] - 2.5f * D_reg[3][j] + D_reg[5][j]))));

        #pragma unroll
        for (int u = 0; u < 6; ++u)
            #pragma unroll
            for (int v = 0; v < 6; ++v)
                DT[((u * 6 + v) * C + dc) * (B * 49) + db * COUNT + dt] =
                    v == 0
                    ? DC_reg[u][0] - 2.5f * DC_reg[u][2] + DC_reg[u][4]
                    : (v == 1
                        ? DC_reg[u][4] - 2.0f * DC_reg[u][2] + sqrtf(0.5f) * (DC_reg[u][3] - 2.0f * DC_reg[u][1])
                        : (v == 2
                            ? DC_reg[u][4] - 2.0f * DC_reg[u][2] - sqrtf(0.5f) * (DC_reg[u][3] - 2.0f * DC_reg[u][1])
                            : (v == 3
                                ? DC_reg[u][4] - 0.5f * DC_reg[u][2]
                                    + sqrtf(2.0f) * (DC_reg[u][3] - 0.5f * DC_reg[u][1])
                                : (v == 4
                                    ? DC_reg[u][4] - 0.5f * DC_reg[u][2]
                                        - sqrtf(2.0f) * (DC_reg[u][3] - 0.5f * DC_reg[u][1])
                                    : DC_reg[u][1] - 2.5f * DC_reg[u][3] + DC_reg[u][5]))));
    }
}

// conv2d_winograd_M: grid (ceil((B*49)/128), ceil(F/64), 36), block (32, 2, 2), 24576 bytes of shared memory
// for KT[6, 6, C, F], DT[6, 6, C, B*49], M[6, 6, F, B*49], arrays of fewer than 2^31 - 2^20 elements, ceil(F/64) <=
//     65535
// arrays KT[6][6][C][F], DT[6][6][C][B*49], M[6][6][F][B*49]; M overlaps no other
// needs F % 4 == 0, B % 4 == 0, KT aligned to 16 bytes, DT aligned to 16 bytes, M aligned to 16 bytes
// KT is scratch memory: float[6][6][C][F]
// DT is scratch memory: float[6][6][C][B*49]
// M is scratch memory: float[6][6][F][B*49]
extern "C" __global__ void __launch_bounds__(128, 4)
conv2d_winograd_M(const float* __restrict__ KT, const float* __restrict__ DT, float* __restrict__ M,
                  int B, int C, int F)
{
    constexpr int TF = 64, TP = 128, TC = 16, STAGES = 2;
    const int uv = blockIdx.z;   // collapse(M.u, M.v) -> uv; grid(uv, bf, bp)
    const int bf = blockIdx.y;   // tile(M.f, TF) -> bf, tf
    const int bp = blockIdx.x;   // tile(M.p, TP) -> bp, tp; resident(bp, BLOCKS)
    const int wf = threadIdx.z;  // warp_tile(tf, WF, 4) -> wf, cf, lf, vf; warp_threads(wf, wp, lf, lp) -> lane
    const int wp = threadIdx.y;  // warp_tile(tp, WP, 8) -> wp, cp, lp, vp
    const int lane = threadIdx.x;
    const int tid = wf * 64 + wp * 32 + lane;

    // cache_shared(KT, at=co, vector=4)
    __shared__ __align__(16) float KT_shared[STAGES][TC][TF];
    // cache_shared(DT, at=co, vector=4)
    __shared__ __align__(16) float DT_shared[STAGES][TC][TP];

    const bool full_tile = bf * TF + (TF - 1) < F && bp * TP + (TP - 1) < B * 49;

    // cache_register(M, at=bp, vector=4)
    float M_reg[2][4][2][4] = {};

    const auto load_shared = [&](int co, int ahead) {
        #pragma unroll
        for (int part = 0; part < 2; ++part) {
            const int c = part * 8 + tid / 16;
            const int f = tid % 16;
            copy_async<16>(&KT_shared[(ahead + co) % STAGES][c][f * 4],
                           &KT[((uv / 6 * 6 + uv % 6) * C + ahead * TC + co * TC + c) * F + bf * TF + f * 4]);
        }

        #pragma unroll
        for (int part = 0; part < 4; ++part)
            copy_async<16>(
                &DT_shared[(ahead + co) % STAGES][part * 4 + wf * 2 + wp][lane * 4],
                &DT[((uv / 6 * 6 + uv % 6) * C + ahead * TC + co * TC + part * 4 + wf * 2 + wp) * (B * 49) + bp * TP
                    + lane * 4]);
    };

    const auto load_shared_partial = [&](int co, int ahead) {
        if (bf * TF + (tid % 16) * 4 + 3 < F)
            #pragma unroll
            for (int part = 0; part < 2; ++part) {
                const int c = part * 8 + tid / 16;
                const int f = tid % 16;
                if (ahead * TC + co * TC + c < C)
                    copy_async<16>(&KT_shared[(ahead + co) % STAGES][c][f * 4],
                                   &KT[((uv / 6 * 6 + uv % 6) * C + ahead * TC + co * TC + c) * F + bf * TF + f * 4]);
            }

        if (bp * TP + lane * 4 + 3 < B * 49)
            #pragma unroll
            for (int part = 0; part < 4; ++part)
                if (ahead * TC + co * TC + part * 4 + wf * 2 + wp < C)
                    copy_async<16>(
                        &DT_shared[(ahead + co) % STAGES][part * 4 + wf * 2 + wp][lane * 4],
                        &DT[((uv / 6 * 6 + uv % 6) * C + ahead * TC + co * TC + part * 4 + wf * 2 + wp) * (B * 49)
                            + bp * TP + lane * 4]);
    };

    if (full_tile && C >= 16)
        load_shared(0, 0);
    else
        load_shared_partial(0, 0);

    end_copies();

    wait_copies<0>();
    __syncthreads();  // KT.shared and DT.shared are complete: written above, read below

    // cache_register(DT.shared, at=ci, vector=4)
    float DT_shared_reg[2][2][4];

    // cache_register(KT.shared, at=ci, vector=4)
    float KT_shared_reg[2][2][4];

    const auto load_registers = [&](int slot, int ci) {
        #pragma unroll
        for (int cf = 0; cf < 2; ++cf)
            load_vector<float4>(KT_shared_reg[ci % 2][cf], &KT_shared[slot][ci][wf * 32 + cf * 16 + (lane / 8) * 4]);

        #pragma unroll
        for (int cp = 0; cp < 2; ++cp)
            load_vector<float4>(DT_shared_reg[ci % 2][cp], &DT_shared[slot][ci][wp * 64 + cp * 32 + (lane % 8) * 4]);
    };

    const auto load_registers_partial = [&](int slot, int ci) {
        #pragma unroll
        for (int cf = 0; cf < 2; ++cf)
            if (bf * TF + wf * 32 + cf * 16 + (lane / 8) * 4 + 3 < F)
                load_vector<float4>(KT_shared_reg[ci % 2][cf],
                                    &KT_shared[slot][ci][wf * 32 + cf * 16 + (lane / 8) * 4]);

        #pragma unroll
        for (int cp = 0; cp < 2; ++cp)
            if (bp * TP + wp * 64 + cp * 32 + (lane % 8) * 4 + 3 < B * 49)
                load_vector<float4>(DT_shared_reg[ci % 2][cp],
                                    &DT_shared[slot][ci][wp * 64 + cp * 32 + (lane % 8) * 4]);
    };

    if (full_tile)
        load_registers(0, 0);
    else
        load_registers_partial(0, 0);

    const auto multiply = [&](int slot) {
        #pragma unroll
        for (int cp = 0; cp < 2; ++cp)
            #pragma unroll
            for (int vp = 0; vp < 2; ++vp) {
                #pragma unroll
                for (int cf = 0; cf < 2; ++cf)
                    #pragma unroll
                    for (int vf = 0; vf < 4; ++vf)
                        M_reg[cf][vf][cp][vp * 2] += KT_shared_reg[slot][cf][vf] * DT_shared_reg[slot][cp][vp * 2];

                #pragma unroll
                for (int cf = 0; cf < 2; ++cf)
                    #pragma unroll
                    for (int vf = 0; vf < 4; ++vf)
                        M_reg[1 - cf][3 - vf][cp][vp * 2 + 1] +=
                            KT_shared_reg[slot][1 - cf][3 - vf] * DT_shared_reg[slot][cp][vp * 2 + 1];
            }
    };

    // tile(M.c, TC) -> co, ci
    // pipeline(co, STAGES)
    for (int co = 0; co < (C + TC - 1) / TC; ++co) {
        if (full_tile && co * TC + (2 * TC - 1) < C)
            load_shared(co, 1);
        else
            load_shared_partial(co, 1);

        end_copies();

        if (full_tile && co * TC + (TC - 1) < C) {
            // unroll(ci)
            // pipeline(ci, 2, across=co)
            #pragma unroll
            for (int ci = 0; ci < TC - 1; ++ci) {
                load_registers(co % STAGES, ci + 1);
                multiply(ci % 2);
            }
        } else {
            #pragma unroll
            for (int ci = 0; ci < TC - 1; ++ci) {
                if (co * TC + ci + 1 < C)
                    load_registers_partial(co % STAGES, ci + 1);

                if (co * TC + ci < C)
                    multiply(ci % 2);
            }
        }

        wait_copies<0>();
        __syncthreads();  // KT.shared and DT.shared are complete: written above, read below

        if (co * TC + 16 < C) {
            if (full_tile)
                load_registers((co + 1) % STAGES, 0);
            else
                load_registers_partial((co + 1) % STAGES, 0);
        }

        if (co * TC + (TC - 1) < C)
            multiply(1);
    }

    if (bp * TP + (TP - 1) < B * 49 && bf * TF + (TF - 1) < F) {
        #pragma unroll
        for (int cp = 0; cp < 2; ++cp)
            #pragma unroll
            for (int cf = 0; cf < 2; ++cf)
                #pragma unroll
                for (int vf = 0; vf < 4; ++vf)
                    store_vector<float4>(
                        &M[((uv / 6 * 6 + uv % 6) * F + bf * TF + wf * 32 + cf * 16 + (lane / 8) * 4 + vf) * (B * 49)
                           + bp * TP + wp * 64 + cp * 32 + (lane % 8) * 4],
                        M_reg[cf][vf][cp]);
    } else {
        #pragma unroll
        for (int cp = 0; cp < 2; ++cp)
            if (bp * TP + wp * 64 + cp * 32 + (lane % 8) * 4 + 3 < B * 49)
                #pragma unroll
                for (int cf = 0; cf < 2; ++cf)
                    #pragma unroll
                    for (int vf = 0; vf < 4; ++vf)
                        if (bf * TF + wf * 32 + cf * 16 + (lane / 8) * 4 + vf < F)
                            store_vector<float4>(
                                &M[((uv / 6 * 6 + uv % 6) * F + bf * TF + wf * 32 + cf * 16 + (lane / 8) * 4
                                    + vf) * (B * 49)
                                    + bp * TP + wp * 64 + cp * 32 + (lane % 8) * 4],
                                M_reg[cf][vf][cp]);
    }
}

// conv2d_winograd_S: grid (ceil((B*49)/128), F), block (128)
// for Y[B, F, 28, 28], M[6, 6, F, B*49], arrays of fewer than 2^31 - 2^20 elements, F <= 65535
// arrays Y[B][F][28][28], M[6][6][F][B*49]; Y overlaps no other
// needs Y aligned to 16 bytes
// M is scratch memory: float[6][6][F][B*49]
extern "C" __global__ void __launch_bounds__(128)
conv2d_winograd_S(float* __restrict__ Y, const float* __restrict__ M, int B, int F)
{
    constexpr int COUNT = 128;
    const int Y_f = blockIdx.y;  // transform_results(COUNT, WIDTH)
    const int yb = blockIdx.x;
    const int yt = threadIdx.x;

    if (yb * COUNT + yt < B * 49) {
        float S_reg[6][6];
        #pragma unroll
        for (int u = 0; u < 6; ++u)
            #pragma unroll
            for (int v = 0; v < 6; ++v)
                S_reg[u][v] = M[((u * 6 + v) * F + Y_f) * (B * 49) + yb * COUNT + yt];

        float SC_reg[4][6];
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int v = 0; v < 6; ++v)
                SC_reg[i][v] =
                    i == 0
                    ? S_reg[0][v] + S_reg[1][v] + S_reg[2][v] + S_reg[3][v] + S_reg[4][v]
                    : (i == 1
                        ? sqrtf(0.5f) * (S_reg[1][v] - S_reg[2][v]) + sqrtf(2.0f) * (S_reg[3][v] - S_reg[4][v])
                        : (i == 2
                            ? 0.5f * (S_reg[1][v] + S_reg[2][v]) + 2.0f * (S_reg[3][v] + S_reg[4][v])
                            : sqrtf(0.125f) * (S_reg[1][v] - S_reg[2][v]) + sqrtf(8.0f) * (S_reg[3][v] - S_reg[4][v])
                                + S_reg[5][v]));

        float ST_reg[4][4];
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                ST_reg[i][j] =
                    j == 0
                    ? SC_reg[i][0] + SC_reg[i][1] + SC_reg[i][2] + SC_reg[i][3] + SC_reg[i][4]
                    : (j == 1
                        ? sqrtf(0.5f) * (SC_reg[i][1] - SC_reg[i][2]) + sqrtf(2.0f) * (SC_reg[i][3] - SC_reg[i][4])
                        : (j == 2
                            ? 0.5f * (SC_reg[i][1] + SC_reg[i][2]) + 2.0f * (SC_reg[i][3] + SC_reg[i][4])
                            : sqrtf(0.125f) * (SC_reg[i][1] - SC_reg[i][2])
                                + sqrtf(8.0f) * (SC_reg[i][3] - SC_reg[i][4]) + SC_reg[i][5]));

        #pragma unroll
        for (int iy = 0; iy < 4; ++iy) {
            float Y_reg[4];
            #pragma unroll
            for (int ix = 0; ix < 4; ++ix)
                Y_reg[ix] = ST_reg[iy][ix];

            store_vector<float4>(
                &Y[(((yb * 2 + (yb * 30 + yt) / 49) * F + Y_f) * 28 + ((yb * 30 + yt) % 49 / 7) * 4 + iy) * 28
                   + ((yb * 2 + yt) % 7) * 4],
                Y_reg);
        }
    }
}
