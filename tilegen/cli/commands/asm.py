"""The command asm: the innermost loop of a kernel as the machine sees it."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import click
from rich.text import Text

from tilegen.cli.commands.shared import FIX, shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import parse_point
from tilegen.cli.shell.interrupt import run_interruptibly
from tilegen.cli.shell.records import origin_of
from tilegen.cli.shell.request import Request, join

if TYPE_CHECKING:
    from tilegen.backends.compiler.sass import Hot, Listing

_LONGEST = 120  # lines of a loop that are shown without --all


@tilegen.command("asm")
@shared_arguments
@size_option("K=64 ...", "Sizes to fix as constants.")
@FIX
@click.option("--ptx", "language", flag_value="ptx", help="PTX, the compiler's own assembly.")
@click.option("--sass", "language", flag_value="sass", default="sass", help="Machine code; needs nvdisasm.")
@click.option("--arch", default="sm_90", show_default=True, help="The architecture.")
@click.option("--all", "whole", is_flag=True, help="All instructions of the kernel, not only the innermost loop.")
def asm_command(request: Request, fix: tuple[str, ...], language: str, arch: str, whole: bool) -> int:
    """Show PTX or SASS of the innermost loop with its mix of instructions, without a GPU."""
    from tilegen.backends.compiler import sass

    scheduled = request.one("asm", join(request.sizes, parse_point(fix, "--fix")))
    text = scheduled.source("cuda", arch=arch)
    listings = run_interruptibly(lambda: sass.ptx(text, arch) if language == "ptx" else sass.sass(text, arch))
    found = [(listing, sass.hot(listing)) for listing in listings.values()]
    if request.json_file:
        origin = origin_of(scheduled)
        printing.write_json([{**origin, **_to_json(listing, hot, arch)} for listing, hot in found], request.json_file)
    if request.json_file != "-":
        out = printing.console()
        for listing, hot in found:
            _show(out, listing, hot, arch, whole)
    return 0


def _to_json(listing: Listing, hot: Hot, arch: str) -> dict[str, object]:
    code = listing.instructions[hot.first : hot.first + hot.count]
    return {
        "kernel": listing.kernel,
        "language": listing.language,
        "arch": arch,
        "instructions": len(listing.instructions),
        "part": hot.what,
        "count": hot.count,
        "useful": hot.useful,
        "mix": dict(hot.mix),
        "opcodes": dict(hot.opcodes),
        "text": [i.text for i in code],
    }


_WORDS = {
    "loop": "the innermost loop",
    "block": "the straight part of the innermost loop",
    "kernel": "no loop is left; the whole kernel",
}


def _show(out: printing.Terminal, listing: Listing, hot: Hot, arch: str, whole: bool) -> None:
    total = len(listing.instructions)
    out.print(f"{listing.kernel}: {total} instructions of {listing.language.upper()} for {arch}", style="bold")
    first, count = (0, total) if whole else (hot.first, hot.count)
    code = listing.instructions[first : first + count]
    # On a terminal a long loop would push its own summary out of sight.
    cut = not whole and sys.stdout.isatty() and count > _LONGEST
    at = {place: name for name, place in listing.labels.items()}
    for place, instruction in enumerate(code[:_LONGEST] if cut else code, first):
        if place in at:
            out.print(Text(f"{at[place]}:", style="cyan"))
        out.say(Text(f"    {instruction.text}", style=_style(instruction.kind)))
    if cut:
        out.print(f"    ... {count - _LONGEST} more; --all shows every one of them")
    share = f"{hot.useful} of {hot.count} instructions compute ({_share_in_lowest_terms(hot)})"
    out.print(f"{_WORDS[hot.what]}: {share if hot.useful else f'{hot.count} instructions'}")
    out.say(mix_line(hot))
    out.say(", ".join(f"{n} x {opcode}" for opcode, n in hot.opcodes))
    loads = sum(hot.mix.get(kind, 0) for kind in ("matrix load", "shared load", "global load"))
    computing = {"tensor": "instructions of tensor cores", "multiply-add": "multiply-adds"}
    if loads and (kind := next((kind for kind in computing if hot.mix.get(kind)), None)):
        out.print(f"{loads} loads for {hot.mix[kind]} {computing[kind]}")


def _style(kind: str) -> str:
    """The colour of an instruction: what computes, and what it waits for."""
    if kind in ("tensor", "multiply-add"):
        return "green"
    return "yellow" if "load" in kind else ""


def mix_line(hot: Hot) -> str:
    """How many instructions of each kind, and how the machine calls those that compute, load or copy."""
    parts = []
    for kind, count in hot.mix.items():
        words = f" ({', '.join(hot.words[kind])})" if kind in hot.words else ""
        parts.append(f"{count} {kind}{words}")
    return ", ".join(parts)


def _share_in_lowest_terms(hot: Hot) -> str:
    """The share of instructions that compute, without jumps, as a reduced fraction: 8 of 17."""
    share = Fraction(hot.useful, max(1, hot.count - hot.mix.get("control", 0)))
    few = share.denominator <= 64
    return f"{share.numerator} of {share.denominator} beside jumps" if few else f"{float(share):.0%}"
