// Integers and floats where C++ has no word, or no value, and vectors of registers. From abs_of_int and int_of_float
// helpers.py makes those of other types.

// The quotient rounded down, for by > 0.
template <typename T, typename D> __device__ __forceinline__ auto floor_div(T value, D by) -> decltype(value / by)
{
    return value / by - (value % by != 0 && (value % by < 0) != (by < 0));
}

// The remainder that goes with the quotient rounded down.
template <typename T, typename D> __device__ __forceinline__ auto floor_mod(T value, D by) -> decltype(value % by)
{
    return value % by + (value % by != 0 && (value % by < 0) != (by < 0) ? by : 0);
}

// The same for any divisor: 0 for 0, and what wraps for -1.
template <typename T, typename D> __device__ __forceinline__ auto floor_div_or_0(T value, D by) -> decltype(value / by)
{
    if (by == 0 || by == -1)
        return by == 0 ? 0 : static_cast<decltype(value / by)>(0ull - value);
    return floor_div(value, by);
}

// The same for any divisor: 0 for 0 and -1.
template <typename T, typename D> __device__ __forceinline__ auto floor_mod_or_0(T value, D by) -> decltype(value % by)
{
    if (by == 0 || by == -1)
        return 0;
    return floor_mod(value, by);
}

// Of the iterations of a loop the one at (value + more) / by, or the nearest, the one after the last among them.
template <typename T> __device__ __forceinline__ T iteration_at(long long value, long long more, int by, T count)
{
    const long long far = 1ll << 60;
    const long long place = (value < -far ? -far : value < far ? value : far) + more;
    return place < by ? 0 : place / by < count ? static_cast<T>(place / by) : count;
}

// Of elements that never fall the number of the first that is above a place, or how many there are.
template <typename V, typename T> __device__ __forceinline__ T first_above(const V* elements, T count, long long place)
{
    T first = 0;
    for (T end = count; first < end;) {
        const T middle = first + (end - first) / 2;
        if (elements[middle] > place)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

// Of the least number itself: abs of C has no value there.
__device__ __forceinline__ int abs_of_int(int value)
{
    return value < 0 ? (int)(0 - (unsigned)value) : value;
}

// The fraction cut off; the end of the range for what is beyond, and 0 for nan.
__device__ __forceinline__ int int_of_float(float value)
{
    if (!(value == value))
        return 0;
    if (value >= 2147483648.0f)
        return 2147483647;
    return value < -2147483648.0f ? -2147483647 - 1 : (int)value;
}

// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
}

// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
}

// The hardware's square root, within 2^-23 of itself; a subnormal number is taken as 0.
__device__ __forceinline__ float approximate_sqrt(float x)
{
    float result;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// The hardware's 1 / sqrt(x), within 2^-22.9 of itself; a subnormal number is taken as 0.
__device__ __forceinline__ float approximate_rsqrt(float x)
{
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// The hardware's power of two, within 2 ulp; a subnormal result is 0.
__device__ __forceinline__ float approximate_exp2(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// The hardware's tanh, within 2^-11 of itself; from sm_75 on.
__device__ __forceinline__ float approximate_tanh(float x)
{
    float result;
    asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// The number with 10 fraction bits next to x, ties away from 0.
__device__ __forceinline__ float round_tf32(float x)
{
    return isfinite(x) ? __uint_as_float((__float_as_uint(x) + 0x1000) & 0xffffe000) : x;
}

// The number with 10 fraction bits next to x towards 0.
__device__ __forceinline__ float cut_off_tf32(float x)
{
    return isfinite(x) ? __uint_as_float(__float_as_uint(x) & 0xffffe000) : x;
}

// The power of two next to x towards 0, with its sign.
__device__ __forceinline__ float power_of_two(float x)
{
    return isfinite(x) ? __uint_as_float(__float_as_uint(x) & 0xff800000) : x;
}

// The registers that a lane has of a fragment, rounded to tf32. The compiler shares what several calls round alike.
template <int count> struct tf32_fragment
{
    float values[count];
    __device__ __forceinline__ explicit tf32_fragment(const float* registers)
    {
        #pragma unroll
        for (int r = 0; r < count; ++r)
            values[r] = round_tf32(registers[r]);
    }
};

__device__ __forceinline__ float ffloor_divf(float value, float by) { return floorf(value / by); }
__device__ __forceinline__ double ffloor_div(double value, double by) { return floor(value / by); }

__device__ __forceinline__ float ffloor_modf(float value, float by) { return value - by * floorf(value / by); }
__device__ __forceinline__ double ffloor_mod(double value, double by) { return value - by * floor(value / by); }
