// PoCL 3 miscompiles loops after a test that it sees to be the same for all threads.
inline bool hidden(bool test)
{
    volatile bool value = test;
    return value;
}

// gemm: grid (ceil(N/128), ceil(M/128)), block (16, 16), 16384 bytes of shared memory
// for arrays of fewer than 2^31 - 2^20 elements, ceil(M/128) <= 65535
// arrays A[M][K], B[K][N], C[M][N]; C overlaps no other
// needs K % 4 == 0, N % 4 == 0, A aligned to 16 bytes, B aligned to 16 bytes
__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void
gemm(__global const float* restrict A, __global const float* restrict B, __global float* restrict C,
     int M, int K, int N)
{
    const int bi = get_group_id(1);  // tile(i, TM) -> bi, ti; bind(bi, block.y)
    const int bj = get_group_id(0);  // tile(j, TN) -> bj, tj; bind(bj, block.x)
    const int ti = get_local_id(1);  // bind(ti, thread.y)
    const int tj = get_local_id(0);  // bind(tj, thread.x)
    const int tid = ti * 16 + tj;

    // cache_shared(A, at=ko, layout=[k, i], vector=4)
    // element c of row r lies at c ^ ((r & 7) << 1)
    __local float A_shared[16][128];
    // cache_shared(B, at=ko, vector=4)
    __local float B_shared[16][128] __attribute__((aligned(16)));

    const bool full_tile = hidden(bi * 128 + 127 < M & bj * 128 + 127 < N);

    // cache_register(C, at=bj)
    float C_reg[8][8] = {0};

    // tile(k, TK) -> ko, ki
    for (int ko = 0; ko < (K + 15) / 16; ++ko) {
        if (full_tile && ko * 16 + 15 < K) {
            for (int part = 0; part < 2; ++part) {
                const int i = part * 64 + tid / 4;
                const int k = tid % 4;
                const float4 A_vec = *(__global const float4*)&A[(bi * 128 + i) * K + ko * 16 + k * 4];
                A_shared[k * 4][i ^ (((k * 4) & 7) << 1)] = A_vec.s0;
                A_shared[k * 4 + 1][i ^ (((k * 4 + 1) & 7) << 1)] = A_vec.s1;
                A_shared[k * 4 + 2][i ^ (((k * 4 + 2) & 7) << 1)] = A_vec.s2;
                A_shared[k * 4 + 3][i ^ (((k * 4 + 3) & 7) << 1)] = A_vec.s3;
            }

            for (int part = 0; part < 2; ++part) {
                const int k = part * 8 + tid / 32;
                const int j = tid % 32;
                *(__local float4*)&B_shared[k][j * 4] =
                    *(__global const float4*)&B[(ko * 16 + k) * N + bj * 128 + j * 4];
            }
        } else {
            if (ko * 16 + (tid % 4) * 4 + 3 < K)
                for (int part = 0; part < 2; ++part) {
                    const int i = part * 64 + tid / 4;
                    const int k = tid % 4;
                    if (bi * 128 + i < M) {
                        const float4 A_vec = *(__global const float4*)&A[(bi * 128 + i) * K + ko * 16 + k * 4];
                        A_shared[k * 4][i ^ (((k * 4) & 7) << 1)] = A_vec.s0;
                        A_shared[k * 4 + 1][i ^ (((k * 4 + 1) & 7) << 1)] = A_vec.s1;
                        A_shared[k * 4 + 2][i ^ (((k * 4 + 2) & 7) << 1)] = A_vec.s2;
                        A_shared[k * 4 + 3][i ^ (((k * 4 + 3) & 7) << 1)] = A_vec.s3;
                    }
                }

            if (bj * 128 + (tid % 32) * 4 + 3 < N)
                for (int part = 0; part < 2; ++part) {
                    const int k = part * 8 + tid / 32;
                    const int j = tid % 32;
                    if (ko * 16 + k < K)
                        *(__local float4*)&B_shared[k][j * 4] =
                            *(__global const float4*)&B[(ko * 16 + k) * N + bj * 128 + j * 4];
                }
        }

        barrier(CLK_LOCAL_MEM_FENCE);  // A.shared and B.shared are complete: written above, read below

        if (full_tile && ko * 16 + 15 < K) {
            // unroll(ki)
            for (int ki = 0; ki < 16; ++ki) {
                // cache_register(A.shared, at=ki)
                float A_shared_reg[8];
                // coarsen(ti, WM) -> ti, wi
                for (int wi = 0; wi < 8; ++wi)
                    A_shared_reg[wi] = A_shared[ki][wi * 16 + (ti ^ ((ki & 7) << 1))];

                // cache_register(B.shared, at=ki)
                float B_shared_reg[8];
                // coarsen(tj, WN) -> tj, wj
                for (int wj = 0; wj < 8; ++wj)
                    B_shared_reg[wj] = B_shared[ki][wj * 16 + tj];

                for (int wi = 0; wi < 8; ++wi)
                    for (int wj = 0; wj < 8; ++wj)
                        C_reg[wi][wj] += A_shared_reg[wi] * B_shared_reg[wj];
            }
        } else {
            for (int ki = 0; ki < 16; ++ki)
                if (ko * 16 + ki < K) {
                    float A_shared_reg[8];
                    for (int wi = 0; wi < 8; ++wi)
                        if (bi * 128 + wi * 16 + ti < M)
                            A_shared_reg[wi] = A_shared[ki][wi * 16 + (ti ^ ((ki & 7) << 1))];

                    float B_shared_reg[8];
                    for (int wj = 0; wj < 8; ++wj)
                        if (bj * 128 + wj * 16 + tj < N)
                            B_shared_reg[wj] = B_shared[ki][wj * 16 + tj];

                    for (int wi = 0; wi < 8; ++wi)
                        for (int wj = 0; wj < 8; ++wj)
                            C_reg[wi][wj] += A_shared_reg[wi] * B_shared_reg[wj];
                }
        }

        barrier(CLK_LOCAL_MEM_FENCE);  // before the next ko overwrites A.shared and B.shared
    }

    if (full_tile) {
        for (int wi = 0; wi < 8; ++wi)
            for (int wj = 0; wj < 8; ++wj)
                C[(bi * 128 + wi * 16 + ti) * N + bj * 128 + wj * 16 + tj] = C_reg[wi][wj];
    } else {
        for (int wi = 0; wi < 8; ++wi)
            if (bi * 128 + wi * 16 + ti < M)
                for (int wj = 0; wj < 8; ++wj)
                    if (bj * 128 + wj * 16 + tj < N)
                        C[(bi * 128 + wi * 16 + ti) * N + bj * 128 + wj * 16 + tj] = C_reg[wi][wj];
    }
}
