"""What a child of a tuning run does whose texts are poisoned where a parameter says so.

The value of U says how the text of a candidate is changed, before the device's compiler sees it: everything else of the
child is as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from time import sleep, time_ns

from tilegen.backends.calls import text_versions
from tilegen.tune import child

WRONG, HANGS, FAULTS, BOMB, CRASHES = 101, 102, 103, 104, 105

_HANG = "for (volatile int q = 0; q >= 0; q = 0) ;"
_FAULT = {"opencl": "((__global volatile int *)64)[0] = 1;", "cuda": "((volatile int *)64)[0] = 1;"}
_LEVELS = 12

emit = text_versions.emit
poison = 0


def emit_poisoned(launches, language, *more):
    text = emit(launches, language, *more)
    (store,) = re.findall(r"^.*\bB\[.*\] = .*;$", text, re.MULTILINE)
    match poison:
        case 101:
            return text.replace(store, store.replace(" = ", " = 1 + "))
        case 102:
            return text.replace(store, f"{{ {_HANG} {store} }}")
        case 103:
            return text.replace(store, f"{{ {_FAULT[language]} {store} }}")
        case 104:
            levels = [f"#define X{n} {' + '.join(10 * [f'X{n - 1}'])}" for n in range(1, _LEVELS)]
            bomb = "\n".join(["#define X0 1", *levels, ""])
            return bomb + text.replace(store, store.replace(" = ", f" = X{_LEVELS - 1} + "))
        case _:
            return text


def answer(what, task, *arguments):
    global poison
    text_versions.emit = emit_poisoned
    poison = dict(arguments[0].parameters).get("U", 0) if what in ("prepare", "measure") else 0
    if poison == CRASHES:
        os.abort()
    return child.answer(what, task, *arguments)


held = []


def serve(what: str) -> object:
    """What a child does with requests that are words."""
    match what:
        case "sleep":
            (Path(os.environ["ASLEEP"]) / f"{time_ns()}.asleep").touch()
            sleep(3600)
        case "take":
            held.append(bytearray(os.urandom(1)) * 10**9)
            sleep(3600)
        case "end":
            os.write(2, b"I have had enough\n")
            os._exit(3)
        case "abort":
            os.abort()
        case "pid":
            return os.getpid()
    return what
