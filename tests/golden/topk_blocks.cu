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

// topk: grid (M), block (32, 8), 64 bytes of shared memory
// for X[M, 4096], best[M, 16], at[M, 16], arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][4096], best[M][16], at[M][16]; best and at overlap no other
// needs X aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
topk(const float* __restrict__ X, float* best, int* at)
{
    const int i = blockIdx.x;   // rows_of_ranks(last.i, place.i, at.i, found.i, best.i, r) -> i; bind_warps(i, w, l)
    const int w = threadIdx.y;  // share_block(j, WARPS) -> c, w, l, v
    const int l = threadIdx.x;

    // cache_shared(aw.best, at=r)
    __shared__ float aw_best_shared[8];
    // cache_shared(aw, at=r)
    __shared__ int aw_shared[8];

    // cache_register(X, at=i, vector=4)
    float X_reg[4][4];
    #pragma unroll
    for (int c = 0; c < 4; ++c)
        load_vector<float4>(X_reg[c], &X[i * 4096 + c * 1024 + w * 128 + l * 4]);

    for (int r = 0; r < 16; ++r) {
        // keep_ranks(last, place, found, r)
        float last_reg = r >= 1 ? best[i * 16 + r - 1] : INFINITY;
        int place_reg = r >= 1 ? at[i * 16 + r - 1] : -1;

        // cache_register(al, at=r)
        int al_reg = 0;

        // cache_register(al.best, at=r)
        float al_best_reg = -INFINITY;

        #pragma unroll
        for (int c = 0; c < 4; ++c)
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                const float candidate =
                    (X_reg[c][v] < last_reg || X_reg[c][v] == last_reg && c * 1024 + w * 128 + l * 4 + v > place_reg
                     ? X_reg[c][v]
                     : -INFINITY);
                if (candidate > al_best_reg) {
                    al_best_reg = candidate;
                    al_reg = c * 1024 + w * 128 + l * 4 + v;
                }
            }

        if (l == 0) {
            aw_shared[w] = 0;
            aw_best_shared[w] = -INFINITY;
        }

        float aw_best_lanes = al_best_reg;
        int aw_lanes = al_reg;
        argmax_of_lanes<32>(aw_best_lanes, aw_lanes);

        // cache_register(at.best, at=r)
        float at_best_reg;
        if (l == 0) {
            {
                const float candidate = aw_best_lanes;
                const int index = aw_lanes;
                if (candidate > aw_best_shared[w] || (candidate == aw_best_shared[w] && index < aw_shared[w])) {
                    aw_best_shared[w] = candidate;
                    aw_shared[w] = index;
                }
            }

            if (w == 0) {
                at[i * 16 + r] = 0;
                at_best_reg = -INFINITY;
            }
        }

        __syncthreads();  // aw.shared and aw.best.shared are complete: written above, read below

        if (l == 0 && w == 0) {
            // rfactor(at, at.w, at=r) -> aw
            for (int w2 = 0; w2 < 8; ++w2) {
                const float candidate = aw_best_shared[w2];
                const int index = aw_shared[w2];
                if (candidate > at_best_reg || (candidate == at_best_reg && index < at[i * 16 + r])) {
                    at_best_reg = candidate;
                    at[i * 16 + r] = index;
                }
            }

            float found_reg = at[i * 16 + r] >= 0 && at[i * 16 + r] < 4096 ? X[i * 4096 + at[i * 16 + r]] : -INFINITY;
            best[i * 16 + r] =
                found_reg < last_reg | ((found_reg == last_reg) & at[i * 16 + r] > place_reg) ? found_reg : -INFINITY;
        }

        __syncthreads();  // before the next r overwrites aw.shared and aw.best.shared
    }
}
