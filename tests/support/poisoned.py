"""A child of a tuning run whose texts are poisoned where a parameter says so: `python poisoned.py PIPE PARENT`.

The value of U says how the text of a candidate is changed, before the device's compiler sees it: everything else of the
child is as it is.
"""

from __future__ import annotations

import os
import re

from tilegen.backends import text_versions
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


def with_poison(work):
    def wrapped(task, candidate, *more):
        global poison
        poison = dict(candidate.parameters).get("U", 0)
        if poison == CRASHES:
            os.abort()
        return work(task, candidate, *more)

    return wrapped


if __name__ == "__main__":
    text_versions.emit = emit_poisoned
    child.prepare, child.measure = with_poison(child.prepare), with_poison(child.measure)
    child.main()
