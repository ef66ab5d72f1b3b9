"""The command prove: the obligations of a lowered kernel, with their cases, times and verdicts."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from rich.table import Table
from rich.text import Text

from tilegen import api
from tilegen.backends.calls.text_versions import TextVersions
from tilegen.backends.compiler.assembled import assemble, unassembled_note
from tilegen.backends.system.record import Record
from tilegen.cli.commands.shared import FIX, shared_arguments, size_option, tilegen
from tilegen.cli.looks import printing
from tilegen.cli.shell.arguments import parse_point
from tilegen.cli.shell.records import origin_of
from tilegen.cli.shell.request import Request, join
from tilegen.lowering import Launch
from tilegen.proof import Obligation, Proof

# obligation -> what it states, for every size that the kernel admits
MEANING = {
    "look-back": "blocks that hand on a value add to it once, and share nothing else",
    "derived": "reductions in parts or whole tiles and values computed at loops are those of the kernel as written",
    "text": "tests, loops, barriers and accesses of a thread are an ordinary program again",
    "coverage": "each instance of each statement runs exactly once",
    "order": "no dependence is reversed",
    "bounds": "every global, shared and register access is inside its buffer",
    "races": "threads that meet in an element have a barrier between them, blocks never meet",
    "barriers": "each barrier is needed, and guards what its comment says",
    "values": "every operand is the element that the kernel reads, and is there",
    "scatters": "of a loop that data pick from, the one iteration runs that has a term",
    "ragged": "outside of the ends that data give, the iterations of a loop have no terms",
    "waits": "every asynchronous copy has ended when it is waited for",
    "stores": "bulk stores read what is complete, once, and before it is overwritten or gone; no wait is in vain",
    "arrivals": "bulk copies have arrived where they are read, each wait gets its arrival, none is in vain",
    "products": "products that run on have ended where registers are used, or what they read may be overwritten",
    "fences": "what threads write is fenced where it is read by descriptor, what they load where it is filled again",
    "vectors": "every vector access is whole and aligned",
    "integers": "no index leaves its type",
    "limits": "threads and shared memory are within what a GPU has",
}


@tilegen.command("prove")
@shared_arguments
@size_option("K=64 ...", "Sizes to fix as constants.")
@FIX
def prove_command(request: Request, fix: tuple[str, ...]) -> int:
    """Prove that the program that a schedule's text is printed from is the kernel, for all sizes."""
    found: dict[str, dict[str, Proof]] = {}
    times: dict[str, float] = {}
    with printing.progress() as progress:
        progress("apply", 0, 1)
        wanted = request.schedules(join(request.sizes, parse_point(fix, "--fix")))
        for number, (name, each) in enumerate(wanted.items()):
            progress(f"prove {name}", number, len(wanted))
            found[name], times[name] = _prove_versions(each)
    if request.json_file:
        reports = [{**origin_of(wanted[name]), **_report(name, each, times[name])} for name, each in found.items()]
        printing.write_json(reports, request.json_file)
    if request.json_file != "-":
        _print(found, times)
    return 0 if all(proof.verdict == "proved" for proofs in found.values() for proof in proofs.values()) else 3


def _prove_versions(each: api.Scheduled) -> tuple[dict[str, Proof], float]:
    """The proofs of all versions of a program by their names, and the milliseconds that they took."""
    texts = TextVersions(each.tree, "cuda", Record())
    versions = texts.main()
    printing.print_note(unassembled_note(assemble(texts.launches(versions[0]))))
    start = perf_counter()
    proofs = [texts.proof(version) for version in versions]
    milliseconds = (perf_counter() - start) * 1e3
    labels = [
        "whole tiles" if v.whole else _label(texts.launches(v), sum(not other.whole for other in versions))
        for v in versions
    ]
    return dict(zip(labels, proofs, strict=True)), milliseconds


def _label(version: tuple[Launch, ...], count: int) -> str:
    """The name of one of `count` versions of a program."""
    if count == 1:
        return ""
    needs = [launch.name for launch in version if launch.requires or launch.alignment]
    return f"vectors in {', '.join(needs)}" if needs else "no aligned vectors"


def _print(found: dict[str, dict[str, Proof]], times: dict[str, float]) -> None:
    out = printing.console()
    if len(found) > 1:
        out.print(_overview(found, times))
    for name, proofs in found.items():
        for label, proof in proofs.items():
            if len(found) == 1 or proof.verdict != "proved":
                out.print(_obligations(f"{name}, {label}" if label else name, proof))
                out.say(*(Text(_reason(each)) for each in proof.obligations), end="")
    if len(found) == 1:
        ((name, proofs),) = found.items()
        out.print(f"{_verdict(proofs)}, in {times[name]:.0f} ms")
    out.print("This is of the programs that the texts are printed from: tilegen help trust says what is trusted.")


def _overview(found: dict[str, dict[str, Proof]], times: dict[str, float]) -> Table:
    heads, rows = ("schedule", "proof", "versions", "cases", "ms"), []
    for name, proofs in found.items():
        cases = sum(o.cases for proof in proofs.values() for o in proof.obligations)
        rows.append((name, _verdict(proofs), str(len(proofs)), str(cases), f"{times[name]:.0f}"))
    return printing.table(heads, rows, heads[:2])


def _verdict(proofs: dict[str, Proof]) -> str:
    return next((p.verdict for p in proofs.values() if p.verdict != "proved"), "proved")


def _obligations(title: str, proof: Proof) -> Table:
    heads, rows = ("obligation", "says, of all sizes", "cases", "ms", "verdict"), []
    for each in proof.obligations:
        word, style = ("refused", "red") if each.violation else ("unproved", "yellow")
        word, style = ("proved", "green") if each.is_proved else (word, style)
        rows.append((each.name, MEANING[each.name], str(each.cases), f"{each.milliseconds:.1f}", Text(word, style)))
    left = (*heads[:2], "verdict")
    return printing.table(heads, rows, left, title=title, title_justify="left")


def _reason(each: Obligation) -> str:
    if each.unproved is not None:
        return f"unproved: {each.name}: {each.unproved}\n"
    if each.violation is None:
        return ""
    witness = f"  witness: {each.violation.witness}\n" if each.violation.witness else ""
    return f"{each.name}: {each.violation.sentence}\n{witness}"


def _report(name: str, proofs: dict[str, Proof], milliseconds: float) -> dict[str, Any]:
    return {
        "schedule": name,
        "verdict": _verdict(proofs),
        "milliseconds": milliseconds,
        "versions": [
            {
                "version": label,
                "verdict": proof.verdict,
                "obligations": [_obligation_json(o) for o in proof.obligations],
            }
            for label, proof in proofs.items()
        ],
    }


def _obligation_json(each: Obligation) -> dict[str, Any]:
    violation = each.violation
    return {
        "name": each.name,
        "cases": each.cases,
        "milliseconds": each.milliseconds,
        "proved": each.is_proved,
        "unproved": each.unproved,
        "violation": violation and violation.sentence,
        "witness": violation and violation.witness,
    }
