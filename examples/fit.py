"""Fits the coefficients of the model of time to what `python examples/sweep.py KIND --members` has measured.

    python examples/fit.py F.jsonl ... [--to tilegen/lab/choice/fitted/sm_90.json]

All members of a family share coefficients, each schedule moves away from these as far as its times want it, and each
member that was timed often from those of its schedule. What is small is the mean square of the logarithms of predicted
over measured times, on the GPU that a line names, without most of what all members are off at one shape: a choice asks
only which of them is faster. Nothing of a shape is kept.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sweep import KINDS, chooser_of

from tilegen.lab.choice.model import Coefficients
from tilegen.lab.predict.machine import machine_of_device

Array = np.ndarray[Any, Any]
# How much it counts beside a time that a coefficient is not the default, not the family's, and not the schedule's.
# These and the share are those with which the choice, fitted to four fifths of the shapes, loses least on the others.
_OF_FAMILY, _OF_SCHEDULE, _OF_MEMBER = 0.01, 0.01, 0.1
_OF_SHAPE = 0.7  # of what all members are off at one shape, this share does not count
_ENOUGH = 6  # times of a member that has coefficients of its own
NAMES = tuple(asdict(Coefficients()))
_PART_OF = {"wave": "waves", "round_": "rounds"}  # what of `Parts` a coefficient multiplies, if it has another name
_AT_ONCE = slice(NAMES.index("round_"), NAMES.index("memory") + 1)  # of what goes on at once squares add up


@dataclass(frozen=True)
class Time:
    """Of a member at a shape: microseconds, and of each launch what the coefficients multiply, in their order."""

    member: str
    shape: str
    us: float
    costs: Sequence[Sequence[float]]


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("files", nargs="+")
    words.add_argument("--to", default="tilegen/lab/choice/fitted/sm_90.json")
    given = words.parse_args()
    lines = [{**json.loads(line), "file": file} for file in given.files for line in Path(file).read_text().splitlines()]
    path = Path(given.to)
    kept: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"families": {}}
    for family in sorted({family_of(line["kind"]) for line in lines}):
        own = [line for line in lines if family_of(line["kind"]) == family]
        found = fit_family(own, kept["families"].get("<stock {}>: {}".format(*family), {}))
        for kernel in {KINDS[line["kind"]][:2] for line in own}:
            kept["families"]["<stock {}>: {}".format(*kernel)] = found
    kept["command"] = "python examples/sweep.py KIND --members, then python examples/fit.py"
    devices = {*kept.get("device", "").split(" and "), *(line.get("device", "") for line in lines)}
    kept["device"] = " and ".join(sorted(devices - {""}))
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def family_of(kind: str) -> tuple[str, str]:
    """The file and the kernel that this kind is of, or the first kernel of the file whose members cost the same."""
    alike = (other for other in KINDS if KINDS[other][0] == KINDS[kind][0] and formulas_of(other) == formulas_of(kind))
    return KINDS[next(alike)][:2]


@cache
def formulas_of(kind: str) -> list[str]:
    return [each.model.formula for each in chooser_of(kind).candidates]


def fit_family(lines: Sequence[dict[str, Any]], before: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The coefficients of each member, at all constants of its kernel that were measured.

    Args:
        lines: times of its members.
        before: the coefficients that earlier times have given; empty for none.
    """
    formulas: dict[str, str] = {}
    schedules: dict[str, str] = {}
    times: list[Time] = []
    for kind in sorted({line["kind"] for line in lines}):
        devices = {_device(line) for line in lines}
        models = {(device, c.name): c.model for device in devices for c in chooser_of(kind, machine=device).candidates}
        for line in (line for line in lines if line["kind"] == kind):
            if model := models.get((_device(line), line["member"])):
                shape = f"{line['file']} {kind} {line['sizes']}"
                parts = model.parts(line["sizes"])
                costs = [tuple(getattr(part, _PART_OF.get(name, name), 1.0) for name in NAMES) for part in parts]
                times.append(Time(line["member"], shape, line["us"], costs))
        for each in chooser_of(kind).candidates:
            formulas[each.name], schedules[each.name] = each.model.formula, each.schedule
    # Of several that cost the same, the first one speaks for schedules of no family.
    first = {formula: name for name, formula in reversed(formulas.items())}
    return {
        name: {
            "formula": formulas[name] if name in first.values() else "",
            **{word: float(f"{value:.3g}") for word, value in zip(NAMES, values, strict=True)},
        }
        for name, values in fit(times, schedules, before).items()
    }


def _device(line: dict[str, Any]) -> str:
    found = machine_of_device(line.get("device", ""))
    return found.name.lower() if found else "h100"


def fit(times: Sequence[Time], schedules: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Array]:
    """The coefficients of the family, "*", of each schedule, "split_k *", and of each member.

    Their logarithms are those of the defaults and what the family, the schedule and the member add; what is small is
    the errors, and how far these are from what they were, or from nothing.
    """
    often = Counter(each.member for each in times)
    members = [name for name in schedules if often[name] >= _ENOUGH]
    of_schedules = [f"{name} *" for name in dict.fromkeys(schedules.values())]
    place = {name: place for place, name in enumerate(["*", *of_schedules, *members])}
    # The groups of each time; of a member with few times its schedule stands for it.
    pairs = [(f"{schedules[each.member]} *", each.member) for each in times]
    groups = np.array([[i, place[name]] for i, pair in enumerate(pairs) for name in ("*", *pair) if name in place]).T
    belongs = np.zeros((len(times), len(place)))
    belongs[*groups] = 1
    costs = np.zeros((len(times), max(len(each.costs) for each in times), len(NAMES)))
    for row, each in zip(costs, times, strict=True):
        row[: len(each.costs)] = each.costs
    _, shapes = np.unique([each.shape for each in times], return_inverse=True)
    alike = shapes[:, None] == shapes
    centred = np.eye(len(times)) - _OF_SHAPE * alike / alike.sum(1)
    weights = [_OF_FAMILY, *[_OF_SCHEDULE] * len(of_schedules), *[_OF_MEMBER] * len(members)]
    pull = np.repeat(weights * np.maximum(belongs.sum(0), 1) / len(NAMES), len(NAMES))
    measured, start = np.log([each.us for each in times]), np.log(astuple(Coefficients()))
    home = added_before(place, schedules, before, start)

    def errors(at: Array) -> tuple[Array, Array]:
        predicted, slopes = predict(start + belongs @ at.reshape(-1, len(NAMES)), costs)
        wide = (belongs[:, :, None] * slopes[:, None]).reshape(len(times), -1)
        return centred @ (predicted - measured), centred @ wide

    at = least(errors, pull, home.ravel()).reshape(-1, len(NAMES))
    print(f"{len(times)} times, off by {100 * np.mean(errors(at.ravel())[0] ** 2) ** 0.5:.0f} %")
    by = {"*": start + at[0]}
    by |= {name: by["*"] + at[place[name]] for name in of_schedules}
    by |= {m: by[f"{s} *"] + (at[place[m]] if m in place else 0) for m, s in schedules.items()}
    return {name: np.exp(logs) for name, logs in by.items()}


def added_before(place: Iterable[str], schedules: Mapping[str, str], before: Mapping[str, Any], start: Array) -> Array:
    """What the family, each schedule and each member added to the logarithms `start` in coefficients of before."""
    logs = {name: np.log([each[word] for word in NAMES]) for name, each in before.items()}
    logs.setdefault("*", start)

    def added(name: str) -> Array:
        above = start if name == "*" else logs.get(f"{schedules.get(name)} *", logs["*"])
        return logs.get(name, above) - above

    return np.array([added(name) for name in place])


def predict(logs: Array, costs: Array) -> tuple[Array, Array]:
    """The logarithms of the times that `Parts.microseconds` gives, and their slopes by those of the coefficients.

    Args:
        logs: of each time those of its coefficients.
        costs: of each time those of its launches; zeros where others have more launches.
    """
    each = np.exp(logs)[:, None] * costs
    squares = each[..., _AT_ONCE] ** 2
    each[..., _AT_ONCE] = squares / np.maximum(squares.sum(2, keepdims=True), 1e-30) ** 0.5
    microseconds = each.sum((1, 2))
    return np.log(microseconds), each.sum(1) / microseconds[:, None]


def least(errors: Callable[[Array], tuple[Array, Array]], pull: Array, home: Array) -> Array:
    """Where the squares of errors, and of distances from home by their `pull`, are the least: by Gauss and Newton."""
    at, part = home, 1.0
    (off, slopes), best = errors(at), float("inf")
    while part > 0.01:
        if (cost := float(off @ off + pull @ (at - home) ** 2)) < best * (1 - 1e-5):
            found, best, part = at, cost, min(1.0, 2 * part)
            step = np.linalg.solve(slopes.T @ slopes + np.diag(pull), slopes.T @ off + pull * (at - home))
        else:
            part /= 2
        at = found - part * step
        off, slopes = errors(at)
    return found


if __name__ == "__main__":
    main()
