"""The judge: is this tree, an ordinary program with parallel loops, the kernel as written?"""

from __future__ import annotations

from collections.abc import Callable

from tilegen.ir.nodes import Tree
from tilegen.poly.ahead import check_ahead
from tilegen.poly.atomics import check_atomics
from tilegen.poly.bounds import check_bounds
from tilegen.poly.changed import changed
from tilegen.poly.coverage import check_coverage
from tilegen.poly.derived import check_derived
from tilegen.poly.order import check_order
from tilegen.poly.project import Program, project
from tilegen.poly.races import check_races, check_structure
from tilegen.poly.recut import merged, recut
from tilegen.poly.shape import check_shape
from tilegen.poly.system import Undecided
from tilegen.poly.turned import turned
from tilegen.poly.updates import check_updates
from tilegen.poly.values import check_values
from tilegen.poly.vectors import check_vectors
from tilegen.poly.verdict import Refused, Violation


def _check_derived(program: Program) -> None:
    memo = program.original.memo
    if "derived" not in memo:
        check_derived(program.kernel)
        memo["derived"] = True


# In the order in which they are asked: a later check may rely on the earlier ones.
CHECKS: tuple[tuple[str, Callable[[Program], None]], ...] = (
    ("that what steps derived from the kernel is the kernel", _check_derived),
    ("that every instance runs exactly once", check_coverage),
    ("that each statement computes what the kernel says", check_shape),
    ("that no dependence is reversed", check_order),
    ("that old values are read before they are overwritten", check_updates),
    ("where blocks, threads and buffers are", check_structure),
    ("that atomic updates are those of a reduction", check_atomics),
    ("that parallel iterations do not collide", check_races),
    ("that every access is in bounds", check_bounds),
    ("that every copy hands over the right value", check_values),
    ("that vectors are contiguous and aligned", check_vectors),
    ("that copies can run ahead", check_ahead),
)


# Those that ask what runs and in which order, and not what runs at once.
IN_ORDER = (check_coverage, check_shape, check_order, check_bounds, check_values)


def _answered(before: Tree, tree: Tree) -> tuple[Callable[[Program], None], ...]:
    """What need not be asked of `tree`, for it was asked of `before`, and the answer is the same."""
    pairs = changed(before, tree)
    same = pairs is not None and any(kind(before, tree, pairs) for kind in (recut, merged, turned))
    return IN_ORDER if same else ()


def _infer(tree: Tree) -> None:
    """Keeps what holds of a tree of which nothing was asked: what the next step leaves as it is need not be, either."""
    program = project(tree, judged=True, inferred=True)
    for check in IN_ORDER:
        check(program)


def judge(tree: Tree, before: Tree | None = None) -> Violation | None:
    """None if `tree` computes its kernel for all sizes, else why not.

    What a step has not changed was answered before, and answers are kept with the kernel. With `before`, the tree
    from which a step made this one: where that is what was accepted last, and this runs the same instances on the
    same elements in the same order, or in another that makes no difference, what is asked of one is answered by the
    other.
    """
    program = project(tree, judged=True)
    memo = program.original.memo
    answered: tuple[Callable[[Program], None], ...] = ()
    if before is not None and memo.get("accepted") is before:
        answered = _answered(before, tree)
        if not answered and memo["answered"]:
            _infer(before)
    for question, check in CHECKS:
        if check in answered:
            continue
        try:
            check(program)
        except Refused as refused:
            return refused.violation
        except Undecided:
            return Violation(f"unproved: {question}", None, ("the question is beyond the budget for one proof",))
    memo["accepted"], memo["answered"] = tree, answered
    return None
