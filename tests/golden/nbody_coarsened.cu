// nbody: grid (ceil(N/1024)), block (512), 8192 bytes of shared memory
// for P[N, 3], F[N, 3], arrays of fewer than 2^31 - 2^20 elements
// arrays P[N][3], m[N], F[N][3]; F overlaps no other
extern "C" __global__ void __launch_bounds__(512)
nbody(const float* __restrict__ P, const float* __restrict__ m, float* __restrict__ F, int N)
{
    const int b = blockIdx.x;   // tile(i, T * C) -> b, t; bind(b, block.x)
    const int t = threadIdx.x;  // bind(t, thread.x)

    // cache_shared(m, at=jo)
    __shared__ float m_shared[512];
    // cache_shared(P, at=jo, using=[ji])
    __shared__ float P_shared[512][3];

    // cache_register(F, at=b)
    float F_reg[2][3] = {};

    // tile(j, TJ) -> jo, ji
    for (int jo = 0; jo < (N + 511) / 512; ++jo) {
        if (jo * 512 + t < N)
            m_shared[t] = m[jo * 512 + t];

        if (jo * 512 + 511 < N) {
            #pragma unroll
            for (int part = 0; part < 3; ++part) {
                const int element = part * 512 + t;
                const int j = element / 3;
                const int axis1 = element % 3;
                P_shared[j][axis1] = P[(jo * 512 + j) * 3 + axis1];
            }
        } else {
            #pragma unroll
            for (int part = 0; part < 3; ++part) {
                const int element = part * 512 + t;
                const int j = element / 3;
                const int axis1 = element % 3;
                if (jo * 512 + j < N)
                    P_shared[j][axis1] = P[(jo * 512 + j) * 3 + axis1];
            }
        }

        __syncthreads();  // m.shared and P.shared are complete: written above, read below

        if (b * 1024 + 1023 < N && jo * 512 + 511 < N) {
            // cache_register(P, at=t, using=[t])
            float P_reg[2][3];
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                #pragma unroll
                for (int axis1 = 0; axis1 < 3; ++axis1)
                    P_reg[j][axis1] = P[(b * 1024 + t * 2 + j) * 3 + axis1];

            for (int ji = 0; ji < 64; ++ji) {
                // tile(ji, U) -> ji, u
                // unroll(u)
                #pragma unroll
                for (int u = 0; u < 8; ++u) {
                    // cache_register(s, at=u)
                    float s_reg[2];
                    // tile(t, C) -> t, w
                    // unroll(w)
                    #pragma unroll
                    for (int w = 0; w < 2; ++w) {
                        {
                            const float v = P_shared[ji * 8 + u][0] - P_reg[w][0];
                            const float p = P_shared[ji * 8 + u][1] - P_reg[w][1];
                            const float q = P_shared[ji * 8 + u][2] - P_reg[w][2];
                            s_reg[w] = rsqrtf(0.01f + v * v + p * p + q * q);
                        }

                        // unroll(d)
                        #pragma unroll
                        for (int d = 0; d < 3; ++d)
                            F_reg[w][d] +=
                                m_shared[ji * 8 + u] * (s_reg[w] * s_reg[w] * s_reg[w])
                                    * (P_shared[ji * 8 + u][d] - P_reg[w][d]);
                    }
                }
            }
        } else {
            float P_reg[2][3];
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                if (b * 1024 + t * 2 + j < N)
                    #pragma unroll
                    for (int axis1 = 0; axis1 < 3; ++axis1)
                        P_reg[j][axis1] = P[(b * 1024 + t * 2 + j) * 3 + axis1];

            for (int ji = 0; ji < 64; ++ji)
                #pragma unroll
                for (int u = 0; u < 8; ++u)
                    if (jo * 512 + ji * 8 + u < N) {
                        float s_reg[2];
                        #pragma unroll
                        for (int w = 0; w < 2; ++w)
                            if (b * 1024 + t * 2 + w < N) {
                                {
                                    const float v = P_shared[ji * 8 + u][0] - P_reg[w][0];
                                    const float p = P_shared[ji * 8 + u][1] - P_reg[w][1];
                                    const float q = P_shared[ji * 8 + u][2] - P_reg[w][2];
                                    s_reg[w] = rsqrtf(0.01f + v * v + p * p + q * q);
                                }

                                #pragma unroll
                                for (int d = 0; d < 3; ++d)
                                    F_reg[w][d] +=
                                        m_shared[ji * 8 + u] * (s_reg[w] * s_reg[w] * s_reg[w])
                                            * (P_shared[ji * 8 + u][d] - P_reg[w][d]);
                            }
                    }
        }

        __syncthreads();  // before the next jo overwrites m.shared and P.shared
    }

    if (b * 1024 + 1023 < N) {
        #pragma unroll
        for (int w = 0; w < 2; ++w)
            #pragma unroll
            for (int d = 0; d < 3; ++d)
                F[(b * 1024 + t * 2 + w) * 3 + d] = F_reg[w][d];
    } else {
        #pragma unroll
        for (int w = 0; w < 2; ++w)
            if (b * 1024 + t * 2 + w < N)
                #pragma unroll
                for (int d = 0; d < 3; ++d)
                    F[(b * 1024 + t * 2 + w) * 3 + d] = F_reg[w][d];
    }
}
