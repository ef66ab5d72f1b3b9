#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

// The argmax over groups of neighbouring lanes of a warp, the lower index of equal ones: each lane gets both.
template <int lanes, typename T, typename I> __device__ __forceinline__ void argmax_of_lanes(T& value, I& index)
{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        const I place = __shfl_xor_sync(0xffffffff, index, step);
        if (other > value || (other == value && place < index)) {
            value = other;
            index = place;
        }
    }
}

// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
}

// row_argmax: grid (ceil(M/8)), block (32, 8)
// for X[M, 1024], arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][1024], at[M]; at overlaps no other
// needs X aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
row_argmax(const float* __restrict__ X, int* __restrict__ at, int M)
{
    constexpr int R = 8;
    const int b = blockIdx.x;   // tile(i, R) -> b, w; bind_warps(b, w, l)
    const int w = threadIdx.y;
    const int l = threadIdx.x;  // share_warp(j, 32) -> c, l, v

    // cache_register(at.best, at=w)
    float at_best_reg;

    // cache_register(at, at=w)
    int at_reg;

    // cache_register(part.best, at=w)
    float part_best_reg;

    // cache_register(part, at=w)
    int part_reg;
    if (b * R + w < M) {
        part_reg = 0;
        part_best_reg = -INFINITY;

        // cache_register(X, at=l, vector=4)
        float X_reg[8][4];
        #pragma unroll
        for (int c = 0; c < 8; ++c)
            load_vector<float4>(X_reg[c], &X[(b * R + w) * 1024 + c * 128 + l * 4]);

        #pragma unroll
        for (int c = 0; c < 8; ++c)
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (X_reg[c][v] > part_best_reg) {
                    part_best_reg = X_reg[c][v];
                    part_reg = c * 128 + l * 4 + v;
                }
            }

        at_reg = 0;
        at_best_reg = -INFINITY;
    }

    float at_best_lanes = b * R + w < M ? part_best_reg : -INFINITY;
    int at_lanes = b * R + w < M ? part_reg : 2147483647;
    argmax_of_lanes<32>(at_best_lanes, at_lanes);

    if (l == 0 && b * R + w < M) {
        {
            const float candidate = at_best_lanes;
            const int index = at_lanes;
            if (candidate > at_best_reg || (candidate == at_best_reg && index < at_reg)) {
                at_best_reg = candidate;
                at_reg = index;
            }
        }
        at[b * R + w] = at_reg;
    }
}
