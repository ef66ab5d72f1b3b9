"""Names in C for loops and buffers: dots become underscores, keywords and clashes are avoided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilegen.lowering.program import For, If, Launch, Let, Spmd

# Words of CUDA C++ and OpenCL C, functions that both have without any include, and our own helpers.
_WORDS = """
auto bool break case char class const continue default delete do double else enum extern false float for
friend goto half if inline int long namespace new operator private protected public register restrict
return short signed sizeof static struct switch template this true typedef typename uint union unsigned
using virtual void volatile while and or not xor kernel global local constant uchar ushort ulong
abs acos asin atan atan2 barrier ceil clamp cos cosh erf erff exp exp2 fabs floor fma
fmax fmin int2 int4 isnan log log2 max min pow rint
round rsqrt select sin sinh sqrt tan tanh threadIdx blockIdx blockDim gridDim warpSize
asm wchar_t main INFINITY NAN M_PI half2 half4 float2 float4 double2 uint2 uint4 char4 uchar4 event_t
sampler_t image2d_t size_t ptrdiff_t intptr_t uintptr_t pipe any all full shared
floor_div floor_mod hidden load_half round_half load_bf16 round_bf16
"""
_NAMED = (For, Let)
_RESERVED = frozenset(_WORDS.split())


def names_of(launch: Launch) -> dict[str, str]:
    """The name in C of every loop, size, coordinate and buffer of `launch`.

    A loop of a copy, `A.shared.l`, is called `l` where no other name is in its way.
    """
    loops = list(dict.fromkeys(f.name for f in launch.nodes if isinstance(f, For | Let)))
    coordinates = [name for name, _, _ in launch.coordinates]
    fixed = [*launch.tensors, *launch.sizes, *coordinates, "tid", *launch.buffers]
    plain = [name for name in loops if "." not in name]
    taken = set(_RESERVED) | {launch.name}
    names: dict[str, str] = {}
    for name in dict.fromkeys((*fixed, *plain)):
        names[name] = _fresh(name.replace(".", "_"), taken)
    around = _around(launch.body)
    for name in loops:
        if name in names:
            continue
        short = name.rpartition(".")[2]
        short = f"d{short}" if short.isdigit() else short
        clash = any(names.get(other) == short for other in around[name])
        if short in taken or not short.isidentifier() or clash:
            names[name] = _fresh(name.replace(".", "_"), taken)
        else:
            names[name] = short
    return names


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _around(body: tuple[Spmd, ...]) -> Mapping[str, set[str]]:
    """For each name, those whose life overlaps with its own somewhere."""
    near: dict[str, set[str]] = {}
    _see(body, (), near)
    return near


def _see(nodes: Iterable[Spmd], path: tuple[str, ...], near: dict[str, set[str]]) -> None:
    for node in nodes:
        if isinstance(node, If):
            _see(node.body, path, near)
            _see(node.orelse, path, near)
        elif isinstance(node, _NAMED):
            near.setdefault(node.name, set()).update(path)
            for outer in path:
                near.setdefault(outer, set()).add(node.name)
            if isinstance(node, Let):
                path = (*path, node.name)
            else:
                _see(node.body, (*path, node.name), near)
