// needs sm_90 or later: bulk copies

// A proxy fence: reads by descriptor and bulk stores see what this thread has written to shared memory, and bulk copies
// overwrite nothing that it is still loading.
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A tensor, and the boxes that are copied of it, as the hardware reads them: a CUtensorMap. The host makes it by
// cuTensorMapEncodeTiled, with the parameters that stand above the kernel, strides in bytes; not interleaved, element
// strides of 1 if none stand there, L2 promotion of 128 bytes, and OOB_FILL_NONE, which fills with zeros.
struct __align__(64) TensorMap {
    unsigned long long words[16];
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

// transpose: grid (ceil(M/32)), block (32, 8), 1024 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][N], Y[N][M]; Y overlaps no other
// needs M % 4 == 0, Y aligned to 16 bytes
// Y_map describes Y: FLOAT32, dimensions (M, N), strides (4*M), box (32, 8), swizzle NONE
extern "C" __global__ void __launch_bounds__(256)
transpose(const float* __restrict__ X, const __grid_constant__ TensorMap Y_map, int M, int N)
{
    const int bi = blockIdx.x;   // tile(i, 32) -> bi, ti; bind(bi, block.x)
    const int tj = threadIdx.y;  // tile(j, 8) -> bj, tj; bind(tj, thread.y)
    const int ti = threadIdx.x;  // bind(ti, thread.x)
    const int tid = tj * 32 + ti;

    // cache_shared(Y, at=bj) -> out
    __shared__ __align__(1024) float out[8][32];

    for (int bj = 0; bj < (N + 7) / 8; ++bj) {
        if (tid == 0)
            wait_stores_read();  // out has been read

        __syncthreads();  // before the next bj overwrites out

        if (bi * 32 + ti < M && bj * 8 + tj < N)
            out[tj][ti] = X[(bi * 32 + ti) * N + bj * 8 + tj];

        fence_async();
        __syncthreads();  // out is complete: written above, read below

        if (tid == 0) {
            store_box_2d(Y_map, out, bi * 32, bj * 8);
            end_stores();
        }
    }

    if (tid == 0)
        wait_stores_read();  // out has been read
}
