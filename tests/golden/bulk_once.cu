// needs sm_90 or later: bulk copies

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

// transpose: grid (ceil(N/64), ceil(M/32)), block (32, 16), 8200 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays X[M][N], Y[N][M]; Y overlaps no other
// needs N % 4 == 0, X aligned to 16 bytes
// X_map describes X: FLOAT32, dimensions (N, M), strides (4*N), box (64, 32), swizzle NONE
extern "C" __global__ void __launch_bounds__(512)
transpose(float* __restrict__ Y, const __grid_constant__ TensorMap X_map, int M, int N)
{
    const int bi = blockIdx.y;   // tile(i, 32) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, 64) -> bj, tj; bind(bj, block.x)
    const int tj = threadIdx.y;  // bind(tj, thread.y)
    const int ti = threadIdx.x;  // bind(ti, thread.x)
    const int tid = tj * 32 + ti;

    // cache_shared(X, at=bj) -> tile
    __shared__ __align__(1024) float tile[32][64];
    __shared__ unsigned long long filled[1];

    start_barriers(filled, 1, 1);
    __syncthreads();  // the barriers have been started

    if (tid == 0) {
        expect_bytes(&filled[0], 8192);
        // bulk(tile)
        copy_box_2d(tile, X_map, &filled[0], bj * 64, bi * 32);
    }

    wait_barrier(&filled[0], 0);  // tile has arrived

    if (bi * 32 + ti < M) {
        if (bj * 64 + 63 < N) {
            // tile(tj, 4) -> tj, wj
            for (int wj = 0; wj < 4; ++wj)
                Y[(bj * 64 + tj * 4 + wj) * M + bi * 32 + ti] = tile[ti][tj * 4 + wj];
        } else {
            for (int wj = 0; wj < 4; ++wj)
                if (bj * 64 + tj * 4 + wj < N)
                    Y[(bj * 64 + tj * 4 + wj) * M + bi * 32 + ti] = tile[ti][tj * 4 + wj];
        }
    }
}
