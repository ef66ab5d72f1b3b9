"""The proof of the lowered launches against the kernel as written, for all sizes that it admits.

The text is printed from them. That the printer writes what they say is no part of it: tests read texts back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tilegen.errors import ProofError
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import Condition, Kernel
from tilegen.ir.printing.shown import ShownAsTable, Table
from tilegen.judge import check_derived
from tilegen.lowering.launch.launch import Launch
from tilegen.poly import Facts
from tilegen.proof.lift import Lifted, lift
from tilegen.proof.limits import check_integers, check_limits, check_pitches
from tilegen.proof.look_back import Handed, check_handed, without_look_back
from tilegen.proof.obligations import Obligation, ask, discharge
from tilegen.proof.reading.bulk import check_boxes
from tilegen.proof.reading.coordinates import inline_names
from tilegen.proof.reading.dealing import check_alike, part_tiles, walk_twice
from tilegen.proof.reading.inlining import without_calls
from tilegen.proof.reading.instructions import check_rows
from tilegen.proof.reading.lane_loops import check_aligned
from tilegen.proof.waits_of_blocks import parts_of

__all__ = ["Obligation", "Proof", "demand", "prove"]


@dataclass(frozen=True, repr=False)
class Proof(ShownAsTable):
    """What was asked of one version of a lowered program.

    Attributes:
        obligations: the questions, each with its answer, how many cases it had, and the milliseconds that it took.
    """

    obligations: tuple[Obligation, ...]

    @property
    def violation(self) -> Obligation | None:
        """The first obligation that does not hold."""
        return next((o for o in self.obligations if o.violation is not None), None)

    @property
    def verdict(self) -> str:
        """`proved`, `refused: what`, or `unproved: what`."""
        if self.violation is not None:
            return f"refused: {self.violation.name}"
        open_ = [o.name for o in self.obligations if o.unproved is not None]
        return f"unproved: {', '.join(open_)}" if open_ else "proved"

    @property
    def milliseconds(self) -> float:
        """The time that it took."""
        return sum(o.milliseconds for o in self.obligations)

    def table(self) -> Table:
        """A row for each question."""
        rows = [(o.name, str(o.cases), f"{o.milliseconds:.1f}", _verdict_of(o)) for o in self.obligations]
        return Table(self.verdict, ("obligation", "cases", "ms", "verdict"), rows)


def _verdict_of(obligation: Obligation) -> str:
    if obligation.violation is not None:
        return obligation.violation.sentence
    return "proved" if obligation.unproved is None else f"unproved: {obligation.unproved}"


def prove(kernel: Kernel, launches: tuple[Launch, ...], reassociated: Iterable[str] = ()) -> Proof:
    """Asks everything of `launches`, one version of a lowered program, that makes it the kernel.

    They are read as the text has them, with the tests, loops, barriers and accesses of one thread. Of a version that
    no sizes are for, nothing more is asked.

    Args:
        kernel: the one that the launches were made from; where steps derived it, it is proven to be the kernel as
            written.
        reassociated: the reductions whose terms a step has allowed to be combined in any order.
    """
    requires = tuple(dict.fromkeys(c for launch in launches for c in launch.requires))
    known = _with_requirements(kernel, requires)
    found: list[Lifted] = []  # with a block for each tile; and where tiles are dealt, with a block that walks
    first = [discharge("derived", lambda: check_derived(kernel))] if kernel.origin else []
    inlined: list[Launch] = []
    handed: list[Handed] = []

    def read() -> None:
        plain = [replace(each, body=without_calls(body)) for each in launches for body in parts_of(each)]
        read_back = [without_look_back(each, tuple(reassociated)) for each in plain]
        handed.extend(look_back for _, look_back in read_back if look_back)
        plain = [each for each, _ in read_back]
        inlined.extend(map(part_tiles, plain))
        found.append(lift(known, tuple(inlined)))
        if any(each.dealt for each in plain):
            found.append(lift(known, tuple(map(walk_twice, plain))))
            check_alike(found[-1].rings, plain)

    first.append(discharge("text", read))
    if not found or first[0].violation:
        return Proof(tuple(first))
    program, walking, facts = found[0], found[-1], Facts(known)
    if not facts.is_possible((), {}):
        return Proof(tuple(first))
    for look_back in handed:
        first.append(discharge("look-back", partial(check_handed, program, look_back, tuple(reassociated))))
    values, waits = (each.questions(tuple(reassociated)) for each in (program, walking))
    asked = ask((name, own + theirs) for (name, own, _), (_, _, theirs) in zip(values, waits, strict=True))
    vectors = discharge("vectors", lambda: sum(_check_alignment(each, facts, program.loops) for each in inlined))
    integers = discharge("integers", lambda: check_integers(launches, facts))
    limits = discharge("limits", lambda: sum(check_limits(each) + check_pitches(each, facts) for each in launches))
    return Proof((*first, *asked, vectors, integers, limits))


def _check_alignment(launch: Launch, facts: Facts, loops: Mapping[str, Affine]) -> int:
    """How many vectors and rows in shared memory the launch uses. Raises Refused where one is not aligned."""
    launch = replace(launch, body=inline_names(launch.body, launch))
    found = check_aligned(launch, facts, loops) + check_rows(launch, facts, loops)
    return found + check_boxes(launch, facts, loops)


def demand(proof: Proof, name: str, *, unproved: bool = False) -> None:
    """Raises ProofError where a version of the kernel `name` is not what the kernel says, or not known to be.

    With `unproved`, an obligation may be open. A barrier too many is not wrong: the verdict tells of it.
    """
    found = next((o for o in proof.obligations if o.violation is not None and o.name != "barriers"), None)
    if found is None or found.violation is None:
        open_ = next((o for o in proof.obligations if o.unproved is not None), None)
        if open_ is not None and not unproved:
            raise _open(open_, name)
        return
    violation = found.violation
    message = f"what tilegen made of kernel '{name}' is not the kernel: {violation.sentence}"
    notes = (*violation.notes, f"the proof of {found.name} failed; this is a fault of tilegen's, please report it")
    raise ProofError(message, witness=violation.witness, notes=notes)


def _open(obligation: Obligation, name: str) -> ProofError:
    """The error for a kernel that an obligation keeps from being proved."""
    message = f"what tilegen made of kernel '{name}' is unproved: {obligation.name}: {obligation.unproved}"
    notes = (
        "'tilegen prove' lists what was asked; fixed sizes and constant tiles are easier to prove",
        "--unproved, or unproved=True in Python, takes it all the same",
    )
    return ProofError(message, notes=notes)


def _with_requirements(kernel: Kernel, requires: tuple[Condition, ...]) -> Kernel:
    """The kernel at the sizes that this version is launched with."""
    return replace(kernel, assumptions=kernel.assumptions + requires) if requires else kernel
