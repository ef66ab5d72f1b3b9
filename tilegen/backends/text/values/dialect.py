"""What differs between CUDA C++ and OpenCL C inside an expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Buffer, Expr


@dataclass(frozen=True)
class Dialect:
    """What differs between the two languages inside an expression."""

    name: str
    types: Mapping[str, str]  # dtype -> type of an element in memory
    unsigned: Mapping[str, str]  # signed integer type -> the type of the same bits that wraps
    suffix: str  # of f32 functions
    long: str  # suffix of a 64-bit literal
    widen: Mapping[str, str]  # short float -> function to float
    narrow: Mapping[str, str]  # and back
    # (type of what is narrowed, short float) -> function that rounds it once, which float in between would not
    once: Mapping[tuple[str, str], str]
    approximations: Mapping[str, str]  # operation -> the function that approximates it within a known error


class ExprWriter(Protocol):
    """What writes the expressions of one launch, as its parts see it: the precedence `parent` stands around them."""

    @property
    def dialect(self) -> Dialect: ...
    @property
    def buffers(self) -> Mapping[str, Buffer]: ...
    @property
    def wide(self) -> bool: ...
    def index(self, value: Affine, parent: int = 0) -> str: ...
    def value(self, expr: Expr, parent: int = 0) -> str: ...


CUDA = Dialect(
    "cuda",
    {
        "f64": "double", "f32": "float", "f16": "__half", "bf16": "__nv_bfloat16",
        "e4m3": "__nv_fp8_e4m3", "e5m2": "__nv_fp8_e5m2", "i64": "long long",
        "i32": "int", "i8": "signed char", "u8": "unsigned char", "bool": "bool",
    },
    {"i32": "unsigned", "i64": "unsigned long long"},
    "f", "LL",
    {"f16": "__half2float", "bf16": "__bfloat162float", "e4m3": "float", "e5m2": "float"},
    {"f16": "__float2half", "bf16": "__float2bfloat16", "e4m3": "__nv_fp8_e4m3", "e5m2": "__nv_fp8_e5m2"},
    {
        ("f64", "f16"): "__double2half", ("f64", "bf16"): "__double2bfloat16",
        ("i64", "bf16"): "__ll2bfloat16_rn", ("i32", "bf16"): "__ll2bfloat16_rn",
    },
    {
        "/": "__fdividef", "sqrt": "approximate_sqrt", "rsqrt": "approximate_rsqrt", "exp": "__expf",
        "exp2": "approximate_exp2", "log": "__logf", "log2": "__log2f", "sin": "__sinf", "cos": "__cosf",
        "tanh": "approximate_tanh",
    },
)  # fmt: skip
OPENCL = Dialect(
    "opencl",
    {
        "f64": "double", "f32": "float", "f16": "ushort", "bf16": "ushort", "e4m3": "uchar", "e5m2": "uchar",
        "i64": "long", "i32": "int", "i8": "char", "u8": "uchar", "bool": "bool",
    },
    {"i32": "uint", "i64": "ulong"},
    "", "L",
    {"f16": "load_half", "bf16": "load_bf16", "e4m3": "load_e4m3", "e5m2": "load_e5m2"},
    {"f16": "round_half", "bf16": "round_bf16", "e4m3": "round_e4m3", "e5m2": "round_e5m2"},
    {
        ("f64", "f16"): "half_of_double", ("f64", "bf16"): "bf16_of_double",
        ("f64", "e4m3"): "e4m3_of_double", ("f64", "e5m2"): "e5m2_of_double",
        ("i64", "bf16"): "bf16_of_long", ("i32", "bf16"): "bf16_of_long",
    },
    {},  # the standard leaves the error of native_sin and its kin to the implementation
)  # fmt: skip
