"""Reductions along an axis apart from memory: threads of a block share the terms of neighbouring results.

Lanes read neighbours, of terms that are close together in memory, and the block combines what its threads have found.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, keep
from tilegen.suggest.nests import Nests, storage_order

ALONG, DOWN = 128, 8  # results of a block, and threads that share the terms of each
SUMS, PLACES = 16, 4  # results of a thread, of each of its terms at once, that registers hold


def is_by_columns(nests: Nests) -> bool:
    """True of an argmax, or of a kernel's only sum, over a long axis, if results are neighbours in memory."""
    equation, columns = nests.equations[0], nests.columns
    alone = not any(e.reduce for e in nests.kernel.equations if e.target != equation.target)
    plain = bool(equation.best) or (alone and equation.reduce in ("sum", "prod", "max", "min"))
    if len(nests.equations) > 1 or not plain or len(columns) != 1 or equation.conditions:
        return False
    fast = nests.fastest(nests.main[0])
    along = [axis for axis in nests.rows if fast in axis.names]
    return bool(along) and along[0].extent >= ALONG and columns[0].extent >= 4 * DOWN * _each(nests)


def _each(nests: Nests) -> int:
    return PLACES if nests.equations[0].best else SUMS


def by_columns(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """Threads along the results, and several for the terms of each."""
    (equation,), (terms,) = nests.equations, nests.columns
    fast = nests.axis_of(nests.fastest(nests.main[0]) or "")
    slow = [axis.names[0] for axis in storage_order(nests, nests.rows) if axis is not fast]
    target, j, i = equation.target, fast.word, terms.word
    block, lane, outer, thread, own = draft.names(f"b{j}", f"t{j}", f"{i}o", f"t{i}", f"w{i}")
    draft, x = draft.number("TX", ALONG, (64, 128, 256))
    draft, y = draft.number("TY", DOWN, (4, 8))
    draft, each = draft.number("EACH", _each(nests), (2, 4, 8, 16))
    draft = draft.say(f"Neighbouring threads read neighbours along {j}, and {y} of them share the terms of a result:")
    draft = draft.say(f"a block has {y}*{each} neighbouring terms of {x} results on their way at once.")
    if not equation.best:
        draft = draft.steps(f"reassociate({target})")
    parts, found = draft.fresh(f"{target}_parts"), draft.fresh(f"{target}_threads")
    draft = draft.steps(
        f"tile({fast.names[0]}, {x}) -> {block}, {lane}",
        f"order({', '.join([*slow, block, lane])}, ...)",
        f"tile({terms.names[0]}, {y}*{each}) -> {outer}, {thread}",
        f"tile({thread}, {y}) -> {own}, {thread}",
        f"rfactor({target}, [{thread}, {own}], at={block}) -> {parts}",
        f"order({', '.join([*slow, block, thread, lane, outer, own])})",
    )
    draft = bind_blocks(draft, [*slow, block])
    draft = draft.say("Each has its own results in registers; in shared memory the block has those of its threads.")
    draft = draft.steps(
        f"rfactor({target}, {target}.{thread}, at={block}) -> {found}",
        f"rename({thread}, {target}.{thread}) -> {thread}",
        f"rename({own}, {target}.{own}) -> {own}",
        f"bind({thread}, thread.y)",
        f"bind({lane}, thread.x)",
        f"unroll({own})",
    )
    for suffix in (".best", "") if equation.best else ("",):
        draft = keep(draft, f"{parts}{suffix}", block)
        draft = draft if equation.best else keep(draft, found, thread)
        draft = keep(draft.steps(f"cache_shared({found}{suffix}, at={block})"), f"{target}{suffix}", block)
    yield draft
