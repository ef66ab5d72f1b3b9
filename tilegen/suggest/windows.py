"""Convolutions: filters that go over a signal, an image, a volume, with strides, dilations, borders, or transposed.

A thread computes several filters at several places of a row: what it reads of the input serves the filters, and what it
reads of the filters, from shared memory, serves the places.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tilegen.errors import TilegenError
from tilegen.ir.nodes import Expr, Load, Op
from tilegen.ir.walk import loads
from tilegen.lab.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, fuse_rows, keep_inside, power_of_two
from tilegen.suggest.nests import Axis, Nests, storage_order
from tilegen.suggest.product import follows_first

THREADS = 256


@dataclass(frozen=True)
class Form:
    """`filters` are read as `weights`; `along` is the fastest axis of places, `down` the next; blocks go over `others`.

    `taps` are the axes of a filter, `channels` the other ones of the sum.
    """

    weights: Load
    image: Expr
    filters: Axis
    along: Axis
    down: Axis | None
    others: tuple[Axis, ...]
    channels: tuple[Axis, ...]
    taps: tuple[Axis, ...]


def form_of(nests: Nests) -> Form | None:
    """The convolution that the first equation is, if what follows keeps its axes; None for anything else."""
    first = nests.equations[0]
    if first.reduce != "sum" or first.conditions or not follows_first(nests):
        return None
    if not isinstance(first.value, Op) or first.value.name != "*":
        return None
    for image, weights in (first.value.args, first.value.args[::-1]):
        if (
            not isinstance(weights, Load)
            or weights.fallback
            or any(len(i.terms) != 1 or i.const for i in weights.index)
        ):
            continue
        of_weights, of_image = (
            {n for load in loads(e) for i in load.index for n in i.names()} for e in (weights, image)
        )
        filters = [axis for axis in nests.rows if of_weights & {*axis.names} and not of_image & {*axis.names}]
        places = [axis for axis in nests.rows if of_image & {*axis.names} and not of_weights & {*axis.names}]
        groups = [i.names() for load in loads(image) for i in load.index]
        moving = {loop for axis in places for loop in axis.names}
        taps = [
            a for a in nests.columns if any(g & {*a.names} and g & moving for g in groups) and of_weights & {*a.names}
        ]
        if not filters or not places or not taps:
            continue
        along = storage_order(nests, places)[-1]
        rows = [axis for axis in storage_order(nests, places) if axis is not along and _moves(axis, taps, groups)]
        row = max(filters, key=lambda axis: axis.extent)
        down = rows[-1] if rows else None
        others = tuple(axis for axis in storage_order(nests, nests.rows) if axis not in (row, along, down))
        channels = tuple(axis for axis in nests.columns if axis not in taps)
        return Form(weights, image, row, along, down, others, channels, tuple(taps))
    return None


def _moves(axis: Axis, taps: list[Axis], groups: list[frozenset[str]]) -> bool:
    """True if a filter goes along this axis."""
    return any(group & {*axis.names} and any(group & {*tap.names} for tap in taps) for group in groups)


def is_convolution(nests: Nests) -> bool:
    """True of a convolution with several filters."""
    form = form_of(nests)
    return form is not None and form.filters.extent >= 4


def convolution(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """A block has places of some rows and some filters; with the input in shared memory, or from the caches."""
    form = form_of(nests)
    assert form
    with suppress(TilegenError):
        yield _tiled(nests, draft, form, shared=True)
        return
    yield _tiled(nests, draft, form, shared=False)


def _tiled(nests: Nests, draft: Draft, form: Form, *, shared: bool) -> Draft:
    axes = [*form.others, form.filters, *([form.down] if form.down else []), form.along]
    draft, names = fuse_rows(draft, nests, axes)
    others, (filters, *places) = names[: len(form.others)], names[len(form.others) :]
    x, f = form.along.word, form.filters.word
    along = power_of_two(form.along.extent, 32 if form.down else THREADS)
    each = power_of_two(-(-form.along.extent // along), 4)
    draft, wf = draft.number("WF", power_of_two(form.filters.extent, 16), (8, 16, 32))
    draft, wx = draft.number("WX", each, (1, 2, 4))
    draft, tx = draft.number("TX", along, (32, 64))
    bf, of, bx, own, thread = (draft.fresh(name) for name in (f"b{f}", f"w{f}", f"b{x}", f"w{x}", f"t{x}"))
    draft = draft.say(
        f"A thread computes {wf} filters at {wx} places along {x}, {tx} apart: an input serves {wf} results, "
        f"a weight {wx}."
    )
    draft = draft.steps(
        f"tile({filters}, {wf}) -> {bf}, {of}",
        f"tile({places[-1]}, {tx}*{wx}) -> {bx}, {thread}",
        f"tile({thread}, {tx}) -> {own}, {thread}",
    )
    blocks, threads = [*others, bf, bx], [thread]
    if form.down:
        y = form.down.word
        by, ty = draft.fresh(f"b{y}"), draft.fresh(f"t{y}")
        draft, rows = draft.number("TY", max(1, min(8, THREADS // along)), (4, 8))
        draft = draft.steps(f"tile({places[0]}, {rows}) -> {by}, {ty}")
        blocks, threads = [*others, bf, by, bx], [ty, thread]
    channels, taps = [a.names[0] for a in form.channels], [a.names[0] for a in form.taps]
    draft = draft.steps(f"order({', '.join([*blocks, *channels, *threads, *taps, of, own])})")
    draft = bind_blocks(draft, blocks)
    for name, kind in zip(reversed(threads), ("thread.x", "thread.y"), strict=False):
        draft = draft.steps(f"bind({name}, {kind})")
    draft = draft.steps(f"unroll({of})", f"unroll({own})").maybe(f"unroll({taps[-1]})")
    draft = draft.say("The sums stay in registers.").steps(f"cache_register({nests.equations[0].target}, at={bx})")
    draft = keep_inside(draft, nests, bx)
    for equation in nests.equations[1:]:
        if equation.target not in nests.inside:
            draft = draft.maybe(f"cache_register({equation.target}, at={bx})")
    return _share(nests, draft, form, channels[-1] if channels else bx, taps[-1], shared)


def _share(nests: Nests, draft: Draft, form: Form, at: str, tap: str, shared: bool) -> Draft:
    """The weights of one channel in shared memory, filter by filter, and what the block reads of the input."""
    weights = form.weights.buffer
    draft = draft.say(
        f"The weights of a channel lie in shared memory with {form.filters.word} along rows, four in one load."
    )
    words = [nests.axis_of(str(i)).word for i in form.weights.index]
    layout = [*(word for word in words if word != form.filters.word), form.filters.word]
    draft = draft.first(
        [f"cache_shared({weights}, at={at}, layout=[{', '.join(layout)}])"], [f"cache_shared({weights}, at={at})"]
    )
    draft = draft.first(
        [f"cache_register({weights}.shared, at={tap}, vector=4)"], [f"cache_register({weights}.shared, at={tap})"]
    )
    if shared:
        draft = draft.say("So does what the block reads of the input, with its border.")
        for name in dict.fromkeys(load.buffer for load in loads(form.image)):
            draft = draft.steps(f"cache_shared({name}, at={at})")
    ahead = "The next channel is copied while this one is multiplied."
    return draft.maybe(f"pipeline({at}, 2)", why=ahead) if form.channels else draft
