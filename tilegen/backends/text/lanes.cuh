// What lanes of a warp, or threads that meet in an element, combine. helpers.py makes those of other updates
// from sums and argmax.

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

// The sum of `start` and the values up to each lane.
template <int lanes, typename T> __device__ __forceinline__ T sum_up_to_lane(T start, T value)
{
    const T other = sum_along_lanes<lanes>(value);
    value = start;
    return value + other;
}

// The sum of `start` and the values of the lanes ahead of each.
template <int lanes, typename T> __device__ __forceinline__ T sum_ahead_of_lane(T start, T value)
{
    const T other = __shfl_up_sync(0xffffffff, sum_along_lanes<lanes>(value), 1, lanes);
    value = start;
    return threadIdx.x == 0 ? value : value + other;
}

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

// A sum in one access of each of 2 neighbours, at once on sm_90.
__device__ __forceinline__ void atomic_add_float2(float* place, float2 terms)
{
#if __CUDA_ARCH__ >= 900
    atomicAdd(reinterpret_cast<float2*>(place), terms);
#else
    atomicAdd(&place[0], terms.x);
    atomicAdd(&place[1], terms.y);
#endif
}

// A sum in one access of each of 4 neighbours, at once on sm_90.
__device__ __forceinline__ void atomic_add_float4(float* place, float4 terms)
{
#if __CUDA_ARCH__ >= 900
    atomicAdd(reinterpret_cast<float4*>(place), terms);
#else
    atomicAdd(&place[0], terms.x);
    atomicAdd(&place[1], terms.y);
    atomicAdd(&place[2], terms.z);
    atomicAdd(&place[3], terms.w);
#endif
}

// The first of `count` places in a row behind `next`, for each lane: one update gives those of all lanes of a warp, where
// these come together.
__device__ __forceinline__ int take_places(int* next, int count)
{
    if (__activemask() != 0xffffffff)
        return atomicAdd(next, count);
    int lane, sum = count, first = 0;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(0xffffffff, sum, step);
        if (lane >= step)
            sum += other;
    }
    if (lane == 31 && sum > 0)
        first = atomicAdd(next, sum);
    return __shfl_sync(0xffffffff, first, 31) + sum - count;
}
