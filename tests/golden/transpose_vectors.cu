// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
}

// transpose: grid (ceil(M/64), ceil(N/64)), block (16, 32), 16384 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(N/64) <= 65535
// arrays X[M][N], Y[N][M]; Y overlaps no other
// needs N % 4 == 0, M % 4 == 0, X aligned to 16 bytes, Y aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(512)
transpose(const float* __restrict__ X, float* __restrict__ Y, int M, int N)
{
    constexpr int TS = 64, ROWS = 32;
    const int bj = blockIdx.y;   // tile(j, TS) -> bj, tj; bind(bj, block.y)
    const int bi = blockIdx.x;   // tile(i, TS) -> bi, ti; bind(bi, block.x)
    const int tj = threadIdx.y;  // bind(tj, thread.y)
    const int ti = threadIdx.x;  // bind(ti, thread.x)

    // cache_shared(X, at=bi, vector=4)
    // element c of row r lies at c ^ (((r >> 2) & 7) << 2)
    __shared__ __align__(16) float X_shared[TS][TS];

    if (bj * TS + ti * 4 + 3 < N) {
        const float* X_tile = &X[bi * TS * N + bj * TS];
        if (bi * TS + (TS - 1) < M) {
            #pragma unroll
            for (int part = 0; part < 2; ++part)
                *reinterpret_cast<float4*>(&X_shared[part * 32 + tj][(ti * 4) ^ (((tj >> 2) & 7) << 2)]) =
                    *reinterpret_cast<const float4*>(&X_tile[(part * 32 + tj) * N + ti * 4]);
        } else {
            #pragma unroll
            for (int part = 0; part < 2; ++part)
                if (bi * TS + part * 32 + tj < M)
                    *reinterpret_cast<float4*>(&X_shared[part * 32 + tj][(ti * 4) ^ (((tj >> 2) & 7) << 2)]) =
                        *reinterpret_cast<const float4*>(&X_tile[(part * 32 + tj) * N + ti * 4]);
        }
    }

    __syncthreads();  // X.shared is complete: written above, read below

    float* Y_tile = &Y[bj * TS * M + bi * TS];
    if (bj * TS + (TS - 1) < N && bi * TS + (TS - 1) < M) {
        // cache_register(Y, at=ti, vector=4)
        float Y_reg[2][4];
        // tile(tj, ROWS) -> wj, tj
        // unroll(wj)
        #pragma unroll
        for (int wj = 0; wj < 2; ++wj) {
            // tile(ti, 4) -> ti, vi
            // unroll(vi)
            #pragma unroll
            for (int vi = 0; vi < 4; ++vi)
                Y_reg[wj][vi] = X_shared[ti * 4 + vi][wj * ROWS + (tj ^ ((((ti * 4 + vi) >> 2) & 7) << 2))];
        }

        #pragma unroll
        for (int wj = 0; wj < 2; ++wj)
            store_vector<float4>(&Y_tile[(wj * ROWS + tj) * M + ti * 4], Y_reg[wj]);
    } else {
        float Y_reg[2][4];
        #pragma unroll
        for (int wj = 0; wj < 2; ++wj)
            if (bj * TS + wj * ROWS + tj < N)
                #pragma unroll
                for (int vi = 0; vi < 4; ++vi)
                    if (bi * TS + ti * 4 + vi < M)
                        Y_reg[wj][vi] = X_shared[ti * 4 + vi][wj * ROWS + (tj ^ ((((ti * 4 + vi) >> 2) & 7) << 2))];

        if (bi * TS + ti * 4 + 3 < M)
            #pragma unroll
            for (int wj = 0; wj < 2; ++wj)
                if (bj * TS + wj * ROWS + tj < N)
                    store_vector<float4>(&Y_tile[(wj * ROWS + tj) * M + ti * 4], Y_reg[wj]);
    }
}
