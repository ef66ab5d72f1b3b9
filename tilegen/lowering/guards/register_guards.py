"""Work in registers goes without the tests at the border: what nobody reads can be written as well.

Such work may add to what it does not know: a register that is loaded under a test has no value where that fails. Copies
from registers to shared memory go without tests, too. A test that is the same for all elements of a thread costs one
branch, and stays. Fragments are updated whole from shared memory, too, and from inputs that have the element anyway:
between products a test of each element is what tensor cores wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import is_

from tilegen.ir.affine import Affine, var
from tilegen.ir.facts.choices import negations
from tilegen.ir.facts.ranges import interval_of
from tilegen.ir.nodes import BLOCK_KINDS, THREAD_KINDS, Access, Buffer, Condition, Kernel, Loop, Node, Stmt
from tilegen.ir.walk import accesses, gathers, leaves, loads
from tilegen.poly import Facts

Guard = tuple[Condition, ...]


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A statement, the loops around it, and the places that it uses by their buffer."""

    path: tuple[Loop, ...]
    stmt: Stmt

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(loop.name for loop in self.path)

    @cached_property
    def places(self) -> Mapping[str, set[tuple[Affine, ...]]]:
        found: dict[str, set[tuple[Affine, ...]]] = {}
        for access in accesses(self.stmt):
            found.setdefault(access.buffer, set()).add(access.index)
        return found

    @cached_property
    def place_names(self) -> frozenset[str]:
        """What the place that it writes speaks of."""
        return frozenset().union(*(i.names() for i in self.stmt.target.index))

    def tests_at(self, index: tuple[Affine, ...], alike: frozenset[str]) -> frozenset[Condition | None]:
        """Its tests, said of the place `index` without its loops that are not `alike`."""
        key = (index, alike)
        if key not in self._tests_memo:
            apart = self.names - alike
            self._tests_memo[key] = frozenset(_by_place(c, index, c.value.names() & apart) for c in self.stmt.guard)
        return self._tests_memo[key]

    @cached_property
    def _tests_memo(self) -> dict[tuple[tuple[Affine, ...], frozenset[str]], frozenset[Condition | None]]:
        return {}


@dataclass(frozen=True)
class Spare:
    """What statements in registers can go without.

    What goes from registers to registers can do harm outside its guard only by what it writes. Where a condition
    is a fact of the element, and nothing uses the element where it does not hold, no one sees it. An instruction may
    also read from shared memory, and an update of fragments from that and from inputs.

    Attributes:
        node: the launch, its updates of registers and its copies to shared memory without those conditions.
        starts: (name, buffer) of the other statements that need none of their conditions.
    """

    node: Node
    starts: frozenset[tuple[str, str]]


def spare(node: Node, buffers: Iterable[Buffer], kernel: Kernel) -> Spare:
    """What `node` can go without."""
    facts = Facts(kernel)
    buffers = tuple(buffers)
    inner = {b.name: b for b in buffers if b.space in ("register", "shared") and b.scope is not None}
    inputs = {b.name: b for b in buffers if b.role == "input"}
    registers = {name: b for name, b in inner.items() if b.space == "register"}
    found = [_Leaf(path, stmt) for path, stmt in leaves((node,))]
    users: dict[str, list[_Leaf]] = {name: [] for name in inner}
    for leaf in found:
        for name in leaf.places.keys() & inner.keys():
            users[name].append(leaf)
    updates = _copies_to_shared(found, inner, users, facts)
    starts: dict[tuple[str, str], bool] = {}
    for leaf in found:
        path, stmt = leaf.path, leaf.stmt
        buffer = registers.get(stmt.target.buffer)
        axes = inner if any(loop.performed for loop in path) else registers
        if stmt.reduce and buffer and buffer.fragment:
            axes = inner | inputs
        if buffer is None or stmt.is_copy or stmt.best or stmt.hits or not leaf.places.keys() <= axes.keys():
            continue
        if stmt.reduce and (stmt.reduce not in ("sum", "prod") or _of_lanes(path, stmt)):
            continue  # a comparison, or what other threads get, of a register without a value
        if any(gathers(stmt)) or not _elements_exist(leaf, inner):
            continue  # its tests also keep it inside the tensors that it gathers from, and the registers that there are
        own = _fixed_loops(path, stmt.target, buffer)
        kept = tuple(c for c in stmt.guard if not _of_element(c, leaf, own, users[buffer.name], facts))
        if not _inputs_exist(leaf, kept, inputs, facts):
            continue
        if stmt.reduce and not all(_of_thread(c, path) for c in stmt.guard if c not in kept):
            updates[id(stmt)] = replace(stmt, guard=kept)
        elif not stmt.reduce:
            key = (stmt.name, buffer.name)
            starts[key] = starts.get(key, True) and not kept
    return Spare(_with_updates(node, updates), frozenset(key for key, none in starts.items() if none))


def _copies_to_shared(
    found: list[_Leaf], buffers: Mapping[str, Buffer], users: Mapping[str, list[_Leaf]], facts: Facts
) -> dict[int, Stmt]:
    """The copies from registers to shared memory that can go without some conditions, by their identity.

    Those stay that are the same for all of the register's life: where they fail nothing has filled it. Fragments go
    whole.
    """
    copies: dict[int, Stmt] = {}
    for leaf in found:
        stmt, target = leaf.stmt, buffers.get(leaf.stmt.target.buffer)
        if not stmt.is_copy or target is None or target.space != "shared":
            continue
        source = next((buffers.get(load.buffer) for load in loads(stmt)), None)
        if source is None or source.space != "register" or not _elements_exist(leaf, buffers):
            continue
        names = [loop.name for loop in leaf.path]
        fixed = {*names[: names.index(source.scope) + 1]} if source.scope in names and not source.fragment else set()
        kept = tuple(
            c
            for c in stmt.guard
            if c.value.names() & leaf.names <= fixed or _is_used_beside(c, leaf, target, users[target.name], facts)
        )
        if not all(_of_thread(c, leaf.path) for c in stmt.guard if c not in kept):
            copies[id(stmt)] = replace(stmt, guard=kept)
    return copies


def _is_used_beside(condition: Condition, copy: _Leaf, target: Buffer, users: list[_Leaf], facts: Facts) -> bool:
    """True if an element that the copy would write where the condition fails may be used in the same life of `target`.

    All threads of the block use its elements: of the loops around two uses, those inside of that life are apart.
    """
    names = [loop.name for loop in copy.path]
    alike = names[: names.index(target.scope) + 1] if target.scope in names else []
    of_copy = {loop.name: loop.extent for loop in copy.path}
    for user in users:
        primed = {loop.name: var(f"{loop.name}'") for loop in user.path if loop.name not in alike}
        extents = of_copy | {f"{loop.name}'": loop.extent for loop in user.path if loop.name in primed}
        tests = [Condition(c.value.substitute(primed), c.equal) for c in user.stmt.guard]
        for index in user.places[target.name]:
            places = zip(copy.stmt.target.index, index, strict=True)
            met = [*tests, *(Condition(a - b.substitute(primed), equal=True) for a, b in places)]
            if any(facts.is_possible([*met, contrary], extents) for contrary in negations(condition)):
                return True
    return False


def _with_updates(node: Node, updates: Mapping[int, Stmt]) -> Node:
    """`node` with other statements, by the identity of those that it has."""
    if isinstance(node, Stmt):
        return updates.get(id(node), node)
    body = tuple(_with_updates(child, updates) for child in node.body)
    return node if all(map(is_, body, node.body)) else replace(node, body=body)


def _inputs_exist(leaf: _Leaf, kept: Guard, memory: Mapping[str, Buffer], facts: Facts) -> bool:
    """True if every element of an input that the statement reads exists where the conditions `kept` hold."""
    extents = {loop.name: loop.extent for loop in leaf.path}
    read = [(load.index, memory[load.buffer].shape) for load in loads(leaf.stmt) if load.buffer in memory]
    outside = [each for index, shape in read for i, e in zip(index, shape, strict=True) for each in (-1 - i, i - e)]
    return not any(facts.is_possible((*kept, Condition(each)), extents) for each in outside)


def _elements_exist(leaf: _Leaf, memory: Mapping[str, Buffer]) -> bool:
    """True if every element on the chip that the statement uses exists, whatever its guard says."""
    extents = {loop.name: loop.extent.const for loop in leaf.path if loop.extent.is_const}
    for name, places in leaf.places.items():
        for index in places if name in memory else ():
            for place, extent in zip(index, memory[name].shape, strict=True):
                ends = interval_of(place, extents)
                if ends is None or ends[0] < 0 or not extent.is_const or ends[1] >= extent.const:
                    return False
    return True


def _of_thread(condition: Condition, path: tuple[Loop, ...]) -> bool:
    """True if the condition is the same for all that one thread does."""
    return condition.value.names().isdisjoint(x.name for x in path if x.kind not in (*THREAD_KINDS, *BLOCK_KINDS))


def _of_lanes(path: tuple[Loop, ...], stmt: Stmt) -> bool:
    """True if threads along x combine their terms in `stmt`."""
    used = {name for i in stmt.target.index for name in i.names()}
    return any(loop.kind == "thread.x" and loop.name not in used for loop in path)


def _fixed_loops(path: tuple[Loop, ...], target: Access, buffer: Buffer) -> frozenset[str]:
    """Loops that have one value for an element: those outside its life, its thread's, and those its indices name."""
    names = [loop.name for loop in path]
    outside = names[: names.index(buffer.scope) + 1] if buffer.scope in names else []
    extents = {loop.name: loop.extent.const for loop in path if loop.extent.is_const}
    given = [name for i in target.index for name in _determined_by(i, extents)]
    return frozenset((*outside, *given, *(loop.name for loop in path if loop.kind in THREAD_KINDS)))


def _determined_by(place: Affine, extents: Mapping[str, int]) -> list[str]:
    """The loops whose values a place tells: one, or several as the digits of a number."""
    if len(place.terms) == 1:
        return [atom for atom, _ in place.terms if isinstance(atom, str)]
    below, names = 0, []
    for atom, factor in sorted(place.terms, key=lambda term: abs(term[1])):
        if not isinstance(atom, str) or atom not in extents or abs(factor) <= below:
            return []
        names.append(atom)
        below += abs(factor) * (extents[atom] - 1)
    return names


def _of_element(condition: Condition, update: _Leaf, own: frozenset[str], users: list[_Leaf], facts: Facts) -> bool:
    """True if nothing uses an element of the update's where the condition does not hold."""
    if not condition.value.names() & update.names <= own:
        return False
    name = update.stmt.target.buffer
    return all(
        _holds_for_users(condition, update, user, index, own, facts) for user in users for index in user.places[name]
    )


def _holds_for_users(
    condition: Condition, update: _Leaf, user: _Leaf, index: tuple[Affine, ...], own: frozenset[str], facts: Facts
) -> bool:
    """True if the condition of the update's element holds wherever the user has that element, at `index`."""
    target, tests = update.stmt.target.index, user.stmt.guard
    if index == target and condition in tests:
        return True
    # Loops of both that fix the element are in the same iteration; the others are two variables.
    alike = update.names & user.names & own - update.place_names
    by_place = _by_place(condition, target, (condition.value.names() & update.names) - alike)
    if by_place is not None and by_place in user.tests_at(index, alike):
        return True
    apart = {loop.name: f"{loop.name}'" for loop in user.path if loop.name not in alike}
    primed = {old: var(new) for old, new in apart.items()}
    extents = {loop.name: loop.extent for loop in update.path}
    extents |= {apart.get(loop.name, loop.name): loop.extent for loop in user.path}
    both = [Condition(a - b.substitute(primed), True) for a, b in zip(target, index, strict=True)]
    both += [Condition(c.value.substitute(primed), c.equal) for c in tests]
    return not any(facts.is_possible([*both, contrary], extents) for contrary in negations(condition))


@lru_cache(maxsize=2_000)
def _by_place(condition: Condition, index: tuple[Affine, ...], apart: frozenset[str]) -> Condition | None:
    """The condition said of the place `index`, by `$0` for its first number and so on, without its loops `apart`.

    Where that is possible, any iteration with this place has this condition: two that are said alike hold together.
    None where it is not said of the place.
    """
    value = condition.value
    said: dict[str, Affine] = {}
    for number, place in enumerate(index):
        name, factor = place.terms[0] if len(place.terms) == 1 else ("", 0)
        if not isinstance(name, str) or name not in apart or name in said:
            continue
        # From `$0 == 2 * v + 1`: 6 * v is 3 * ($0 - 1), but v/4 is nothing of $0.
        if abs(factor) == 1:
            said[name] = (var(f"${number}") - place.const) * factor
        elif value.linear_in(name) and value.coefficient(name) % factor == 0:
            times = value.coefficient(name) // factor
            value += (var(f"${number}") - var(name) * factor - place.const) * times
    value = value.substitute(said)
    return None if value.names() & apart else Condition(value, condition.equal)
