// vector_add: grid (ceil(N/256)), block (256)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays A[N], B[N], C[N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(256)
vector_add(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int N)
{
    constexpr int T = 256;
    const int b = blockIdx.x;  // blocks(i, T) -> b, t
    const int t = threadIdx.x;

    if (b * T + t < N)
        C[b * T + t] = A[b * T + t] + B[b * T + t];
}
