// What OpenCL C has no word for. helpers.py makes those of other types and updates from functions of float and int.

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

// The sum of `start` and the values up to each of neighbouring threads.
inline float sum_up_to_float_lane(__local float *terms, int thread, int lanes, float start, float value)
{
    terms[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    value = start;
    for (int lane = thread / lanes * lanes; lane <= thread; ++lane) {
        const float other = terms[lane];
        value = value + other;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

// The sum of `start` and the values of the threads before each.
inline float sum_ahead_of_float_lane(__local float *terms, int thread, int lanes, float start, float value)
{
    terms[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    value = start;
    for (int lane = thread / lanes * lanes; lane < thread; ++lane) {
        const float other = terms[lane];
        value = value + other;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

// What the linear steps of neighbouring threads come to, in the order of these: each gets value and factor.
inline void linear_of_float_float_lanes(__local float *terms, __local float *factors, int thread, int lanes,
                                        float *value, float *factor)
{
    terms[thread] = *value;
    factors[thread] = *factor;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int first = thread / lanes * lanes;
    *value = terms[first];
    *factor = factors[first];
    for (int lane = first + 1; lane < first + lanes; ++lane) {
        *value = factors[lane] * *value + terms[lane];
        *factor = factors[lane] * *factor;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// What the steps up to each of neighbouring threads make of `start`.
inline float linear_up_to_float_lane(__local float *terms, __local float *factors, int thread, int lanes,
                                     float start, float factor, float value)
{
    terms[thread] = value;
    factors[thread] = factor;
    barrier(CLK_LOCAL_MEM_FENCE);
    value = start;
    for (int lane = thread / lanes * lanes; lane <= thread; ++lane)
        value = factors[lane] * value + terms[lane];
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

// What the steps of the threads before each make of `start`.
inline float linear_ahead_of_float_lane(__local float *terms, __local float *factors, int thread, int lanes,
                                        float start, float factor, float value)
{
    terms[thread] = value;
    factors[thread] = factor;
    barrier(CLK_LOCAL_MEM_FENCE);
    value = start;
    for (int lane = thread / lanes * lanes; lane < thread; ++lane)
        value = factors[lane] * value + terms[lane];
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

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

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

// The quotient rounded down, for by > 0.
inline long floor_div(long value, long by)
{
    return value / by - (value % by != 0 && (value % by < 0) != (by < 0));
}

// The remainder that goes with the quotient rounded down.
inline long floor_mod(long value, long by)
{
    return value % by + (value % by != 0 && (value % by < 0) != (by < 0) ? by : 0);
}

// The same for any divisor: 0 for 0, and what wraps for -1.
inline long floor_div_or_0(long value, long by)
{
    if (by == 0 || by == -1)
        return by == 0 ? 0 : (long)(0UL - (ulong)value);
    return floor_div(value, by);
}

// The same for any divisor: 0 for 0 and -1.
inline long floor_mod_or_0(long value, long by)
{
    if (by == 0 || by == -1)
        return 0;
    return floor_mod(value, by);
}

// Of the iterations of a loop the one at (value + more) / by, or the nearest, the one after the last among them.
inline long iteration_at(long value, long more, long by, long count)
{
    const long far = 1L << 60;
    const long place = (value < -far ? -far : value < far ? value : far) + more;
    return place < by ? 0 : place / by < count ? place / by : count;
}

// Of elements that never fall the number of the first that is above a place, or how many there are.
inline long first_int_above(__global const int *elements, long count, long place)
{
    long first = 0;
    for (long end = count; first < end;) {
        const long middle = first + (end - first) / 2;
        if (elements[middle] > place)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

// Of the least number itself: abs of C has no value there.
inline int abs_of_int(int value)
{
    return value < 0 ? (int)(0 - (uint)value) : value;
}

// The fraction cut off; the end of the range for what is beyond, and 0 for nan.
inline int int_of_float(float value)
{
    if (!(value == value))
        return 0;
    if (value >= 2147483648.0f)
        return 2147483647;
    return value < -2147483648.0f ? -2147483647 - 1 : (int)value;
}

inline float ffloor_div(float value, float by) { return floor(value / by); }

inline float ffloor_mod(float value, float by) { return value - by * floor(value / by); }

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

// A sum in one access of each of 2 neighbours.
inline void atomic_add_float2(__global float *place, float2 terms)
{
    atomic_add_float(&place[0], terms.s0);
    atomic_add_float(&place[1], terms.s1);
}

// A sum in one access of each of 4 neighbours.
inline void atomic_add_float4(__global float *place, float4 terms)
{
    atomic_add_float(&place[0], terms.s0);
    atomic_add_float(&place[1], terms.s1);
    atomic_add_float(&place[2], terms.s2);
    atomic_add_float(&place[3], terms.s3);
}

inline float load_half(ushort bits) { return vload_half(0, (const __private half *)&bits); }

inline ushort round_half(float value)
{
    ushort bits;
    vstore_half(value, 0, (__private half *)&bits);
    return bits;
}

// The float next to a number, on the side of 0, its last bit set if it is not the number: rounding it to 16 bits
// rounds the number once.
inline float odd_float(double value)
{
    const float near = (float)value;
    if (isnan(value) || (double)near == value)
        return near;
    return as_float((as_uint(near) - (fabs((double)near) > fabs(value) ? 1 : 0)) | 1);
}

inline float load_bf16(ushort bits) { return as_float((uint)bits << 16); }

inline ushort round_bf16(float value)
{
    const uint bits = as_uint(value);
    return isnan(value) ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// The number with 10 fraction bits next to x, ties away from 0.
inline float round_tf32(float x)
{
    return isfinite(x) ? as_float((as_uint(x) + 0x1000) & 0xffffe000) : x;
}

// The number with 10 fraction bits next to x towards 0.
inline float cut_off_tf32(float x)
{
    return isfinite(x) ? as_float(as_uint(x) & 0xffffe000) : x;
}

// The power of two next to x towards 0, with its sign.
inline float power_of_two(float x)
{
    return isfinite(x) ? as_float(as_uint(x) & 0xff800000) : x;
}

// The number that a byte means: 3 fraction bits, exponents from -6, no infinity.
inline float load_e4m3(uchar bits)
{
    const uint size = bits & 0x7f;
    const float value = size < 8 ? (float)size / 512.0f : as_float(size == 0x7f ? 0x7fc00000 : (size + 960) << 20);
    return bits & 0x80 ? -value : value;
}

// The number that a byte means, which is the upper one of a half.
inline float load_e5m2(uchar bits) { return load_half((ushort)(bits << 8)); }

// The nearest number of one byte, halves to even; the largest one for what is larger.
inline uchar round_e4m3(float value)
{
    const uint bits = as_uint(value), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
    if (isnan(value))
        return 0x7f;
    if (size >= 0x43e00000)
        return sign | 0x7e;
    if (size < 0x3c800000)
        return sign | (uint)rint(fabs(value) * 512.0f);
    return sign | (((size + 0x7ffff + (size >> 20 & 1)) >> 20) - 960);
}

inline uchar e4m3_of_double(double value) { return round_e4m3(odd_float(value)); }

inline ushort half_of_double(double value) { return round_half(odd_float(value)); }

inline ushort bf16_of_double(double value) { return round_bf16(odd_float(value)); }

inline ushort bf16_of_long(long value)
{
    // So large that a double has not all digits: the last 16 bits only say on which side of a half the number is.
    if (value > 0x20000000000000L || value < -0x20000000000000L)
        value = (value & ~0xffffL) | ((value & 0xffffL) != 0 ? 0x8000L : 0L);
    return bf16_of_double((double)value);
}
