// The sum over groups of neighbouring lanes of a warp: each of them gets it.
template <int lanes, typename T> __device__ __forceinline__ T sum_of_lanes(T value)
{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        value = value + other;
    }
    return value;
}

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

// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
}

// compaction_ordered: grid (ceil(((N + 1023)/1024)/8)), block (32, 8), 32824 bytes of shared memory
// for count[1], arrays of fewer than 2^31 - 2^20 elements
// arrays X[N], Y[N], count[1], run_reg_states[((N + 1023)/1024 + 7)/8 + 1]; Y and count and run_reg_states overlap no
//     other
// needs N % 4 == 0, X aligned to 16 bytes
// run_reg_states is scratch memory: long long[((N + 1023)/1024 + 7)/8 + 1]
extern "C" __global__ void __launch_bounds__(256)
compaction_ordered(const float* __restrict__ X,
                   float* __restrict__ Y,
                   int* __restrict__ count,
                   long long* __restrict__ run_reg_states,
                   float least, int N)
{
    const int w = threadIdx.y;  // count_part(part, part.o, part.io, part.kii, WARPS) -> b, w, c, l; bind(w, thread.y)
    const int l = threadIdx.x;  // bind(l, thread.x)
    const int tid = w * 32 + l;
    const int b_count = ((N + 1023) / 1024 + 7) / 8;

    // cache_shared(X, at=b, vector=4) -> tile
    __shared__ __align__(16) float tile[8192];
    // cache_shared(part, at=b)
    __shared__ int part_shared[8];

    // keep_sums(chunk, behind, across, front, last, run, b, w, o)
    int run_reg = 0;

    // ranks_of_part(total.io, ahead.io, inside.io, rank.io, rank.ii, i, PART, WARPS) -> b3, w3, v2, l2, v3, l3
    // look_back(b)
    const int b = draw_number(run_reg_states);

    const bool full_tile = b * 8192 + 8191 < N;
    if (full_tile) {
        #pragma unroll
        for (int part = 0; part < 8; ++part)
            *reinterpret_cast<float4*>(&tile[part * 1024 + tid * 4]) =
                *reinterpret_cast<const float4*>(&X[b * 8192 + part * 1024 + tid * 4]);
    } else {
        #pragma unroll
        for (int part = 0; part < 8; ++part)
            if (b * 8192 + part * 1024 + tid * 4 + 3 < N)
                *reinterpret_cast<float4*>(&tile[part * 1024 + tid * 4]) =
                    *reinterpret_cast<const float4*>(&X[b * 8192 + part * 1024 + tid * 4]);
    }

    __syncthreads();  // tile is complete: written above, read below

    int share_reg = 0;
    if (full_tile) {
        for (int c = 0; c < 8; ++c) {
            // cache_register(tile, at=c, vector=4) -> terms
            float terms[4];
            load_vector<float4>(terms, &tile[w * 1024 + c * 128 + l * 4]);

            #pragma unroll
            for (int v_2 = 0; v_2 < 4; ++v_2)
                share_reg = (int)((unsigned)share_reg + (terms[v_2] >= least ? 1 : 0));
        }
    } else {
        for (int c = 0; c < 8; ++c) {
            float terms[4];
            if (b * 8192 + w * 1024 + c * 128 + l * 4 + 3 < N)
                load_vector<float4>(terms, &tile[w * 1024 + c * 128 + l * 4]);

            #pragma unroll
            for (int v_2 = 0; v_2 < 4; ++v_2)
                if (b * 8192 + w * 1024 + c * 128 + l * 4 + v_2 < N)
                    share_reg = (int)((unsigned)share_reg + (terms[v_2] >= least ? 1 : 0));
        }
    }

    int part_reg = 0;

    const int part_lanes = sum_of_lanes<32>(b * 8 + w < (N + 1023) / 1024 ? share_reg : 0);

    if (l == 0 && b * 8 + w < (N + 1023) / 1024) {
        part_reg = (int)((unsigned)part_reg + part_lanes);
        part_shared[w] = part_reg;
    }

    int chunk_reg = 0;

    __syncthreads();  // part.shared is complete: written above, read below

    int across_reg;
    int behind_reg;
    if (b * 8 + 7 < (N + 1023) / 1024) {
        // split_scan(front, WARPS) -> chunk, across, behind
        for (int kioi = 0; kioi < 8; ++kioi)
            chunk_reg = (int)((unsigned)chunk_reg + part_shared[kioi]);

        run_reg = sum_of_blocks_before<int>(run_reg_states, b, run_reg, chunk_reg);

        behind_reg = run_reg;
        run_reg = (int)((unsigned)run_reg + chunk_reg);

        if (l == 0 && w == 0 && b_count == b + 1)
            count[0] = run_reg;

        across_reg = 0;

        for (int kioi = 0; kioi < 8; ++kioi)
            if (kioi < w)
                across_reg = (int)((unsigned)across_reg + part_shared[kioi]);
    } else {
        for (int kioi = 0; kioi < 8; ++kioi)
            if (b * 8 + kioi < (N + 1023) / 1024)
                chunk_reg = (int)((unsigned)chunk_reg + part_shared[kioi]);

        run_reg = sum_of_blocks_before<int>(run_reg_states, b, run_reg, chunk_reg);

        behind_reg = run_reg;
        run_reg = (int)((unsigned)run_reg + chunk_reg);

        if (l == 0 && w == 0 && b_count == b + 1)
            count[0] = run_reg;

        across_reg = 0;

        for (int kioi = 0; kioi < 8; ++kioi)
            if (kioi < w && b * 8 + kioi < (N + 1023) / 1024)
                across_reg = (int)((unsigned)across_reg + part_shared[kioi]);
    }

    int front_reg = (int)((unsigned)behind_reg + across_reg);
    int last_reg = 0;

    // fuse(total.iio, ahead.iio, inside.iio, v2, v3) -> v
    for (int v = 0; v < 4; ++v) {
        // cache_register(tile, at=v)
        float tile_reg[8];
        if (b * 8192 + v * 256 + 7423 < N) {
            // tile(v, 8) -> v, u
            // unroll(u)
            #pragma unroll
            for (int u = 0; u < 8; ++u)
                tile_reg[u] = tile[w * 1024 + v * 256 + u * 32 + l];
        } else {
            #pragma unroll
            for (int u = 0; u < 8; ++u)
                if (b * 8192 + w * 1024 + v * 256 + u * 32 + l < N)
                    tile_reg[u] = tile[w * 1024 + v * 256 + u * 32 + l];
        }

        #pragma unroll
        for (int u = 0; u < 8; ++u) {
            // keep_hits_of_tiles(total, local, ahead, rank, u, u)
            int total_reg = 0;

            const int total_ahead =
                ones_ahead_of_lane<32>(
                    total_reg, b * 8192 + w * 1024 + v * 256 + u * 32 + l < N ? (tile_reg[u] >= least ? 1 : 0) : 0);

            int local_reg = total_ahead;

            const int total_lanes =
                ones_of_lanes<32>(b * 8192 + w * 1024 + v * 256 + u * 32 + l < N ? (tile_reg[u] >= least ? 1 : 0) : 0);

            if (b * 8192 + w * 1024 + v * 256 + u * 32 < N)
                total_reg = (int)((unsigned)total_reg + total_lanes);

            int ahead_reg = last_reg;
            last_reg = (int)((unsigned)last_reg + total_reg);

            // cache_register(inside, at=u)
            int inside_reg = (int)((unsigned)ahead_reg + local_reg);
            if (b * 8192 + w * 1024 + v * 256 + u * 32 + l < N) {
                int rank_reg = (int)((unsigned)front_reg + inside_reg);
                if (tile_reg[u] >= least) {
                    const int place = rank_reg;
                    if (0 <= place && place < N)
                        Y[place] = tile_reg[u];
                }
            }
        }
    }

    __syncthreads();  // before the next b overwrites tile and part.shared
}
