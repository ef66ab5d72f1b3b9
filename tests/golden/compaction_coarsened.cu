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

// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
}

// compaction_count: grid (1), block (1)
// for count[1], arrays of fewer than 2^31 - 2^20 elements
// arrays count[1]
extern "C" __global__ void __launch_bounds__(1)
compaction_count(int* __restrict__ count)
{
    count[0] = 0;
}

// compaction_count_2: grid (ceil(N/4096)), block (256), 132 bytes of shared memory
// for count[1], arrays of fewer than 2^31 - 2^20 elements
// arrays X[N], Y[N], count[1]; Y and count overlap no other
// needs N % 4 == 0, X aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
compaction_count_2(const float* __restrict__ X, float* __restrict__ Y, int* __restrict__ count,
                   float least, int N)
{
    const int b = blockIdx.x;   // tile(i, T * W * 4) -> b, t; bind(b, block.x)
    const int t = threadIdx.x;  // bind(t, thread.x)

    const float* X_tile = &X[b * 4096];
    if (b * 4096 + 4095 < N) {
        // cache_register(X, at=t, vector=4)
        float X_reg[16];
        #pragma unroll
        for (int X_reg_v = 0; X_reg_v < 4; ++X_reg_v)
            load_vector<float4>(&X_reg[X_reg_v * 4], &X_tile[t * 16 + X_reg_v * 4]);

        // tile(t, W * 4) -> t, v
        // unroll(v)
        {
            int hits = 0;

            #pragma unroll
            for (int v = 0; v < 16; ++v) {
                if (X_reg[v] >= least)
                    hits |= 1u << v;
            }

            int places = take_places(&count[0], __popc(hits));

            #pragma unroll
            for (int v = 0; v < 16; ++v) {
                const int place = next_place(places, (hits >> v) & 1);
                if (0 <= place && place < N)
                    Y[place] = X_reg[v];
            }
        }
    } else {
        float X_reg[16];
        #pragma unroll
        for (int X_reg_v = 0; X_reg_v < 4; ++X_reg_v)
            if (b * 4096 + t * 16 + X_reg_v * 4 + 3 < N)
                load_vector<float4>(&X_reg[X_reg_v * 4], &X_tile[t * 16 + X_reg_v * 4]);

        {
            int hits = 0;

            #pragma unroll
            for (int v = 0; v < 16; ++v)
                if (b * 4096 + t * 16 + v < N) {
                    if (X_reg[v] >= least)
                        hits |= 1u << v;
                }

            int places = take_places(&count[0], __popc(hits));

            #pragma unroll
            for (int v = 0; v < 16; ++v) {
                const int place = next_place(places, (hits >> v) & 1);
                if (0 <= place && place < N)
                    Y[place] = X_reg[v];
            }
        }
    }
}
