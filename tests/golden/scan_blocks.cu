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

// scan: grid (M), block (32, 8), 32 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][N], y[M][N]; y overlaps no other
// needs N % 4 == 0, X aligned to 16 bytes, y aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
scan(const float* __restrict__ X, float* __restrict__ y, int N)
{
    // fuse(total.i, warp.i, chunk.i, across.i, behind.i, outer.i, ahead.i, y.i) -> i; bind_warps(i, w, l)
    const int i = blockIdx.x;
    const int w = threadIdx.y;  // tile(warp.joo, WARPS) -> c2, w2
    const int l = threadIdx.x;

    // cache_shared(warp, at=c)
    __shared__ float warp_shared[8];

    // cache_register(run, at=i)
    float run_reg = 0.0f;

    // tile(y.jo, 32) -> c4, l4
    for (int c = 0; c < (((N + 3) / 4 + 31) / 32 + 7) / 8; ++c) {
        // cache_register(warp, at=w)
        float warp_reg = 0.0f;

        // keep_elements(total, ahead, X, y, l)
        float total_reg = 0.0f;
        float X_reg[4];
        if (c * 1024 + w * 128 + l * 4 + 3 < N)
            load_vector<float4>(X_reg, &X[i * N + c * 1024 + w * 128 + l * 4]);

        // cache_register(local, at=c)
        float local_reg[4];
        if (c * 1024 + 1023 < N) {
            #pragma unroll
            for (int ki = 0; ki < 4; ++ki) {
                total_reg += X_reg[ki];
                local_reg[ki] = total_reg;
            }
        } else {
            #pragma unroll
            for (int ki = 0; ki < 4; ++ki) {
                if (c * 1024 + w * 128 + l * 4 + ki < N)
                    total_reg += X_reg[ki];

                local_reg[ki] = total_reg;
            }
        }

        const float warp_ahead = sum_ahead_of_lane<32>(warp_reg, c * 256 + w * 32 + l < (N + 3) / 4 ? total_reg : 0.0f);

        // cache_register(inner, at=c)
        float inner_reg = warp_ahead;

        const float warp_lanes = sum_of_lanes<32>(c * 256 + w * 32 + l < (N + 3) / 4 ? total_reg : 0.0f);

        if (c * 8 + w < ((N + 3) / 4 + 31) / 32) {
            warp_reg += warp_lanes;

            if (l == 0)
                warp_shared[w] = warp_reg;
        }

        // keep_chunk(chunk, across, behind, outer, c, w)
        float chunk_reg = 0.0f;

        __syncthreads();  // warp.shared is complete: written above, read below

        float across_reg;
        float behind_reg;
        if (c * 8 + 7 < ((N + 3) / 4 + 31) / 32) {
            // split_scan(outer, WARPS) -> chunk, across, behind
            for (int kooi = 0; kooi < 8; ++kooi)
                chunk_reg += warp_shared[kooi];

            behind_reg = run_reg;
            run_reg += chunk_reg;
            across_reg = 0.0f;

            for (int kooi = 0; kooi < 8; ++kooi)
                if (kooi < w)
                    across_reg += warp_shared[kooi];
        } else {
            for (int kooi = 0; kooi < 8; ++kooi)
                if (c * 8 + kooi < ((N + 3) / 4 + 31) / 32)
                    chunk_reg += warp_shared[kooi];

            behind_reg = run_reg;
            run_reg += chunk_reg;
            across_reg = 0.0f;

            for (int kooi = 0; kooi < 8; ++kooi)
                if (kooi < w && c * 8 + kooi < ((N + 3) / 4 + 31) / 32)
                    across_reg += warp_shared[kooi];
        }

        float outer_reg = behind_reg + across_reg;
        float ahead_reg = outer_reg + inner_reg;
        float y_reg[4];
        // scan_tiles(y, 4) -> total, local, ahead
        #pragma unroll
        for (int ji = 0; ji < 4; ++ji)
            y_reg[ji] = ahead_reg + local_reg[ji];

        if (c * 1024 + w * 128 + l * 4 + 3 < N)
            store_vector<float4>(&y[i * N + c * 1024 + w * 128 + l * 4], y_reg);

        __syncthreads();  // before the next c overwrites warp.shared
    }
}
