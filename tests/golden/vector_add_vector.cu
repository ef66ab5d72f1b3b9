// vector_add: grid (ceil(((N + 3)/4)/256)), block (256)
// for arrays of fewer than 2^31 - 2^20 elements
// arrays A[N], B[N], C[N]; C overlaps no other
// needs N % 4 == 0, C aligned to 16 bytes, A aligned to 16 bytes, B aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
vector_add(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int N)
{
    constexpr int W = 4;
    const int b = blockIdx.x;  // blocks(i, T) -> b, t
    const int t = threadIdx.x;

    if (b * 1024 + t * W + (W - 1) < N) {
        const float4 A_vec = *reinterpret_cast<const float4*>(&A[b * 1024 + t * W]);
        const float4 B_vec = *reinterpret_cast<const float4*>(&B[b * 1024 + t * W]);
        float4 C_vec;
        C_vec.x = A_vec.x + B_vec.x;
        C_vec.y = A_vec.y + B_vec.y;
        C_vec.z = A_vec.z + B_vec.z;
        C_vec.w = A_vec.w + B_vec.w;
        *reinterpret_cast<float4*>(&C[b * 1024 + t * W]) = C_vec;
    }
}
