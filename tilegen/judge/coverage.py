"""Coverage: every instance of every statement of the kernel runs exactly once.

Each leaf has an affine map from its iterations to instances of the kernel's statement. Let D be the statement's domain
in the kernel. Theorem: the leaves run D exactly once each if
- every image is a point of D (`_check_known`),
- each map is injective, and no point is an image of two leaves (`_check_injective`),
- the images together cover D (`_check_onto`).
The first and the last are coverings of sets, projected to the statement's loops and the sizes; for the second, two
iterations with one image that differ in some loop have to be an empty system.
"""

from __future__ import annotations

from tilegen.ir.affine import const
from tilegen.poly.covering import find_uncovered
from tilegen.poly.instances import Leaf, Placed, Projection, equal_loops
from tilegen.poly.rows import Row, rename
from tilegen.poly.system import Form, equal_rows, range_of, substitute_rows
from tilegen.poly.verdict import Refused, Words, counterexample, instance_words


def check_coverage(program: Projection) -> None:
    """Refused where an instance is missing, runs twice, or is none of the kernel's."""
    known = program.original.statements
    for placed in program.leaves:
        name = placed.leaf.stmt.name
        if not placed.leaf.stmt.is_copy and name not in known:
            raise Refused(f"the kernel has no statement '{name}'")
        for use in placed.leaf.uses:
            if use.buffer not in program.buffers:
                raise Refused(f"'{name}' uses '{use.buffer}', and there is no such buffer")
    for name in known:
        check_instances(program, name)


def check_instances(program: Projection, name: str) -> None:
    """Refused where an instance of the statement `name` is missing, runs twice, or is none of the kernel's."""
    leaves = program.of(name)
    for n, one in enumerate(leaves):
        _check_known(program, one.leaf)
        _check_injective(program, one, one)
        for two in leaves[n + 1 :]:
            _check_injective(program, one, two)
    _check_onto(program, name, leaves)


def _instance_names(program: Projection, name: str) -> list[str]:
    return [f"{n}°" for n in program.original.statements[name].leaf.names]


def _kernel_rows(program: Projection, name: str) -> tuple[Row, ...]:
    """The statement's instances as the kernel has them, over the names of its loops marked with `°`."""
    origin = program.original.statements[name].leaf
    return rename(origin.domain, {n: f"{n}°" for n in origin.primed_names(frozenset())})


def _instance_rows(program: Projection, leaf: Leaf) -> tuple[Row, ...]:
    """Rows that equate the instance run at an iteration of the leaf with the marked names of `_kernel_rows`."""
    rows: tuple[Row, ...] = ()
    for name, place in zip(_instance_names(program, leaf.stmt.name), leaf.point, strict=True):
        rows += (((True, (*place.terms, (name, -1)), place.const)), *place.rows)
    return rows


def _normalise(rows: tuple[Row, ...], leaf: Leaf) -> tuple[Row, ...]:
    """The same instances in loops that are easier to project away: with 3 - i as i, and digits for a loop that is
    divided, as lane in lane/8 and lane%8."""
    extents = {n: e.const for n, e in zip(leaf.names, leaf.extents, strict=True) if e.is_const}
    divided: dict[str, set[tuple[str, int]]] = {}
    for _, terms, _ in rows:
        if len(terms) == 2 and terms[0][1] == 1 and terms[1][0] == f"({terms[0][0]})/{-terms[1][1]}":
            divided.setdefault(terms[0][0], set()).add((terms[1][0], -terms[1][1]))
    values: dict[str, Form] = {}
    more: tuple[Row, ...] = ()
    ranges: tuple[Row, ...] = ()  # what the digits say as well
    for name, extent in extents.items():
        factors = [factor for place in leaf.point for n, factor in place.terms if n == name]
        if len(divided.get(name, ())) == 1:
            ((quotient, by),) = divided[name]
            if extent % by == 0:
                rest = f"({name})%{by}"
                values[name] = Form(((quotient, by), (rest, 1)), 0)
                ranges += range_of(name, const(extent))
                for digit, count in ((quotient, extent // by), (rest, by)):
                    more += ((False, ((digit, 1),), 0), (False, ((digit, -1),), count - 1))
        elif factors and max(factors) < 0:
            values[name] = Form(((name, -1),), extent - 1)
    return substitute_rows(tuple(row for row in rows if row not in ranges), values) + more if values else rows


def _check_known(program: Projection, leaf: Leaf) -> None:
    """Every iteration of `leaf` is an instance of the kernel."""
    original, name = program.original, leaf.stmt.name
    image = original.rows(leaf) + _instance_rows(program, leaf)
    names = [*original.kernel.symbols, *_instance_names(program, name), *leaf.names]
    missing = find_uncovered(image, [(*original.context, *_kernel_rows(program, name))], names)
    if missing is not None:
        words = Words(original, missing)
        what = words.instance(leaf)
        raise Refused(
            f"an iteration runs an instance of '{name}' that the kernel does not have",
            f"{what} runs{words.iteration(leaf)}{words.sizes}",
        )


def _check_injective(program: Projection, one: Placed, two: Placed) -> None:
    """No instance runs in two iterations of the one leaf, and none in both leaves."""
    first, second = one.leaf, two.leaf
    if one is two and first.determined_by(first.stmt.instance or (), frozenset()) >= set(first.names):
        return
    instances = zip(first.stmt.instance or (), second.stmt.instance or (), strict=True)
    alike = tuple(i for i, j in instances if i == j)
    for depth in range(len(first.names) if one is two else 1):
        shared = frozenset(first.names[:depth]) if one is two else frozenset()
        met = shared | equal_loops(first, second, alike, shared)
        if one is two and first.names[depth] in met:
            continue
        names = second.primed_names(met)
        rows = program.original.pair(first, second, met)
        rows += equal_rows(first.point, [f.rename(names) for f in second.point])
        if one is two:
            loop = first.names[depth]
            rows += ((False, ((f"{loop}'", 1), (loop, -1)), -1),)
        if words := counterexample(program.original, rows, first.names, shared):
            raise Refused(
                f"an instance of '{first.stmt.name}' runs more than once",
                f"{words.instance(first)} runs{words.iteration(first)} and again"
                f"{words.iteration(second, True)}{words.sizes}",
            )


def _check_onto(program: Projection, name: str, leaves: list[Placed]) -> None:
    original = program.original
    wanted, instance = (*original.context, *_kernel_rows(program, name)), _instance_names(program, name)
    pieces = [(*original.context, *_normalise(p.leaf.domain + _instance_rows(program, p.leaf), p.leaf)) for p in leaves]
    missing = find_uncovered(wanted, pieces, [*original.kernel.symbols, *instance])
    if missing is not None:
        origin = original.statements[name].leaf
        values = instance_words(original, name, missing, [missing[f"{n}°"] for n in origin.names])
        sizes = Words(original, missing).sizes
        raise Refused(f"an instance of '{name}' never runs", f"{name}({values}) is missing{sizes}")
