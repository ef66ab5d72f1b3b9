"""The command check: what each schedule computes, against the reference."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING

import click

from tilegen.cli.commands.shared import DEVICE, FIX, UNPROVED, shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import parse_point
from tilegen.cli.shell.interrupt import exit_code, run_until_interrupted
from tilegen.cli.shell.records import environment_of, origin_of
from tilegen.cli.shell.request import Request
from tilegen.errors import LimitError, NothingCompared, ProofError, SourceError, TilegenError, WrongResult
from tilegen.ir.comparison.tolerance import Tolerance, tolerance_of
from tilegen.ir.nodes import Tree
from tilegen.ir.printing.shown import size_words

if TYPE_CHECKING:
    from tilegen.backends.calls.device_program import Program
    from tilegen.backends.calls.engine import Engine
    from tilegen.lab.checks.check import Case, Trial
    from tilegen.lab.checks.repeat import Repetition


@dataclass(frozen=True)
class _Checked:
    """A schedule that has run: the verdict of its proof, what the CUDA program needs, and what it passed; the error if
    it did not pass all."""

    proof: str | None = None
    needs: str = ""
    trials: tuple[Trial, ...] = ()
    repeated: tuple[Repetition, ...] = ()
    error: TilegenError | None = None


@tilegen.command("check")
@shared_arguments
@size_option("M=.. ...", "Sizes to check at.")
@click.option("--repeat", type=click.IntRange(2), metavar="N", help="Run N times: are all bits the same?")
@FIX
@DEVICE
@UNPROVED
def check_command(request: Request, fix: tuple[str, ...], device: str, unproved: bool, repeat: int | None) -> int:
    """Run scheduled kernels against the reference; every element counts."""
    from tilegen.backends.devices.devices import engine
    from tilegen.lab.checks.reach import missed_notes
    from tilegen.lab.checks.sizes import limits_of_check, sizes_to_check
    from tilegen.lab.predict.cost import check_outlook, require_check_memory

    attempts = request.attempts(parse_point(fix, "--fix"))
    applied = {name: each for name, each in attempts.items() if not isinstance(each, TilegenError)}
    trees = {name: each.tree for name, each in applied.items()}
    printing.print_remarks(applied)
    runs_on, every = engine(device), list(trees.values())
    sizes = sizes_to_check(every, request.sizes, limits_of_check(runs_on))
    require_check_memory(every, sizes, runs_on, repeated=repeat is not None)
    printing.print_note(check_outlook(every, sizes, runs_on, repeat or 0))
    for note in missed_notes(every, sizes, request.sizes):
        printing.print_note(note)
    checked = {name: _Checked(error=each) for name, each in attempts.items() if isinstance(each, TilegenError)}
    with printing.progress() as progress:
        stopped = run_until_interrupted(
            lambda: _check_all(trees, sizes, runs_on, unproved, repeat or 0, checked, progress)
        )
    if request.json_file:
        origins = {name: origin_of(each) for name, each in applied.items()}
        origin = {word: {n: each[word] for n, each in origins.items()} for word in ("parameters", "written")}
        found = {**origin, **environment_of(runs_on), **_json(checked, runs_on), "interrupted": stopped}
        printing.write_json(found, request.json_file)
    else:
        notes = () if runs_on.on_gpu else printing.meaning_notes(printing.performed_names(every))
        _show(checked, runs_on, notes, stopped)
    errors = {name: each.error for name, each in checked.items() if each.error}
    for name, error in errors.items():
        print(f"{name}: {error.render()}", file=sys.stderr)
    return exit_code((error.exit_code for error in errors.values()), "results", stopped=stopped)


def _check_all(
    trees: Mapping[str, Tree],
    sizes: Sequence[Mapping[str, int]],
    engine: Engine,
    unproved: bool,
    runs: int,
    found: dict[str, _Checked],
    progress: Callable[[str, int, int], None],
) -> None:
    """Checks the trees, all of one kernel, at all of `sizes`; then runs each that is right `repeat` times there.

    `found` gets the results as they come, for someone who does not wait for the end.
    """
    from tilegen.backends.devices.devices import program
    from tilegen.lab.checks.check import cases, cases_of

    kernel = next(iter(trees.values())).kernel.called_kernel

    @cache
    def tried(tolerance: Tolerance) -> list[Case]:
        progress("reference", 0, 1)
        return cases(kernel, sizes, tolerance)

    def tried_by(name: str, number: int) -> list[Case]:
        made = cases_of(trees[name], tried(tolerance_of(trees[name])))
        progress(f"check {name}", number, len(trees))
        return made

    for number, (name, tree) in enumerate(trees.items()):
        progress(f"check {name}", number, len(trees))
        for state in _states(program(tree, engine, unproved=unproved), sizes, partial(tried_by, name, number), runs):
            found[name] = state


def _states(
    compiled: Program, sizes: Sequence[Mapping[str, int]], tried: Callable[[], Sequence[Case]], runs: int
) -> Iterator[_Checked]:
    """What is known of a program after each thing that it is asked; the cases are made when it can be launched."""
    from tilegen.lab.checks.check import check_case, require_compared
    from tilegen.lab.checks.repeat import repeat_cases
    from tilegen.lowering.launch.grid import count_blocks

    found = _Checked()
    try:
        yield (found := replace(found, proof=compiled.verdict, needs=_needs(compiled)))
        for launch, at in product(compiled.cuda.launches(compiled.cuda.main()[0]), sizes):
            count_blocks(launch.name, launch.grid, at, dealt=launch.dealt > 0)
        for case in tried():
            trials = (*found.trials, check_case(compiled, case))
            yield (found := replace(found, proof=compiled.verdict, trials=trials))
        require_compared(found.trials)
        yield replace(found, repeated=repeat_cases(compiled, tried(), runs) if runs else ())
    except (WrongResult, NothingCompared, ProofError, LimitError, SourceError) as error:
        yield replace(found, trials=(), error=error)


def _needs(compiled: Program) -> str:
    """What a GPU has to be for the CUDA program: `needs sm_80 or later`; nothing if it may be any.

    Raises SourceError where an instruction cannot be assembled.
    """
    from tilegen.backends.compiler.architectures import features_of, instructions_of, needed_lines
    from tilegen.backends.compiler.assembled import assemble, unassembled_note

    launches = compiled.cuda.launches(compiled.cuda.main()[0])
    printing.print_note(unassembled_note(assemble(launches)))
    most, *_ = (*needed_lines(instructions_of(launches), features_of(launches)), "")
    return most.partition(":")[0]


def _json(checked: Mapping[str, _Checked], engine: Engine) -> dict[str, object]:
    from tilegen.backends.devices.devices import InterpreterEngine

    ran = "trees" if isinstance(engine, InterpreterEngine) else engine.language
    return {
        "device": engine.name,
        "proofs": {name: each.proof for name, each in checked.items() if each.proof},
        "proved": {"programs": sorted({"cuda", engine.language}), "ran": ran},
        "needs": {name: each.needs for name, each in checked.items() if each.needs},
        "right": {name: [asdict(t) for t in each.trials] for name, each in checked.items() if each.trials},
        "repeated": {name: [asdict(r) for r in each.repeated] for name, each in checked.items() if each.repeated},
        "wrong": {name: each.error.render() for name, each in checked.items() if each.error},
    }


def _show(checked: Mapping[str, _Checked], engine: Engine, notes: Iterable[str], stopped: bool) -> None:
    """Prints for each schedule its inputs, its largest error beside the bound, and the verdict of its proof."""
    left = ("schedule", "proof", "inputs", "sizes")
    rows = [
        (name, each.proof or "", trial.data, size_words(trial.sizes), _largest_error(trial))
        for name, each in checked.items()
        for trial in each.trials
    ]
    out, compared = printing.console(), [trial.compared for each in checked.values() for trial in each.trials]
    if count := len(compared):
        out.print(printing.table((*left, "largest error"), rows, left))
        right = f"{'so far' if stopped else 'all'} {count} of them" if all(compared) else f"{sum(compared)} of {count}"
        rest = "" if all(compared) else "; nothing was compared in the others, where no element has a bound"
        out.say(f"right, {right}, on {engine.name}{rest}")
        if not engine.on_gpu:
            out.say(printing.proof_note(engine.name, {n: each.needs for n, each in checked.items()}))
    for name, each in checked.items():
        out.say(*(f"{name}: {_sentence(repetition)}" for repetition in each.repeated))
    out.say(*printing.device_notes(engine.name), *(notes if count else ()))


def _largest_error(trial: Trial) -> str:
    """The largest error for a reader, and how many elements were not compared."""
    if not trial.compared:
        return "not compared: no bound"
    exact = trial.data == "integers" or trial.error == 0
    error = "none" if exact else f"{100 * trial.error:.3g} % of the bound"
    return error + (f"; {trial.unbounded:.2%} of the elements have no bound" if trial.unbounded else "")


def _sentence(found: Repetition) -> str:
    """What many runs on the same inputs came to."""
    sizes = size_words(found.sizes)
    start = f"{found.runs:,} runs on the same inputs, {sizes}," if sizes else f"{found.runs:,} runs on the same inputs"
    same = f"{start} gave the same bits"
    if found.difference:
        same = f"{found.different:,} of {start} have other bits than the first: {found.difference}"
    if not found.sums:
        return same
    added = " and ".join(found.sums)
    return f"{same}; they need not, for atomic updates add floats to {added} in any order"
