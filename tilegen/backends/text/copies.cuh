// Asynchronous copies to shared memory, by all threads.

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
}

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
}

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
}
