// Products of warpgroups, which run on while their lanes do. From describe_128 helpers.py makes those of other rows.

// What this thread has written to shared memory is there for what reads it by descriptor or in bulk.
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A barrier of the first threads of the block, so many of them.
template <int threads> __device__ __forceinline__ void wait_for_each_other()
{
    asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}

// A barrier of one of two groups of so many threads.
template <int threads> __device__ __forceinline__ void wait_for_group(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(threads) : "memory");
}

// A number that all lanes of a warp have, which the compiler does not know.
__device__ __forceinline__ int uniform(int number)
{
    return __shfl_sync(0xffffffffu, number, 0);
}

// The registers that products will read and write are ready.
__device__ __forceinline__ void begin_wgmma()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Waits until all products that were begun have ended.
__device__ __forceinline__ void complete_wgmma()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Waits until all products have ended but those since the last begin.
__device__ __forceinline__ void complete_earlier_wgmma()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

// Registers of products: no use of them moves past this place.
template <int words> __device__ __forceinline__ void hold(float* registers)
{
#pragma unroll
    for (int r = 0; r < words; ++r)
        asm volatile("" : "+f"(registers[r])::"memory");
}
template <int words, class T> __device__ __forceinline__ void hold(T* registers)
{
#pragma unroll
    for (int r = 0; r < words; ++r)
        asm volatile("" : "+r"(reinterpret_cast<unsigned*>(registers)[r])::"memory");
}

// A matrix in shared memory in swizzled rows of 128 bytes: eight of them are `stride` bytes apart from the next,
// and such a piece of a longer row is `leading` bytes apart from the next one.
template <int stride, int leading> __device__ __forceinline__ unsigned long long describe_128(const void* start)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(start));
    return (place & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           1ull << 62;
}
