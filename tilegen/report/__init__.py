"""What is known of schedules as one page of HTML that opens offline, and as charts for papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilegen.errors import UsageError
from tilegen.lab.predict.explain import explain
from tilegen.lab.predict.explanation import Explanation
from tilegen.lab.predict.machine import H200, Machine
from tilegen.report.code import code_of
from tilegen.report.libraries import require
from tilegen.report.measured import Measured, read_measured
from tilegen.report.study import Study
from tilegen.schedule import Derivation

LIBRARIES = ("jinja2", "matplotlib", "plotly")
LIMIT = 6_000_000  # bytes of a page: larger ones have brought browsers down


def study_of(
    derivation: Derivation,
    sizes: Mapping[str, int],
    *,
    machine: Machine = H200,
    compiled: bool = True,
    unproved: bool = False,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Study:
    """What a page shows of one schedule; nothing runs.

    Args:
        sizes: all sizes of the kernel.
        compiled: False leaves the compiler out: no machine code, no registers and no spills.
        unproved: True takes a text of which it is open whether it is the kernel.

    Raises:
        LimitError: it cannot be launched. ProofError: it is unproved, and that was not allowed.
    """
    code = code_of(derivation, machine.arch, compiled=compiled, unproved=unproved)
    found: Explanation = explain(derivation, sizes, machine=machine, compiled=compiled, progress=progress)
    return Study(derivation, found, code)


def report(studies: Sequence[Study], measured: Sequence[Measured] = (), made_by: str = "") -> str:
    """The page of these schedules, which are all of one kernel, and of what has been measured of it.

    Args:
        made_by: the command that makes the page.

    Raises:
        UsageError: a library is missing, the page would be too large, or something is of another kernel.
    """
    require(*LIBRARIES)
    from tilegen.report.page import render

    kernel = studies[0].derivation.kernel.name
    for each in measured:
        if others := each.kernels - {kernel}:
            raise UsageError(f"{each.name} is of kernel {', '.join(sorted(others))}, and the page is of '{kernel}'")
    text = render(studies, measured, made_by)
    if (size := len(text.encode())) > LIMIT:
        raise UsageError(
            f"the page would take {size / 1e6:.1f} MB, and {LIMIT / 1e6:g} MB is the limit",
            notes=("--schedule chooses fewer schedules", "--no-compile leaves their machine code out"),
        )
    return text


__all__ = ["LIBRARIES", "Measured", "Study", "read_measured", "report", "require", "study_of"]
