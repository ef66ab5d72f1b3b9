"""Barriers, derived: between two accesses of different threads to one element, and nowhere else.

They stand in bodies outside thread loops, where every thread of the block passes. Gap n of a body is
the place before its child n; the last gap is its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tilegen.ir.nodes import THREAD_KINDS, Condition, Loop, Node, Stmt
from tilegen.lowering.guards.guards import IsImplied
from tilegen.lowering.launch.claims import Claim
from tilegen.lowering.launch.timelines import Barrier
from tilegen.lowering.sync.conflicts import Conflict, Gap, Path


@dataclass
class _Plan:
    """The gaps chosen so far, each with the conflicts that it guards; of some, `fenced` says that they need a fence."""

    is_implied: IsImplied
    fenced: Callable[[Conflict], bool]
    gaps: dict[Gap, list[Conflict]] = field(default_factory=dict)

    def find_chosen(self, path: Path, gaps: Iterable[int]) -> Gap | None:
        """The first of `gaps` of the body at `path` that has a barrier."""
        return next(((path, s) for s in gaps if (path, s) in self.gaps), None)

    def has_inside(self, path: Path) -> bool:
        """True if a body at `path` or further in has a barrier."""
        return any(where[: len(path)] == path for where, _ in self.gaps)

    def is_same_without(self, key: Gap, conflict: Conflict) -> bool:
        """True if the barrier there, and what it says, would be the same without the conflict."""
        guarded = self.gaps[key]
        if self.fenced(conflict) and not any(map(self.fenced, guarded)):
            return False
        if any(_covers(other, conflict) and not other.is_iterations_apart(key[0]) for other in guarded):
            return True
        # It speaks of what comes in one iteration, and of that alone; never of what has a whole one in between.
        further = conflict.is_carried and _of_one_iteration(key, guarded)
        if not further and (
            not conflict.is_iterations_apart(key[0]) or all(c.is_iterations_apart(key[0]) for c in guarded)
        ):
            return False
        said = conflict.kind != "RAW" or conflict.buffer in _completed(guarded)
        return said and (not conflict.of_global or any(c.of_global for c in guarded))

    def add(self, key: Gap, conflict: Conflict) -> None:
        self.gaps.setdefault(key, []).append(conflict)


def _covers(one: Conflict, other: Conflict) -> bool:
    """True if a barrier for both guards what one for `one` alone does: names come in the order of places."""
    if (one.kind, one.buffer, one.is_carried) != (other.kind, other.buffer, other.is_carried):
        return False
    if not one.is_carried:
        return one.before <= other.before
    return one.before[: one.depth] == other.before[: other.depth] and one.after <= other.after


def barriers(
    node: Node, found: Iterable[Conflict], is_implied: IsImplied, fenced: Callable[[Conflict], bool]
) -> dict[Gap, Barrier]:
    """The barriers of the launch `node`: (path of child numbers to a body, gap) -> barrier; with a fence for what is
    `fenced`."""
    plan = _Plan(is_implied, fenced)
    by_body: dict[Path, list[Conflict]] = {}
    for conflict in found:
        by_body.setdefault(conflict.before[: conflict.depth], []).append(conflict)
    _plan_body((node,), None, (), by_body, plan)
    return {
        key: Barrier(
            buffers=_completed(each),
            claims=_claims(key, each),
            of_global=any(c.of_global for c in each),
            fence=any(map(fenced, each)),
        )
        for key, each in plan.gaps.items()
    }


def _plan_body(
    body: tuple[Node, ...], loop: Loop | None, path: Path, by_body: dict[Path, list[Conflict]], plan: _Plan
) -> None:
    """Inner bodies first: what stands there may do for this one, too."""
    for place, child in enumerate(body):
        if isinstance(child, Loop) and child.kind not in THREAD_KINDS:
            _plan_body(child.body, child, (*path, place), by_body, plan)
    here = by_body.get(path, [])
    depth = len(path)
    # Forward: the latest gap, before the second access; the earliest end first, so that few gaps serve all.
    for conflict in sorted((c for c in here if not c.is_carried), key=lambda c: c.after[depth]):
        first, last = conflict.before[depth], conflict.after[depth]
        # What waits before a loop, and not in it, may be apart from it alone.
        latest = (path, last) if first < last else ((*path, last), conflict.after[depth + 1])
        _guard(body, path, conflict, latest, range(first + 1, last + 1), plan)
    # Carried by the loop of this body: any barrier on the way round, else one right after the first access, or before
    # the second where the first goes on meanwhile; the
    # last accesses first, so that few gaps serve all, and after them all those to whom any barrier will do.
    carried = [c for c in here if c.is_carried]
    rounds = [[*range(c.before[depth] + 1, len(body) + 1), *range(c.after[depth] + 1)] for c in carried]
    # Where all have a barrier on their way none is made, and who comes first does not matter.
    any_ = plan.find_chosen(path, range(len(body) + 1))
    pairs = list(zip(carried, rounds, strict=True))
    all_have_one = any_ and all(plan.find_chosen(path, way) or c.is_iterations_apart(path) for c, way in pairs)
    for conflict, way in sorted(
        pairs, key=lambda p: (not all_have_one and p[0].is_iterations_apart(path), -p[0].before[depth])
    ):
        new = conflict.after[depth] if conflict.of_store else conflict.before[depth] + 1
        _guard(body, path, conflict, (path, new), way, plan)


def _guard(body: tuple[Node, ...], path: Path, conflict: Conflict, new: Gap, gaps: Sequence[int], plan: _Plan) -> None:
    """A barrier for the conflict: one on the way, or a new one. Most need not be asked whether they exist."""
    there = plan.find_chosen(path, gaps) or _on_the_way(body, path, conflict, gaps, plan)
    if (there is None or not plan.is_same_without(there, conflict)) and conflict.exists:
        plan.add(there or new, conflict)


def _on_the_way(body: tuple[Node, ...], path: Path, conflict: Conflict, gaps: Sequence[int], plan: _Plan) -> Gap | None:
    """A barrier in an inner body that is certain to come between the two accesses."""
    depth = len(path)
    first, last = conflict.before[depth], conflict.after[depth]
    for loop in conflict.beyond:
        # A whole iteration: any gap of the body, and whatever is certain in it.
        inner = _certain_in_iteration(_body_at(body, path, loop), loop, plan) if loop[:depth] == path else None
        if inner and conflict.is_iterations_apart(loop):
            return inner
    for gap in gaps:
        # Children passed whole: those before a gap whose own gap is on the way too.
        if (
            gap - 1 in gaps
            and gap - 1 not in (first, last)
            and gap
            and (found := _certain_in(body[gap - 1], (*path, gap - 1), plan))
        ):
            return found
    return _after_first(body[first], path, conflict, plan) or _before_second(body[last], path, conflict, plan)


def _certain_in(node: Node, path: Path, plan: _Plan) -> Gap | None:
    """A barrier that everybody who passes `node` meets."""
    if isinstance(node, Stmt) or node.kind in THREAD_KINDS or not plan.has_inside(path):
        return None
    found = _certain_in_iteration(node.body, path, plan)
    return found if found and _has_iterations(node, plan) else None


def _certain_in_iteration(body: tuple[Node, ...], path: Path, plan: _Plan) -> Gap | None:
    """A barrier that every iteration meets of the loop at `path`, which has this body."""
    if found := plan.find_chosen(path, range(len(body) + 1)):
        return found
    return _certain_in_children(body, path, range(len(body)), plan)


def _body_at(body: tuple[Node, ...], path: Path, inner: Path) -> tuple[Node, ...]:
    """The body of the loop at `inner`, which is inside `body`, or has it; `path` is where `body` is."""
    for place in inner[len(path) :]:
        node = body[place]
        assert isinstance(node, Loop)
        body = node.body
    return body


def _after_first(node: Node, path: Path, conflict: Conflict, plan: _Plan) -> Gap | None:
    """A barrier inside `node` after the first access: the access has been made, so the loops have run."""
    path = conflict.before[: len(path) + 1]
    if isinstance(node, Stmt) or node.kind in THREAD_KINDS:
        return None
    if len(conflict.before) == len(path):
        return _certain_in(node, path, plan)  # it waits before the loop
    place = conflict.before[len(path)]
    if found := plan.find_chosen(path, range(place + 1, len(node.body) + 1)):
        return found
    rest = range(place + 1, len(node.body))
    return _certain_in_children(node.body, path, rest, plan) or _after_first(node.body[place], path, conflict, plan)


def _before_second(node: Node, path: Path, conflict: Conflict, plan: _Plan) -> Gap | None:
    """A barrier inside `node` before the second access."""
    path = conflict.after[: len(path) + 1]
    if isinstance(node, Stmt) or node.kind in THREAD_KINDS:
        return None
    place = conflict.after[len(path)]
    if found := plan.find_chosen(path, range(place + 1)) or _certain_in_children(node.body, path, range(place), plan):
        return found
    return _before_second(node.body[place], path, conflict, plan)


def _certain_in_children(body: tuple[Node, ...], path: Path, places: Iterable[int], plan: _Plan) -> Gap | None:
    """A barrier that everybody meets who passes one of these children of `body` whole."""
    inner = (_certain_in(body[place], (*path, place), plan) for place in places)
    return next((found for found in inner if found), None)


def _has_iterations(loop: Loop, plan: _Plan) -> bool:
    """True if the loop has an iteration, whatever sizes and data are."""
    return loop.kind != "ragged" and plan.is_implied(Condition(loop.extent - 1), ())


def _completed(guarded: list[Conflict]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.buffer for c in guarded if c.kind == "RAW"))


# -- what it claims, which is what the comment says


def _claims(key: Gap, guarded: list[Conflict]) -> tuple[Claim, ...]:
    """Of what comes in one iteration, the writes that are read if there are any; else of what a loop carries."""
    forward = _of_one_iteration(key, guarded)
    if not forward:
        near = [c for c in guarded if not c.is_iterations_apart(key[0])] or guarded
        forward = sorted((c for c in near if not c.is_carried), key=lambda c: c.before)
        if not forward:
            return _carried_claims(near)
    complete = [c for c in forward if c.kind == "RAW"]
    return tuple(dict.fromkeys(Claim(c.kind, c.buffer) for c in complete or forward))


def _of_one_iteration(key: Gap, guarded: list[Conflict]) -> list[Conflict]:
    """What comes in one iteration, in its order: the comment speaks of that first.

    What has a whole iteration in between needs no barrier of its own, and the comment does not speak of it.
    """
    return sorted(
        (c for c in guarded if not c.is_carried and not c.is_iterations_apart(key[0])), key=lambda c: c.before
    )


def _carried_claims(guarded: list[Conflict]) -> tuple[Claim, ...]:
    """Of the innermost loop that carries any of it, what is overwritten if anything is, else what is read."""
    guarded = sorted(guarded, key=lambda c: (-c.depth, c.after))
    loop = guarded[0].dependence.carried_by
    guarded = [c for c in guarded if c.dependence.carried_by == loop]
    overwritten = [c for c in guarded if c.kind != "RAW"]
    return tuple(dict.fromkeys(Claim(c.kind, c.buffer, loop) for c in overwritten or guarded))
