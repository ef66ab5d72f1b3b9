"""The few lines that stand before the kernels of a text, each only where the text uses it.

They are paragraphs of the files beside this one, in their order. What differs from one of these in a few words alone is
made of it: `copy_box_3d` of `copy_box_2d`, as `_LIKE` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tilegen.backends.text.values.dialect import Dialect
from tilegen.backends.text.values.numbers import RANGES, saturating_helper

_FILES = {
    "cuda": ("lanes.cuh", "numbers.cuh", "copies.cuh", "products.cuh", "bulk.cuh", "tiles.cuh"),
    "opencl": ("helpers.cl", "tiles.cl"),
}
_FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"
_ATOMS = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable"
_DOUBLE = {"// A sum": f"{_ATOMS}\n// A sum", "float": "double", "uint": "ulong", "atomic_cmpxchg": "atom_cmpxchg"}
# What is no function, with the words that ask for it: what begins so.
_ASKED_FOR = {
    "#include <cuda_fp16.h>": ("__half", "__float2half(", "__double2half("),
    "#include <cuda_bf16.h>": ("__nv_bfloat16", "__bfloat162float(", "__float2bfloat16(", "__double2bfloat16(",
                               "__ll2bfloat16_rn("),
    "#include <cuda_fp8.h>": ("__nv_fp8_e4m3", "__nv_fp8_e5m2"),
    "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif": ("INFINITY",),
    _FP64: ("double",),
}  # fmt: skip

Words = Mapping[str, str]
_UPDATES = {"sum": "value + other", "prod": "value * other", "max": "max(value, other)", "min": "min(value, other)"}
_SIGNS = {"argmax": ">", "argmin": "<"}
_KINDS = ("float", "double", "int", "long", "char", "uchar")


def _boxes(first: int) -> list[Words]:
    """Of each rank, for the function of rank 2, whose coordinates are the operands from the `first` on."""
    return [
        {
            "2d": f"{rank}d",
            "int c0, int c1": ", ".join(f"int c{n}" for n in range(rank)),
            f"%{first}, %{first + 1}": ", ".join(f"%{first + n}" for n in range(rank)),
            '"r"(c0), "r"(c1)': ", ".join(f'"r"(c{n})' for n in range(rank)),
        }
        for rank in range(1, 6)
    ]


def _windows(first: int) -> list[Words]:
    """Of each rank, for the function of rank 4; each dimension but the first and the last has an offset, too."""
    return [
        {
            "4d": f"{rank}d",
            "int c0, int c1, int c2, int c3": ", ".join(f"int c{n}" for n in range(rank)),
            "int o0, int o1": ", ".join(f"int o{n}" for n in range(rank - 2)),
            f"%{first}, %{first + 1}, %{first + 2}, %{first + 3}": ", ".join(f"%{first + n}" for n in range(rank)),
            f"%{first + 4}, %{first + 5}": ", ".join(f"%{first + rank + n}" for n in range(rank - 2)),
            '"r"(c0), "r"(c1), "r"(c2), "r"(c3)': ", ".join(f'"r"(c{n})' for n in range(rank)),
            '"h"((unsigned short)o0), "h"((unsigned short)o1)': ", ".join(
                f'"h"((unsigned short)o{n})' for n in range(rank - 2)
            ),
        }
        for rank in range(3, 6)
    ]


def _magnitudes(kinds: Words) -> list[Words]:
    """C type -> the unsigned one."""
    return [{"of_int": f"of_{k.replace(' ', '_')}", "int": k, "unsigned": u, "uint": u} for k, u in kinds.items()]


def _conversions(kinds: Iterable[str]) -> list[Words]:
    found: list[Words] = []
    for kind in kinds:
        low, high, beyond = RANGES[kind]
        for source, f in (("float", "f"), ("double", "")):
            least = f"-{beyond}{f}" if low.startswith("-") else f"0.0{f}"
            name = f"{kind} {saturating_helper(kind, source)}({source}"
            ends = {"-2147483648.0f": least, "2147483648.0f": beyond + f, "-2147483647 - 1": low, "2147483647": high}
            found.append({"int int_of_float(float": name, "(int)value": f"({kind})value", **ends})
    return found


def _local_lanes() -> list[Words]:
    """OpenCL has no templates, and a word of its own for the larger of two floats."""
    return [
        {"float": kind, "sum": reduce, "value + other": _UPDATES[reduce].replace(reduce, f"f{reduce}")
         if kind in ("float", "double") and reduce in ("max", "min") else _UPDATES[reduce]}
        for reduce in _UPDATES
        for kind in _KINDS
    ]  # fmt: skip


# A function -> those that differ from it by these words, itself among them, in their order.
_LIKE: Mapping[str, Mapping[str, Sequence[Words]]] = {
    "cuda": {
        **dict.fromkeys(
            ("sum_of_lanes", "sum_along_lanes", "sum_up_to_lane", "sum_ahead_of_lane", "sum_of_two",
             "sum_of_blocks_before"),
            [{"sum": reduce, "value + other": update} for reduce, update in _UPDATES.items()],
        ),
        "argmax_of_lanes": [{"argmax": reduce, "other >": f"other {sign}"} for reduce, sign in _SIGNS.items()],
        "abs_of_int": _magnitudes({"int": "unsigned", "long long": "unsigned long long", "signed char": "unsigned"}),
        "int_of_float": _conversions(("int", "long long", "signed char", "unsigned char")),
        "describe_128": [
            {},
            {"128": "64", "1ull": "2ull"},
            {"128": "32", "1ull": "3ull"},
            {"128": "16", "1ull": "0ull", "swizzled rows": "rows"},
        ],
        "copy_box_2d": _boxes(3),
        "multicast_box_2d": _boxes(4),
        "copy_windows_4d": _windows(3),
        "multicast_windows_4d": _windows(4),
        "store_box_2d": _boxes(2),
    },
    "opencl": {
        **dict.fromkeys(("sum_of_float_lanes", "sum_up_to_float_lane", "sum_ahead_of_float_lane"), _local_lanes()),
        **dict.fromkeys(
            ("linear_of_float_float_lanes", "linear_up_to_float_lane", "linear_ahead_of_float_lane"),
            [{"float": kind} for kind in _KINDS],
        ),
        "argmax_of_float_int_lanes": [
            {"argmax": reduce, "float_int": f"{kind}_{place}", "float": kind, "__local int": f"__local {place}",
             "int *index": f"{place} *index", "terms[lane] >": f"terms[lane] {sign}"}
            for reduce, sign in _SIGNS.items()
            for kind in _KINDS
            for place in ("int", "long", "char", "uchar")
        ],
        "first_int_above": [{}, {"int": "long"}],
        "abs_of_int": _magnitudes({"int": "uint", "long": "ulong", "char": "uint"}),
        "int_of_float": _conversions(("int", "long", "char", "uchar")),
        "atomic_add_float": [
            {**words, **space}
            for space in ({}, {"__global": "__local", "atomic_add": "atomic_add_local"})
            for words in ({}, _DOUBLE)
        ],
        "round_e4m3": [
            {},
            {"e4m3": "e5m2", "0x43e00000": "0x47600000", "0x7e": "0x7b", "0x3c800000": "0x38800000",
             "512.0f": "65536.0f", "0x7ffff": "0xfffff", "20": "21", "960": "448"},
        ],
        "e4m3_of_double": [{}, {"e4m3": "e5m2"}],
    },
}  # fmt: skip


@dataclass(frozen=True)
class Paragraph:
    text: str
    begins: tuple[str, ...] = ()  # a word that begins so asks for it
    calls: frozenset[str] = frozenset()  # or one of these

    def is_used(self, words: Set[str]) -> bool:
        return not self.calls.isdisjoint(words) or bool(self.begins) and any(w.startswith(self.begins) for w in words)


@cache
def paragraphs(dialect: str) -> tuple[Paragraph, ...]:
    """All that a text may take, in its order."""
    first = [Paragraph(*each) for each in _ASKED_FOR.items() if each[0] != _FP64] if dialect == "cuda" else []
    return (*first, *(each for name in _FILES[dialect] for each in _read(name, _LIKE[dialect])))


def _read(name: str, like: Mapping[str, Sequence[Words]]) -> Iterator[Paragraph]:
    """The paragraphs of a file after the first, which says what it is."""
    for text in files(__package__).joinpath(name).read_text(encoding="utf-8").strip().split("\n\n")[1:]:
        if text in _ASKED_FOR:
            yield Paragraph(text, _ASKED_FOR[text])
            continue
        for words in like.get("".join(_functions(text)[:1]), ({},)):
            changed = _with_words(text, words)
            calls = frozenset(f"{name}{end}" for name in _functions(changed) for end in "(<")
            yield Paragraph(changed, tuple(re.findall(r"^(?:template <.*> )?struct.* (\w+)", changed, re.M)), calls)


def _functions(text: str) -> list[str]:
    """The names of the functions that a paragraph defines."""
    return re.findall(r"^(?!struct)\w(?:.*? )?\**(\w+)\(", text, re.M)


def _with_words(text: str, words: Words) -> str:
    either = "|".join(map(re.escape, words))
    return re.sub(f"(?<![a-zA-Z0-9])({either})(?![a-zA-Z0-9])", lambda found: words[found[0]], text) if words else text


def helpers(body: str, dialect: Dialect) -> str:
    """The includes and functions that `body` needs."""
    used: list[str] = []
    words = _words(body)
    for each in reversed(paragraphs(dialect.name)):  # what a helper needs stands before it
        if each.is_used(words):
            used.insert(0, each.text)
            words |= _words(each.text)
    return "\n\n".join(used)


def _words(text: str) -> set[str]:
    """The words of a text, those of calls with the bracket."""
    return set(re.findall(r"\w+[(<]?", text))
