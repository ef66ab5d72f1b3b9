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

// keypoints_count: grid (1), block (1)
// for count[1], arrays of fewer than 2^31 - 2^20 elements
// arrays count[1]
extern "C" __global__ void __launch_bounds__(1)
keypoints_count(int* __restrict__ count)
{
    count[0] = 0;
}

// keypoints_count_2: grid (ceil(W/128), ceil(H/32)), block (128)
// for at[CAP, 2], count[1], arrays of fewer than 2^31 - 2^20 elements, ceil(H/32) <= 65535
// arrays X[H][W], at[CAP][2], count[1]; at and count overlap no other
extern "C" __global__ void __launch_bounds__(128)
keypoints_count_2(const float* __restrict__ X, int* __restrict__ at, int* __restrict__ count,
                  float least, int H, int W, int CAP)
{
    constexpr int ROWS = 32, T = 128;
    const int ys = blockIdx.y;  // tile(y, ROWS) -> ys, r; row_blocks(ys, x, T) -> b, t
    const int b = blockIdx.x;
    const int t = threadIdx.x;

    if (b * T + t >= 1 && b * T + t + 1 < W) {
        if (ys * ROWS >= 1 && ys * ROWS + 32 < H) {
            // unroll(r)
            {
                int hits = 0;

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

                Places places = take_places(&count[0], __popc(hits));

                #pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    const int place = next_place(places, (hits >> r) & 1);
                    if (0 <= place && place < CAP) {
                        at[place * 2] = ys * ROWS + r;
                        at[place * 2 + 1] = b * T + t;
                    }
                }
            }
        } else {
            {
                int hits = 0;

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

                Places places = take_places(&count[0], __popc(hits));

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
    }
}
