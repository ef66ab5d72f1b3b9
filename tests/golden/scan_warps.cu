// The sum over groups of neighbouring lanes of a warp: each of them gets it.
template <int lanes, typename T> __device__ __forceinline__ T sum_of_lanes(T value)
{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        value = value + other;
    }
    return value;
}

// The sum of the values up to each of neighbouring lanes of a warp, which are all threads along x.
template <int lanes, typename T> __device__ __forceinline__ T sum_along_lanes(T value)
{
#pragma unroll
    for (int step = 1; step < lanes; step *= 2) {
        const T other = __shfl_up_sync(0xffffffff, value, step, lanes);
        if (threadIdx.x >= step)
            value = value + other;
    }
    return value;
}

// The sum of `start` and the values of the lanes before each.
template <int lanes, typename T> __device__ __forceinline__ T sum_ahead_of_lane(T start, T value)
{
    const T other = __shfl_up_sync(0xffffffff, sum_along_lanes<lanes>(value), 1, lanes);
    value = start;
    return threadIdx.x == 0 ? value : value + other;
}

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

// scan: grid (ceil(M/4)), block (32, 4)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][N], y[M][N]; y overlaps no other
// needs N % 4 == 0, X aligned to 16 bytes, y aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(128)
scan(const float* __restrict__ X, float* __restrict__ y, int M, int N)
{
    constexpr int R = 4;
    const int b = blockIdx.x;   // tile(i, R) -> b, w; bind_warps(b, w, l)
    const int w = threadIdx.y;
    const int l = threadIdx.x;  // along_lanes(total.i, total.jo, ahead.i, ahead.jo, y.i, y.jo) -> i, c, l

    // cache_register(run, at=w)
    float run_reg = 0.0f;

    for (int c = 0; c < ((N + 3) / 4 + 31) / 32; ++c) {
        // keep_tile(total, local, ahead, X, y, l)
        float total_reg;
        float local_reg[4];
        if (b * R + w < M) {
            total_reg = 0.0f;
            float X_reg[4];
            if (c * 128 + l * 4 + 3 < N)
                load_vector<float4>(X_reg, &X[(b * R + w) * N + c * 128 + l * 4]);

            if (c * 128 + 127 < N) {
                #pragma unroll
                for (int ki = 0; ki < 4; ++ki) {
                    total_reg += X_reg[ki];
                    local_reg[ki] = total_reg;
                }
            } else {
                #pragma unroll
                for (int ki = 0; ki < 4; ++ki) {
                    if (c * 128 + l * 4 + ki < N)
                        total_reg += X_reg[ki];

                    local_reg[ki] = total_reg;
                }
            }
        }

        const float run_ahead =
            sum_ahead_of_lane<32>(run_reg, c * 32 + l < (N + 3) / 4 && b * R + w < M ? total_reg : 0.0f);

        float ahead_reg = run_ahead;

        const float run_lanes = sum_of_lanes<32>(c * 32 + l < (N + 3) / 4 && b * R + w < M ? total_reg : 0.0f);

        if (b * R + w < M) {
            run_reg += run_lanes;
            float y_reg[4];
            // scan_tiles(y, 4) -> total, local, ahead
            #pragma unroll
            for (int ji = 0; ji < 4; ++ji)
                y_reg[ji] = ahead_reg + local_reg[ji];

            if (c * 128 + l * 4 + 3 < N)
                store_vector<float4>(&y[(b * R + w) * N + c * 128 + l * 4], y_reg);
        }
    }
}
