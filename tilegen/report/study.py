"""What a page shows of one schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.ir.printing.show import show
from tilegen.lab.counts.banks import BANKS, lane_map
from tilegen.lab.counts.traffic import Traffic
from tilegen.lab.predict.explain import stages_by_line
from tilegen.lab.predict.explanation import Explanation, LaunchReport
from tilegen.report.code import Code
from tilegen.report.differences import DifferentLine, differences
from tilegen.schedule import Derivation


@dataclass(frozen=True)
class Study:
    """A schedule with what is counted and predicted of it, and its texts."""

    derivation: Derivation
    explanation: Explanation
    code: Code


@dataclass(frozen=True)
class TreeStep:
    """A step as written, where it is written, and the tree after it with what has changed."""

    text: str
    place: str
    lines: tuple[DifferentLine, ...]


@dataclass(frozen=True)
class BankMap:
    """The banks that the lanes of a request of a shared access want.

    A row has a lane or None for each of 32 banks; the lanes of the rows after the first wait, for a bank gives one
    word at a time.
    """

    title: str
    caption: str
    rows: tuple[tuple[int | None, ...], ...]


def tree_steps(derivation: Derivation) -> Iterator[TreeStep]:
    """The kernel as written, then each line of the schedule."""
    before = ""
    for stage in stages_by_line(derivation.stages):
        after = show(stage.tree)
        span = stage.step.span if stage.step else None
        place = f"{span.source.name}:{span.line}" if span else ""
        yield TreeStep(
            stage.step.text if stage.step else "as written",
            place,
            tuple(differences(before or after, after)),
        )
        before = after


def bank_maps(found: Explanation) -> Iterator[BankMap]:
    """A map for each access of shared memory of the last program, the same ones once."""
    launches = next((step.launches for step in reversed(found.steps) if step.launches), ())
    yield from dict.fromkeys(_bank_map(t, launch) for launch in launches for t in launch.traffic if _has_map(t))


def _has_map(access: Traffic) -> bool:
    return access.conflict is not None and bool(access.conflict.lanes)


def _bank_map(access: Traffic, launch: LaunchReport) -> BankMap:
    met = access.conflict
    assert met
    words: dict[int, list[int]] = {}  # the lanes that stand for the different words of a bank
    for bank, lanes in lane_map(met.lanes):
        first: dict[int, int] = {}
        for lane in lanes:
            first.setdefault(met.lanes[lane], lane)
        words[bank] = list(first.values())
    deepest = max(map(len, words.values()))
    rows = tuple(
        tuple(words[bank][row] if row < len(words.get(bank, ())) else None for bank in range(BANKS))
        for row in range(deepest)
    )
    bytes_ = access.compiled.bytes
    kind = "store to" if access.store else "load of"
    worst = f"{met.worst:g}-way conflict" if met.worst > 1 else "no conflict"
    remedies = "; ".join(str(remedy) for remedy in launch.remedies.get(access.site.buffer, ()))
    caption = f"{bytes_} bytes a lane: a lane stands under the bank of its first word."
    caption += f" What mends {access.site.buffer}: {remedies}." if met.worst > 1 and remedies else ""
    return BankMap(f"{kind} {access.index}: {worst}", caption, rows)
