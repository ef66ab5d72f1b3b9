"""The command help: the steps in groups; a step, an instruction, a command, a word, a section; and a search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from inspect import getdoc
from shlex import quote
from textwrap import fill

import click

from tilegen.backends.compiler.instructions import device_function
from tilegen.cli import load_commands
from tilegen.cli.commands.shared import tilegen
from tilegen.cli.looks.pages import readable, sections, words
from tilegen.cli.looks.printing import line_width
from tilegen.cli.shell.completion import words_of
from tilegen.errors import UsageError, did_you_mean
from tilegen.frontend.stock import standard_steps, stock_instructions
from tilegen.ir.hardware.instructions import PIECES, ROW_BYTES, Fragment, Instruction, Layout, SharedMatrix
from tilegen.primitives import GROUPS, registry, words_in
from tilegen.primitives.calling.signature import documentation_of_composite, documentation_of_primitive
from tilegen.primitives.calling.words import called_elsewhere

_WIDTH = 120

# What the steps of each group change.
_TITLES = {
    "loops": "cut, nest, join and name loops",
    "execution": "what runs an iteration, and how it is written",
    "memory": "where values are kept",
    "pipelining": "copies that start before their use",
    "arithmetic": "what else may be computed than the kernel says",
}


@tilegen.command("help", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, metavar="[WORD]", shell_complete=words_of(lambda: _known_words()))
@click.option("-s", "--search", metavar="TEXT", help="Say where TEXT stands in all that can be read.")
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...], search: str | None) -> int:
    """List the steps of a schedule; or explain one WORD: a step, with a tree before and after it, an instruction, a
    command, an option, a word of the language or of a message, or a section of the language reference (tilegen help
    language)."""
    commands = load_commands().commands
    usages = {name: each.get_help(click.Context(each, context.parent, name)) for name, each in commands.items()}
    if search:
        lines = list(_places(search, usages)) or [f"'{search}' is nowhere"]
    else:
        lines = list(_explain(" ".join(words), usages) if words else _overview())
    for line in lines:
        click.echo(line)
    return 0


def _known_words() -> list[str]:
    """What can be explained."""
    commands = load_commands().commands
    return [*registry(), *standard_steps(), *stock_instructions(), *commands, "language", *sections(), *words()]


def _explain(word: str, usages: Mapping[str, str]) -> list[str]:
    """All that is known of a word; of one that has no explanation of its own, where it stands."""
    if found := [*_meanings(word, usages)] or [*_meanings(word.lower(), usages)]:
        return found
    notes = called_elsewhere(word, registry())
    if not notes and (found := list(_places(word, usages))):
        return found
    notes = (
        notes or did_you_mean(word, _known_words()) or ("tilegen help lists the steps, tilegen --help the commands",)
    )
    raise UsageError(f"there is no step and no command '{word}'", notes=notes)


def _meanings(word: str, usages: Mapping[str, str]) -> Iterator[str]:
    """The lines on each thing that is called so."""
    if word == "language":
        yield from _contents()
    if word in registry():
        yield documentation_of_primitive(word)
    if word in standard_steps():
        yield documentation_of_composite(standard_steps()[word])
    if word in stock_instructions():
        yield from _instruction(stock_instructions()[word])
    if word in usages:
        yield usages[word]
    if word in sections():
        yield from readable(sections()[word])
    if word in words():
        yield from (words()[word][0], *readable(words()[word][1]))
        yield f"\ntilegen help -s {quote(word)} says where else it stands."


def _contents() -> Iterator[str]:
    yield "The language reference:"
    for name, text in sections().items():
        yield f"  tilegen help {name:<14}{len(text.split()):>6} words"
    yield "  tilegen learn 1 --read    the first of the chapters of the course"
    yield "tilegen help WORD explains a word of the language or of a message, tilegen help -s TEXT searches all that."


def _places(text: str, usages: Mapping[str, str]) -> Iterator[str]:
    """Each command that prints a page with the text in it, and the first lines there that have it."""
    wanted = re.compile(rf"(?<!\w){re.escape(text)}", re.IGNORECASE)
    for command, page in _pages(usages):
        if found := [line.strip() for line in page.splitlines() if wanted.search(line)]:
            yield command
            yield from (f"    {line[: _WIDTH - 4]}" for line in found[:3])
            yield from ["    ..."] * (len(found) > 3)


def _pages(usages: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(the command that prints it, its text) of all that can be read."""
    yield from ((f"tilegen help {word}", documentation_of_primitive(word)) for word in registry())
    yield from ((f"tilegen help {word}", documentation_of_composite(each)) for word, each in standard_steps().items())
    yield from ((f"tilegen help {name}", text) for name, text in usages.items())
    yield from ((f"tilegen help {name}", "\n".join(readable(text))) for name, text in sections().items())
    instructions = (f"{name}: {each.doc.splitlines()[0]}" for name, each in stock_instructions().items())
    yield "tilegen help NAME, of an instruction", "\n".join(instructions)
    with suppress(ImportError):  # a plugin, which may not be there
        from tilegen.course import chapters

        yield from ((f"tilegen learn {each.number} --read", "\n".join(readable(each.text))) for each in chapters())


def _overview() -> Iterator[str]:
    """Each step on a line, below its group."""
    for group in GROUPS:
        yield f"{group}: {_TITLES[group]}"
        yield from (_summary(word, getdoc(registry()[word]) or "") for word in words_in(group))
        yield ""
    yield "composite steps, written in the language itself (tilegen cat std)"
    yield from (_summary(define.word, define.doc) for define in standard_steps().values())
    yield ""
    yield f"instructions, declared in the language and used by tensorize: {len(stock_instructions())}"
    yield fill(", ".join(stock_instructions().declarations()), 120, break_long_words=False)
    yield ""
    yield "A loop is called by its index, i, or P.i where several equations have an index i; after rfactor also P.i2."
    yield "tilegen help NAME explains one of them, or a word; tilegen help language lists the reference's sections,"
    yield "tilegen help -s TEXT searches all of it."


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
    """The element in each place: a line for a lane, those of the first eight and the last; or the form in memory."""
    if isinstance(operand, SharedMatrix):
        yield f"{operand.operand.name}: {operand.operand.dtype}{list(operand.shape)}, in shared by descriptor"
        pieces = ", ".join(map(str, PIECES))
        yield f"  rows along {operand.along} of {pieces} bytes, eight one after the other, swizzled; or rows of two"
        yield f"  units, not swizzled, each {ROW_BYTES} bytes after the one before, in blocks of eight"
        return
    elements: dict[tuple[int, int], tuple[int, ...]] = {operand.place(point): point for point in operand.points()}
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
