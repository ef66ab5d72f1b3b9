// nbody: grid (ceil(N/1024)), block (512), 8192 bytes of shared memory
// for P[N, 3], F[N, 3], arrays of fewer than 2^31 - 2^20 elements
// arrays P[N][3], m[N], F[N][3]; F overlaps no other
extern "C" __global__ void __launch_bounds__(512)
nbody(const float* __restrict__ P, const float* __restrict__ m, float* __restrict__ F, int N)
{
    constexpr int TJ = 512, U = 8, C = 2;
    const int b = blockIdx.x;   // tile(i, T * C) -> b, t; bind(b, block.x)
    const int t = threadIdx.x;  // bind(t, thread.x)

    // cache_shared(m, at=jo)
    __shared__ float m_shared[TJ];
    // cache_shared(P, at=jo, using=[ji])
    __shared__ float P_shared[TJ][3];

    const bool full_tile = b * 1024 + 1023 < N;

    // cache_register(F, at=b)
    float F_reg[C][3] = {};

    // tile(j, TJ) -> jo, ji
    for (int jo = 0; jo < (N + TJ - 1) / TJ; ++jo) {
        if (jo * TJ + t < N)
            m_shared[t] = m[jo * TJ + t];

        if (jo * TJ + (TJ - 1) < N) {
            #pragma unroll
            for (int part = 0; part < 3; ++part) {
                const int element = part * 512 + t;
                const int j = element / 3;
                const int axis1 = element % 3;
                P_shared[j][axis1] = P[(jo * TJ + j) * 3 + axis1];
            }
        } else {
            #pragma unroll
            for (int part = 0; part < 3; ++part) {
                const int element = part * 512 + t;
                const int j = element / 3;
                const int axis1 = element % 3;
                if (jo * TJ + j < N)
                    P_shared[j][axis1] = P[(jo * TJ + j) * 3 + axis1];
            }
        }

        __syncthreads();  // m.shared and P.shared are complete: written above, read below

        if (full_tile && jo * TJ + (TJ - 1) < N) {
            // cache_register(P, at=t, using=[t])
            float P_reg[C][3];
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                #pragma unroll
                for (int axis1 = 0; axis1 < 3; ++axis1)
                    P_reg[j][axis1] = P[(b * 1024 + t * C + j) * 3 + axis1];

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
                            F_reg[w][d] +=
                                m_shared[ji * U + u] * (s_reg[w] * s_reg[w] * s_reg[w])
                                * (P_shared[ji * U + u][d] - P_reg[w][d]);
                    }
                }
            }
        } else {
            float P_reg[C][3];
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                if (b * 1024 + t * C + j < N)
                    #pragma unroll
                    for (int axis1 = 0; axis1 < 3; ++axis1)
                        P_reg[j][axis1] = P[(b * 1024 + t * C + j) * 3 + axis1];

            for (int ji = 0; ji < 64; ++ji)
                #pragma unroll
                for (int u = 0; u < U; ++u)
                    if (jo * TJ + ji * U + u < N) {
                        float s_reg[C];
                        #pragma unroll
                        for (int w = 0; w < C; ++w)
                            if (b * 1024 + t * C + w < N) {
                                {
                                    const float v = P_shared[ji * U + u][0] - P_reg[w][0];
                                    const float p = P_shared[ji * U + u][1] - P_reg[w][1];
                                    const float q = P_shared[ji * U + u][2] - P_reg[w][2];
                                    s_reg[w] = rsqrtf(0.01f + v * v + p * p + q * q);
                                }

                                #pragma unroll
                                for (int d = 0; d < 3; ++d)
                                    F_reg[w][d] +=
                                        m_shared[ji * U + u] * (s_reg[w] * s_reg[w] * s_reg[w])
                                        * (P_shared[ji * U + u][d] - P_reg[w][d]);
                            }
                    }
        }

        __syncthreads();  // before the next jo overwrites m.shared and P.shared
    }

    float* F_tile = &F[b * 1024 * 3];
    if (full_tile) {
        #pragma unroll
        for (int w = 0; w < C; ++w)
            #pragma unroll
            for (int d = 0; d < 3; ++d)
                F_tile[(t * C + w) * 3 + d] = F_reg[w][d];
    } else {
        #pragma unroll
        for (int w = 0; w < C; ++w)
            if (b * 1024 + t * C + w < N)
                #pragma unroll
                for (int d = 0; d < 3; ++d)
                    F_tile[(t * C + w) * 3 + d] = F_reg[w][d];
    }
}
