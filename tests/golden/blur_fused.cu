// blur: grid (ceil(N/32), ceil(M/8)), block (32, 8), 1280 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/8) <= 65535
// arrays X[M + 2][N + 2], out[M][N]; out overlaps no other
extern "C" __global__ void __launch_bounds__(256)
blur(const float* __restrict__ X, float* __restrict__ out, int M, int N)
{
    const int by = blockIdx.y;     // tile(out.y, TY) -> by, ty; bind(by, block.y)
    const int bc = blockIdx.x;     // tile(out.x, TX) -> bc, tx; bind(bc, block.x)
    const int qy = threadIdx.y;    // tile(bx.y, TY) -> py, qy; bind(qy, thread.y)
    const int bx_x = threadIdx.x;  // bind(bx.x, thread.x)
    const int ty = threadIdx.y;    // bind(ty, thread.y)
    const int tx = threadIdx.x;    // bind(tx, thread.x)

    // cache_shared(bx, at=bc)
    __shared__ float bx_shared[10][32];

    if (bc * 32 + bx_x < N) {
        if (by * 8 + 7 < M) {
            for (int py = 0; py < 2; ++py)
                if (py * 8 + qy < 10)
                    bx_shared[py * 8 + qy][bx_x] =
                        (X[(by * 8 + py * 8 + qy) * (N + 2) + bc * 32 + bx_x]
                            + X[(by * 8 + py * 8 + qy) * (N + 2) + bc * 32 + bx_x + 1]
                            + X[(by * 8 + py * 8 + qy) * (N + 2) + bc * 32 + bx_x + 2])
                            / 3.0f;
        } else {
            for (int py = 0; py < 2; ++py)
                if (by * 8 + py * 8 + qy < M + 2 && py * 8 + qy < 10)
                    bx_shared[py * 8 + qy][bx_x] =
                        (X[(by * 8 + py * 8 + qy) * (N + 2) + bc * 32 + bx_x]
                            + X[(by * 8 + py * 8 + qy) * (N + 2) + bc * 32 + bx_x + 1]
                            + X[(by * 8 + py * 8 + qy) * (N + 2) + bc * 32 + bx_x + 2])
                            / 3.0f;
        }
    }

    __syncthreads();  // bx.shared is complete: written above, read below

    if (by * 8 + ty < M && bc * 32 + tx < N)
        out[(by * 8 + ty) * N + bc * 32 + tx] =
            (bx_shared[ty][tx] + bx_shared[ty + 1][tx] + bx_shared[ty + 2][tx]) / 3.0f;
}
