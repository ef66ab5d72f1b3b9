#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

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

// The max over groups of neighbouring lanes of a warp: each of them gets it.
template <int lanes, typename T> __device__ __forceinline__ T max_of_lanes(T value)
{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        value = max(value, other);
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

// softmax: grid (M), block (32, 4), 32 bytes of shared memory
// for X[M, 1024], Y[M, 1024], arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][1024], Y[M][1024]; Y overlaps no other
// needs X aligned to 16 bytes, Y aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(128)
softmax(const float* __restrict__ X, float* __restrict__ Y)
{
    const int i = blockIdx.x;   // fuse(m.i, e.i, s.i, Y.i) -> i; bind_warps(i, w, l)
    const int w = threadIdx.y;  // share_block(j, WARPS) -> c, w, l, v
    const int l = threadIdx.x;

    // reduce_block(m, i, w, l) -> mw, mp
    __shared__ float mw_shared[4];
    // reduce_block(s, i, w, l) -> sw, sp
    __shared__ float sw_shared[4];

    // cache_register(X, at=i, vector=4)
    float X_reg[2][4];
    #pragma unroll
    for (int c = 0; c < 2; ++c)
        load_vector<float4>(X_reg[c], &X[i * 1024 + c * 512 + w * 128 + l * 4]);

    float mp_reg = -INFINITY;

    #pragma unroll
    for (int c = 0; c < 2; ++c)
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            mp_reg = fmaxf(mp_reg, X_reg[c][v]);

    float mw_reg = -INFINITY;

    const float mw_lanes = max_of_lanes<32>(mp_reg);

    if (l == 0) {
        mw_reg = fmaxf(mw_reg, mw_lanes);
        mw_shared[w] = mw_reg;
    }

    float m_reg = -INFINITY;

    __syncthreads();  // mw.shared is complete: written above, read below

    for (int w2 = 0; w2 < 4; ++w2)
        m_reg = fmaxf(m_reg, mw_shared[w2]);

    // cache_register(e, at=i)
    float e_reg[2][4];
    #pragma unroll
    for (int c = 0; c < 2; ++c)
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            e_reg[c][v] = expf(X_reg[c][v] - m_reg);

    float sp_reg = 0.0f;

    #pragma unroll
    for (int c = 0; c < 2; ++c)
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            sp_reg += e_reg[c][v];

    float sw_reg = 0.0f;

    const float sw_lanes = sum_of_lanes<32>(sp_reg);

    if (l == 0) {
        sw_reg += sw_lanes;
        sw_shared[w] = sw_reg;
    }

    float s_reg = 0.0f;

    __syncthreads();  // sw.shared is complete: written above, read below

    for (int w2 = 0; w2 < 4; ++w2)
        s_reg += sw_shared[w2];

    #pragma unroll
    for (int c = 0; c < 2; ++c) {
        // cache_register(Y, at=c, vector=4)
        float Y_reg[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            Y_reg[v] = e_reg[c][v] / s_reg;

        store_vector<float4>(&Y[i * 1024 + c * 512 + w * 128 + l * 4], Y_reg);
    }
}
