// How many lanes of a warp have a one, and not a zero.
template <int lanes> __device__ __forceinline__ int ones_of_lanes(int value)
{
    return __popc(__ballot_sync(0xffffffff, value != 0));
}

// `start` and how many of the lanes before each have a one.
template <int lanes> __device__ __forceinline__ int ones_ahead_of_lane(int start, int value)
{
    return start + __popc(__ballot_sync(0xffffffff, value != 0) & (1u << threadIdx.x) - 1);
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

// compaction_ordered: grid (ceil((((N + 31)/32 + 15)/16)/8)), block (32, 8), 44 bytes of shared memory
// for count[1], arrays of fewer than 2^31 - 2^20 elements
// arrays X[N], Y[N], count[1], run_reg_states[(((N + 31)/32 + 15)/16 + 7)/8 + 1]; Y and count and run_reg_states
//     overlap no other
// run_reg_states is scratch memory: long long[(((N + 31)/32 + 15)/16 + 7)/8 + 1]
extern "C" __global__ void __launch_bounds__(256)
compaction_ordered(const float* __restrict__ X,
                   float* __restrict__ Y,
                   int* __restrict__ count,
                   long long* __restrict__ run_reg_states,
                   float least, int N)
{
    const int w = threadIdx.y;  // fuse(across.iooi, outer.iooi, w3, w4, w5) -> w2; bind(w, thread.y)
    const int l = threadIdx.x;  // rename(total.kii, l2) -> l; bind(l, thread.x)

    // keep_warps(warp, inner, chunk, behind, across, outer, c, w, w2)
    __shared__ int warp_shared[8];

    // cache_register(run, at=o)
    int run_reg = 0;

    // chunks(i, OWN, WARPS) -> c5, w5, v5
    // look_back(c)
    const int c = draw_number(run_reg_states);

    // cache_register(X, at=c)
    float X_reg[16];
    if (c * 4096 + 4095 < N) {
        // fuse(ahead.ioi, v4, v5) -> v2
        // unroll(v)
        #pragma unroll
        for (int v = 0; v < 16; ++v)
            X_reg[v] = X[c * 4096 + w * 512 + v * 32 + l];
    } else {
        #pragma unroll
        for (int v = 0; v < 16; ++v)
            if (c * 4096 + w * 512 + v * 32 + l < N)
                X_reg[v] = X[c * 4096 + w * 512 + v * 32 + l];
    }

    int warp_reg = 0;

    // keep_hits_of_tiles(total, local, ahead, rank, c, v)
    int local_reg[16];
    int inner_reg[16];
    #pragma unroll
    for (int v = 0; v < 16; ++v) {
        int total_reg = 0;

        const int total_ahead =
            ones_ahead_of_lane<32>(total_reg, c * 4096 + w * 512 + v * 32 + l < N ? (X_reg[v] >= least ? 1 : 0) : 0);

        local_reg[v] = total_ahead;

        const int total_lanes =
            ones_of_lanes<32>(c * 4096 + w * 512 + v * 32 + l < N ? (X_reg[v] >= least ? 1 : 0) : 0);

        if (c * 4096 + w * 512 + v * 32 < N)
            total_reg = (int)((unsigned)total_reg + total_lanes);

        inner_reg[v] = warp_reg;

        if (c * 128 + w * 16 + v < (N + 31) / 32)
            warp_reg = (int)((unsigned)warp_reg + total_reg);
    }

    if (l == 0 && c * 8 + w < ((N + 31) / 32 + 15) / 16)
        warp_shared[w] = warp_reg;

    int chunk_reg = 0;

    __syncthreads();  // warp.shared is complete: written above, read below

    if (c * 8 + 7 < ((N + 31) / 32 + 15) / 16 && c * 4096 + 4095 < N) {
        // split_scan(outer, WARPS) -> chunk, across, behind
        for (int kiooi = 0; kiooi < 8; ++kiooi)
            chunk_reg = (int)((unsigned)chunk_reg + warp_shared[kiooi]);

        run_reg = sum_of_blocks_before<int>(run_reg_states, c, run_reg, chunk_reg);

        int behind_reg = run_reg;
        run_reg = (int)((unsigned)run_reg + chunk_reg);

        if (l == 0 && w == 0 && (((N + 31) / 32 + 15) / 16 + 7) / 8 == c + 1)
            count[0] = run_reg;

        int across_reg = 0;

        for (int kiooi = 0; kiooi < 8; ++kiooi)
            if (kiooi < w)
                across_reg = (int)((unsigned)across_reg + warp_shared[kiooi]);

        int outer_reg = (int)((unsigned)behind_reg + across_reg);

        #pragma unroll
        for (int v = 0; v < 16; ++v) {
            int ahead_reg = (int)((unsigned)outer_reg + inner_reg[v]);
            int rank_reg = (int)((unsigned)ahead_reg + local_reg[v]);
            if (X_reg[v] >= least) {
                const int place = rank_reg;
                if (0 <= place && place < N)
                    Y[place] = X_reg[v];
            }
        }
    } else {
        for (int kiooi = 0; kiooi < 8; ++kiooi)
            if (c * 8 + kiooi < ((N + 31) / 32 + 15) / 16)
                chunk_reg = (int)((unsigned)chunk_reg + warp_shared[kiooi]);

        run_reg = sum_of_blocks_before<int>(run_reg_states, c, run_reg, chunk_reg);

        int behind_reg = run_reg;
        run_reg = (int)((unsigned)run_reg + chunk_reg);

        if (l == 0 && w == 0 && (((N + 31) / 32 + 15) / 16 + 7) / 8 == c + 1)
            count[0] = run_reg;

        int across_reg = 0;

        for (int kiooi = 0; kiooi < 8; ++kiooi)
            if (kiooi < w && c * 8 + kiooi < ((N + 31) / 32 + 15) / 16)
                across_reg = (int)((unsigned)across_reg + warp_shared[kiooi]);

        int outer_reg = (int)((unsigned)behind_reg + across_reg);

        #pragma unroll
        for (int v = 0; v < 16; ++v) {
            int ahead_reg = (int)((unsigned)outer_reg + inner_reg[v]);
            if (c * 4096 + w * 512 + v * 32 + l < N) {
                int rank_reg = (int)((unsigned)ahead_reg + local_reg[v]);
                if (X_reg[v] >= least) {
                    const int place = rank_reg;
                    if (0 <= place && place < N)
                        Y[place] = X_reg[v];
                }
            }
        }
    }

    __syncthreads();  // before the next c overwrites warp.shared
}
