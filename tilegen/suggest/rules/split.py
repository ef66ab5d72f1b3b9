"""Reductions of much to little: parts for more blocks than there are results, and then what the parts make.

The parts are a tensor of their own. Each of the two nests is a reduction again, which another rule takes.
"""

from __future__ import annotations

from math import prod

from tilegen.ir.walk import loads
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import power_of_two
from tilegen.suggest.nests import Nests, storage_order
from tilegen.suggest.rules.product import TILES, is_product
from tilegen.suggest.rules.scattered import is_scattered


def is_divided(nests: Nests, machine: Machine) -> bool:
    """True of one reduction that has too few results for the machine, and enough terms for several parts."""
    (equation,) = nests.equations
    results, terms = prod(axis.extent for axis in nests.rows), prod(axis.extent for axis in nests.columns)
    rising = {name for name, _ in nests.kernel.rising}  # by which data decide where the terms of a row are
    ragged = any(load.buffer in rising for load in loads(equation.value))
    plain = bool(equation.reduce) and not equation.conditions and not is_scattered(nests) and not ragged
    return plain and 4 * results <= _wanted(nests, machine) and terms >= 16 * _least(nests)


def _along_columns(nests: Nests) -> bool:
    """True if neighbouring threads are to read neighbouring terms: a result is the work of a block, not of a thread."""
    return any(nests.fastest(nests.main[0]) in axis.names for axis in nests.columns)


def _wanted(nests: Nests, machine: Machine) -> int:
    """Results that the machine computes at once: of products the largest tiles, else one in a block or a thread."""
    if is_product(nests):
        return machine.sms * TILES[0].rows * TILES[0].columns
    return machine.sms * (8 if _along_columns(nests) else 2048)


def _least(nests: Nests) -> int:
    if is_product(nests):
        return 1024
    return 4096 if _along_columns(nests) else 64


def divide(nests: Nests, draft: Draft, machine: Machine) -> Draft:
    """A reduction in parts, each a result of a nest that another rule takes."""
    (equation,) = nests.equations
    columns = storage_order(nests, nests.columns)
    results, terms = prod(axis.extent for axis in nests.rows), prod(axis.extent for axis in columns)
    who = f"{results} results are too few" if results > 1 else "One result is too little"
    why = f"{who} for {machine.sms} multiprocessors"
    draft = draft.say(f"{why}: parts of the terms first, and then of these the result.")
    if not equation.best:
        draft = draft.steps(f"reassociate({equation.target})")
    parts, loops = 1, list[str]()
    for axis in columns[:-1]:
        if results * parts < _wanted(nests, machine) and terms // (parts * axis.extent) >= _least(nests):
            parts *= axis.extent
            loops.append(axis.names[0])
    if not loops:
        axis = columns[0]
        least = max(1, _least(nests) * axis.extent // terms)
        size = max(least, min(16 * least, axis.extent * results // _wanted(nests, machine)))
        size = power_of_two(size, axis.extent)
        part, rest = draft.fresh(f"{axis.word}p"), draft.fresh(axis.word, axis.names)
        draft, size_of_part = draft.number("PART", size, (size // 2 or 1, 2 * size))
        draft = draft.steps(f"tile({axis.names[0]}, {size_of_part}) -> {part}, {rest}")
        loops = [part]
    what = f"[{', '.join(loops)}]" if len(loops) > 1 else loops[0]
    return draft.steps(f"rfactor({equation.target}, {what}) -> {draft.fresh(f'{equation.target}_parts')}")
