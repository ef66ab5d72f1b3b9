"""Guards: drop what is known, test once what several statements share, keep full tiles free of tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tilegen.ir.affine import Affine, const
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.nodes import Condition, Stmt
from tilegen.lowering.launch.program import (
    Combine,
    For,
    If,
    Spmd,
    VectorCopy,
    VectorLoad,
    VectorStore,
    nodes,
    with_body,
    with_lists,
)
from tilegen.lowering.launch.timelines import Event, StartBarriers

Tests = tuple[Condition, ...]
# condition, conditions that hold there -> True if it is certain
IsImplied = Callable[[Condition, Tests], bool]
IsNever = Callable[[Condition], bool]
Change = Callable[[tuple[Spmd, ...]], tuple[Spmd, ...]]
_SYNCHRONIZING = Combine | StartBarriers | Event


def guard(
    body: tuple[Spmd, ...],
    inner: Mapping[str, int],
    is_implied: IsImplied,
    unguarded: frozenset[tuple[str, str]],
    choose: Change = lambda body: body,
) -> tuple[Spmd, ...]:
    """`body`, a whole program, with its tests simplified and placed.

    Args:
        inner: the thread coordinates and their number: what differs between the threads of a block.
        is_implied: decides whether a condition can be left out.
        unguarded: (name, target) of the statements that do no harm without their guard.
        choose: makes one choice of tests that exclude each other.
    """

    def place(region: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
        return _split_full_tiles(choose(_drop_harmless_tests(_hoist_tests(region), unguarded)), inner, is_never)

    def is_never(condition: Condition) -> bool:
        return is_implied(Condition(-condition.value - 1), ())

    return _block_level(_push_tests_in(_drop_implied_tests(body, (), is_implied)), place)


# -- what is known needs no test


def _drop_implied_tests(body: tuple[Spmd, ...], given: Tests, is_implied: IsImplied) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        match node:
            case If(test=test, body=then):
                kept = _needed_conditions(test, given, is_implied)
                then = _drop_implied_tests(then, given + kept, is_implied)
                out += (If(kept, then),) if kept else then
            case Combine():
                out.append(replace(node, test=_needed_conditions(node.test, given, is_implied)))
            case _:
                out.append(with_lists(node, lambda inner: _drop_implied_tests(inner, given, is_implied)))
    return tuple(out)


def _needed_conditions(test: Tests, given: Tests, is_implied: IsImplied) -> Tests:
    """The conditions of `test` that neither `given` nor the others imply.

    Of two that imply each other the one without division stays, and then the one that speaks of less.
    """
    kept = tuple(dict.fromkeys(c for c in test if c not in given))
    for condition in sorted(kept, key=_drop_order):
        others = tuple(c for c in kept if c != condition)
        if is_implied(condition, given + others):
            kept = others
    return kept


def _drop_order(condition: Condition) -> tuple[bool, int]:
    return all(isinstance(atom, str) for atom, _ in condition.value.terms), -len(condition.value.names())


def _push_tests_in(body: tuple[Spmd, ...], tests: Tests = ()) -> tuple[Spmd, ...]:
    """Every statement in a test of its own that says all that it needs."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case If(test=test, body=then):
                out += _push_tests_in(then, tests + tuple(t for t in test if t not in tests))
            case For():
                out.append(with_body(node, _push_tests_in(node.body, tests)))
            case _:
                out.append(If(tests, (node,)) if tests else node)
    return tuple(out)


# -- the placing


def _block_level(body: tuple[Spmd, ...], place: Change) -> tuple[Spmd, ...]:
    """A list that all threads run together: it may hold barriers, and what is between them is placed."""
    out: list[Spmd] = []
    region: list[Spmd] = []
    for node in body:
        if not synchronizes(node):
            region.append(node)
            continue
        out += place(tuple(region))
        region = []
        out.append(with_body(node, _block_level(node.body, place)) if isinstance(node, For) else node)
    return (*out, *place(tuple(region)))


def synchronizes(node: Spmd) -> bool:
    match node:
        case For(body=body):
            return any(map(synchronizes, body))
        case If(body=body, orelse=orelse):
            return any(map(synchronizes, body + orelse))
        case _:
            return isinstance(node, _SYNCHRONIZING)


def _drop_harmless_tests(body: tuple[Spmd, ...], unguarded: frozenset[tuple[str, str]]) -> tuple[Spmd, ...]:
    """`body` without the tests that stand around harmless statements alone."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case If(body=then):
                inside = [v for v in nodes(then) if isinstance(v, Stmt | VectorLoad | VectorStore | VectorCopy)]
                harmless = inside and all(
                    isinstance(s, Stmt) and (s.name, s.target.buffer) in unguarded for s in inside
                )
                then = _drop_harmless_tests(then, unguarded)
                out += then if harmless else (with_body(node, then),)
            case _:
                out.append(with_lists(node, lambda inner: _drop_harmless_tests(inner, unguarded)))
    return tuple(out)


def _hoist_tests(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """Each test as far out as it can be, and once for neighbours that share it."""
    out: list[Spmd] = []
    place = 0
    while place < len(body):
        node = body[place]
        shared = _tests_around(node)
        end = place + 1
        while shared and end < len(body) and (both := _common_tests(shared, _tests_around(body[end]))):
            shared, end = both, end + 1
        if shared:
            inner = _hoist_tests(_drop_tests(body[place:end], shared))
            out.append(_merge_tests(shared, inner))
        else:
            out.append(with_lists(node, _hoist_tests))
        place = end
    return tuple(out)


def _merge_tests(test: Tests, body: tuple[Spmd, ...]) -> Spmd:
    """One test where nothing stands between two."""
    match body:
        case (If(test=inner, body=then, orelse=()),):
            return If(test + inner, then)
        case _:
            return If(test, body)


def _tests_around(node: Spmd) -> Tests:
    """The tests that everything in `node` is under and that can be made before it."""
    match node:
        case If(test=test):
            return test
        case For(name=name, body=body) if body:
            shared = _tests_around(body[0])
            for child in body[1:]:
                shared = _common_tests(shared, _tests_around(child)) if shared else ()
            return tuple(c for c in shared if name not in c.value.names())
        case _:
            return ()


def _common_tests(left: Tests, right: Tests) -> Tests:
    return tuple(c for c in left if c in right)


def _drop_tests(body: Iterable[Spmd], tests: Tests) -> tuple[Spmd, ...]:
    """`body` without the given tests."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case If(test=test, body=then, orelse=orelse):
                kept = tuple(c for c in test if c not in tests)
                then = _drop_tests(then, tests)
                out += (replace(node, test=kept, body=then, orelse=_drop_tests(orelse, tests)),) if kept else then
            case _:
                out.append(with_lists(node, lambda inner: _drop_tests(inner, tests)))
    return tuple(out)


# -- full and partial tiles


def _split_full_tiles(body: tuple[Spmd, ...], inner: Mapping[str, int], is_never: IsNever) -> tuple[Spmd, ...]:
    """Where tests stand inside loops: one test that they all succeed, and a version without them after it.

    A test that no tile meets as a whole stays where it is.
    """
    inside = nodes(body)
    if not any(isinstance(node, If) for node in inside):
        return body
    for place, node in enumerate(body):
        if isinstance(node, If) and node.roles:  # what else stands there has versions of its own
            parts = (body[:place], node.body, node.orelse, body[place + 1 :])
            before, role, others, behind = (_split_full_tiles(part, inner, is_never) for part in parts)
            return (*before, with_body(node, role, others), *behind)
    loops = [f for f in inside if isinstance(f, For)]
    box = {**inner, **{f.name: f.extent.const for f in loops if f.extent.is_const}}
    blocked = {f.name for f in loops if not f.extent.is_const}
    hardest = [_hardest_tests(node, box, blocked) for node in body]
    hardest = [{c: None if low and is_never(low) else low for c, low in tests.items()} for tests in hardest]
    affected = [p for p, node in enumerate(body) if any(hardest[p].get(c) for c in _inside_loops(node))]
    if not affected:
        return tuple(_split_inside(node, inner, is_never) for node in body)
    only = body[affected[0]]
    if len(affected) == 1 and isinstance(only, If) and not only.orelse:
        return tuple(_split_inside(node, inner, is_never) for node in body)
    first, last = affected[0], affected[-1] + 1
    span = body[first:last]
    # A version without tests in its loops does without the others, too.
    least: dict[Condition, Condition | None] = {}
    for found in hardest[first:last]:
        for condition, low in found.items():
            least[condition] = _pick_harder(least.get(condition, low), low)
    bare = _split_full_tiles(_drop_tests(span, tuple(c for c, low in least.items() if low)), inner, is_never)
    version = If(strictest(low for low in least.values() if low), bare, span)
    return (
        *map(lambda n: _split_inside(n, inner, is_never), body[:first]),
        version,
        *map(lambda n: _split_inside(n, inner, is_never), body[last:]),
    )


def _split_inside(node: Spmd, inner: Mapping[str, int], is_never: IsNever) -> Spmd:
    match node:
        case For() | If(orelse=()):
            return with_body(node, _split_full_tiles(node.body, inner, is_never))
        case _:
            return node


def _inside_loops(node: Spmd) -> list[Condition]:
    """The tests in `node` that are made once an iteration."""
    match node:
        case For(extent=extent, body=body) if extent != const(1):
            return [c for test in nodes(body) if isinstance(test, If) for c in test.test]
        case For(body=body):
            return [c for child in body for c in _inside_loops(child)]
        case If(body=body, orelse=orelse):
            return [c for child in body + orelse for c in _inside_loops(child)]
        case _:
            return []


def _hardest_tests(node: Spmd, box: Mapping[str, int], blocked: set[str]) -> dict[Condition, Condition | None]:
    """Each test in `node` where it is hardest to meet, wherever it stands; None where that says nothing."""
    found: dict[Condition, Condition | None] = {}
    for condition, around in _tests_in_force((node,), ()):
        low = hardest_instance(condition, around, box, blocked)
        found[condition] = _pick_harder(found.get(condition, low), low)
    return found


def _pick_harder(one: Condition | None, two: Condition | None) -> Condition | None:
    """Of a test at two places, the one that is harder to meet; None where one of them says nothing."""
    if one is None or two is None:
        return None
    return two if two.value.const < one.value.const else one


def _tests_in_force(body: tuple[Spmd, ...], around: Tests) -> Iterator[tuple[Condition, Tests]]:
    """Every test in `body`, and the tests that hold where its statements run."""
    for node in body:
        match node:
            case If():
                both = around + node.test
                yield from ((c, both) for c in node.test if not node.roles)
                yield from _tests_in_force(node.body, both)
                yield from _tests_in_force(node.orelse, around)
            case For():
                yield from _tests_in_force(node.body, around)
            case _:
                pass


def hardest_instance(
    condition: Condition, beside: Tests, box: Mapping[str, int], blocked: set[str]
) -> Condition | None:
    """`condition` where it is hardest to meet, for all of `box` at once; None if that says nothing.

    A test that holds `beside` it and speaks of the box alone, as `l*128 + t < 130`, narrows the box.
    """
    if condition.equal or not condition.value.names().isdisjoint(blocked):
        return None
    moving = condition.value.part_with(box)
    range_ = interval_of(moving, box)
    if range_ is None:
        return None
    low = range_[0]
    for other in beside:
        if not other.equal and other.value.names() <= box.keys() and other != condition:
            rest = interval_of(moving - other.value, box)
            low = max(low, rest[0]) if rest is not None else low
    value = condition.value - moving + low
    return Condition(value) if not value.is_const else None


def strictest(tests: Iterable[Condition]) -> Tests:
    """Of conditions that differ by a constant, the one that implies the others."""
    lowest: dict[Affine, int] = {}
    for test in tests:
        key = test.value - test.value.const
        lowest[key] = min(lowest.get(key, test.value.const), test.value.const)
    return tuple(Condition(key + const(low)) for key, low in lowest.items())
