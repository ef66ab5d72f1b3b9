"""The command help: the steps of a schedule in groups, and one step with its example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import getdoc

import click

from tilegen.backends.instructions import device_function
from tilegen.cli.commands import tilegen
from tilegen.cli.completion import words_of
from tilegen.cli.printing import line_width
from tilegen.errors import UsageError
from tilegen.frontend.stock import standard_steps, stock_instructions
from tilegen.ir.instructions import PIECES, ROW_BYTES, Fragment, Instruction, Layout, SharedMatrix
from tilegen.primitives import GROUPS, registry, words_in
from tilegen.primitives._signature import documentation_of_composite, documentation_of_primitive
from tilegen.primitives._words import suggest_step

_WIDTH = 120

# What the steps of each group change.
_TITLES = {
    "loops": "cut, nest, join and name loops",
    "execution": "what runs an iteration, and how it is written",
    "memory": "where values are kept",
    "pipelining": "copies ahead of their use",
    "arithmetic": "what else may be computed than the kernel says",
}


@tilegen.command("help")
@click.argument("step", required=False, shell_complete=words_of(lambda: _known_words()))
@click.pass_context
def help_command(context: click.Context, step: str | None) -> int:
    """List the steps of a schedule; or explain one STEP, with a tree before and after it."""
    if step is None:
        lines = _overview()
    elif step in registry():
        lines = iter([documentation_of_primitive(step)])
    elif step in standard_steps():
        lines = iter([documentation_of_composite(standard_steps()[step])])
    elif step in stock_instructions():
        lines = _instruction(stock_instructions()[step])
    elif step in tilegen.commands:
        lines = iter([tilegen.commands[step].get_help(click.Context(tilegen.commands[step], context.parent, step))])
    else:
        notes = suggest_step(step, _known_words()) or ("tilegen help lists the steps, tilegen --help the commands",)
        raise UsageError(f"there is no step and no command '{step}'", notes=notes)
    for line in lines:
        click.echo(line)
    return 0


def _known_words() -> list[str]:
    """What can be explained."""
    return [*registry(), *standard_steps(), *stock_instructions(), *tilegen.commands]


def _overview() -> Iterator[str]:
    """Each step on a line, below its group."""
    for group in GROUPS:
        yield f"{group}: {_TITLES[group]}"
        yield from (_summary(word, getdoc(registry()[word]) or "") for word in words_in(group))
        yield ""
    yield "composite steps, written in the language itself (schedules/std.tg)"
    yield from (_summary(define.word, define.doc) for define in standard_steps().values())
    yield ""
    yield f"instructions, declared in the language and used by tensorize: {len(stock_instructions())}, such as"
    yield ", ".join(list(stock_instructions())[:4])
    yield ""
    yield "A loop is called by its index, i, or P.i where several equations have an index i; behind rfactor also P.i2."
    yield "tilegen help NAME explains one of them."


def _summary(word: str, doc: str) -> str:
    """The word of a step and the first sentence about it, or as many clauses of that as fit on the line."""
    first_paragraph = " ".join(doc.split("\n\n")[0].split())
    sentence = first_paragraph.split(". ")[0].removesuffix(".")
    width = line_width(_WIDTH)
    for cut in ("[:;] ", r" \(", ", "):
        while len(sentence) > width - 19 and (clause := re.match(rf"(.*){cut}", sentence)):
            sentence = clause[1]
    return f"  {word:<17}{sentence}"


def _instruction(instruction: Instruction) -> Iterator[str]:
    """Its declaration, the element in each register of the first lanes, and its function."""
    yield instruction.doc
    yield ""
    yield instruction.text
    for operand in instruction.operands:
        yield ""
        yield from _layout_lines(operand)
    yield ""
    yield device_function(instruction).rstrip()


def _layout_lines(operand: Layout) -> Iterator[str]:
    """The element in each slot: a line for a lane, those of the first eight and the last; or the form in memory."""
    if isinstance(operand, SharedMatrix):
        yield f"{operand.operand.name}: {operand.operand.dtype}{list(operand.shape)}, in shared by descriptor"
        pieces = ", ".join(map(str, PIECES))
        yield f"  rows along {operand.along} of {pieces} bytes, eight one behind the other, swizzled; or rows of two"
        yield f"  units, not swizzled, each {ROW_BYTES} bytes behind the one before, in blocks of eight"
        return
    elements: dict[tuple[int, int], tuple[int, ...]] = {operand.slot(point): point for point in operand.points()}
    form = f" as {operand.format}" if operand.format else ""
    if isinstance(operand, Fragment):
        lanes, count, where = operand.lanes, operand.elements_of_a_lane, "by lane and register"
    else:
        lanes, count = operand.rows, operand.elements_of_a_row
        where = f"in shared, by element of the {ROW_BYTES} bytes whose address a lane gives"
    yield f"{operand.operand.name}: {operand.operand.dtype}{list(operand.shape)}{form}, {where}"
    yield "  lane" + "".join(f"{within:>7}" for within in range(count))
    for lane in (*range(min(8, lanes)), *range(max(8, lanes - 1), lanes)):
        cells = (",".join(map(str, elements[lane, within])) for within in range(count))
        yield f"  {lane:>4}" + "".join(f"{cell:>7}" for cell in cells)
        if lane == 7 and lanes > 8:
            yield "   ..."
