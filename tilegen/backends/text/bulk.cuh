// Bulk copies and stores of boxes, barriers that count bytes and warps, rings, roles, launches that begin early. From
// the functions of boxes of rank 2 helpers.py makes those of other ranks.

// A tensor, and the boxes that are copied of it, as the hardware reads them: a CUtensorMap. The host makes it by
// cuTensorMapEncodeTiled, with the parameters that stand above the kernel, strides in bytes; not interleaved, element
// strides of 1 if none stand there, L2 promotion of 128 bytes, and OOB_FILL_NONE, which fills with zeros.
struct __align__(64) TensorMap {
    unsigned long long words[16];
};

// Starts the copy of a box of a tensor to shared memory, with zeros beyond the tensor; its bytes arrive at the barrier.
__device__ __forceinline__ void copy_box_2d(void* to, const TensorMap& map, unsigned long long* barrier, int c0, int c1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(place), "l"(&map), "r"(at), "r"(c0), "r"(c1) : "memory");
}

// The same to one place in several blocks of the cluster, a bit mask; the bytes arrive at the barrier of each.
__device__ __forceinline__ void multicast_box_2d(void* to, const TensorMap& map, unsigned long long* barrier,
    int blocks, int c0, int c1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%4, %5}], [%2], %3;"
                 ::"r"(place), "l"(&map), "r"(at), "h"(static_cast<unsigned short>(blocks)), "r"(c0), "r"(c1) : "memory");
}

// Starts the copy of a box of windows (im2col): of as many as the box has, from the one that begins at c0, .. on, what is
// o0, .. from where each begins. After the last window of a row comes the first of the next one.
__device__ __forceinline__ void copy_windows_4d(void* to, const TensorMap& map, unsigned long long* barrier,
    int c0, int c1, int c2, int c3, int o0, int o1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 ::"r"(place), "l"(&map), "r"(at), "r"(c0), "r"(c1), "r"(c2), "r"(c3),
                   "h"((unsigned short)o0), "h"((unsigned short)o1) : "memory");
}

// The same to one place in several blocks of the cluster.
__device__ __forceinline__ void multicast_windows_4d(void* to, const TensorMap& map, unsigned long long* barrier,
    int blocks, int c0, int c1, int c2, int c3, int o0, int o1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%4, %5, %6, %7}], [%2], {%8, %9}, %3;"
                 ::"r"(place), "l"(&map), "r"(at), "h"((unsigned short)blocks), "r"(c0), "r"(c1), "r"(c2), "r"(c3),
                   "h"((unsigned short)o0), "h"((unsigned short)o1) : "memory");
}

// All threads of the blocks of a cluster wait for each other.
__device__ __forceinline__ void wait_for_cluster()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// Initializes barriers, each of which expects `arrivals` arrivals in a phase. A barrier of the block has to follow. Fences
// of shared memory alone: one of all memory takes as long as a load from it.
__device__ __forceinline__ void start_barriers(unsigned long long* barriers, int count, int arrivals)
{
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        for (int i = 0; i < count; ++i) {
            const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[i]));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
}

// Arrives at the barrier; its phase also waits for `bytes` bytes of copies.
__device__ __forceinline__ void expect_bytes(unsigned long long* barrier, int bytes)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

// One lane arrives at the barrier for its warp, when all lanes have read what the barrier guards.
__device__ __forceinline__ void arrive_once_a_warp(unsigned long long* barrier)
{
    __syncwarp();
    unsigned chosen;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(chosen));
    if (chosen) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
    }
}

// The same at the barriers at this place in several blocks of the cluster, a bit mask.
__device__ __forceinline__ void release_in_cluster(unsigned long long* barrier, int blocks)
{
    __syncwarp();
    const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    if (blocks >> lane & 1) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
        asm volatile("{\n"
                     ".reg .b32 remote;\n"
                     "mapa.shared::cluster.u32 remote, %0, %1;\n"
                     "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                     "}"
                     ::"r"(at), "r"(lane) : "memory");
    }
}

// Waits for the turn of a group; both groups together have `threads` threads.
template <int threads> __device__ __forceinline__ void take_turn(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(3 + group), "n"(threads) : "memory");
}

// Gives the turn to a group, without waiting.
template <int threads> __device__ __forceinline__ void pass_turn(int group)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(3 + group), "n"(threads) : "memory");
}

// Waits until the phase of this parity of a barrier is complete.
__device__ __forceinline__ void wait_barrier(unsigned long long* barrier, int parity)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    unsigned done = 0;
    while (!done)
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done) : "r"(at), "r"(parity) : "memory");
}

// A ring of slots in shared memory, and where a thread is in it: a producer waits until its slot is emptied, fills it and
// advances; consumers wait until it is filled, release it and advance. After the last slot comes the first one, in a
// phase of the other parity.
template <int slots> struct Ring {
    unsigned long long *filled, *emptied;  // a barrier for each slot
    int parity = 0, slot = 0;
    __device__ __forceinline__ void wait_filled() { wait_barrier(&filled[slot], parity); }
    __device__ __forceinline__ void wait_emptied() { wait_barrier(&emptied[slot], parity ^ 1); }
    __device__ __forceinline__ void expect(int bytes) { expect_bytes(&filled[slot], bytes); }
    __device__ __forceinline__ void release() { arrive_once_a_warp(&emptied[slot]); }
    __device__ __forceinline__ void release_previous() { arrive_once_a_warp(&emptied[before(slot)]); }
    static __device__ __forceinline__ int before(int slot) { return slot > 0 ? slot - 1 : slots - 1; }
    __device__ __forceinline__ void advance()
    {
        slot = slot + 1 < slots ? slot + 1 : 0;
        parity ^= slot == 0;
    }
    template <class Count> __device__ __forceinline__ void skip(Count count)
    {
        parity ^= (slot + count) / slots % 2;
        slot = (slot + count) % slots;
    }
};

// Starts the store of a box from shared memory to a tensor; nothing is written beyond the tensor.
__device__ __forceinline__ void store_box_2d(const TensorMap& map, const void* from, int c0, int c1)
{
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(from));
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(&map), "r"(place), "r"(c0), "r"(c1) : "memory");
}

// Ends a group of stores: those that this thread has started since it ended the last group.
__device__ __forceinline__ void end_stores()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all of this thread's groups of stores have read shared memory.
__device__ __forceinline__ void wait_stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Raises the registers of each thread of the warpgroup to `count`; waits until others have released enough.
template <int count> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// Lowers the registers of each thread of the warpgroup to `count`, and releases the others.
template <int count> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// The next launch may begin when all blocks have called this; it waits for the end of this launch by itself.
__device__ __forceinline__ void let_next_launch_begin()
{
    asm volatile("griddepcontrol.launch_dependents;");
}

// Waits until earlier launches are complete and what they have written is visible.
__device__ __forceinline__ void wait_for_earlier_launches()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
