"""The example in the docstring of every primitive is executed: what it shows is what happens."""

import re
from textwrap import dedent

import pytest

from tilegen.errors import Source
from tilegen.frontend import build, parse
from tilegen.frontend.stock import stock_instructions
from tilegen.ir.printing.show import show
from tilegen.judge import check_equations
from tilegen.primitives import registry
from tilegen.schedule import apply


def sections(word):
    """The parts of a docstring: 'kernel', 'before', 'steps' and 'after'."""
    text = dedent("    " + registry()[word].__doc__)
    parts = re.split(r"^(kernel|before|steps|after):\n", text, flags=re.M)
    named = zip(parts[1::2], parts[2::2], strict=True)
    return {name: dedent(re.match(r"(?:    .*\n|\n)*", body)[0]) for name, body in named}


def show_lines(tree):
    return "\n".join(line for line in show(tree).splitlines() if line)


@pytest.mark.parametrize("word", sorted(registry()))
def test_docstring_shows_what_the_step_does(word):
    part = sections(word)
    kernel_name = re.search(r"kernel (\w+)", part["kernel"])[1]
    steps = "".join(f"    {line}\n" for line in part["steps"].strip().splitlines())
    module = parse(Source(f"{word}.tg", f"{part['kernel']}\nschedule example for {kernel_name}():\n{steps}"))
    kernel = check_equations(build(module.kernels[kernel_name]))
    stages = apply(kernel, module.schedules[0], instructions=stock_instructions).stages
    assert part["before"].strip() in show_lines(stages[-2].tree)
    assert part["after"].strip() in show_lines(stages[-1].tree)
    assert stages[-1].step.word == word
