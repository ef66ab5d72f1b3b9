"""OpenCL functions for floating-point numbers of one byte, which the language has no type of."""

from __future__ import annotations

from collections.abc import Mapping

_LOAD_E4M3 = """\
// The number that a byte means: 3 fraction bits, exponents from -6, no infinity.
inline float load_e4m3(uchar bits)
{
    const uint size = bits & 0x7f;
    const float value = size < 8 ? (float)size / 512.0f : as_float(size == 0x7f ? 0x7fc00000 : (size + 960) << 20);
    return bits & 0x80 ? -value : value;
}"""
_LOAD_E5M2 = """\
// The number that a byte means, which is the upper one of a half.
inline float load_e5m2(uchar bits) { return load_half((ushort)(bits << 8)); }"""
_ROUND = """\
// The nearest number of one byte, halves to even; the largest one for what is larger.
inline uchar round_{dtype}(float value)
{{
    const uint bits = as_uint(value), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
    if (isnan(value))
        return 0x7f;
    if (size >= {largest})
        return sign | {end};
    if (size < {least})
        return sign | (uint)rint(fabs(value) * {units});
    return sign | (((size + {below} + (size >> {cut} & 1)) >> {cut}) - {bias});
}}"""
_ONCE = "inline uchar {dtype}_of_double(double value) {{ return round_{dtype}(odd_float(value)); }}"

# What a text calls -> its definition; one that another calls stands before it.
BYTE_FLOAT_FUNCTIONS: Mapping[str, str] = {
    "load_e4m3(": _LOAD_E4M3,
    "load_e5m2(": _LOAD_E5M2,
    "round_e4m3(": _ROUND.format(
        dtype="e4m3", largest="0x43e00000", end="0x7e", least="0x3c800000", units="512.0f", below="0x7ffff", cut=20,
        bias=960,
    ),
    "round_e5m2(": _ROUND.format(
        dtype="e5m2", largest="0x47600000", end="0x7b", least="0x38800000", units="65536.0f", below="0xfffff", cut=21,
        bias=448,
    ),
    "e4m3_of_double(": _ONCE.format(dtype="e4m3"),
    "e5m2_of_double(": _ONCE.format(dtype="e5m2"),
}  # fmt: skip
