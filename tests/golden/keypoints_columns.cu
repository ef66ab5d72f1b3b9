// The first of `count` places in a row behind `next`, for each lane: one update gives those of all lanes of a warp, where
// these come together.
__device__ __forceinline__ int take_places(int* next, int count)
{
    if (__activemask() != 0xffffffff)
        return atomicAdd(next, count);
    int lane, sum = count, first = 0;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(0xffffffff, sum, step);
        if (lane >= step)
            sum += other;
    }
    if (lane == 31 && sum > 0)
        first = atomicAdd(next, sum);
    return __shfl_sync(0xffffffff, first, 31) + sum - count;
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
    const int ys = blockIdx.y;  // tile(y, ROWS) -> ys, r; row_blocks(ys, x, T) -> b, t
    const int b = blockIdx.x;
    const int t = threadIdx.x;

    if (b * 128 + t >= 1 && b * 128 + t + 1 < W) {
        if (ys * 32 >= 1 && ys * 32 + 32 < H) {
            // unroll(r)
            {
                int hits = 0;

                #pragma unroll
                for (int r = 0; r < 32; ++r) {
                    if (X[(ys * 32 + r) * W + b * 128 + t] > least
                        && X[(ys * 32 + r) * W + b * 128
                            + t] > fmaxf(fmaxf(fmaxf(X[(ys * 32 + r - 1) * W + b * 128 + t - 1],
                                X[(ys * 32 + r - 1) * W + b * 128 + t]),
                                X[(ys * 32 + r - 1) * W + b * 128 + t + 1]),
                            X[(ys * 32 + r) * W + b * 128 + t - 1])
                        && !(X[(ys * 32 + r) * W + b * 128
                            + t] < fmaxf(fmaxf(fmaxf(X[(ys * 32 + r) * W + b * 128 + t + 1],
                                X[(ys * 32 + r + 1) * W + b * 128 + t - 1]),
                                X[(ys * 32 + r + 1) * W + b * 128 + t]),
                            X[(ys * 32 + r + 1) * W + b * 128 + t + 1])))
                        hits |= 1 << r;
                }

                int place = take_places(&count[0], __popc(hits));

                #pragma unroll
                for (int r = 0; r < 32; ++r) {
                    if ((hits >> r) & 1) {
                        if (0 <= place && place < CAP) {
                            at[place * 2] = ys * 32 + r;
                            at[place * 2 + 1] = b * 128 + t;
                        }
                        ++place;
                    }
                }
            }
        } else {
            {
                int hits = 0;

                #pragma unroll
                for (int r = 0; r < 32; ++r)
                    if (ys * 32 + r >= 1 && ys * 32 + r + 1 < H) {
                        if (X[(ys * 32 + r) * W + b * 128 + t] > least
                            && X[(ys * 32 + r) * W + b * 128
                                + t] > fmaxf(fmaxf(fmaxf(X[(ys * 32 + r - 1) * W + b * 128 + t - 1],
                                    X[(ys * 32 + r - 1) * W + b * 128 + t]),
                                    X[(ys * 32 + r - 1) * W + b * 128 + t + 1]),
                                X[(ys * 32 + r) * W + b * 128 + t - 1])
                            && !(X[(ys * 32 + r) * W + b * 128
                                + t] < fmaxf(fmaxf(fmaxf(X[(ys * 32 + r) * W + b * 128 + t + 1],
                                    X[(ys * 32 + r + 1) * W + b * 128 + t - 1]),
                                    X[(ys * 32 + r + 1) * W + b * 128 + t]),
                                X[(ys * 32 + r + 1) * W + b * 128 + t + 1])))
                            hits |= 1 << r;
                    }

                int place = take_places(&count[0], __popc(hits));

                #pragma unroll
                for (int r = 0; r < 32; ++r)
                    if (ys * 32 + r >= 1 && ys * 32 + r + 1 < H) {
                        if ((hits >> r) & 1) {
                            if (0 <= place && place < CAP) {
                                at[place * 2] = ys * 32 + r;
                                at[place * 2 + 1] = b * 128 + t;
                            }
                            ++place;
                        }
                    }
            }
        }
    }
}
