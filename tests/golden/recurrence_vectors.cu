// What the linear steps of neighbouring lanes of a warp come to, in the order of these: each gets value and factor.
template <int lanes, typename T> __device__ __forceinline__ void linear_of_lanes(T& value, T& factor)
{
#pragma unroll
    for (int step = 1; step < lanes; step *= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        const T by = __shfl_xor_sync(0xffffffff, factor, step);
        value = threadIdx.x & step ? factor * other + value : by * value + other;
        factor = factor * by;
    }
}

// What the linear steps up to each of neighbouring lanes come to. The lanes are all threads along x.
template <int lanes, typename T> __device__ __forceinline__ void linear_along_lanes(T& value, T& factor)
{
#pragma unroll
    for (int step = 1; step < lanes; step *= 2) {
        const T other = __shfl_up_sync(0xffffffff, value, step, lanes);
        const T by = __shfl_up_sync(0xffffffff, factor, step, lanes);
        if (threadIdx.x >= step) {
            value = factor * other + value;
            factor = factor * by;
        }
    }
}

// What the steps of the lanes before each make of `start`.
template <int lanes, typename T> __device__ __forceinline__ T linear_ahead_of_lane(T start, T factor, T value)
{
    linear_along_lanes<lanes>(value, factor);
    const T other = __shfl_up_sync(0xffffffff, value, 1, lanes);
    const T by = __shfl_up_sync(0xffffffff, factor, 1, lanes);
    return threadIdx.x == 0 ? start : by * start + other;
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

// recurrence: grid (ceil(M/4)), block (32, 4)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays A[M][N], X[M][N], y[M][N]; y overlaps no other
// needs N % 4 == 0, A aligned to 16 bytes, X aligned to 16 bytes, y aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(128)
recurrence(const float* __restrict__ A, const float* __restrict__ X, float* __restrict__ y, int M, int N)
{
    constexpr int R = 4;
    const int b = blockIdx.x;   // tile(i, R) -> b, w; bind_warps(b, w, l)
    const int w = threadIdx.y;
    const int l = threadIdx.x;  // lanes_of_pairs(total.jo, factor.jo, ahead.jo, y.jo) -> c, l

    // cache_register(run, at=w)
    float run_reg = 0.0f;

    for (int c = 0; c < ((N + 3) / 4 + 31) / 32; ++c) {
        // keep_pairs(total, factor, ahead, l)
        float factor_reg;
        float total_reg;

        // cache_register(factors, at=l)
        float factors_reg[4];

        // cache_register(local, at=l)
        float local_reg[4];
        if (b * R + w < M) {
            total_reg = 0.0f;
            float X_reg[4];
            float A_reg[4];
            if (c * 128 + l * 4 + 3 < N) {
                load_vector<float4>(A_reg, &A[(b * R + w) * N + c * 128 + l * 4]);
                load_vector<float4>(X_reg, &X[(b * R + w) * N + c * 128 + l * 4]);
            }

            if (c * 128 + 127 < N) {
                #pragma unroll
                for (int ki = 0; ki < 4; ++ki) {
                    total_reg = A_reg[ki] * total_reg + X_reg[ki];
                    local_reg[ki] = total_reg;
                }

                factor_reg = 1.0f;

                #pragma unroll
                for (int ki = 0; ki < 4; ++ki) {
                    factor_reg *= A_reg[ki];
                    factors_reg[ki] = factor_reg;
                }
            } else {
                #pragma unroll
                for (int ki = 0; ki < 4; ++ki) {
                    if (c * 128 + l * 4 + ki < N)
                        total_reg = A_reg[ki] * total_reg + X_reg[ki];

                    local_reg[ki] = total_reg;
                }

                factor_reg = 1.0f;

                #pragma unroll
                for (int ki = 0; ki < 4; ++ki) {
                    if (c * 128 + l * 4 + ki < N)
                        factor_reg *= A_reg[ki];

                    factors_reg[ki] = factor_reg;
                }
            }
        }

        const float run_ahead =
            linear_ahead_of_lane<32>(run_reg, c * 32 + l < (N + 3) / 4 && b * R + w < M ? factor_reg : 1.0f,
                                     c * 32 + l < (N + 3) / 4 && b * R + w < M ? total_reg : 0.0f);

        float ahead_reg = run_ahead;

        float run_lanes = c * 32 + l < (N + 3) / 4 && b * R + w < M ? total_reg : 0.0f;
        float run_factor = c * 32 + l < (N + 3) / 4 && b * R + w < M ? factor_reg : 1.0f;
        linear_of_lanes<32>(run_lanes, run_factor);

        if (b * R + w < M) {
            run_reg = run_factor * run_reg + run_lanes;
            float y_reg[4];
            // pair_tiles(y, 4) -> total, local, ahead, factor, factors
            #pragma unroll
            for (int ji = 0; ji < 4; ++ji)
                y_reg[ji] = factors_reg[ji] * ahead_reg + local_reg[ji];

            if (c * 128 + l * 4 + 3 < N)
                store_vector<float4>(&y[(b * R + w) * N + c * 128 + l * 4], y_reg);
        }
    }
}
