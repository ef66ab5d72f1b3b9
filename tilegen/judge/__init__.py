"""The judge: is this tree, an ordinary program with parallel loops, the kernel as written, for all its sizes?

Run one after the other, the iterations of all loops give a sequence of statement instances. The tree is the kernel if
this sequence is the kernel's up to the order of independent instances (coverage, statements, order, updates), if
every value read through a copy is the one that the kernel reads (bounds, copies), and if iterations that run at once
could as well run in sequence (running, races, atomics). What remains asks whether the tree can be lowered as it says
(structure, vectors, pipelines). `CHECKS` lists the theorems; each file states its own, and asks isl just that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tilegen.ir.nodes import Kernel, Tree
from tilegen.judge.copies import check_values
from tilegen.judge.coverage import check_coverage
from tilegen.judge.derived import check_derived
from tilegen.judge.instructions.matrices import check_matrices, stores_beside
from tilegen.judge.instructions.vectors import check_vectors
from tilegen.judge.kernel.equations import check_equations, has_sizes
from tilegen.judge.only import check_only
from tilegen.judge.order import check_order
from tilegen.judge.places.bounds import check_bounds
from tilegen.judge.places.scatters import check_scatters
from tilegen.judge.statements import check_shape
from tilegen.judge.threads.atomics import check_atomics
from tilegen.judge.threads.cross_thread import Dependence, DependenceKind, dependences
from tilegen.judge.threads.dealt import check_dealt
from tilegen.judge.threads.limits import check_limits
from tilegen.judge.threads.look_back import check_apart, check_look_back
from tilegen.judge.threads.races import check_races, check_structure
from tilegen.judge.threads.running import check_running
from tilegen.judge.threads.waiting import check_waiting
from tilegen.judge.transfers.bulk import BoxCopy, box_copy, boxes_in, check_bulk, first_element
from tilegen.judge.transfers.bulk_stores import check_bulk_stores
from tilegen.judge.transfers.clusters import check_clusters, share_of
from tilegen.judge.transfers.pipelines import (
    check_ahead,
    has_inside,
    leading_copies,
    nest_of,
    staged_buffers,
    useful_stages,
)
from tilegen.judge.transfers.specialized import check_specialized, runs_again
from tilegen.judge.transfers.waits import check_bulk_waits
from tilegen.judge.updates import check_updates
from tilegen.poly.instances import Projection, project
from tilegen.poly.system import Undecided
from tilegen.poly.verdict import Refused, Violation

__all__ = [
    "BoxCopy",
    "Dependence",
    "DependenceKind",
    "box_copy",
    "boxes_in",
    "check_apart",
    "check_derived",
    "check_equations",
    "dependences",
    "fault_of_launches",
    "first_element",
    "has_sizes",
    "has_inside",
    "judge",
    "leading_copies",
    "nest_of",
    "runs_again",
    "share_of",
    "staged_buffers",
    "useful_stages",
]


@lru_cache(maxsize=100)
def _check_derived(kernel: Kernel) -> None:
    """Few steps derive a kernel, and each of those after them is judged against it. The proof asks anew."""
    check_derived(kernel)


# In the order in which they are asked: a later check may rely on the earlier ones.
CHECKS: tuple[tuple[str, Callable[[Projection], None]], ...] = (
    ("that what steps derived from the kernel is the kernel", lambda program: _check_derived(program.kernel)),
    ("that every instance runs exactly once", check_coverage),
    ("that each statement computes what the kernel says", check_shape),
    ("that no dependence is reversed", check_order),
    ("that old values are read before they are overwritten", check_updates),
    ("where blocks, threads and buffers are", check_structure),
    ("that an element keeps its only term", check_only),
    ("that what lanes combine is read where they have it", check_running),
    ("that blocks hand on what they share", check_look_back),
    ("that atomic updates are those of a reduction", check_atomics),
    ("that parallel iterations do not collide", check_races),
    ("that every access is in bounds", check_bounds),
    ("that every copy hands over the right value", lambda program: check_values(program, stores_beside(program))),
    ("that data pick one iteration of a loop", check_scatters),
    ("that vectors are contiguous and aligned", check_vectors),
    ("that bulk copies are boxes", check_bulk),
    ("that the order of bulk stores does not matter", check_bulk_stores),
    ("that instructions compute their nests", check_matrices),
    ("that copies can run ahead", check_ahead),
    ("that a producer can fill what others use", check_specialized),
    ("that blocks of a cluster can share copies", check_clusters),
    ("that tiles can be dealt to blocks", check_dealt),
)


def judge(tree: Tree) -> Violation | None:
    """None if `tree` computes its kernel for all sizes, else why not."""
    try:
        return _accept(tree)
    except Refused as refused:
        return refused.violation


@lru_cache(maxsize=512)  # schedules share their first steps, and are applied again
def _accept(tree: Tree) -> None:
    """Raises Refused, which is not remembered: it says where in a text the tree is from."""
    program = project(tree)
    for question, check in CHECKS:
        try:
            check(program)
        except Undecided as undecided:
            raise Refused(f"unproved: {question}", None, undecided.why, code="unproved") from None


def fault_of_launches(tree: Tree) -> Violation | None:
    """None if the last `tree` can be launched; a step before may leave this to those after it."""
    for check in (check_limits, check_waiting, check_bulk_waits):
        try:
            check(tree)
        except Refused as refused:
            return refused.violation
    return None
