"""Convolutions: filters that go over a signal, an image, a volume, with strides, dilations, borders, or transposed.

A thread computes several filters at several places: what it reads of the image serves the filters, and what it reads of
the filters serves the places. A block has both in shared memory, filter by filter along its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from tilegen.ir.affine import Affine, Mod
from tilegen.ir.nodes import Cast, Condition, Const, Expr, Index, Load, Op
from tilegen.ir.walk import loads
from tilegen.lab.predict.machine import Machine
from tilegen.primitives.rewriting.layout import dimension_words
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, fuse_rows, keep_inside, shared_copy
from tilegen.suggest.nests import Axis, Nests, storage_order
from tilegen.suggest.rules.product import follows_first
from tilegen.suggest.rules.window_tiles import WRITTEN_OUT, Problem, Side, Tile, tile_for


@dataclass(frozen=True)
class Phases:
    """Each `stride`-th result has the same terms: of an axis of taps, if it is there, each `split`-th."""

    stride: int
    tap: Axis | None
    split: int


@dataclass(frozen=True)
class Form:
    """`filters` are read as `weights`; `along` is the fastest axis of places, `down` the next; blocks go over `others`.

    `taps` are the axes of a filter, `channels` the other ones of the sum. `phases` has those axes of places where only
    terms of one remainder count.
    """

    weights: Load
    image: Load
    filters: Axis
    along: Axis
    down: Axis | None
    others: tuple[Axis, ...]
    channels: tuple[Axis, ...]
    taps: tuple[Axis, ...]
    phases: Mapping[str, Phases]


def form_of(nests: Nests) -> Form | None:
    """The convolution that the first equation is, if what follows keeps its axes; None for anything else."""
    first = nests.equations[0]
    value, conditions = _without_test(first.value)
    phases = _phases(nests, (*conditions, *first.conditions))
    if first.reduce != "sum" or phases is None or not follows_first(nests):
        return None
    if not isinstance(value, Op) or value.name != "*":
        return None
    one, other = (factor.arg if isinstance(factor, Cast) else factor for factor in value.args)
    for image, weights in ((one, other), (other, one)):
        if isinstance(weights, Load) and not weights.fallback and all(_is_loop_or_number(i) for i in weights.index):
            form = _form_by(nests, image, weights, phases)
            if form:
                return form
    return None


def _without_test(value: Expr) -> tuple[Expr, tuple[Condition, ...]]:
    """What is added under a condition of results alone, and the condition."""
    match value:
        case Op("select", (Op("and", (one, other)), term, Const(0) as zero)):
            inner, first = _without_test(Op("select", (other, term, zero), value.dtype))
            outer, more = _without_test(Op("select", (one, inner, zero), value.dtype))
            return outer, (*first, *more)
        case Op("select", (Op("==", (Index(left), Index(right))), term, Const(0))):
            return term, (Condition(left - right, equal=True),)
    return value, ()


def _is_loop_or_number(index: Affine) -> bool:
    return not index.terms or (len(index.terms) == 1 and not index.const)


def _form_by(nests: Nests, image: Expr, weights: Load, phases: Mapping[str, Phases]) -> Form | None:
    of_weights, of_image = ({n for load in loads(e) for i in load.index for n in i.names()} for e in (weights, image))
    filters = [axis for axis in nests.rows if of_weights & {*axis.names} and not of_image & {*axis.names}]
    places = [axis for axis in nests.rows if of_image & {*axis.names} and not of_weights & {*axis.names}]
    groups = [i.names() for load in loads(image) for i in load.index]
    moving = {loop for axis in places for loop in axis.names}
    taps = [a for a in nests.columns if any(g & {*a.names} and g & moving for g in groups) and of_weights & {*a.names}]
    if not filters or not places or not taps:
        return None
    along = storage_order(nests, places)[-1]
    rows = [axis for axis in storage_order(nests, places) if axis is not along and _moves(axis, taps, groups)]
    row = max(filters, key=lambda axis: axis.extent)
    down = rows[-1] if rows else None
    others = tuple(axis for axis in storage_order(nests, nests.rows) if axis not in (row, along, down))
    channels = tuple(axis for axis in nests.columns if axis not in taps)
    read = max(loads(image), key=lambda load: len(load.index))
    return Form(weights, read, row, along, down, others, channels, tuple(taps), phases)


def _moves(axis: Axis, taps: list[Axis], groups: list[frozenset[str]]) -> bool:
    """True if a filter goes along this axis."""
    return any(group & {*axis.names} and any(group & {*tap.names} for tap in taps) for group in groups)


def _phases(nests: Nests, conditions: Sequence[Condition]) -> dict[str, Phases] | None:
    """Those of each axis of places by the conditions; None where these are something else."""
    found = {}
    for value, equal in conditions:
        atom = value.terms[0][0] if len(value.terms) == 1 and not value.const else None
        if not equal or not isinstance(atom, Mod):
            return None
        axes = {nests.axis_of(name).word: nests.axis_of(name) for name in atom.arg.names()}.values()
        place, tap = ([axis for axis in axes if (axis in nests.rows) == kept] for kept in (True, False))
        if len(place) != 1 or len(tap) > 1:
            return None
        split = atom.by // gcd(atom.by, _weight(atom.arg, tap[0])) if tap else 1
        found[place[0].word] = Phases(atom.by, tap[0] if tap else None, split)
    return found


def is_convolution(nests: Nests) -> bool:
    """True of a convolution with several filters."""
    form = form_of(nests)
    return form is not None and form.filters.extent >= 4


def _problem(form: Form) -> Problem:
    """What decides about the tiles, in a phase where there are some."""

    def taps_along(axis: Axis) -> list[tuple[int, int]]:
        """The taps along an axis of places, with the elements of the image between them."""
        (index,) = [i for i in form.image.index if i.names() & {*axis.names}]
        split = form.phases[axis.word].split if axis.word in form.phases else 1
        taps = [tap for tap in form.taps if index.names() & {*tap.names}]
        return [(-(-tap.extent // split), _weight(index, tap)) for tap in taps]

    def side(axis: Axis) -> Side:
        stride = form.phases[axis.word].stride if axis.word in form.phases else 1
        index = next(i for i in form.image.index if i.names() & {*axis.names})
        reach = sum((extent - 1) * weight for extent, weight in taps_along(axis))
        return Side(-(-axis.extent // stride), _weight(index, axis) if stride == 1 else 1, reach)

    axes = [axis for axis in form.others if _is_place(form, axis)]
    planes = prod(extent for axis in axes for extent, _ in taps_along(axis))
    own = [axis for axis in (form.along, form.down) if axis]
    taps = planes * prod(extent for axis in own for extent, _ in taps_along(axis))
    down = side(form.down) if form.down else Side(1, 1, 0)
    channels, found = prod(axis.extent for axis in form.channels), form.phases.get(form.along.word)
    phases = found.stride if found and found.split == found.stride else 1
    return Problem(form.filters.extent, side(form.along), down, planes, taps, channels, phases)


def _is_place(form: Form, axis: Axis) -> bool:
    """True if a filter goes along this axis that blocks go over."""
    taps = {loop for tap in form.taps for loop in tap.names}
    return any(index.names() & {*axis.names} and index.names() & taps for index in form.image.index)


def _weight(index: Affine, axis: Axis) -> int:
    return next((abs(weight) for atom, weight in index.terms if atom in axis.names), 1)


def convolution(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """A block has places of some rows and some filters, and what it reads for some channels in shared memory."""
    form = form_of(nests)
    assert form
    tile, channels = tile_for(_problem(form))
    kinds = [axis in form.channels for axis in nests.columns]
    if kinds != sorted(kinds, reverse=True):
        draft = draft.say("Channels come before taps.").steps(f"reassociate({nests.equations[0].target})")
    draft, wf = draft.number("WF", tile.filters, (4, 8, 16))
    draft, tf = draft.number("TF", tile.groups, (2, 4, 8))
    draft, weights = _turned_weights(nests, draft, form)
    own = [axis for axis in (form.down, form.along) if axis]
    draft, names = fuse_rows(draft, nests, [*form.others, form.filters, *own])
    loops = {axis.word: name for axis, name in zip([*form.others, form.filters, *own], names, strict=True)}
    loops |= {axis.word: axis.names[0] for axis in (*form.channels, *form.taps)}
    draft, phases = _phases_apart(draft, form, loops)
    draft, blocks, threads, each = _places(draft, form, tile, loops, (wf, tf))
    beside = [phases.pop(form.along.word)] if tile.beside > 1 else []
    blocks = [*(loops[axis.word] for axis in form.others), *blocks, *phases.values()]
    draft, at, rest = _channels(draft, form, loops, channels)
    taps = [loops[axis.word] for axis in form.taps]
    draft = draft.steps(f"order({', '.join([*blocks, *at, *threads, *beside, *rest, *taps, *each])})")
    if beside:
        draft = draft.say("Lanes have the phases side by side, so that their results leave in whole lines.")
        lanes = draft.fresh("lane")
        draft, threads = draft.steps(f"collapse({threads[-1]}, {beside[0]}) -> {lanes}"), [*threads[:-1], lanes]
    draft = bind_blocks(draft, blocks)
    inner = threads if tile.across or len(threads) < 3 else [threads[1], threads[0], threads[2]]
    for name, kind in zip(reversed(inner), ("thread.x", "thread.y", "thread.z"), strict=False):
        draft = draft.steps(f"bind({name}, {kind})")
    written_out = 1
    for axis in reversed(form.taps):
        written_out *= axis.extent
        if written_out <= WRITTEN_OUT or axis is form.taps[-1]:
            draft = draft.maybe(f"unroll({loops[axis.word]})")
    draft = draft.say(f"The sums stay in registers, of which {512 // tile.threads} blocks can have their own.")
    draft = draft.steps(f"resident({blocks[-1]}, {512 // tile.threads})")
    draft = keep_inside(draft.steps(f"cache_register({nests.equations[0].target}, at={blocks[-1]})"), nests, blocks[-1])
    yield _share(draft, form, weights, at[-1] if at else blocks[-1], taps[-1], apart=bool(beside))


def _turned_weights(nests: Nests, draft: Draft, form: Form) -> tuple[Draft, str]:
    """The weights with filters along their rows, by a launch of its own unless they are stored so."""
    weights = form.weights.buffer
    words = dimension_words(draft.tree, draft.tree.buffer(weights))
    (own,) = (word for word, i in zip(words, form.weights.index, strict=True) if i.names() & {*form.filters.names})
    if words[nests.tensor(weights).order[-1]] == own:
        return draft, weights
    copy = f"{weights}.global"
    if any(buffer.name == copy for buffer in draft.tree.buffers):
        return draft, copy
    rest = [word for word in words if word != own]
    block, thread = draft.fresh(f"b{weights}"), draft.fresh(f"t{weights}")
    draft = draft.say(f"The weights are turned first, {own} along rows: four of them in one load.")
    draft = draft.steps(f"cache_global({weights}, layout=[{', '.join([*rest, own])}])")
    loops = [f"{copy}.{word}" for word in rest]
    draft = draft.steps(
        f"tile({copy}.{own}, 32) -> {block}, {thread}",
        f"order({', '.join([*loops, block, thread])})",
        f"bind({thread}, thread.x)",
    )
    return bind_blocks(draft, [*loops, block]), copy


def _phases_apart(draft: Draft, form: Form, loops: dict[str, str]) -> tuple[Draft, dict[str, str]]:
    """Axes with phases split into these; `loops` has what is left of each. Also the loops over phases."""
    if not form.phases:
        return draft, {}
    phases = {}
    strides = ", ".join(f"{found.stride} along {word}" for word, found in form.phases.items())
    draft = draft.say(f"Results a stride apart ({strides}) have the same terms: they are computed together.")
    for word, found in form.phases.items():
        tap = found.tap.word if found.tap else ""
        results, phase, terms, rest = draft.names(f"{word}o", f"p{word}", f"{tap}o", f"{tap}rest")
        if found.split == found.stride:
            steps = [f"phases({loops[word]}, {loops[tap]}, {found.stride}) -> {results}, {phase}, {terms}"]
        else:
            steps = [f"tile({loops[word]}, {found.stride}) -> {results}, {phase}"]
            steps += [f"tile({loops[tap]}, {found.split}) -> {terms}, {rest}", f"solve({rest})"] if tap else []
        draft = draft.steps(*steps)
        loops |= {word: results, **({tap: terms} if tap else {})}
        phases[word] = phase
    return draft, phases


def _places(
    draft: Draft, form: Form, tile: Tile, loops: Mapping[str, str], filters: tuple[str, str]
) -> tuple[Draft, list[str], list[str], list[str]]:
    """Filters and places cut for blocks, threads, and the results of a thread: the loops of each."""
    wf, tf = filters
    f, x = form.filters.word, form.along.word
    bf, of, thread_f = draft.fresh(f"b{f}"), draft.fresh(f"w{f}"), draft.fresh(f"t{f}")
    bx, ox, thread_x = draft.fresh(f"b{x}"), draft.fresh(f"w{x}"), draft.fresh(f"t{x}")
    draft, tx = draft.number("TX", tile.along, (8, 16, 32))
    draft, wx = draft.number("WX", tile.places, (1, 2, 4))
    rows = f"{tile.rows} rows and " if form.down else ""
    draft = draft.say(
        f"A thread computes {wf} filters at {rows}{wx} places, {tx} apart: an input serves {tile.filters} results, "
        f"a weight {tile.rows * tile.places}."
    )
    draft = draft.steps(
        f"tile({loops[f]}, {tf}*{wf}) -> {bf}, {thread_f}", f"coarsen_blocked({thread_f}, {wf}) -> {thread_f}, {of}"
    )
    blocks, threads, each = [bf], [thread_f], [of]
    if form.down:
        y = form.down.word
        by, ty, oy = draft.fresh(f"b{y}"), draft.fresh(f"t{y}"), draft.fresh(f"w{y}")
        draft, down = draft.number("TY", tile.down, (1, 2, 4, 8))
        draft, own = draft.number("WY", tile.rows, (1, 2, 4, 8))
        draft = draft.steps(
            f"tile({loops[y]}, {down}*{own}) -> {by}, {ty}", f"coarsen_blocked({ty}, {own}) -> {ty}, {oy}"
        )
        blocks, threads, each = [*blocks, by], [ty, *threads], [*each, oy]
    draft = draft.steps(
        f"tile({loops[x]}, {tx}*{wx}) -> {bx}, {thread_x}", f"coarsen({thread_x}, {wx}) -> {thread_x}, {ox}"
    )
    return draft, [*blocks, bx], [*threads, thread_x], [*each, ox]


def _channels(draft: Draft, form: Form, loops: Mapping[str, str], size: int) -> tuple[Draft, list[str], list[str]]:
    """The loops over channels outside of what is shared, and inside."""
    names = [loops[axis.word] for axis in form.channels]
    if size == 1:
        return draft, names, []
    word = form.channels[-1].word
    outer, inner = draft.fresh(f"{word}o"), draft.fresh(f"{word}i")
    draft, channels = draft.number("TC", size, (2, 4, 8))
    return draft.steps(f"tile({names[-1]}, {channels}) -> {outer}, {inner}"), [*names[:-1], outer], [inner]


def _share(draft: Draft, form: Form, weights: str, at: str, tap: str, *, apart: bool) -> Draft:
    """Weights and the part of the image in shared memory, copied ahead, and in registers what a tap needs of them.

    `apart` puts the weights of neighbouring taps, which lanes of different phases read at once, into different banks.
    """
    image = form.image.buffer
    draft = draft.say("Weights, and what the block reads of the image with its border, lie in shared memory.")
    (w, of_w), (x, of_x) = (shared_copy(draft, name) for name in (weights, image))
    for name, naming in ((weights, of_w), (image, of_x)):
        copy = f"cache_shared({name}, at={at}"
        draft = draft.first([f"{copy}, vector=4){naming}"], [f"{copy}){naming}"])
    draft = draft.maybe(f"pad({w}, 4)") if apart else draft
    draft = draft.first([f"cache_register({w}, at={tap}, vector=4)"], [f"cache_register({w}, at={tap})"])
    draft = draft.maybe(f"cache_register({x}, at={tap})")
    ahead = "The next channels are copied while these are multiplied."
    return draft.maybe(f"pipeline({at}, 2)", why=ahead) if form.channels else draft
