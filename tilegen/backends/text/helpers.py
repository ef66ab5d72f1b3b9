"""The few lines that stand before the kernels of a text, each only where the text uses it."""

from __future__ import annotations

from tilegen.backends.text.budgets import BUDGET_FUNCTIONS
from tilegen.backends.text.bulk import BULK_FUNCTIONS
from tilegen.backends.text.bulk_stores import STORE_FUNCTIONS
from tilegen.backends.text.byte_floats import BYTE_FLOAT_FUNCTIONS
from tilegen.backends.text.copies import ASYNCHRONOUS_COPIES, ASYNCHRONOUS_PRODUCTS
from tilegen.backends.text.dependent_launch import LAUNCH_FUNCTIONS
from tilegen.backends.text.dialect import CUDA, Dialect
from tilegen.backends.text.integers import conversions, magnitudes

_UPDATES = {
    "sum": "value + other",
    "prod": "value * other",
    "max": "max(value, other)",
    "min": "min(value, other)",
}
_LANES = """\
// The {reduce} over groups of neighbouring lanes of a warp: each of them gets it.
template <int lanes, typename T> __device__ __forceinline__ T {reduce}_of_lanes(T value)
{{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {{
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        value = {update};
    }}
    return value;
}}"""
_PAIRS = """\
// The {reduce} over groups of neighbouring lanes of a warp, the lower index of equal ones: each lane gets both.
template <int lanes, typename T, typename I> __device__ __forceinline__ void {reduce}_of_lanes(T& value, I& index)
{{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {{
        const T other = __shfl_xor_sync(0xffffffff, value, step);
        const I place = __shfl_xor_sync(0xffffffff, index, step);
        if (other {sign} value || (other == value && place < index)) {{
            value = other;
            index = place;
        }}
    }}
}}"""
_ADD = """\
{pragma}// A sum in one access, which OpenCL has of integers alone: the bits are exchanged until nobody came in between.
inline void atomic_add_{kind}(__global {kind} *place, {kind} term)
{{
    {bits} seen = 0, old;
    do {{
        old = seen;
        seen = {word}_cmpxchg((__global {bits} *)place, old, as_{bits}(as_{kind}(old) + term));
    }} while (seen != old);
}}"""
_ADD_VECTOR = """\
// A sum in one access of each of {width} neighbours, at once on sm_90.
__device__ __forceinline__ void atomic_add_float{width}(float* place, float{width} terms)
{{
#if __CUDA_ARCH__ >= 900
    atomicAdd(reinterpret_cast<float{width}*>(place), terms);
#else
{lanes}
#endif
}}"""
_ADD_LANES = """\
// A sum in one access of each of {width} neighbours.
inline void atomic_add_float{width}(__global float *place, float{width} terms)
{{
{lanes}
}}"""
_SIGNS = {"argmax": ">", "argmin": "<"}
_BF16_WORDS = ("__nv_bfloat16", "__bfloat162float(", "__float2bfloat16(", "__double2bfloat16(", "__ll2bfloat16_rn(")
_CUDA = {
    **dict.fromkeys(("__half", "__half2float(", "__float2half(", "__double2half("), "#include <cuda_fp16.h>"),
    **dict.fromkeys(_BF16_WORDS, "#include <cuda_bf16.h>"),
    **dict.fromkeys(("__nv_fp8_e4m3", "__nv_fp8_e5m2"), "#include <cuda_fp8.h>"),
    "INFINITY": "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif",
    **{f"{reduce}_of_lanes<": _LANES.format(reduce=reduce, update=update) for reduce, update in _UPDATES.items()},
    **{f"{reduce}_of_lanes<": _PAIRS.format(reduce=reduce, sign=sign) for reduce, sign in _SIGNS.items()},
    **{
        f"atomic_add_float{width}(": _ADD_VECTOR.format(
            width=width,
            lanes="\n".join(f"    atomicAdd(&place[{n}], terms.{word});" for n, word in enumerate("xyzw"[:width])),
        )
        for width in (2, 4)
    },
    "floor_div(": """\
// The quotient rounded down, for by > 0.
template <typename T, typename D> __device__ __forceinline__ auto floor_div(T value, D by) -> decltype(value / by)
{
    return value / by - (value % by != 0 && (value % by < 0) != (by < 0));
}""",
    "floor_mod(": """\
// The remainder that goes with the quotient rounded down.
template <typename T, typename D> __device__ __forceinline__ auto floor_mod(T value, D by) -> decltype(value % by)
{
    return value % by + (value % by != 0 && (value % by < 0) != (by < 0) ? by : 0);
}""",
    "floor_div_or_0(": """\
// The same for any divisor: 0 for 0, and what wraps for -1.
template <typename T, typename D> __device__ __forceinline__ auto floor_div_or_0(T value, D by) -> decltype(value / by)
{
    if (by == 0 || by == -1)
        return by == 0 ? 0 : static_cast<decltype(value / by)>(0ull - value);
    return floor_div(value, by);
}""",
    "floor_mod_or_0(": """\
// The same for any divisor: 0 for 0 and -1.
template <typename T, typename D> __device__ __forceinline__ auto floor_mod_or_0(T value, D by) -> decltype(value % by)
{
    if (by == 0 || by == -1)
        return 0;
    return floor_mod(value, by);
}""",
    **magnitudes(
        {"int": "unsigned", "long long": "unsigned long long", "signed char": "unsigned"}, "__device__ __forceinline__"
    ),
    **conversions(("int", "long long", "signed char", "unsigned char"), "__device__ __forceinline__"),
    "load_vector<": """\
// One vector load into neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void load_vector(T* registers, const T* memory)
{
    const Vector vector = *reinterpret_cast<const Vector*>(memory);
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        registers[lane] = reinterpret_cast<const T*>(&vector)[lane];
}""",
    "store_vector<": """\
// One vector store of neighbouring registers.
template <typename Vector, typename T> __device__ __forceinline__ void store_vector(T* memory, const T* registers)
{
    Vector vector;
    #pragma unroll
    for (int lane = 0; lane < sizeof(Vector) / sizeof(T); ++lane)
        reinterpret_cast<T*>(&vector)[lane] = registers[lane];
    *reinterpret_cast<Vector*>(memory) = vector;
}""",
    "approximate_sqrt(": """\
// The hardware's square root, within 2^-23 of itself; a subnormal number is taken as 0.
__device__ __forceinline__ float approximate_sqrt(float x)
{
    float result;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}""",
    "approximate_rsqrt(": """\
// The hardware's 1 / sqrt(x), within 2^-22.9 of itself; a subnormal number is taken as 0.
__device__ __forceinline__ float approximate_rsqrt(float x)
{
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}""",
    "approximate_exp2(": """\
// The hardware's power of two, within 2 ulp; a subnormal result is 0.
__device__ __forceinline__ float approximate_exp2(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}""",
    "approximate_tanh(": """\
// The hardware's tanh, within 2^-11 of itself; from sm_75 on.
__device__ __forceinline__ float approximate_tanh(float x)
{
    float result;
    asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}""",
    "round_tf32(": """\
// The number with 10 fraction bits next to x, ties away from 0.
__device__ __forceinline__ float round_tf32(float x)
{
    return isfinite(x) ? __uint_as_float((__float_as_uint(x) + 0x1000) & 0xffffe000) : x;
}""",
    "cut_off_tf32(": """\
// The number with 10 fraction bits next to x towards 0.
__device__ __forceinline__ float cut_off_tf32(float x)
{
    return isfinite(x) ? __uint_as_float(__float_as_uint(x) & 0xffffe000) : x;
}""",
    "power_of_two(": """\
// The power of two next to x towards 0, with its sign.
__device__ __forceinline__ float power_of_two(float x)
{
    return isfinite(x) ? __uint_as_float(__float_as_uint(x) & 0xff800000) : x;
}""",
    "tf32_fragment<": """\
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
};""",
    **ASYNCHRONOUS_COPIES,
    **ASYNCHRONOUS_PRODUCTS,
    **BULK_FUNCTIONS,
    **STORE_FUNCTIONS,
    **BUDGET_FUNCTIONS,
    **LAUNCH_FUNCTIONS,
    "ffloor_div": """\
__device__ __forceinline__ float ffloor_divf(float value, float by) { return floorf(value / by); }
__device__ __forceinline__ double ffloor_div(double value, double by) { return floor(value / by); }""",
    "ffloor_mod": """\
__device__ __forceinline__ float ffloor_modf(float value, float by) { return value - by * floorf(value / by); }
__device__ __forceinline__ double ffloor_mod(double value, double by) { return value - by * floor(value / by); }""",
}
# type -> its words for the larger and the smaller of two.
_TYPES = {kind: ("fmax", "fmin") for kind in ("float", "double")}
_TYPES |= {kind: ("max", "min") for kind in ("int", "long", "char", "uchar")}
_LOCAL = """\
// The {reduce} over groups of neighbouring threads: each of them gets it.
inline {kind} {reduce}_of_{kind}_lanes(__local {kind} *terms, int thread, int lanes, {kind} value)
{{
    terms[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int first = thread / lanes * lanes;
    value = terms[first];
    for (int lane = 1; lane < lanes; ++lane) {{
        const {kind} other = terms[first + lane];
        value = {update};
    }}
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}}"""


_LOCAL_PAIRS = """\
// The {reduce} over groups of neighbouring threads, the lower index of equal ones: each thread gets both.
inline void {reduce}_of_{kind}_{place}_lanes(__local {kind} *terms, __local {place} *places, int thread, int lanes,
                                {kind} *value, {place} *index)
{{
    terms[thread] = *value;
    places[thread] = *index;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int lane = thread / lanes * lanes; lane < (thread / lanes + 1) * lanes; ++lane) {{
        if (terms[lane] {sign} *value || (terms[lane] == *value && places[lane] < *index)) {{
            *value = terms[lane];
            *index = places[lane];
        }}
    }}
    barrier(CLK_LOCAL_MEM_FENCE);
}}"""


def _local(kind: str, reduce: str) -> str:
    words = dict(zip(("max", "min"), _TYPES[kind], strict=True))
    update = _UPDATES[reduce].replace(reduce, words.get(reduce, reduce))
    return _LOCAL.format(kind=kind, reduce=reduce, update=update)


_OPENCL = {
    **{f"{reduce}_of_{kind}_lanes(": _local(kind, reduce) for reduce in _UPDATES for kind in _TYPES},
    **{
        f"{reduce}_of_{kind}_{place}_lanes(": _LOCAL_PAIRS.format(reduce=reduce, kind=kind, place=place, sign=sign)
        for reduce, sign in _SIGNS.items()
        for kind in _TYPES
        for place in ("int", "long", "char", "uchar")
    },
    "double": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
    "floor_div(": """\
// The quotient rounded down, for by > 0.
inline long floor_div(long value, long by)
{
    return value / by - (value % by != 0 && (value % by < 0) != (by < 0));
}""",
    "floor_mod(": """\
// The remainder that goes with the quotient rounded down.
inline long floor_mod(long value, long by)
{
    return value % by + (value % by != 0 && (value % by < 0) != (by < 0) ? by : 0);
}""",
    "floor_div_or_0(": """\
// The same for any divisor: 0 for 0, and what wraps for -1.
inline long floor_div_or_0(long value, long by)
{
    if (by == 0 || by == -1)
        return by == 0 ? 0 : (long)(0UL - (ulong)value);
    return floor_div(value, by);
}""",
    "floor_mod_or_0(": """\
// The same for any divisor: 0 for 0 and -1.
inline long floor_mod_or_0(long value, long by)
{
    if (by == 0 || by == -1)
        return 0;
    return floor_mod(value, by);
}""",
    **magnitudes({"int": "uint", "long": "ulong", "char": "uint"}, "inline"),
    **conversions(("int", "long", "char", "uchar"), "inline"),
    "ffloor_div": "inline float ffloor_div(float value, float by) { return floor(value / by); }",
    "ffloor_mod": "inline float ffloor_mod(float value, float by) { return value - by * floor(value / by); }",
    "hidden(": """\
// PoCL 3 miscompiles loops behind a test that it sees to be the same for all threads.
inline bool hidden(bool test)
{
    volatile bool value = test;
    return value;
}""",
    "atomic_add_float(": _ADD.format(pragma="", kind="float", bits="uint", word="atomic"),
    "atomic_add_double(": _ADD.format(
        pragma="#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n",
        kind="double",
        bits="ulong",
        word="atom",
    ),
    **{
        f"atomic_add_float{width}(": _ADD_LANES.format(
            width=width,
            lanes="\n".join(f"    atomic_add_float(&place[{n}], terms.s{n});" for n in range(width)),
        )
        for width in (2, 4)
    },
    "load_half(": "inline float load_half(ushort bits) { return vload_half(0, (const __private half *)&bits); }",
    "round_half(": """\
inline ushort round_half(float value)
{
    ushort bits;
    vstore_half(value, 0, (__private half *)&bits);
    return bits;
}""",
    "odd_float(": """\
// The float next to a number, on the side of 0, its last bit set if it is not the number: rounding it to 16 bits
// rounds the number once.
inline float odd_float(double value)
{
    const float near = (float)value;
    if (isnan(value) || (double)near == value)
        return near;
    return as_float((as_uint(near) - (fabs((double)near) > fabs(value) ? 1 : 0)) | 1);
}""",
    "load_bf16(": "inline float load_bf16(ushort bits) { return as_float((uint)bits << 16); }",
    "round_bf16(": """\
inline ushort round_bf16(float value)
{
    const uint bits = as_uint(value);
    return isnan(value) ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}""",
    "round_tf32(": """\
// The number with 10 fraction bits next to x, ties away from 0.
inline float round_tf32(float x)
{
    return isfinite(x) ? as_float((as_uint(x) + 0x1000) & 0xffffe000) : x;
}""",
    "cut_off_tf32(": """\
// The number with 10 fraction bits next to x towards 0.
inline float cut_off_tf32(float x)
{
    return isfinite(x) ? as_float(as_uint(x) & 0xffffe000) : x;
}""",
    "power_of_two(": """\
// The power of two next to x towards 0, with its sign.
inline float power_of_two(float x)
{
    return isfinite(x) ? as_float(as_uint(x) & 0xff800000) : x;
}""",
    **BYTE_FLOAT_FUNCTIONS,
    "half_of_double(": "inline ushort half_of_double(double value) { return round_half(odd_float(value)); }",
    "bf16_of_double(": "inline ushort bf16_of_double(double value) { return round_bf16(odd_float(value)); }",
    "bf16_of_long(": """\
inline ushort bf16_of_long(long value)
{
    // So large that a double has not all digits: the last 16 bits only say on which side of a half the number is.
    if (value > 0x20000000000000L || value < -0x20000000000000L)
        value = (value & ~0xffffL) | ((value & 0xffffL) != 0 ? 0x8000L : 0L);
    return bf16_of_double((double)value);
}""",
}


def helpers(body: str, dialect: Dialect) -> str:
    """The includes and functions that `body` needs."""
    known = _CUDA if dialect is CUDA else _OPENCL
    used: list[str] = []
    for word, text in reversed(known.items()):  # what a helper needs stands before it
        if _uses(body, word) or any(_uses(other, word) for other in used):
            used[:] = [text, *(other for other in used if other != text)]
    return "\n\n".join(used)


def _uses(body: str, word: str) -> bool:
    place = body.find(word)
    while place >= 0:
        if not (body[place - 1].isalnum() or body[place - 1] == "_"):
            return True
        place = body.find(word, place + 1)
    return False
