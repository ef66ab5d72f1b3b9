"""A net for suggestions: for a random kernel one is written in time, accepted and proved, and computes the kernel."""

import time

from tests.support.generators.case import Case, arrays_for, finish
from tests.support.generators.programs import random_kernel, random_sizes
from tilegen import api
from tilegen.interpreter import reference
from tilegen.lab.predict.machine import stock_machine
from tilegen.suggest import NAME, suggest

SECONDS = 30


def suggestion_case(pick, number=0, *, engine=None) -> Case:
    """A suggestion for a random kernel, by random sizes, on `engine` too. Raises Failure where it is wrong."""
    drawn = random_kernel(pick).text
    file = api.from_text(drawn, cache=False)
    kernel = file.kernel("random").ir
    sizes = random_sizes(pick, kernel, [8, 16])
    arrays = arrays_for(kernel, sizes, number)
    case = Case(drawn, None, sizes, arrays, reference(kernel, sizes, arrays)["out"])
    decide = {name: pick([1, 3, 32, 100, 256, 2048, 65536]) for name in kernel.sizes}
    begun = time.process_time()
    text = suggest(kernel, decide, stock_machine("h100"))
    case.steps = text.splitlines()
    if time.process_time() - begun > SECONDS:
        case.fail("the suggestion took too long")
    if "No rule" in text:
        case.fail("no rule takes a part of this kernel")
    scheduled = api.from_text(f"{file.kernel_alone('random')}\n{text}", cache=False).kernel("random").schedule(NAME)
    case.scheduled = scheduled.core
    finish(case, engine)
    case.counts["cases"] += 1
    return case
