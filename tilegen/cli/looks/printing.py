"""How results look: trees and their differences, the table of a comparison, JSON."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tilegen.cli.looks.narrow import parts_of
from tilegen.cli.looks.trust import trust_lines
from tilegen.cli.shell.interrupt import crashes_are_reported
from tilegen.cli.shell.output import CODE, JSON, write
from tilegen.cli.shell.records import with_context
from tilegen.cli.shell.streams import styled
from tilegen.errors import visible
from tilegen.ir.nodes import Tree
from tilegen.ir.walk import loops

if TYPE_CHECKING:
    from tilegen.api import Scheduled
    from tilegen.lab.measure.compare import Comparison
    from tilegen.lab.predict.machine import Machine

# A table wider than the terminal is printed in parts; into a file or a pipe it has its whole width.
_PIPE_WIDTH = 100_000


def console() -> Terminal:
    """Standard output, coloured on a terminal."""
    return Terminal(sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def line_width(most: int) -> int:
    """Characters of a line: those of the terminal where that has fewer."""
    return min(most, shutil.get_terminal_size().columns - 1) if sys.stdout.isatty() else most


class Terminal(Console):
    """A console that takes a text for what it says: without markup, and with control characters made visible."""

    def __init__(self, stream: TextIO, **options: Any) -> None:
        super().__init__(file=styled(stream), highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """The segments of something to print."""
        for each in super().render(renderable, options):
            yield each if each.control else each._replace(text=visible(each.text))

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints, on a narrow terminal tables in parts that fit."""
        if self.is_terminal:
            objects = tuple(part for each in objects for part in _parts(each, self))
        super().print(*objects, **options)

    def say(self, *lines: str | Text, **options: Any) -> None:
        """Prints the lines, each as long as it is."""
        for line in lines:
            self.print(line, soft_wrap=True, **options)

    def on_broken_pipe(self) -> None:
        """Raises the error again: the command line ends quietly, where rich would end the process with a failure."""
        raise  # noqa: PLE0704  (the BrokenPipeError that this is called for)


def _parts(value: Any, console: Console) -> list[Any]:
    return list(parts_of(value, console)) if isinstance(value, Table) else [value]


@contextmanager
def progress() -> Iterator[Callable[[str, float, float], None]]:
    """A progress bar on standard error; where that is no terminal, a line every ten seconds. It tells of a crash."""
    with crashes_are_reported() as report, _shown_progress() as show:
        last = ""

        def step(what: str, done: float, total: float) -> None:
            nonlocal last
            if what != last:
                report(what)
            last = what
            show(what, done, total)

        yield step


@contextmanager
def _shown_progress() -> Iterator[Callable[[str, float, float], None]]:
    errors = Terminal(sys.stderr)
    if not errors.is_terminal:
        with _ProgressLines() as lines:
            yield lines
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # all of it for long work alone

    columns = (TextColumn("{task.description:>10}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("", total=1)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


class _ProgressLines:
    """Prints on standard error what is going on, every `pause` seconds."""

    def __init__(self, pause: float = 10.0) -> None:
        self._pause = pause
        self._what = ""
        self._ended = Event()
        self._thread = Thread(target=self._say, daemon=True)

    def __call__(self, what: str, done: float, total: float) -> None:
        self._what = f"{what}, {done} of {total} done" if total > 1 else what

    def __enter__(self) -> _ProgressLines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _say(self) -> None:
        start = monotonic()
        while not self._ended.wait(self._pause):
            print(f"after {monotonic() - start:.0f} s: {self._what}", file=sys.stderr, flush=True)


def print_note(line: str | None) -> None:
    """Prints a line on standard error; nothing for None or an empty one."""
    if line:
        print(line, file=sys.stderr, flush=True)


def print_remarks(schedules: Mapping[str, Scheduled]) -> None:
    """Prints what is right in these, and hardly meant, on standard error."""
    from tilegen.lab.predict.remarks import remarks

    for line in remarks((name, each.tree) for name, each in schedules.items()):
        print_note(f"note: {line}")


def write_code(text: str, path: str | None, language: str) -> None:
    """`write`, in colours where the text goes to a terminal that has them and NO_COLOR is not set.

    `language` is "cuda", "opencl" or "tilegen", or another one that Pygments knows.
    """
    if path in (None, "-") and console().color_system and not console().no_color:
        styled(sys.stdout).write(_coloured(visible(text), language))
    else:
        write(text, path, CODE)


def _coloured(text: str, language: str) -> str:
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name

    from tilegen.cli.looks.lexer import TilegenLexer

    lexer = TilegenLexer() if language == "tilegen" else get_lexer_by_name({"opencl": "c"}.get(language, language))
    lexer.stripnl, lexer.ensurenl = False, False  # the text as it is
    return str(highlight(text, lexer, TerminalFormatter()))


def write_json(value: object, path: str) -> None:
    """`value` as JSON, with where it comes from, into a file, or to standard output for "-"."""
    write(json.dumps(with_context(value), indent=2, default=_json_default) + "\n", path, JSON)


def _json_default(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def difference(before: str, after: str) -> Iterator[Text]:
    """Every line of `after`, those new to it green, and those gone from `before` red."""
    old, new = before.splitlines(), after.splitlines()
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (Text(f"  {line}") for line in new[k:m])
            continue
        yield from (Text(f"- {line}", style="red") for line in old[i:j])
        yield from (Text(f"+ {line}", style="green") for line in new[k:m])


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    left: Sequence[str],
    *,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    style: Callable[[str, str], str] = lambda head, cell: "",
    **looks: Any,
) -> Table:
    """A table for a terminal: numbers stand to the right, columns with the heads of `left` do not.

    Args:
        columns: more that rich is to know of some columns, by their heads.
        style: of a cell that is a plain text, by the head of its column.
        looks: of the whole; `PLAIN` leaves the lines out.
    """
    made = Table(header_style="bold", **looks)
    for head in heads:
        made.add_column(head, justify="left" if head in left else "right", **(columns or {}).get(head, {}))
    for row in rows:
        cells = zip(heads, row, strict=True)
        made.add_row(*(Text(cell, style(head, cell)) if isinstance(cell, str) else cell for head, cell in cells))
    return made


PLAIN: Mapping[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}


def check_style(head: str, cell: str) -> str:
    """The colour of the verdict of a check."""
    return "" if head != "check" else "green" if cell == "ok" else "red"


def comparison(out: Terminal, result: Comparison) -> None:
    """Prints the table of a comparison, its notes, and every error in full."""
    shown = result.table()
    out.print(shown.title, style="bold")
    out.print(table(shown.heads, shown.rows, ("schedule", "check", "proof", "limit"), style=check_style))
    if result.machine and any(row.predicted for row in result.rows):
        out.say(prediction_note(result.machine))
    out.say(*result.beside)
    if result.steady:
        out.print(_steady_note(result))
    if early := [row.name for row in result.rows if row.dependent]:
        out.say(f"with dependent launch, beside others without: {', '.join(early)}")
    out.say(*trust_lines(result.conditions, result.doubts, {row.name: row.doubts for row in result.rows}))
    if not result.on_gpu:
        if any(row.proof for row in result.rows):
            out.say(proof_note(result.device))
        for line in device_notes(result.device):
            out.print(line)
        if any(row.launches for row in result.rows):
            out.say(_compiler_note(result.arch))
    for row in result.rows:
        if row.error:
            out.say(Text(f"\n{row.name}: {row.error}", style="red"))


def _compiler_note(arch: str) -> str:
    """What the figures of the compiler are of, or what is needed to have them."""
    from tilegen.backends.compiler import nvrtc, toolkit

    if reason := nvrtc.unavailable_reason():
        return f"{reason}, so registers and spills are not known: {toolkit.way_to_a_compiler()}."
    return f"registers, shared memory and spills are those of the CUDA text, compiled for {arch}."


def _steady_note(result: Comparison) -> str:
    """How times with `--steady` were taken."""
    samples = max((row.time.samples for row in result.rows if row.time), default=0)
    return (
        f"steady: a sample is {result.steady:g} s of one of them without a pause, after as long untimed; "
        f"{samples} samples of each, in random order"
    )


def prediction_note(machine: Machine) -> str:
    """What a predicted time is."""
    return (
        f"predicted: by the roofline of one {machine.name} ({machine.basis}); no launch is faster, and explain says "
        f"more. --device cpu takes the times of a CPU."
    )


def performed_names(trees: Iterable[Tree]) -> tuple[str, ...]:
    """The instructions that warps run in the trees."""
    performed = (loop.performed for tree in trees for loop in loops(tree.body) if loop.performed)
    return tuple(dict.fromkeys(each.instruction.name for each in performed))


def meaning_notes(names: Iterable[str]) -> Iterator[str]:
    """What a run without a GPU shows of the instructions that warps run, and what it does not."""
    if listed := ", ".join(names):
        yield (
            f"{listed}: the CPU computed the meaning, element by element. That operands lie in the registers "
            f"of the lanes as declared is shown by the proof, not by this run."
        )


def proof_note(device: str, needs: Mapping[str, str] | None = None) -> str:
    """What the word `proved` is of, where the kernels ran on a `device` that is no GPU.

    Args:
        needs: what the CUDA program of a schedule needs, by the schedule; nothing if any GPU runs it.
    """
    groups: dict[str, list[str]] = {}
    for name, need in (needs or {}).items():
        groups.setdefault(need, []).append(name)
    named = "; ".join(f"{', '.join(names)}: {need}" for need, names in groups.items() if need)
    ran = "; the trees ran" if "interpreter" in device else ", and the OpenCL programs that ran"
    return f"proved: the CUDA programs{f' ({named})' if named else ''}{ran}."


def device_notes(device: str) -> Iterator[str]:
    """Why a kernel ran on `device` and not on a better one; nothing for a GPU."""
    from tilegen.backends.devices import opencl
    from tilegen.backends.system import gpus

    if not any(word in device for word in ("PoCL", "interpreter")):
        return
    lacking = gpus.missing()
    reason = lacking.reason if lacking else "the CPU was asked for"
    if lacking and lacking.way_out:
        yield f"for the GPU: {lacking.way_out}"
    if "interpreter" not in device:
        yield f"{reason}: the kernels ran as OpenCL on the CPU, not optimised; times on it say nothing of a GPU."
        return
    yield f"{reason}, and {opencl.unavailable_reason() or 'the interpreter was asked for'}:"
    yield "the kernels were checked by running their trees on numpy; the texts did not run, and nothing is timed."
