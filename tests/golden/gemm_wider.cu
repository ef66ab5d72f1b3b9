// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
}

// gemm: grid (ceil(N/32), ceil(M/32)), block (8, 32), 8192 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/32) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 4 == 0, N % 4 == 0, A aligned to 16 bytes, B aligned to 16 bytes, C aligned to 16 bytes
extern "C" __global__ void __launch_bounds__(256)
gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int K, int N)
{
    constexpr int TS = 32, W = 4;
    const int bi = blockIdx.y;   // tile(i, TS) -> bi, ti; bind(bi, block.y)
    const int bj = blockIdx.x;   // tile(j, TS) -> bj, tj; bind(bj, block.x)
    const int ti = threadIdx.y;  // bind(ti, thread.y)
    const int tj = threadIdx.x;  // bind(tj, thread.x)

    // cache_shared(A, at=ko, vector=W)
    __shared__ __align__(16) float A_shared[TS][TS];
    // cache_shared(B, at=ko, vector=W)
    __shared__ __align__(16) float B_shared[TS][TS];

    // cache_register(C, at=bj)
    float C_reg[4] = {};

    // tile(k, TS) -> ko, ki
    for (int ko = 0; ko < (K + TS - 1) / TS; ++ko) {
        if (bi * TS + ti < M && ko * TS + tj * W + (W - 1) < K)
            *reinterpret_cast<float4*>(&A_shared[ti][tj * W]) =
                *reinterpret_cast<const float4*>(&A[(bi * TS + ti) * K + ko * TS + tj * W]);

        if (ko * TS + ti < K && bj * TS + tj * W + (W - 1) < N)
            *reinterpret_cast<float4*>(&B_shared[ti][tj * W]) =
                *reinterpret_cast<const float4*>(&B[(ko * TS + ti) * N + bj * TS + tj * W]);

        __syncthreads();  // A.shared and B.shared are complete: written above, read below

        if (bi * TS + ti < M && bj * TS + tj * W + (W - 1) < N) {
            if (ko * TS + (TS - 1) < K) {
                // unroll(ki)
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki) {
                    const float4 B_shared_vec = *reinterpret_cast<const float4*>(&B_shared[ki][tj * W]);
                    C_reg[0] += A_shared[ti][ki] * B_shared_vec.x;
                    C_reg[1] += A_shared[ti][ki] * B_shared_vec.y;
                    C_reg[2] += A_shared[ti][ki] * B_shared_vec.z;
                    C_reg[3] += A_shared[ti][ki] * B_shared_vec.w;
                }
            } else {
                #pragma unroll
                for (int ki = 0; ki < TS; ++ki)
                    if (ko * TS + ki < K) {
                        const float4 B_shared_vec = *reinterpret_cast<const float4*>(&B_shared[ki][tj * W]);
                        C_reg[0] += A_shared[ti][ki] * B_shared_vec.x;
                        C_reg[1] += A_shared[ti][ki] * B_shared_vec.y;
                        C_reg[2] += A_shared[ti][ki] * B_shared_vec.z;
                        C_reg[3] += A_shared[ti][ki] * B_shared_vec.w;
                    }
            }
        }

        __syncthreads();  // before the next ko overwrites A.shared and B.shared
    }

    if (bi * TS + ti < M && bj * TS + tj * W + (W - 1) < N)
        store_vector<float4>(&C[(bi * TS + ti) * N + bj * TS + tj * W], C_reg);
}
