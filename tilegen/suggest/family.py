"""Where sizes decide: what the rules write at other sizes, as the members of a family.

The rules are asked again where one size is small, and where all are. What they write there is a member up to the size
at which they write something else, if the model of time that chooses among members finds it faster there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tilegen.errors import TilegenError
from tilegen.ir.nodes import Kernel
from tilegen.lab.checks.sizes import GPU_LIMITS, power_sizes
from tilegen.lab.choice.family import fitted_to_formulas
from tilegen.lab.choice.model import Coefficients, Model
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft, begin
from tilegen.suggest.plan import is_proved, write

FEW, SHORT = 32, 256  # what is small where nothing is summed over it, and where something is
LEAST = 16  # smaller ones decide nothing that is worth a schedule
SCHEDULES, STEPS = 3, 120  # of a family at the most, those of members that differ in numbers alone for each of these
GAIN = 1.1  # how much faster a member has to be than the others at the sizes that it was written for


@dataclass(frozen=True)
class Member:
    """A schedule, and where it serves: at sizes `small` whose product is not above `limit`; anywhere if there are none.

    Attributes:
        sizes: it was written for them: small ones have the same value there, the others are as large as they can be.
    """

    draft: Draft
    sizes: Mapping[str, int]
    machine: Machine
    small: tuple[str, ...] = ()
    limit: int = 0

    @cached_property
    def steps(self) -> tuple[str, ...]:
        return tuple(line for line in self.draft.lines if not line.lstrip().startswith("#"))

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number.value for name, number in self.draft.parameters.items()}

    def is_like(self, other: Member) -> bool:
        return self.steps == other.steps and self.numbers == other.numbers

    def serves(self, sizes: Mapping[str, int]) -> bool:
        return not self.small or prod(sizes[name] for name in self.small) <= self.limit

    def microseconds(self, sizes: Mapping[str, int]) -> float:
        """The time by the model that chooses among members."""
        model, by = self._modelled
        return model.microseconds(sizes, by)

    @cached_property
    def _modelled(self) -> tuple[Model, Coefficients]:
        model = Model(self.draft.tree, self.machine)
        return model, fitted_to_formulas(self.machine).get(model.formula, Coefficients())


def family_of(first: Draft, sizes: Mapping[str, int], machine: Machine) -> list[Member]:
    """The draft, which serves all sizes, and what serves some of them better, each proved; the first one last."""
    found, others = [Member(first, sizes, machine)], list(_others(first.core.kernel, sizes, machine))
    while others:
        gains = [_gain(each, found) for each in others]
        best = others.pop(gains.index(max(gains)))
        if max(gains) < GAIN:
            break
        schedules, steps = {each.steps for each in (best, *found)}, sum(len(each.steps) for each in (best, *found))
        if len(schedules) <= SCHEDULES and steps <= STEPS and is_proved(best.draft):
            found.insert(0, _with_limit(best, found[-1]))
    return found


def _gain(member: Member, found: Sequence[Member]) -> float:
    """How many times faster it is than those found, at its own sizes."""
    served = [each for each in found if each.serves(member.sizes)]
    if any(each.is_like(member) for each in served):
        return 0.0
    return min(each.microseconds(member.sizes) for each in served) / member.microseconds(member.sizes)


def _others(kernel: Kernel, sizes: Mapping[str, int], machine: Machine) -> Iterator[Member]:
    """What the rules write where one of these sizes is small, or where all are, by and by less so."""
    summed = summed_in(kernel)
    sides: dict[tuple[str, ...], list[int]] = {
        (name,): [min(sizes[name] // 8, SHORT if name in summed else FEW)] for name in kernel.sizes
    }
    if len(sizes) > 1:
        sides[kernel.sizes] = [2**n for n in range(8, max(sizes.values()).bit_length() - 1)]
    for names, value in ((names, value) for names, values in sides.items() for value in values):
        if value >= LEAST:
            with suppress(TilegenError):
                yield _written(kernel, names, value, machine)


def summed_in(kernel: Kernel) -> tuple[str, ...]:
    """The sizes that tell how many terms a sum has."""
    summed = {name for equation in kernel.equations for r in equation.reduced for name in r.extent.names()}
    return tuple(name for name in kernel.sizes if name in summed)


def _written(kernel: Kernel, names: tuple[str, ...], value: int, machine: Machine) -> Member:
    """What the rules write where these sizes have this value, and the others are as large as memory allows."""
    sizes = power_sizes(kernel, dict.fromkeys(names, value), GPU_LIMITS)
    return Member(write(begin(kernel), sizes, machine), sizes, machine, names, value ** len(names))


def _with_limit(member: Member, first: Member) -> Member:
    """The member up to the sizes at which the rules write something else, as they do at those of the first.

    It may have other values for parameters there, unless these are all that tells it from the first.
    """
    kernel, names, least = member.draft.core.kernel, member.small, member.sizes[member.small[0]]
    low, high = 0, (max(first.sizes[name] for name in names) // least - 1).bit_length()
    while high - low > 1:
        middle = (low + high) // 2
        same = _is_written(member, power_sizes(kernel, dict.fromkeys(names, least << middle), GPU_LIMITS), first)
        low, high = (middle, high) if same else (low, middle)
    summed = summed_in(kernel)
    groups = [tuple(name for name in names if (name in summed) is way) for way in (False, True)]
    for some in filter(None, groups if len(names) > 1 else ()):
        if _is_written(member, {**first.sizes, **dict.fromkeys(some, least)}, first):
            names = some  # the others do not matter
            break
    return replace(member, small=names, limit=(least << low) ** len(names))


def _is_written(member: Member, sizes: Mapping[str, int], first: Member) -> bool:
    with suppress(TilegenError):
        other = replace(member, draft=write(begin(member.draft.core.kernel), sizes, member.machine))
        return other.is_like(member) if member.steps == first.steps else other.steps == member.steps
    return False


def text_of(members: Sequence[Member], name: str, comment: Callable[[Draft, Mapping[str, int]], str]) -> str:
    """The schedules, the one for all sizes first, and the family that chooses among them where there are several."""
    schedules, lines = dict[tuple[str, ...], tuple[str, Member]](), list[str]()
    for member in reversed(members):
        wanted = "_".join([name, *["small"] * bool(member.small), *(member.small if len(member.small) == 1 else ())])
        taken = {own for own, _ in schedules.values()}
        own = next(own for n in range(1, 1000) if (own := wanted if n == 1 else f"{wanted}_{n}") not in taken)
        own, like = schedules.setdefault(member.steps, (own, member))
        given = [f"{word}={value}" for word, value in member.numbers.items() if value != like.numbers[word]]
        where = f" where {' * '.join(member.small)} <= {member.limit}" if member.small else ""
        lines.insert(0, f"    {own}{'(' * bool(given)}{', '.join(given)}{')' * bool(given)}{where}")
    texts = [member.draft.text(own, comment(member.draft, member.sizes)) for own, member in schedules.values()]
    if len(lines) > 1:
        said = "# A model of time chooses among those that are for the sizes of a call."
        texts.append("\n".join([said, f"family fast for {members[0].draft.core.kernel.name}:", *lines, ""]))
    return "\n".join(texts)
