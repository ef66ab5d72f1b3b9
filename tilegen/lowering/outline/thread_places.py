"""A name for where a thread begins in its tile: `i0` instead of wi*32 + lane/8*4 all over.

C[bi*128 + wi*32 + ci*16 + lane/8*4, ..]          i0 = wi*32 + lane/8*4
                                                  C[bi*128 + i0 + ci*16, ..]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tilegen.ir.affine import Affine, var
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.walk import accesses, rewrite_indices
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import Declare, Let, names_in

OFTEN = 3  # index expressions with a place that is worth a name


def name_thread_places(launch: Launch) -> Launch:
    """`launch` with names for the places of a thread along the dimensions of what it computes."""
    threads = {launch.tid, *(name for name, kind, _ in launch.coordinates if kind.startswith("thread"))}

    def place(value: Affine) -> Affine:
        """The terms that thread coordinates alone decide."""
        return Affine(tuple((a, f) for a, f in value.terms if var(a).names() <= threads))

    counts: Counter[Affine] = Counter()

    def count(value: Affine) -> Affine:
        counts.update((place(value), place(-1 * value)))  # a test may have it on its other side
        return value

    starts = tuple(node.origin for node in launch.nodes if isinstance(node, Declare) and _is_fragment(node, launch))
    rewrite_indices((*starts, *launch.body), count)
    computed = {each.target: each.index for each in launch.kernel.equations}
    taken = {*launch.buffers, *launch.kernel.sizes, *threads, *names_in(launch.inside), launch.name}
    names: dict[Affine, str] = {}
    for access in accesses(launch.body):
        for index, where in zip(computed.get(access.buffer, ()), access.index, strict=False):
            own = place(where)
            if len(own.terms) > 1 and counts[own] >= OFTEN and own not in names and str(index).isidentifier():
                names[own] = fresh(f"{index}0", taken)
    if not names:
        return launch

    def named(value: Affine) -> Affine:
        own = place(value)
        sign = 1 if own in names else -1
        if (name := names.get(sign * own)) is None:
            return value
        first, others = own.terms[0], own.terms[1:]
        terms = [(name, sign) if term == first else term for term in value.terms if term not in others]
        return Affine(tuple(terms), value.const)

    lets = tuple(Let(name, value) for value, name in names.items())
    return replace(launch, body=(*lets, *rewrite_indices(launch.body, named)))


def _is_fragment(node: Declare, launch: Launch) -> bool:
    """True for registers of a fragment that start at a value, whose places count with the others."""
    return node.origin is not None and launch.buffers[node.buffer].fragment is not None
