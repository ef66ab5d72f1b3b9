// blur: grid (ceil(N/32), ceil(M/8)), block (32, 8), 1280 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/8) <= 65535
// arrays X[M + 2][N + 2], out[M][N]; out overlaps no other
extern "C" __global__ void __launch_bounds__(256)
blur(const float* __restrict__ X, float* __restrict__ out, int M, int N)
{
    constexpr int TY = 8, TX = 32;
    const int by = blockIdx.y;     // tile(out.y, TY) -> by, ty; bind(by, block.y)
    const int bc = blockIdx.x;     // tile(out.x, TX) -> bc, tx; bind(bc, block.x)
    const int qy = threadIdx.y;    // tile(bx.y, TY) -> py, qy; bind(qy, thread.y)
    const int bx_x = threadIdx.x;  // bind(bx.x, thread.x)
    const int ty = threadIdx.y;    // bind(ty, thread.y)
    const int tx = threadIdx.x;    // bind(tx, thread.x)

    // cache_shared(bx, at=bc)
    __shared__ float bx_shared[10][TX];

    if (bc * TX + bx_x < N) {
        if (by * TY + (TY - 1) < M) {
            for (int py = 0; py < 2; ++py)
                if (py * TY + qy < 10)
                    bx_shared[py * TY + qy][bx_x] =
                        (X[(by * TY + py * TY + qy) * (N + 2) + bc * TX + bx_x]
                         + X[(by * TY + py * TY + qy) * (N + 2) + bc * TX + bx_x + 1]
                         + X[(by * TY + py * TY + qy) * (N + 2) + bc * TX + bx_x + 2]) / 3.0f;
        } else {
            for (int py = 0; py < 2; ++py)
                if (by * TY + py * TY + qy < M + 2 && py * TY + qy < 10)
                    bx_shared[py * TY + qy][bx_x] =
                        (X[(by * TY + py * TY + qy) * (N + 2) + bc * TX + bx_x]
                         + X[(by * TY + py * TY + qy) * (N + 2) + bc * TX + bx_x + 1]
                         + X[(by * TY + py * TY + qy) * (N + 2) + bc * TX + bx_x + 2]) / 3.0f;
        }
    }

    __syncthreads();  // bx.shared is complete: written above, read below

    if (by * TY + ty < M && bc * TX + tx < N)
        out[(by * TY + ty) * N + bc * TX + tx] =
            (bx_shared[ty][tx] + bx_shared[ty + 1][tx] + bx_shared[ty + 2][tx]) / 3.0f;
}
