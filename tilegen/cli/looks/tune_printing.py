"""How a tuning run looks: what it begins with, how far it is, the fastest candidates, what the others failed by."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tilegen.cli.looks.printing import PLAIN, Terminal, table
from tilegen.ir.printing.shown import counted, size_words
from tilegen.lab.choice.family import fitted_on
from tilegen.lab.counts.metric import rate, unit
from tilegen.lab.measure.timing import CPU_NOTE, cells_of_time

if TYPE_CHECKING:
    from tilegen.lab.predict.machine import Machine
    from tilegen.tune.session import Session
    from tilegen.tune.space import Candidate
    from tilegen.tune.tuning import Tuning

_MEANINGS = {
    "measured": "timed",
    "unmeasured": "right, with a predicted time",
    "illegal": "illegal",
    "limits": "over a limit",
    "unproved": "unproved",
    "roofline": "too slow by the roofline",
    "refused": "refused by the compiler",
    "wrong": "wrong",
    "fault": "failed on the device",
    "time": "over the limit of time",
    "memory": "over the limit of memory",
    "killed": "killed",
}
_LOUD = ("wrong", "refused", "fault", "time", "memory", "killed")  # each is worth a look


def print_beginning(session: Session, resumed: bool) -> None:
    """What is going to be done, on standard error."""
    space, wish, journal = session.space, session.wish, session.journal
    sizes = size_words(session.task.sizes)
    lines = [
        f"{session.task.kernel}  {sizes}  on {session.device.name}: {space.combinations:,} combinations, "
        f"search {wish.search}, seed {wish.seed}",
    ]
    if session.task.machine is None:
        lines += ["no roofline is known for this device: it prunes nothing"]
    if resumed and session.tuning.outcomes:
        known = session.tuning.outcomes
        verb = "is" if len(known) == 1 else "are"
        lines += [f"{counted(list(known), 'candidate')} {verb} known from {journal.path}"]
    if journal.torn:
        lines += [f"the last line of {journal.path} is not whole: {journal.torn} bytes are cut off"]
    if journal.damaged:
        lines += [f"lines of {journal.path} that cannot be read: {', '.join(map(str, journal.damaged))}"]
    print("\n".join([*lines, f"record: {journal.path}"]), file=sys.stderr, flush=True)


def progress_of(tuning: Tuning) -> tuple[str, float, float]:
    """What is shown meanwhile: candidates, the best time and the seconds; the share that is done of 1."""
    best = tuning.fastest[:1]
    fastest = f", best {best[0].milliseconds:.4g} ms" if best else ""
    seconds = f"{tuning.seconds:.0f} of {tuning.budget:.0f} s"
    what = f"{counted(list(tuning.outcomes), 'candidate')}{fastest}, {seconds}"
    return what, min(1.0, tuning.seconds / tuning.budget), 1


def print_result(out: Terminal, session: Session) -> None:
    """The fastest candidates, what became of all, where the time went, and how the best is used."""
    tuning = session.tuning
    if tuning.best is None:
        out.print("nothing was timed", style="red")
    else:
        out.print(_table(session))
    out.say(*_counts(tuning), *_complaints(tuning), _shares(session))
    if session.task.predicts and session.task.machine:
        out.say(_model_note(session.task.machine))
    elif not session.device.on_gpu:
        out.print(CPU_NOTE)
    if tuning.best and not session.task.predicts:
        out.say(*_beside_first(tuning))
    if tuning.best:
        out.say(f"best: {setting(tuning.best[0])}", style="bold")


def _model_note(machine: Machine) -> str:
    """What the predicted times are."""
    fits = "its coefficients are typical ones, for none were fitted to times of such a GPU"
    if device := fitted_on(machine):
        fits = f"its coefficients were fitted on an {device} for schedules of the same costs, and else are typical"
    way = "--device cpu takes the times of a CPU."
    return f"predicted: by the model of time for one {machine.name}, never below the roofline; {fits}. {way}"


def setting(candidate: Candidate) -> str:
    """The candidate as options of a command: --schedule tiled --set TS=16."""
    values = size_words(dict(candidate.parameters))
    return f"--schedule {candidate.schedule}" + (f" --set {values}" if values else "")


def _table(session: Session) -> Table:
    tuning, task = session.tuning, session.task
    kernel = session.kernel.ir.meant_kernel
    shown = unit(kernel, task.sizes, session.device.on_gpu or task.predicts)
    times = tuning.times
    first = next((c for c in times if c in tuning.defaults), None)
    rows = []
    order = times.items() if task.predicts else sorted(times.items(), key=lambda each: each[1].median)
    for candidate, time in order:
        gain = f"x {times[first].median / time.median:.2f}" if first else ""
        label = "as written" if session.space.is_written(candidate) else "tried first"
        name = f"{candidate} ({label})" if candidate in tuning.defaults else str(candidate)
        cells = cells_of_time(time, rate(kernel, task.sizes, time.median, shown))
        rows.append((name, *(cells[::2] if task.predicts else cells), gain))
    heads: tuple[str, ...] = ("schedule", "ms", "p20..p80", shown, "gain")
    if task.predicts:
        heads = ("schedule", "predicted ms", shown, "gain")
    columns = {"schedule": {"overflow": "fold"}}
    return table(heads, rows, heads[:1], columns=columns, **PLAIN)


def _counts(tuning: Tuning) -> list[str]:
    counts = Counter[str](each.state for each in tuning.outcomes.values())
    parts = [f"{counts[state]} {_MEANINGS[state]}" for state in _MEANINGS if state in counts]
    lines = [f"{counted(list(tuning.outcomes), 'candidate')}: {', '.join(parts)}"] if parts else []
    if not parts and not tuning.exhausted:
        lines += ["the budget was over before the first candidate was tried: a longer --budget goes on"]
    if tuning.exhausted:
        lines += ["these are all that there are"]
    if tuning.together:
        lines += ["those above took turns at the end, each once in a round"]
    return lines + ([tuning.note] if tuning.note else [])


def _complaints(tuning: Tuning) -> list[str]:
    """The first candidate of each kind that deserves a look; of every kind where nothing was timed."""
    found = []
    for state in _LOUD if tuning.best else [each for each in _MEANINGS if each != "measured"]:
        first = next((each for each in tuning.outcomes.values() if each.state == state), None)
        if first:
            found += [f"{_MEANINGS[state]}, for one: {first.candidate}: {first.message}"]
    return found


def _beside_first(tuning: Tuning) -> list[str]:
    """Whether the best is faster than the fastest of those that were tried first by more than both spread."""
    assert tuning.best
    (best, time), first = tuning.best, [t for c, t in tuning.times.items() if c in tuning.defaults]
    if best in tuning.defaults or not first or time.p80 < min(each.p20 for each in first):
        return []
    return ["its time is inside the spread of those that were tried first: a second run may choose otherwise"]


def _shares(session: Session) -> str:
    """Which part of the time of all processes went where."""
    spent = Counter[str]()
    for outcome in session.tuning.new:
        spent.update({name: seconds for name, seconds in outcome.seconds.items() if name != "waiting"})
    seconds = session.tuning.seconds
    parts = ", ".join(f"{name} {value:.3g} s ({value / seconds:.0%})" for name, value in spent.most_common())
    return f"of {seconds:.3g} s, in {session.processes} processes at once: {parts}" if parts else f"{seconds:.3g} s"


def to_json(session: Session, stopped: bool) -> dict[str, Any]:
    """The result as a record."""
    tuning = session.tuning
    best = tuning.best
    return {
        "kernel": session.task.kernel,
        "sizes": dict(session.task.sizes),
        "device": session.device.name,
        "search": session.wish.search,
        "seed": session.wish.seed,
        "record": str(session.journal.path),
        "interrupted": stopped,
        "best": {"schedule": best[0].schedule, "parameters": dict(best[0].parameters)} if best else None,
        "rows": [session.record_of(each) for each in tuning.outcomes.values()],
    }
