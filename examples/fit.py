"""Fits the coefficients of the model of time to what `python examples/sweep.py KIND --members` has measured.

    python examples/fit.py F.jsonl ... [--to tilegen/lab/choice/fitted/sm_90.json]

First all members of a family share coefficients, then each schedule moves away from these as far as its own times want
it, and each member that was timed often from those of its schedule. What is small is the mean square of the logarithms
of predicted over measured times, on the GPU that a line names. Nothing of a shape is kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

from sweep import KINDS, chooser_of

from tilegen.lab.choice.model import Coefficients, Parts
from tilegen.lab.predict.machine import machine_of_device

Times = list[tuple[list[Parts], float]]  # of a member: its launches at some sizes, and measured microseconds
# How much it counts beside the mean of squares that a coefficient is not that of the family, or of the schedule. They
# are those with which the choice, fitted to two thirds of the shapes, loses the least on the others.
_OF_FAMILY, _OF_SCHEDULE = 0.01, 0.4
_ENOUGH = 6  # times of a member that has coefficients of its own
NAMES = tuple(asdict(Coefficients()))


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("files", nargs="+")
    words.add_argument("--to", default="tilegen/lab/choice/fitted/sm_90.json")
    given = words.parse_args()
    lines = [json.loads(line) for file in given.files for line in Path(file).read_text().splitlines()]
    path = Path(given.to)
    kept: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"families": {}}
    for family in sorted({KINDS[line["kind"]][:2] for line in lines}):
        own = [line for line in lines if KINDS[line["kind"]][:2] == family]
        kept["families"]["<stock {}>: {}".format(*family)] = fit_family(own)
    kept["command"] = "python examples/sweep.py KIND --members, then python examples/fit.py"
    kept["device"] = "NVIDIA H100 80GB HBM3"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def fit_family(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The coefficients of each member, at all constants of its kernel that were measured."""
    times: dict[str, Times] = {}
    of_schedule: dict[str, Times] = {}
    formulas: dict[str, str] = {}
    schedules: dict[str, str] = {}
    for kind in sorted({line["kind"] for line in lines}):
        models = {
            (device, each.name): each.model
            for device in {_device(line) for line in lines}
            for each in chooser_of(kind, machine=device).candidates
        }
        for each in chooser_of(kind).candidates:
            own = [line for line in lines if (line["kind"], line["member"]) == (kind, each.name)]
            formulas[each.name] = each.model.formula
            found = [(models[_device(line), each.name].parts(line["sizes"]), line["us"]) for line in own]
            times.setdefault(each.name, []).extend(found)
            of_schedule.setdefault(each.schedule, []).extend(found)
            schedules[each.name] = each.schedule
    # Of several that cost the same, the first one speaks for schedules of no family.
    first = {formula: name for name, formula in reversed(formulas.items())}
    start = Coefficients()
    shared = fit([pair for some in times.values() for pair in some], start, _OF_FAMILY)
    between = {name: fit(some, shared, _OF_FAMILY) for name, some in of_schedule.items()}
    by_member = {name: fit(some, between[schedules[name]], _OF_SCHEDULE, _ENOUGH) for name, some in times.items()}
    for name, by in by_member.items():
        if some := times[name]:
            print(f"{name}: {len(some)} times, off by {100 * error(some, by) ** 0.5:.0f} %")
    return {
        name: {
            "formula": formulas[name] if name in first.values() else "",
            **{word: float(f"{value:.3g}") for word, value in asdict(by).items()},
        }
        for name, by in {"*": shared, **{f"{name} *": by for name, by in between.items()}, **by_member}.items()
    }


def _device(line: dict[str, Any]) -> str:
    found = machine_of_device(line.get("device", ""))
    return found.name.lower() if found else "h100"


def error(times: Times, by: Coefficients) -> float:
    """The mean square of the logarithms of predicted over measured times."""
    return mean(log(sum(part.microseconds(by) for part in parts) / us) ** 2 for parts, us in times)


def fit(times: Times, near: Coefficients, pull: float, enough: int = 1) -> Coefficients:
    """The coefficients at which the error, and a pull towards those `near`, are the least; `near` of too few times.

    One after the other goes up and down by smaller and smaller steps.
    """
    if len(times) < enough:
        return near
    at = home = {name: log(value) for name, value in asdict(near).items()}

    def cost(values: dict[str, float]) -> float:
        by = Coefficients(**{name: exp(value) for name, value in values.items()})
        return error(times, by) + pull * mean((values[name] - home[name]) ** 2 for name in NAMES)

    best, step = cost(at), 0.5
    while step > 0.01:
        improved = False
        for name in NAMES:
            for moved in ({**at, name: at[name] + step}, {**at, name: at[name] - step}):
                if (found := cost(moved)) < best:
                    at, best, improved = moved, found, True
        step = step if improved else step / 2
    return Coefficients(**{name: exp(value) for name, value in at.items()})


if __name__ == "__main__":
    main()
