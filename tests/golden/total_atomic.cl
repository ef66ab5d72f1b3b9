// The sum over groups of neighbouring threads: each of them gets it.
inline float sum_of_float_lanes(__local float *terms, int thread, int lanes, float value)
{
    terms[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int first = thread / lanes * lanes;
    value = terms[first];
    for (int lane = 1; lane < lanes; ++lane) {
        const float other = terms[first + lane];
        value = value + other;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

// PoCL 3 miscompiles loops after a test that it sees to be the same for all threads.
inline bool hidden(bool test)
{
    volatile bool value = test;
    return value;
}

// A sum in one access, which OpenCL has of integers alone: the bits are exchanged until nobody came in between.
inline void atomic_add_float(__global float *place, float term)
{
    uint seen = 0, old;
    do {
        old = seen;
        seen = atomic_cmpxchg((__global uint *)place, old, as_uint(as_float(old) + term));
    } while (seen != old);
}

// total_y: grid (1), block (1)
// for y[1], arrays of fewer than 2^31 - 2^20 elements
// arrays y[1]
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
total_y(__global float* restrict y)
{
    y[0] = 0.0f;
}

// total_pl: grid (ceil(N/65536)), block (32, 32), 128 bytes of shared memory
// for y[1], arrays of fewer than 2^31 - 2^20 elements
// arrays x[N], y[1]; y overlaps no other
// needs N % 4 == 0, x aligned to 16 bytes
__kernel __attribute__((reqd_work_group_size(32, 32, 1))) void
total_pl(__global const float* restrict x, __global float* restrict y, int N)
{
    const int b = get_group_id(0);  // rfactor(y, b) -> part; bind_warps(b, w, l)
    const int w = get_local_id(1);  // share_block(r, 32) -> c, w, l, v
    const int l = get_local_id(0);

    // reduce_block(part, b, w, l) -> pw, pl
    __local float pw_shared[32];
    __local float pw_lanes_of[1024];

    float pl_reg = 0.0f;
    if (hidden(b * 65536 + 65535 < N)) {
        for (int c = 0; c < 16; ++c) {
            // cache_register(x, at=c, vector=4)
            float x_reg[4];
            vstore4(*(__global const float4*)&x[b * 65536 + c * 4096 + w * 128 + l * 4], 0, x_reg);

            for (int v = 0; v < 4; ++v)
                pl_reg += x_reg[v];
        }
    } else {
        for (int c = 0; c < 16; ++c) {
            float x_reg[4];
            if (b * 65536 + c * 4096 + w * 128 + l * 4 + 3 < N)
                vstore4(*(__global const float4*)&x[b * 65536 + c * 4096 + w * 128 + l * 4], 0, x_reg);

            for (int v = 0; v < 4; ++v)
                if (b * 65536 + c * 4096 + w * 128 + l * 4 + v < N)
                    pl_reg += x_reg[v];
        }
    }

    float pw_reg = 0.0f;

    const float pw_lanes = sum_of_float_lanes(pw_lanes_of, w * 32 + l, 32, pl_reg);

    if (l == 0) {
        pw_reg += pw_lanes;
        pw_shared[w] = pw_reg;
    }

    barrier(CLK_LOCAL_MEM_FENCE);  // pw.shared is complete: written above, read below

    if (l == 0 & w == 0) {
        float part_reg = 0.0f;

        for (int w2 = 0; w2 < 32; ++w2)
            part_reg += pw_shared[w2];

        atomic_add_float(&y[0], part_reg);
    }
}
