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

// total_y: grid (1), block (1)
// for y[1], arrays of fewer than 2^31 - 2^20 elements
// arrays y[1]
extern "C" __global__ void __launch_bounds__(1)
total_y(float* __restrict__ y)
{
    y[0] = 0.0f;
}

// total_pl: grid (ceil(N/65536)), block (32, 32), 128 bytes of shared memory
// for y[1], arrays of fewer than 2^31 - 2^20 elements
// arrays x[N], y[1]; y overlaps no other
// needs N % 4 == 0, x aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(1024)
total_pl(const float* __restrict__ x, float* __restrict__ y, int N)
{
    const int b = blockIdx.x;   // rfactor(y, b) -> part; bind_warps(b, w, l)
    const int w = threadIdx.y;  // share_block(r, 32) -> c, w, l, v
    const int l = threadIdx.x;

    // reduce_block(part, b, w, l) -> pw, pl
    __shared__ float pw_shared[32];

    float pl_reg = 0.0f;
    if (b * 65536 + 65535 < N) {
        for (int c = 0; c < 16; ++c) {
            // cache_register(x, at=c, vector=4)
            float x_reg[4];
            load_vector<float4>(x_reg, &x[b * 65536 + c * 4096 + w * 128 + l * 4]);

            #pragma unroll
            for (int v = 0; v < 4; ++v)
                pl_reg += x_reg[v];
        }
    } else {
        for (int c = 0; c < 16; ++c) {
            float x_reg[4];
            if (b * 65536 + c * 4096 + w * 128 + l * 4 + 3 < N)
                load_vector<float4>(x_reg, &x[b * 65536 + c * 4096 + w * 128 + l * 4]);

            #pragma unroll
            for (int v = 0; v < 4; ++v)
                if (b * 65536 + c * 4096 + w * 128 + l * 4 + v < N)
                    pl_reg += x_reg[v];
        }
    }

    float pw_reg = 0.0f;

    const float pw_lanes = sum_of_lanes<32>(pl_reg);

    if (l == 0) {
        pw_reg += pw_lanes;
        pw_shared[w] = pw_reg;
    }

    __syncthreads();  // pw.shared is complete: written above, read below

    if (l == 0 && w == 0) {
        float part_reg = 0.0f;

        for (int w2 = 0; w2 < 32; ++w2)
            part_reg += pw_shared[w2];

        atomicAdd(&y[0], part_reg);
    }
}
