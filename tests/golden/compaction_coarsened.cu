// Places of a list: those from `next` on are for the hits of these lanes of a warp.
struct Places {
    unsigned int lanes;
    int next;
};

// Places for `count` hits of each lane, by one update for all lanes of a warp where these come together.
__device__ __forceinline__ Places take_places(int* next, int count)
{
    int lane, sum = count, first = 0;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    if (__activemask() != 0xffffffff)
        return Places{1u << lane, atomicAdd(next, count)};
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0 && sum > 0)
        first = atomicAdd(next, sum);
    return Places{0xffffffff, __shfl_sync(0xffffffff, first, 0)};
}

// The next place, for each of these lanes that has a hit; -1 for the others.
__device__ __forceinline__ int next_place(Places& places, int hit)
{
    unsigned int ahead;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(ahead));
    const unsigned int hits = __ballot_sync(places.lanes, hit);
    const int place = places.next + __popc(hits & ahead);
    places.next += __popc(hits);
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

// compaction_count_2: grid (ceil(N/4096)), block (256)
// for count[1], arrays of fewer than 2^31 - 2^20 elements
// arrays X[N], Y[N], count[1]; Y and count overlap no other
// needs N % 4 == 0, X aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
compaction_count_2(const float* __restrict__ X, float* __restrict__ Y, int* __restrict__ count,
                   float least, int N)
{
    const int b = blockIdx.x;   // tile(i, T * W * 4) -> b, t; bind(b, block.x)
    const int t = threadIdx.x;  // bind(t, thread.x)

    if (b * 4096 + 4095 < N) {
        // cache_register(X, at=t, vector=4)
        float X_reg[16];
        #pragma unroll
        for (int X_reg_v = 0; X_reg_v < 4; ++X_reg_v)
            load_vector<float4>(&X_reg[X_reg_v * 4], &X[b * 4096 + t * 16 + X_reg_v * 4]);

        // tile(t, W * 4) -> t, v
        // unroll(v)
        {
            int hits = 0;

            #pragma unroll
            for (int v = 0; v < 16; ++v) {
                if (X_reg[v] >= least)
                    hits |= 1u << v;
            }

            Places places = take_places(&count[0], __popc(hits));

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
                load_vector<float4>(&X_reg[X_reg_v * 4], &X[b * 4096 + t * 16 + X_reg_v * 4]);

        {
            int hits = 0;

            #pragma unroll
            for (int v = 0; v < 16; ++v)
                if (b * 4096 + t * 16 + v < N) {
                    if (X_reg[v] >= least)
                        hits |= 1u << v;
                }

            Places places = take_places(&count[0], __popc(hits));

            #pragma unroll
            for (int v = 0; v < 16; ++v) {
                const int place = next_place(places, (hits >> v) & 1);
                if (0 <= place && place < N)
                    Y[place] = X_reg[v];
            }
        }
    }
}
