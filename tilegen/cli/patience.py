"""Ctrl-C is heard at once, also while a kernel or a compiler runs that knows nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

INTERRUPTED = 130  # what a command ends with after Ctrl-C


def promptly(work: Callable[[], None]) -> None:
    """Does `work`, in a thread of its own, which is left behind on Ctrl-C. Raises what that raises."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            work()
        except BaseException as error:  # whatever it is, it is raised where someone looks for it
            raised.append(error)

    thread = Thread(target=body, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(60)  # a wait without an end would not hear a signal on all systems
    if raised:
        raise raised[0]
