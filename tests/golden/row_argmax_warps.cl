// The argmax over groups of neighbouring threads, the lower index of equal ones: each thread gets both.
inline void argmax_of_float_int_lanes(__local float *terms, __local int *places, int thread, int lanes,
                                float *value, int *index)
{
    terms[thread] = *value;
    places[thread] = *index;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int lane = thread / lanes * lanes; lane < (thread / lanes + 1) * lanes; ++lane) {
        if (terms[lane] > *value || (terms[lane] == *value && places[lane] < *index)) {
            *value = terms[lane];
            *index = places[lane];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// row_argmax: grid (ceil(M/8)), block (32, 8)
// for X[M, 1024], arrays of fewer than 2^31 - 2^20 elements
// arrays X[M][1024], at[M]; at overlaps no other
// needs X aligned to 16 bytes
__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void
row_argmax(__global const float* restrict X, __global int* restrict at, int M)
{
    const int b = get_group_id(0);  // tile(i, R) -> b, w; bind_warps(b, w, l)
    const int w = get_local_id(1);
    const int l = get_local_id(0);  // share_warp(j, 32) -> c, l, v

    __local float at_best_lanes_of[256];
    __local int at_lanes_of[256];

    // cache_register(at.best, at=w)
    float at_best_reg;

    // cache_register(at, at=w)
    int at_reg;

    // cache_register(part.best, at=w)
    float part_best_reg;

    // cache_register(part, at=w)
    int part_reg;
    if (b * 8 + w < M) {
        part_reg = 0;
        part_best_reg = -INFINITY;

        // cache_register(X, at=l, vector=4)
        float X_reg[8][4];
        for (int c = 0; c < 8; ++c)
            vstore4(*(__global const float4*)&X[(b * 8 + w) * 1024 + c * 128 + l * 4], 0, X_reg[c]);

        for (int c = 0; c < 8; ++c)
            for (int v = 0; v < 4; ++v) {
                if (X_reg[c][v] > part_best_reg) {
                    part_best_reg = X_reg[c][v];
                    part_reg = c * 128 + l * 4 + v;
                }
            }

        at_reg = 0;
        at_best_reg = -INFINITY;
    }

    float at_best_lanes = b * 8 + w < M ? part_best_reg : -INFINITY;
    int at_lanes = b * 8 + w < M ? part_reg : 2147483647;
    argmax_of_float_int_lanes(at_best_lanes_of, at_lanes_of, w * 32 + l, 32, &at_best_lanes, &at_lanes);

    if (l == 0 & b * 8 + w < M) {
        {
            const float candidate = at_best_lanes;
            const int index = at_lanes;
            if (candidate > at_best_reg || (candidate == at_best_reg && index < at_reg)) {
                at_best_reg = candidate;
                at_reg = index;
            }
        }
        at[b * 8 + w] = at_reg;
    }
}
