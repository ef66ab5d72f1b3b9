"""Words that have a meaning in CUDA C++ or OpenCL C, and names that stay clear of them."""

from __future__ import annotations

import re

# Keywords, types, macros and built-in variables; functions that a text may call, our own helpers among them, and
# names that it declares by itself. A loop, a size or a tensor of such a name would hide what the text means by it.
_EVERYWHERE = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl complex concept const const_cast consteval constexpr constinit continue decltype default
defined delete do double dynamic_cast else enum explicit export extern false final float for friend goto if imaginary
import inline int long module mutable namespace new noexcept not not_eq nullptr operator or or_eq override private
protected public quad register reinterpret_cast requires restrict return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename typeof union unsigned using
virtual void volatile wchar_t while xor xor_eq
kernel global local constant generic pipe read_only write_only read_write uniform
half uchar ushort uint ulong longlong ulonglong size_t ptrdiff_t intptr_t uintptr_t event_t sampler_t queue_t
ndrange_t clk_event_t reserve_id_t dim3 libraryPropertyType libraryPropertyType_t nv_half nv_half2 nv_bfloat16
nv_bfloat162 std cuda
threadIdx blockIdx blockDim gridDim warpSize
NULL EOF INFINITY NAN HUGE_VAL HUGE_VALF MAXFLOAT CHAR_BIT linux unix i386 assert errno stdin stdout stderr
FP_CONTRACT FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMA_HALF FP_ILOGB0 FP_ILOGBNAN FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL
FP_NORMAL IMG_RO_AQ IMG_WO_AQ IMG_RW_AQ LLVM_OLD INTTYPE ALIGN4 ALIGN8 MAX_KERNEL_ARGS MAX_WORK_DIM NDEBUG RAND_MAX
abs acos asin atan atan2 ceil clamp cos cosh erf exp exp2 expm1 fabs floor fma fmax fmin isnan log log1p log2 max min
pow rint round rsqrt select sin sinh sqrt tan tanh
acosf asinf atanf atan2f ceilf cosf coshf erff expf exp2f expm1f fabsf floorf fmaf fmaxf fminf log1pf logf log2f powf
rintf roundf rsqrtf sinf sinhf sqrtf tanf tanhf
atomicAdd atomicMax atomicMin atomic_add atomic_max atomic_min barrier vload_half vstore_half
shared full candidate index place places hits take_places next_place popcount any all iteration_at first_above
first_int_above first_long_above
Tiles count_tiles row_of_tile column_of_tile matrix_of_tile
floor_div floor_mod floor_div_or_0 floor_mod_or_0 ffloor_div ffloor_divf ffloor_mod ffloor_modf hidden
load_half round_half load_bf16 round_bf16 round_tf32 cut_off_tf32 power_of_two tf32_fragment odd_float half_of_double
bf16_of_double bf16_of_long approximate_sqrt approximate_rsqrt approximate_exp2 approximate_tanh copy_async
copy_async_or_zero end_copies load_vector store_vector fence_async begin_wgmma complete_wgmma complete_earlier_wgmma
hold describe_128 describe_64 describe_32 describe_16 uniform take_turn pass_turn arrive_once_a_warp Ring TensorMap
start_barriers expect_bytes take_registers give_registers end_stores load_e4m3 round_e4m3 e4m3_of_double load_e5m2
round_e5m2 e5m2_of_double release_in_cluster let_next_launch_begin draw_number launch_of_block publish published
"""
_EVERYWHERE_PATTERN = re.compile(
    # vectors, of OpenCL and of CUDA, and OpenCL's types for later
    r"(u?(char|short|int|long|longlong)|float|double|half|bool|quad|nv_bfloat)(\d+(_16a|_32a)?|\d+x\d+)"
    r"|image[123]d\w*_t|intel_\w+|u?int(_fast|_least)?(8|16|32|64|max|ptr)_t"
    # macros: M_PI, FLT_MAX, INT_MIN, CLK_LOCAL_MEM_FENCE, cl_khr_fp64, CUDART_INF_F
    r"|M_(E|LOG2E|LOG10E|LN2|LN10|PI|PI_2|PI_4|1_PI|2_PI|2_SQRTPI|SQRT2|SQRT1_2)(_F|_H)?|(FLT|DBL|HALF|LDBL)_\w+"
    r"|(SCHAR|UCHAR|CHAR|SHRT|USHRT|INT|UINT|LONG|ULONG|LLONG|ULLONG|SIZE|INT32|INT64|UINT32|UINT64)_(MIN|MAX)"
    r"|(CLK|CL|CLANG|POCL|SPIR|LLVM|CUDART|CUDA|CU|NV|ATOMIC|cl|va)_\w+|CUuuid|cuda[A-Z]\w*"
    # what a text calls
    r"|abs_of_(int|char|signed_char|long|long_long)"
    r"|(int|u?char|(un)?signed_char|long|long_long)_of_(float|double)"
    r"|wait_\w+|(copy|store|multicast)_(box|windows)_\dd"
    r"|v(load|store)\d+|(sum|prod|max|min|argmax|argmin|ones|linear)_(of|along|up_to|ahead_of)_\w*lanes?"
    r"|(sum|prod|max|min|linear)_of_(two|blocks_before)|atomic_add_(float|double)\d*"
    r"|as_(u?(char|short|int|long)|float|double)\d*|get_(group|local)_id|get_num_groups"
)

# Functions of the languages and of the C library that no text calls: they matter to entry points alone, which
# would define them again.
_FUNCTIONS = """
abort abs_diff acosh acospi add_sat aligned_alloc asinh asinpi atan2pi atanh atanpi atexit atof atoi atol ballot bcmp
bcopy bsearch bzero calloc cbrt clock clock64 clz copysign cospi cross ctz cyl_bessel_i0 cyl_bessel_i1 degrees
dev_sampler_t distance div dot erfc erfcinv erfcx erfinv exit exp10 fast_distance fast_length fast_normalize
fdim fdivide finite fmod fprintf fputc fputs fract free frexp fwrite getc getchar getenv hadd hypot ilogb isequal
isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnormal isnotequal isordered isunordered j0
j1 jn kernel_exec labs ldexp ldiv length lgamma lgamma_r llabs llmax llmin llrint llround log10 logb longjmp
lrint lround mad mad24 mad_hi mad_sat main malloc maxmag mem_fence memchr memcmp memcpy memmove memset minmag mix modf
move mul24 mul_hi nan nearbyint nextafter nexttoward norm norm3d norm4d normalize normcdf normcdfinv perror
pown powi powr prefetch printf putc putchar puts qsort radians rand rcbrt read_mem_fence realloc remainder remquo
rhadd rhypot rnorm rnorm3d rnorm4d rootn rotate saturate scalbln scalbn scanf setjmp shuffle shuffle2 sign signbit
signal sincos sincospi sinpi smoothstep snprintf sprintf srand sscanf step strcat strchr strcmp strcpy strlen strncat
strncmp strncpy strstr strtod strtof strtol sub_sat system tanpi tgamma time trap trunc uabs ullmax ullmin umax umin
upsample vec_step vfprintf vprintf vsnprintf vsprintf wait_group_events write_mem_fence y0 y1 yn
"""
_FUNCTIONS_PATTERN = re.compile(
    r"(convert|as)_\w+|(native|half)_(cos|divide|exp|exp2|exp10|log|log2|log10|powr|recip|rsqrt|sin|sqrt|tan)"
    r"|v(load|store)a?(_half)?\d*(_rt[ezpn])?|atom(ic)?_\w+|atomic[A-Z]\w*|(make|sub_group|work_group|async_work)_\w+"
    r"|get_\w+|(read|write)_image\w*|ndrange_\w+|(enqueue|release|retain|create|is_valid|set)_\w+|(arm|amd|pocl)_\w+"
    r"|bit(select|field_\w+|_reverse)|dot_\w+|(tex|surf)(\dD|Cubemap)\w*|nv[a-z]*_\w+|syncthreads_\w+"
    r"|h2?(ceil|cos|exp|exp2|exp10|floor|log|log2|log10|rcp|rint|rsqrt|sin|sqrt|tanh|tanh_approx|trunc)"
)
_KNOWN = frozenset(_EVERYWHERE.split())
_CALLED = frozenset(_FUNCTIONS.split())
# Names with two underscores, or one and a capital after it, belong to the compilers.
_THEIRS = re.compile(r"_[A-Z]|.*__")


def fresh(name: str, taken: set[str], *, entry: bool = False) -> str:
    """`name`, dots as underscores, or one like it that neither has a meaning nor is in `taken`, which gets it.

    Args:
        entry: it is to name an entry point, a function among those of the language.
    """
    name = name.replace(".", "_")
    if _THEIRS.match(name) or entry and name.startswith("_"):
        name = re.sub("_+", "_", name).strip("_")
        name = name if name[:1].isalpha() else f"v{name}"
    found, number = name, 2
    if means(found, entry=entry) or found in taken and not entry:
        found = f"{name.rstrip('_')}_"
    while found in taken:
        found = f"{name.rstrip('_')}_{number}"
        number += 1
    taken.add(found)
    return found


def means(name: str, *, entry: bool = False) -> bool:
    """True if `name` has a meaning in one of the languages, for an entry point or for anything else."""
    if name in _KNOWN or _EVERYWHERE_PATTERN.fullmatch(name):
        return True
    # Of a function of two numbers there is one for float, and one for long double.
    plain = {name, name.removesuffix("f"), name.removesuffix("l")}
    return entry and (bool(plain & (_KNOWN | _CALLED)) or _FUNCTIONS_PATTERN.fullmatch(name) is not None)
