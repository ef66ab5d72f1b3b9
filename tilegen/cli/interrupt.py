"""Ctrl-C ends a command at once, even while a kernel or a compiler runs, which do not react to it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

INTERRUPTED = 130  # exit code after Ctrl-C


def run_interruptibly(work: Callable[[], None]) -> None:
    """Runs `work` in a thread of its own, which Ctrl-C abandons. Raises what `work` raises."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            work()
        except BaseException as error:  # raised again in the main thread
            raised.append(error)

    thread = Thread(target=body, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(60)  # on some systems a join without a timeout blocks signals
    if raised:
        raise raised[0]
