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

// The sum of `start` and the values of the lanes before each.
template <int lanes, typename T> __device__ __forceinline__ T sum_ahead_of_lane(T start, T value)
{
    const T other = __shfl_up_sync(0xffffffff, sum_along_lanes<lanes>(value), 1, lanes);
    value = start;
    return threadIdx.x == 0 ? value : value + other;
}

// How many lanes of a warp have a one, and not a zero.
template <int lanes> __device__ __forceinline__ int ones_of_lanes(int value)
{
    return __popc(__ballot_sync(0xffffffff, value != 0));
}

// `start` and how many lanes have a one, up to each of those of a warp, which are all threads along x.
template <int lanes> __device__ __forceinline__ int ones_up_to_lane(int start, int value)
{
    return start + __popc(__ballot_sync(0xffffffff, value != 0) & 0xffffffff >> 31 - threadIdx.x);
}

// `start` and how many of the lanes before each have a one.
template <int lanes> __device__ __forceinline__ int ones_ahead_of_lane(int start, int value)
{
    return start + __popc(__ballot_sync(0xffffffff, value != 0) & (1u << threadIdx.x) - 1);
}

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

// What the steps up to each lane make of `start`.
template <int lanes, typename T> __device__ __forceinline__ T linear_up_to_lane(T start, T factor, T value)
{
    linear_along_lanes<lanes>(value, factor);
    return factor * start + value;
}

// What the steps of the lanes before each make of `start`.
template <int lanes, typename T> __device__ __forceinline__ T linear_ahead_of_lane(T start, T factor, T value)
{
    linear_along_lanes<lanes>(value, factor);
    const T other = __shfl_up_sync(0xffffffff, value, 1, lanes);
    const T by = __shfl_up_sync(0xffffffff, factor, 1, lanes);
    return threadIdx.x == 0 ? start : by * start + other;
}

// The number of this launch among those that use the same words.
__device__ __forceinline__ unsigned& launch_of_block()
{
    __shared__ unsigned launch;
    return launch;
}

// A number for the block, in the order in which blocks begin. The first word counts them, and launches in its upper half.
template <typename T> __device__ __forceinline__ int draw_number(T* states)
{
    __shared__ int number;
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        const unsigned long long drawn = atomicAdd(reinterpret_cast<unsigned long long*>(states), 1ull);
        number = (int)drawn;
        launch_of_block() = (unsigned)(drawn >> 32);
        if (number == (int)gridDim.x - 1)
            states[0] = ((drawn >> 32) + 1) << 32;  // all have drawn theirs
    }
    __syncthreads();
    return number;
}

template <typename T> __device__ __forceinline__ T sum_of_two(T value, T other)
{
    return value + other;
}

// A value of 32 bits and what is known of its block, in a word that is written and read at once: four times the number
// of the launch, and 1 more if it is what the block adds, 2 more if it is what all up to the block come to.
template <typename T> __device__ __forceinline__ void publish(long long* place, unsigned known, T value)
{
    unsigned bits;
    memcpy(&bits, &value, 4);
    *reinterpret_cast<volatile unsigned long long*>(place) = (unsigned long long)known << 32 | bits;
}

template <typename T> __device__ __forceinline__ T published(unsigned long long word)
{
    const unsigned bits = (unsigned)word;
    T value;
    memcpy(&value, &bits, 4);
    return value;
}

// The sum of `start` and what the blocks of smaller numbers add, in their order, for a block that adds `total`. The
// first warp looks back at 32 blocks at a time, until one knows what all up to it come to. Blocks wait for those of
// smaller numbers alone, which run by then. What earlier launches have published says nothing.
template <typename T> __device__ __forceinline__ T sum_of_blocks_before(long long* states, int block, T start, T total)
{
    __shared__ T before;
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    if (thread < 32) {
        const unsigned launch = launch_of_block() << 2;
        T found = start;
        if (thread == 0)
            publish(&states[1 + block], block ? launch + 1 : launch + 2, block ? total : sum_of_two(start, total));
        if (block) {
            unsigned complete = 0;
            for (int last = block - 1; complete == 0; last -= 32) {
                const int other = last - thread;
                unsigned long long word = 0;
                unsigned known = 1;
                do {
                    if (other >= 0) {
                        word = *reinterpret_cast<volatile unsigned long long*>(&states[1 + other]);
                        known = (unsigned)(word >> 32) - launch;
                    }
                } while (__any_sync(0xffffffff, known != 1 && known != 2));
                complete = __ballot_sync(0xffffffff, known == 2);
                const int count = complete ? __ffs(complete) : 32;
                T part = published<T>(word);
                #pragma unroll
                for (int step = 1; step < 32; step *= 2) {
                    const T further = __shfl_down_sync(0xffffffff, part, step);
                    if (thread + step < count)
                        part = sum_of_two(further, part);
                }
                found = last == block - 1 ? part : sum_of_two(part, found);
            }
            if (thread == 0)
                publish(&states[1 + block], launch + 2, sum_of_two(found, total));
        }
        if (thread == 0)
            before = found;
    }
    __syncthreads();
    return before;
}

// The same of linear steps: what those of the blocks of smaller numbers make of `start`, for a block that multiplies by
// `factor` and adds `total`. A second word has the factor, and knows itself which launch it is of.
template <typename T>
__device__ __forceinline__ T linear_of_blocks_before(long long* states, int block, T start, T total, T factor)
{
    __shared__ T before;
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    if (thread < 32) {
        const unsigned launch = launch_of_block() << 2;
        T found = start;
        if (thread == 0) {
            publish(&states[2 + 2 * block], launch + 1, factor);
            publish(&states[1 + 2 * block], block ? launch + 1 : launch + 2, block ? total : factor * start + total);
        }
        if (block) {
            T by = 1;
            unsigned complete = 0;
            for (int last = block - 1; complete == 0; last -= 32) {
                const int other = last - thread;
                unsigned long long words[2] = {0, 0};
                unsigned known = 1;
                do {
                    if (other >= 0) {
                        words[0] = *reinterpret_cast<volatile unsigned long long*>(&states[1 + 2 * other]);
                        words[1] = *reinterpret_cast<volatile unsigned long long*>(&states[2 + 2 * other]);
                        known = (unsigned)(words[0] >> 32) - launch;
                        if ((unsigned)(words[1] >> 32) - launch != 1)
                            known = 0;
                    }
                } while (__any_sync(0xffffffff, known != 1 && known != 2));
                complete = __ballot_sync(0xffffffff, known == 2);
                const int count = complete ? __ffs(complete) : 32;
                T part = published<T>(words[0]);
                T factors = published<T>(words[1]);
                #pragma unroll
                for (int step = 1; step < 32; step *= 2) {
                    const T further = __shfl_down_sync(0xffffffff, part, step);
                    const T times = __shfl_down_sync(0xffffffff, factors, step);
                    if (thread + step < count) {
                        part = factors * further + part;
                        factors = factors * times;
                    }
                }
                found = last == block - 1 ? part : by * part + found;
                by = by * factors;
            }
            if (thread == 0)
                publish(&states[1 + 2 * block], launch + 2, factor * found + total);
        }
        if (thread == 0)
            before = found;
    }
    __syncthreads();
    return before;
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

// Places for `count` hits of each thread, by one update for all threads of a block: the first one of this warp.
__device__ __forceinline__ int take_places(int* next, int count)
{
    __shared__ int first, ahead[32];
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int warps = blockDim.x * blockDim.y * blockDim.z / 32;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        count += __shfl_xor_sync(0xffffffff, count, step);
    __syncthreads();  // all have read what they took before
    if (thread % 32 == 0)
        ahead[thread / 32] = count;
    __syncthreads();
    if (thread < 32) {
        const int mine = thread < warps ? ahead[thread] : 0;
        int sum = mine;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(0xffffffff, sum, step);
            sum += thread < step ? 0 : other;
        }
        ahead[thread] = sum - mine;
        if (thread == 31)
            first = sum > 0 ? atomicAdd(next, sum) : 0;
    }
    __syncthreads();
    return first + ahead[thread / 32];
}

// The next place, for each lane of a warp that has a hit; -1 for the others.
__device__ __forceinline__ int next_place(int& places, int hit)
{
    unsigned int ahead;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(ahead));
    const unsigned int hits = __ballot_sync(0xffffffff, hit);
    if (hits == 0)
        return -1;
    const int place = places + __popc(hits & ahead);
    places += __popc(hits);
    return hit ? place : -1;
}
