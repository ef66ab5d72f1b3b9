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

// gemm: grid (ceil(N/32), ceil(M/16)), block (32, 4), 3088 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/16) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 4 == 0, N % 4 == 0, A aligned to 16 bytes, B aligned to 16 bytes
// A_map describes A: FLOAT32, dimensions (K, M), strides (4*K), box (8, 16), swizzle NONE
// B_map describes B: FLOAT32, dimensions (N, K), strides (4*N), box (32, 8), swizzle NONE
extern "C" __global__ void __launch_bounds__(128)
gemm(float* __restrict__ C,
     const __grid_constant__ TensorMap A_map,
     const __grid_constant__ TensorMap B_map,
     int M, int K, int N)
{
    const int bi = blockIdx.y;   // tile(i, 16) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, 32) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)
    const int tid = ti * 32 + tj;

    // cache_shared(A, at=ko)
    __shared__ __align__(1024) float A_shared[2][16][8];
    // cache_shared(B, at=ko, vector=4)
    __shared__ __align__(1024) float B_shared[2][8][32];
    __shared__ unsigned long long filled[2];

    const bool full_tile = bi * 16 + 15 < M;

    start_barriers(filled, 2, 1);
    __syncthreads();  // the barriers have been started

    // cache_register(C, at=bj)
    float C_reg[4] = {};
    if (tid == 0)
        fence_async();

    if (tid == 0) {
        expect_bytes(&filled[0], 1536);
        // bulk(A.shared)
        copy_box_2d(A_shared, A_map, &filled[0], 0, bi * 16);

        // bulk(B.shared)
        copy_box_2d(B_shared, B_map, &filled[0], bj * 32, 0);
    }

    // tile(k, 8) -> ko, ki
    // pipeline(ko, 2)
    for (int ko = 0; ko < (K + 7) / 8; ++ko) {
        if (ko * 8 + 8 < K && tid == 0)
            fence_async();

        if (ko * 8 + 8 < K && tid == 0) {
            expect_bytes(&filled[(ko + 1) % 2], 1536);
            copy_box_2d(A_shared[(ko + 1) % 2], A_map, &filled[(ko + 1) % 2], ko * 8 + 8, bi * 16);
            copy_box_2d(B_shared[(ko + 1) % 2], B_map, &filled[(ko + 1) % 2], bj * 32, ko * 8 + 8);
        }

        wait_barrier(&filled[ko % 2], (ko / 2) % 2);  // A.shared and B.shared have arrived

        if (bj * 32 + tj < N) {
            if (full_tile && ko * 8 + 7 < K) {
                for (int ki = 0; ki < 8; ++ki) {
                    // tile(ti, 4) -> ti, wi
                    #pragma unroll
                    for (int wi = 0; wi < 4; ++wi)
                        C_reg[wi] += A_shared[ko % 2][ti * 4 + wi][ki] * B_shared[ko % 2][ki][tj];
                }
            } else {
                for (int ki = 0; ki < 8; ++ki)
                    if (ko * 8 + ki < K)
                        #pragma unroll
                        for (int wi = 0; wi < 4; ++wi)
                            if (bi * 16 + ti * 4 + wi < M)
                                C_reg[wi] += A_shared[ko % 2][ti * 4 + wi][ki] * B_shared[ko % 2][ki][tj];
            }
        }

        fence_async();
        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    if (bj * 32 + tj < N) {
        float* C_tile = &C[bi * 16 * N + bj * 32];
        if (full_tile) {
            #pragma unroll
            for (int wi = 0; wi < 4; ++wi)
                C_tile[(ti * 4 + wi) * N + tj] = C_reg[wi];
        } else {
            #pragma unroll
            for (int wi = 0; wi < 4; ++wi)
                if (bi * 16 + ti * 4 + wi < M)
                    C_tile[(ti * 4 + wi) * N + tj] = C_reg[wi];
        }
    }
}
