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

// keypoints_count: grid (1), block (1)
// for count[1], arrays of fewer than 2^31 - 2^20 elements
// arrays count[1]
extern "C" __global__ void __launch_bounds__(1)
keypoints_count(int* __restrict__ count)
{
    count[0] = 0;
}

// keypoints_count_2: grid (ceil(W/128), ceil(H/16)), block (128), 132 bytes of shared memory
// for at[CAP, 2], count[1], arrays of fewer than 2^31 - 2^20 elements, ceil(H/16) <= 65535
// arrays X[H][W], at[CAP][2], count[1]; at and count overlap no other
extern "C" __global__ void __launch_bounds__(128)
keypoints_count_2(const float* __restrict__ X, int* __restrict__ at, int* __restrict__ count,
                  float least, int H, int W, int CAP)
{
    constexpr int ROWS = 16, T = 128;
    const int ys = blockIdx.y;  // tile(y, ROWS) -> ys, r; row_blocks(ys, x, T) -> b, t
    const int b = blockIdx.x;
    const int t = threadIdx.x;

    // unroll(r)
    {
        int hits = 0;

        if (b * T + t >= 1 && b * T + t + 1 < W) {
            if (ys * ROWS >= 1 && ys * ROWS + 16 < H) {
                #pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    if (X[(ys * ROWS + r) * W + b * T + t] > least
                        & X[(ys * ROWS + r) * W + b * T + t] > fmaxf(
                            fmaxf(
                                fmaxf(X[(ys * ROWS + r - 1) * W + b * T + t - 1],
                                      X[(ys * ROWS + r - 1) * W + b * T + t]),
                                X[(ys * ROWS + r - 1) * W + b * T + t + 1]),
                            X[(ys * ROWS + r) * W + b * T + t - 1])
                        & !(X[(ys * ROWS + r) * W + b * T + t] < fmaxf(
                            fmaxf(
                                fmaxf(X[(ys * ROWS + r) * W + b * T + t + 1],
                                      X[(ys * ROWS + r + 1) * W + b * T + t - 1]),
                                X[(ys * ROWS + r + 1) * W + b * T + t]),
                            X[(ys * ROWS + r + 1) * W + b * T + t + 1])))
                        hits |= 1u << r;
                }
            } else {
                #pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    if (ys * ROWS + r >= 1 && ys * ROWS + r + 1 < H) {
                        if (X[(ys * ROWS + r) * W + b * T + t] > least
                            & X[(ys * ROWS + r) * W + b * T + t] > fmaxf(
                                fmaxf(
                                    fmaxf(X[(ys * ROWS + r - 1) * W + b * T + t - 1],
                                          X[(ys * ROWS + r - 1) * W + b * T + t]),
                                    X[(ys * ROWS + r - 1) * W + b * T + t + 1]),
                                X[(ys * ROWS + r) * W + b * T + t - 1])
                            & !(X[(ys * ROWS + r) * W + b * T + t] < fmaxf(
                                fmaxf(
                                    fmaxf(X[(ys * ROWS + r) * W + b * T + t + 1],
                                          X[(ys * ROWS + r + 1) * W + b * T + t - 1]),
                                    X[(ys * ROWS + r + 1) * W + b * T + t]),
                                X[(ys * ROWS + r + 1) * W + b * T + t + 1])))
                            hits |= 1u << r;
                    }
            }
        }

        int places = take_places(&count[0], __popc(hits));

        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const int place = next_place(places, (hits >> r) & 1);
            if (0 <= place && place < CAP) {
                at[place * 2] = ys * ROWS + r;
                at[place * 2 + 1] = b * T + t;
            }
        }
    }
}
