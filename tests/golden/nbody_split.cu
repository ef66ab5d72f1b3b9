// nbody_part: grid (ceil(N/512), ceil(N/2048)), block (128), 4096 bytes of shared memory
// for P[N, 3], part[(N + 2047)/2048, N, 3], arrays of fewer than 2^31 - 2^20 elements, ceil(N/2048) <= 65535
// arrays P[N][3], m[N], part[ceil(N/2048)][N][3]; part overlaps no other
// part is scratch memory: float[ceil(N/2048)][N][3]
extern "C" __global__ void __launch_bounds__(128)
nbody_part(const float* __restrict__ P, const float* __restrict__ m, float* __restrict__ part, int N)
{
    constexpr int TJ = 256, U = 4, C = 4;
    const int jp = blockIdx.y;  // tile(F.j, PART) -> jp, fj; bind(jp, block.y)
    const int b = blockIdx.x;   // tile(i, T * C) -> b, t; bind(b, block.x)
    const int t = threadIdx.x;  // bind(t, thread.x)

    // cache_shared(m, at=jo)
    __shared__ float m_shared[TJ];
    // cache_shared(P, at=jo, using=[ji])
    __shared__ float P_shared[TJ][3];

    const bool full_tile = b * 512 + 511 < N;

    // cache_register(part, at=b)
    float part_reg[C][3] = {};

    // tile(j, TJ) -> jo, ji
    for (int jo = 0; jo < 8; ++jo) {
        if (jp * 2048 + jo * TJ + (TJ - 1) < N) {
            #pragma unroll
            for (int m_shared_l = 0; m_shared_l < 2; ++m_shared_l)
                m_shared[m_shared_l * 128 + t] = m[jp * 2048 + jo * TJ + m_shared_l * 128 + t];

            #pragma unroll
            for (int P_shared_l = 0; P_shared_l < 6; ++P_shared_l) {
                const int element = P_shared_l * 128 + t;
                const int j = element / 3;
                const int axis1 = element % 3;
                P_shared[j][axis1] = P[(jp * 2048 + jo * TJ + j) * 3 + axis1];
            }
        } else {
            #pragma unroll
            for (int m_shared_l = 0; m_shared_l < 2; ++m_shared_l)
                if (jp * 2048 + jo * TJ + m_shared_l * 128 + t < N)
                    m_shared[m_shared_l * 128 + t] = m[jp * 2048 + jo * TJ + m_shared_l * 128 + t];

            #pragma unroll
            for (int P_shared_l = 0; P_shared_l < 6; ++P_shared_l) {
                const int element = P_shared_l * 128 + t;
                const int j = element / 3;
                const int axis1 = element % 3;
                if (jp * 2048 + jo * TJ + j < N)
                    P_shared[j][axis1] = P[(jp * 2048 + jo * TJ + j) * 3 + axis1];
            }
        }

        __syncthreads();  // m.shared and P.shared are complete: written above, read below

        if (full_tile && jp * 2048 + jo * TJ + (TJ - 1) < N) {
            // cache_register(P, at=t, using=[t])
            float P_reg[C][3];
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                #pragma unroll
                for (int axis1 = 0; axis1 < 3; ++axis1)
                    P_reg[j][axis1] = P[(b * 512 + t * C + j) * 3 + axis1];

            for (int ji = 0; ji < 64; ++ji) {
                // tile(ji, U) -> ji, u
                // unroll(u)
                #pragma unroll
                for (int u = 0; u < U; ++u) {
                    // cache_register(s, at=u)
                    float s_reg[C];
                    // tile(t, C) -> t, w
                    // unroll(w)
                    #pragma unroll
                    for (int w = 0; w < C; ++w) {
                        {
                            const float v = P_shared[ji * U + u][0] - P_reg[w][0];
                            const float p = P_shared[ji * U + u][1] - P_reg[w][1];
                            const float q = P_shared[ji * U + u][2] - P_reg[w][2];
                            s_reg[w] = rsqrtf(0.01f + v * v + p * p + q * q);
                        }

                        // unroll(d)
                        #pragma unroll
                        for (int d = 0; d < 3; ++d)
                            part_reg[w][d] +=
                                m_shared[ji * U + u] * (s_reg[w] * s_reg[w] * s_reg[w])
                                * (P_shared[ji * U + u][d] - P_reg[w][d]);
                    }
                }
            }
        } else {
            float P_reg[C][3];
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                if (b * 512 + t * C + j < N)
                    #pragma unroll
                    for (int axis1 = 0; axis1 < 3; ++axis1)
                        P_reg[j][axis1] = P[(b * 512 + t * C + j) * 3 + axis1];

            for (int ji = 0; ji < 64; ++ji)
                #pragma unroll
                for (int u = 0; u < U; ++u)
                    if (jp * 2048 + jo * TJ + ji * U + u < N) {
                        float s_reg[C];
                        #pragma unroll
                        for (int w = 0; w < C; ++w)
                            if (b * 512 + t * C + w < N) {
                                {
                                    const float v = P_shared[ji * U + u][0] - P_reg[w][0];
                                    const float p = P_shared[ji * U + u][1] - P_reg[w][1];
                                    const float q = P_shared[ji * U + u][2] - P_reg[w][2];
                                    s_reg[w] = rsqrtf(0.01f + v * v + p * p + q * q);
                                }

                                #pragma unroll
                                for (int d = 0; d < 3; ++d)
                                    part_reg[w][d] +=
                                        m_shared[ji * U + u] * (s_reg[w] * s_reg[w] * s_reg[w])
                                        * (P_shared[ji * U + u][d] - P_reg[w][d]);
                            }
                    }
        }

        __syncthreads();  // before the next jo overwrites m.shared and P.shared
    }

    float* part_tile = &part[(jp * N + b * 512) * 3];
    if (full_tile) {
        #pragma unroll
        for (int w = 0; w < C; ++w)
            #pragma unroll
            for (int d = 0; d < 3; ++d)
                part_tile[(t * C + w) * 3 + d] = part_reg[w][d];
    } else {
        #pragma unroll
        for (int w = 0; w < C; ++w)
            if (b * 512 + t * C + w < N)
                #pragma unroll
                for (int d = 0; d < 3; ++d)
                    part_tile[(t * C + w) * 3 + d] = part_reg[w][d];
    }
}

// nbody_F: grid (ceil(N/256)), block (256)
// for F[N, 3], part[(N + 2047)/2048, N, 3], arrays of fewer than 2^31 - 2^20 elements
// arrays F[N][3], part[ceil(N/2048)][N][3]; F overlaps no other
// part is scratch memory: float[ceil(N/2048)][N][3]
extern "C" __global__ void __launch_bounds__(256)
nbody_F(float* __restrict__ F, const float* __restrict__ part, int N)
{
    const int fb = blockIdx.x;  // blocks(F.i2, 256) -> fb, ft
    const int ft = threadIdx.x;

    if (fb * 256 + ft < N) {
        // rfactor(F, jp) -> part
        for (int d = 0; d < 3; ++d) {
            F[(fb * 256 + ft) * 3 + d] = 0.0f;

            for (int jp = 0; jp < (N + 2047) / 2048; ++jp)
                F[(fb * 256 + ft) * 3 + d] += part[(jp * N + fb * 256 + ft) * 3 + d];
        }
    }
}
