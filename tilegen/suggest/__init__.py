"""A first schedule for any kernel, found from what the kernel computes, as a text that a person could have written.

No rule decides what is legal: each step is judged when it is written, and where one is refused the next simpler way is
tried. What is left at the end is proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilegen.errors import TilegenError
from tilegen.ir.nodes import Kernel
from tilegen.lab.checks.sizes import GPU_LIMITS, known_sizes, power_sizes
from tilegen.lab.predict.machine import Machine, find_machine
from tilegen.suggest.draft import Draft, begin
from tilegen.suggest.family import Member, family_of, text_of
from tilegen.suggest.plan import RULES, is_proved, predicted_time, write

NAME = "suggested"


def suggest(kernel: Kernel, sizes: Mapping[str, int], machine: Machine) -> str:
    """The text of a schedule `suggested` for the kernel, without the kernel; judged, and proved for all sizes.

    Args:
        sizes: all sizes of the kernel. They decide between several ways; the schedule is right at all others, too.
        machine: whose times are predicted to rank them.
    """
    return text_of([Member(_proved(kernel, sizes, machine), sizes, machine)], NAME, partial(_comment, machine))


def sizes_beside(kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
    """`given` with sizes for the others, as large as a GPU has room for. Raises UsageError for one that is none."""
    return power_sizes(kernel, known_sizes(kernel, given), GPU_LIMITS)


def suggest_for(kernel: Kernel, given: Mapping[str, int], machine: str | None) -> str:
    """`suggest` with sizes chosen for those that are not given, on the machine of that name.

    Where none are given, and other sizes want other schedules, these stand there, too, with a family of them all.

    Raises UsageError for a size that the kernel does not have, or where there is no such machine.
    """
    sizes, there = sizes_beside(kernel, given), find_machine(machine)
    if given:
        return suggest(kernel, sizes, there)
    return text_of(family_of(_proved(kernel, sizes, there), sizes, there), NAME, partial(_comment, there))


def _proved(kernel: Kernel, sizes: Mapping[str, int], machine: Machine) -> Draft:
    for rules in (RULES, RULES[-1:], ()):
        draft = write(begin(kernel), sizes, machine, rules)
        if is_proved(draft):
            break
    return draft


def _comment(machine: Machine, draft: Draft, sizes: Mapping[str, int]) -> str:
    at = f", for {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""
    try:
        time = f": {predicted_time(draft, sizes, machine):.3g} ms predicted on an {machine.name}"
    except TilegenError as error:
        time = f": {error.message}"
    return f"Suggested from what the kernel computes{at}{time}."
