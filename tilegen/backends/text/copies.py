"""The functions of asynchronous copies that stand before the kernels of a text, by the word that calls for each."""

ASYNCHRONOUS_COPIES = {
    "copy_async<": """\
// An asynchronous copy of 4, 8 or 16 bytes from global to shared memory, of 16 past the L1 cache; plain before sm_80.
template <int bytes> __device__ __forceinline__ void copy_async(void* to, const void* from)
{
#if __CUDA_ARCH__ >= 800
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(bytes) : "memory");
#else
    for (int i = 0; i < bytes / 4; ++i)
        static_cast<int*>(to)[i] = static_cast<const int*>(from)[i];
#endif
}""",
    "copy_async_or_zero<": """\
// The same where `inside` holds; elsewhere nothing is read, and zeros are written.
template <int bytes> __device__ __forceinline__ void copy_async_or_zero(void* to, const void* from, bool inside)
{
#if __CUDA_ARCH__ >= 800
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int read = inside ? bytes : 0;
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(read)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(bytes), "r"(read)
                     : "memory");
#else
    for (int i = 0; i < bytes / 4; ++i)
        static_cast<int*>(to)[i] = inside ? static_cast<const int*>(from)[i] : 0;
#endif
}""",
    "end_copies(": """\
// The asynchronous copies made since the last call form a group.
__device__ __forceinline__ void end_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `groups` groups of copies, the latest ones, are still under way.
template <int groups> __device__ __forceinline__ void wait_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}""",
}


def _describe(piece: int, swizzle: int) -> str:
    """PTX ISA, "Matrix Descriptor Format": units of 16 bytes in bits 0, 16 and 32, the swizzle in bit 62."""
    rows = "swizzled rows" if swizzle else "rows"
    return f"""\
// A matrix in shared memory in {rows} of {piece} bytes: eight of them are `stride` bytes apart from the next,
// and such a piece of a longer row is `leading` bytes apart from the next one.
template <int stride, int leading> __device__ __forceinline__ unsigned long long describe_{piece}(const void* start)
{{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(start));
    return (place & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           {swizzle}ull << 62;
}}"""


ASYNCHRONOUS_PRODUCTS = {
    "fence_async(": """\
// What this thread has written to shared memory is there for what reads it by descriptor or in bulk.
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}""",
    "wait_for_each_other<": """\
// A barrier of the first threads of the block, so many of them.
template <int threads> __device__ __forceinline__ void wait_for_each_other()
{
    asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}""",
    "wait_for_group<": """\
// A barrier of one of two groups of so many threads.
template <int threads> __device__ __forceinline__ void wait_for_group(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(threads) : "memory");
}""",
    "uniform(": """\
// A number that all lanes of a warp have, which the compiler does not know.
__device__ __forceinline__ int uniform(int number)
{
    return __shfl_sync(0xffffffffu, number, 0);
}""",
    "begin_wgmma(": """\
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
}""",
    "complete_earlier_wgmma(": """\
// Waits until all products have ended but those since the last begin.
__device__ __forceinline__ void complete_earlier_wgmma()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}""",
    "hold<": """\
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
}""",
    "describe_128<": _describe(128, 1),
    "describe_64<": _describe(64, 2),
    "describe_32<": _describe(32, 3),
    "describe_16<": _describe(16, 0),
}
