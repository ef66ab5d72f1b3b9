#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

// matching: grid (ceil(N/128)), block (128)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays A[N][D], B[M][D], nearest[N]; nearest overlaps no other
extern "C" __global__ void __launch_bounds__(128)
matching(const float* __restrict__ A, const float* __restrict__ B, int* __restrict__ nearest,
         int N, int D, int M)
{
    constexpr int T = 128;
    const int b = blockIdx.x;  // blocks(i, T) -> b, t
    const int t = threadIdx.x;

    if (b * T + t < N) {
        // cache_register(nearest, at=t)
        int nearest_reg = 0;

        // cache_register(nearest.best, at=t)
        float nearest_best_reg = INFINITY;

        // fuse(dist.j, nearest.j) -> j
        for (int j = 0; j < M; ++j) {
            // cache_register(dist, at=j)
            float dist_reg = 0.0f;

            for (int d = 0; d < D; ++d) {
                const float u = A[(b * T + t) * D + d] - B[j * D + d];
                dist_reg += u * u;
            }

            if (dist_reg < nearest_best_reg) {
                nearest_best_reg = dist_reg;
                nearest_reg = j;
            }
        }

        nearest[b * T + t] = nearest_reg;
    }
}
