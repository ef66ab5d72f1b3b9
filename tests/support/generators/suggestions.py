"""A net for suggestions: for a random kernel one is written in time, accepted and proved, and computes the kernel."""

import re
import time

from tests.support.generators.case import Case, arrays_for, finish
from tests.support.generators.programs import random_kernel, random_sizes
from tilegen import api
from tilegen.backends.devices.devices import program
from tilegen.interpreter import reference
from tilegen.lab.checks.check import cases, check
from tilegen.lab.predict.machine import stock_machine
from tilegen.suggest import NAME, suggest

SECONDS = 30


def suggestion_case(pick, number=0, *, engine=None) -> Case:
    """A suggestion for a random kernel, by random sizes, on `engine` too. Raises Failure where it is wrong."""
    drawn = random_kernel(pick).text
    kernel = api.from_text(drawn, cache=False).kernel("random").ir
    sizes = random_sizes(pick, kernel, [8, 16])
    decide = {name: pick([1, 3, 32, 100, 256, 2048, 65536]) for name in kernel.sizes}
    drawn = with_other_words(pick, kernel, drawn)
    file = api.from_text(drawn, cache=False)
    kernel = file.kernel("random").ir
    arrays = arrays_for(kernel, sizes, number)
    case = Case(drawn, None, sizes, arrays, reference(kernel, sizes, arrays)["out"])
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


def suggested_family(pick, engine):
    """The family that is suggested for a random kernel, if there is one; members are proved, and right on `engine`."""
    kernel = api.from_text(random_kernel(pick).text, cache=False).kernel("random")
    sizes = random_sizes(pick, kernel.ir, [8, 16])
    chooser = kernel.suggest("h100").kernel("random").family("h100")
    for candidate in chooser.candidates if chooser else ():
        scheduled = candidate.scheduled()
        assert scheduled.prove().verdict == "proved", candidate.name
        check(program(scheduled.tree, engine), cases(kernel.ir, [sizes]))
    return chooser


def with_other_words(pick, kernel, text) -> str:
    """The kernel with other names of loops in half of the cases, which names of tiles have, too: `l`, `T`, `o`."""
    words = {r.index for equation in kernel.equations for r in (*equation.loops, *equation.reduced)}
    free = [word for word in "abcefhiklmnoprtuvwxyzRTW" if word in words or word not in re.findall(r"\w+", text)]
    others = {}
    for word in sorted(words) if pick([True, False]) else ():
        others[word] = pick([each for each in free if each not in others.values()])
    return re.sub(r"\w+", lambda found: others.get(found[0], found[0]), text)
