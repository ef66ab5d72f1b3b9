// conv1d: grid (ceil(N/128)), block (128), 520 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements
// arrays X[N + 2], Y[N]; Y overlaps no other
extern "C" __global__ void __launch_bounds__(128)
conv1d(const float* __restrict__ X, float* __restrict__ Y, int N)
{
    constexpr int T = 128;
    const int b = blockIdx.x;  // blocks(i, T) -> b, t
    const int t = threadIdx.x;

    // cache_shared(X, at=b)
    __shared__ float X_shared[T + 2];

    if (b * T + (T - 1) < N) {
        #pragma unroll
        for (int part = 0; part < 2; ++part)
            if (part * 128 + t < 130)
                X_shared[part * 128 + t] = X[part * 128 + b * T + t];
    } else {
        #pragma unroll
        for (int part = 0; part < 2; ++part)
            if (part * 128 + t < 130 && part * 128 + b * T + t < N + 2)
                X_shared[part * 128 + t] = X[part * 128 + b * T + t];
    }

    __syncthreads();  // X.shared is complete: written above, read below

    if (b * T + t < N) {
        // cache_register(Y, at=b)
        float Y_reg = 0.0f;

        // unroll(r)
        #pragma unroll
        for (int r = 0; r < 3; ++r)
            Y_reg += X_shared[r + t] / 3.0f;

        Y[b * T + t] = Y_reg;
    }
}
