"""Ends from outside: Ctrl-C, at once even while a kernel or a compiler runs, readers who close a pipe, and crashes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread
from typing import TypeVar

from tilegen.cli.shell.streams import discard
from tilegen.errors import visible

T = TypeVar("T")

INTERRUPTED = 130  # exit code after Ctrl-C


def run_interruptibly(work: Callable[[], T]) -> T:
    """Runs `work` in a thread of its own, which Ctrl-C abandons. Returns what it returns, and raises what it raises."""
    raised: list[BaseException] = []
    returned: list[T] = []

    def body() -> None:
        try:
            returned.append(work())
        except BaseException as error:  # raised again in the main thread
            raised.append(error)

    thread = Thread(target=body, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(60)  # on some systems a join without a timeout blocks signals
    if raised:
        raise raised[0]
    return returned[0]


def run_until_interrupted(work: Callable[[], object]) -> bool:
    """`run_interruptibly` of work whose results so far are of use; True if Ctrl-C ended it."""
    try:
        run_interruptibly(work)
    except KeyboardInterrupt:
        return True
    return False


def exit_code(codes: Iterable[int], what: str, *, stopped: bool) -> int:
    """The exit code of a command with these results; where Ctrl-C has stopped it, says that the others are missing."""
    if stopped:
        print(f"interrupted: these are the {what} so far", file=sys.stderr)
        return INTERRUPTED
    return max(codes, default=0)


# It reads what is going on, and says the last of it where no word comes that all of it is done.
_WATCHER = """
while read -r line; do what=$line; done
[ "$what" = done ] || printf 'error: a crash or a signal ended this during: %s\\n%s\\n' "$what" "$0" >&2
"""
_CRASH_NOTE = (
    "  note: only drivers, compilers and libraries can crash; tilegen doctor names them, and --device interpreter "
    "does without the CPU's driver"
)


@contextmanager
def crashes_are_reported() -> Iterator[Callable[[str], None]]:
    """Gives what takes the name of each part of the work: if the process dies in one, standard error has that name."""
    words = ["/bin/sh", "-c", _WATCHER, _CRASH_NOTE]
    try:
        watcher = Popen(words, stdin=PIPE, stdout=DEVNULL, start_new_session=True, bufsize=0)
    except OSError:  # there is no shell, or there may be no more processes
        yield lambda what: None
        return
    with watcher:
        pipe = watcher.stdin
        assert pipe

        def report(what: str) -> None:
            with suppress(OSError):
                pipe.write(f"{visible(what)}\n".encode())

        report("the start")
        try:
            yield report
        finally:
            report("done")


@contextmanager
def closed_pipes_end_well() -> Iterator[None]:
    """Raises SystemExit with 0 where the reader of a pipe has closed it, after which nothing is written any more."""
    try:
        yield
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):
            discard(stream)
        raise SystemExit(0) from None
