// stencils: grid (ceil(N/32), ceil(M/8)), block (32, 8), 3088 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/8) <= 65535
// arrays A[M][N], C[M][N]; C overlaps no other
extern "C" __global__ void __launch_bounds__(256)
stencils(const float* __restrict__ A, float* __restrict__ C, int M, int N)
{
    constexpr int TY = 8, TX = 32;
    const int by = blockIdx.y;   // tile(C.i, TY) -> by, ty; bind(by, block.y)
    const int bx = blockIdx.x;   // tile(C.j, TX) -> bx, tx; bind(bx, block.x)
    const int qy = threadIdx.y;  // tile(B.i, TY) -> py, qy; bind(qy, thread.y)
    const int qx = threadIdx.x;  // tile(B.j, TX) -> px, qx; bind(qx, thread.x)
    const int ty = threadIdx.y;  // bind(ty, thread.y)
    const int tx = threadIdx.x;  // bind(tx, thread.x)
    const int tid = qy * 32 + qx;

    // cache_shared(B, at=bx)
    __shared__ float B_shared[10][34];
    // cache_shared(A, at=bx)
    __shared__ float A_shared[TY + 4][TX + 4];

    #pragma unroll
    for (int part = 0; part < 2; ++part) {
        const int element = part * 256 + tid;
        const int i = element / 36;
        const int j = element % 36;
        if (element < 432)
            A_shared[i][j] =
                by * TY + i >= 2 && by * TY + i < M + 2 && bx * TX + j >= 2 && bx * TX + j < N + 2
                ? A[(by * TY + i - 2) * N + bx * TX + j - 2]
                : 0.0f;
    }

    __syncthreads();  // A.shared is complete: written above, read below

    for (int py = 0; py < 2; ++py)
        if (py * TY + qy < 10)
            for (int px = 0; px < 2; ++px)
                if (px * TX + qx < 34)
                    B_shared[py * TY + qy][px * TX + qx] =
                        by * TY + py * TY + qy >= 1 && by * TY + py * TY + qy < M + 1 && bx * TX + px * TX + qx >= 1
                            && bx * TX + px * TX + qx < N + 1
                        ? (A_shared[py * TY + qy + 1][px * TX + qx + 1] + A_shared[py * TY + qy][px * TX + qx + 1]
                           + A_shared[py * TY + qy + 2][px * TX + qx + 1] + A_shared[py * TY + qy + 1][px * TX + qx]
                           + A_shared[py * TY + qy + 1][px * TX + qx + 2]) / 5.0f
                        : 0.0f;

    __syncthreads();  // B.shared is complete: written above, read below

    if (by * TY + ty < M && bx * TX + tx < N)
        C[(by * TY + ty) * N + bx * TX + tx] =
            (B_shared[ty + 1][tx + 1] + B_shared[ty][tx + 1] + B_shared[ty + 2][tx + 1] + B_shared[ty + 1][tx]
             + B_shared[ty + 1][tx + 2]) / 5.0f;
}
