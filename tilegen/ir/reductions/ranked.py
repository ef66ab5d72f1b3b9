"""A list as running counts: the rank of a hit, how many there are before it, says where it goes.

    at[n[o]] = list[y, x](X[y, x] if X[y, x] > 0)      rank[o, y, x] = ahead[o, y] + local[o, y, x]
                                                       n[o] = sum[y, x](1 if X[y, x] > 0 else 0)
                                                       at[rank[o, y, x]] = X[y, x] if X[y, x] > 0

`local` counts the hits in the row before x, and `ahead` those in rows before y.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.defined import conditions_on_left
from tilegen.ir.nodes import Condition, Const, Equation, Kernel, Load, Op, Range
from tilegen.ir.parts.derived import Ranked
from tilegen.ir.walk import substitute
from tilegen.ir.written import derive

MOST_LOOPS = 2  # of a list


def ranked(kernel: Kernel, made: Ranked) -> Kernel:
    """The kernel with the ranks of the hits of a list over one loop, or over two."""
    return derive(kernel, made, {made.target: ranks(kernel, made)})


def ranks(kernel: Kernel, made: Ranked) -> tuple[Equation, ...]:
    """What takes the place of the list: the ranks of its hits, their count, and what stores them."""
    (whole,) = (e for e in kernel.equations if e.target == made.target)
    assert whole.hits
    rank, *others = made.names
    dtype = kernel.tensor(made.target).dtype
    value = Op("select", (whole.value, Const(1, dtype), Const(0, dtype)), dtype)
    terms = replace(whole, reduce="sum", value=value, hits=None)
    added = [_running(terms, 0, rank)]
    if others:
        local, ahead = others
        added = [_running(terms, 1, local), _running(terms, 0, ahead)]
        added.append(_sum_of(terms, rank, ahead, added[0]))
    loops = (*whole.loops, *whole.reduced)
    access = whole.hits.access
    hits = replace(whole.hits, rank=Load(rank, tuple(var(r.name) for r in loops), dtype))
    stored = replace(whole, target=access.buffer, index=access.index, loops=loops, reduce=None, reduced=(), hits=hits)
    return (*added, _renamed(terms), stored)


def _running(terms: Equation, along: int, name: str) -> Equation:
    """The hits before each iteration of a loop of the list, in the same iterations of those around it."""
    left = tuple(_named(r, name, r.index) for r in (*terms.loops, *terms.reduced[: along + 1]))
    inner = tuple(_named(r, name, f"k{r.index}") for r in terms.reduced[along:])
    old = (*terms.loops, *terms.reduced)
    here = _places(old, (*left[:-1], *inner))
    before = Condition(var(left[-1].name) - var(inner[0].name) - 1)
    return replace(
        terms,
        target=name,
        index=tuple(var(r.name) for r in left),
        loops=left,
        value=substitute(terms.value, here),
        reduced=inner,
        conditions=(before, *substitute(terms.conditions, here)),
    )


def _sum_of(terms: Equation, name: str, ahead: str, local: Equation) -> Equation:
    """The rank, where there are points of the inner loop."""
    loops = tuple(_named(r, name, r.index) for r in local.loops)
    index, dtype = tuple(var(r.name) for r in loops), terms.value.dtype
    return replace(
        terms,
        target=name,
        index=index,
        loops=loops,
        value=Op("+", (Load(ahead, index[:-1], dtype), Load(local.target, index, dtype)), dtype),
        reduce=None,
        reduced=(),
        conditions=substitute(conditions_on_left(local), _places(local.loops, loops)),
    )


def _renamed(terms: Equation) -> Equation:
    """The count with loops of its own."""
    loops, reduced = (tuple(_named(r, terms.target, r.index) for r in each) for each in (terms.loops, terms.reduced))
    here = _places((*terms.loops, *terms.reduced), (*loops, *reduced))
    return replace(substitute(terms, here), loops=loops, reduced=reduced)


def _named(r: Range, tensor: str, word: str) -> Range:
    return replace(r, name=f"{tensor}.{word}", index=word)


def _places(old: tuple[Range, ...], new: tuple[Range, ...]) -> dict[str, Affine]:
    return {r.name: var(n.name) for r, n in zip(old, new, strict=True)}
