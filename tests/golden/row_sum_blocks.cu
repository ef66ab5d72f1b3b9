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

// row_sum: grid (M), block (32, 4), 16 bytes of shared memory
// for X[M, 1024], arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][1024], y[M]; y overlaps no other
// needs X aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(128)
row_sum(const float* __restrict__ X, float* __restrict__ y)
{
    const int i = blockIdx.x;   // bind_warps(i, w, l)
    const int w = threadIdx.y;  // share_block(j, WARPS) -> c, w, l, v
    const int l = threadIdx.x;

    // reduce_block(y, i, w, l) -> yw, yl
    __shared__ float yw_shared[4];

    float yl_reg = 0.0f;

    // cache_register(X, at=l, vector=4)
    float X_reg[2][4];
    #pragma unroll
    for (int c = 0; c < 2; ++c) {
        const float4 X_vec = __ldcs(reinterpret_cast<const float4*>(&X[i * 1024 + c * 512 + w * 128 + l * 4]));
        X_reg[c][0] = X_vec.x;
        X_reg[c][1] = X_vec.y;
        X_reg[c][2] = X_vec.z;
        X_reg[c][3] = X_vec.w;
    }

    #pragma unroll
    for (int c = 0; c < 2; ++c)
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            yl_reg += X_reg[c][v];

    float yw_reg = 0.0f;

    const float yw_lanes = sum_of_lanes<32>(yl_reg);

    float y_reg;
    if (l == 0) {
        yw_reg += yw_lanes;
        yw_shared[w] = yw_reg;
        y_reg = 0.0f;
    }

    __syncthreads();  // yw.shared is complete: written above, read below

    if (l == 0 && w == 0) {
        for (int w2 = 0; w2 < 4; ++w2)
            y_reg += yw_shared[w2];

        y[i] = y_reg;
    }
}
