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

// layer_norm: grid (M), block (32, 4), 32 bytes of shared memory
// for X[M, 1024], scale[1024], shift[1024], Y[M, 1024], arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][1024], scale[1024], shift[1024], Y[M][1024]; Y overlaps no other
// needs X aligned to 16 bytes, scale aligned to 16 bytes, shift aligned to 16 bytes, Y aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(128)
layer_norm(const float* __restrict__ X,
           const float* __restrict__ scale,
           const float* __restrict__ shift,
           float* __restrict__ Y)
{
    const int i = blockIdx.x;   // fuse(mean.i, variance.i, Y.i) -> i; bind_warps(i, w, l)
    const int w = threadIdx.y;  // share_block(j, WARPS) -> c, w, l, v
    const int l = threadIdx.x;

    // reduce_block(mean, i, w, l) -> mw, mp
    __shared__ float mw_shared[4];
    // reduce_block(variance, i, w, l) -> vw, vp
    __shared__ float vw_shared[4];

    // cache_register(X, at=i, vector=4)
    float X_reg[2][4];
    #pragma unroll
    for (int c = 0; c < 2; ++c)
        load_vector<float4>(X_reg[c], &X[i * 1024 + c * 512 + w * 128 + l * 4]);

    float mp_reg = 0.0f;

    #pragma unroll
    for (int c = 0; c < 2; ++c)
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            mp_reg += X_reg[c][v] / 1024.0f;

    float mw_reg = 0.0f;

    const float mw_lanes = sum_of_lanes<32>(mp_reg);

    if (l == 0) {
        mw_reg += mw_lanes;
        mw_shared[w] = mw_reg;
    }

    float mean_reg = 0.0f;

    __syncthreads();  // mw.shared is complete: written above, read below

    for (int w2 = 0; w2 < 4; ++w2)
        mean_reg += mw_shared[w2];

    float vp_reg = 0.0f;

    #pragma unroll
    for (int c = 0; c < 2; ++c)
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float u = X_reg[c][v] - mean_reg;
            vp_reg += u * u / 1024.0f;
        }

    float vw_reg = 0.0f;

    const float vw_lanes = sum_of_lanes<32>(vp_reg);

    if (l == 0) {
        vw_reg += vw_lanes;
        vw_shared[w] = vw_reg;
    }

    float variance_reg = 0.0f;

    __syncthreads();  // vw.shared is complete: written above, read below

    for (int w2 = 0; w2 < 4; ++w2)
        variance_reg += vw_shared[w2];

    #pragma unroll
    for (int c = 0; c < 2; ++c) {
        // cache_register(scale, at=c, vector=4)
        float scale_reg[4];
        load_vector<float4>(scale_reg, &scale[c * 512 + w * 128 + l * 4]);

        // cache_register(shift, at=c, vector=4)
        float shift_reg[4];
        load_vector<float4>(shift_reg, &shift[c * 512 + w * 128 + l * 4]);

        // cache_register(Y, at=c, vector=4)
        float Y_reg[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            Y_reg[v] = (X_reg[c][v] - mean_reg) * rsqrtf(variance_reg + 1e-05f) * scale_reg[v] + shift_reg[v];

        store_vector<float4>(&Y[i * 1024 + c * 512 + w * 128 + l * 4], Y_reg);
    }
}
