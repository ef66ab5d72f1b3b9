"""What an instruction's operands are in a nest of loops: its equation laid over the nest's statement."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from tilegen.ir.affine import Affine, const, names_of_atom
from tilegen.ir.hardware.instructions import FORMATS, SharedMatrix, SharedRows
from tilegen.ir.nodes import Access, Cast, Const, Expr, Load, Loop, Op, Performed, Stmt
from tilegen.ir.walk import loads, rewrite_accesses, walk

COMMUTATIVE = ("+", "*", "max", "min")


def operand_accesses(performed: Performed, stmt: Stmt) -> Mapping[str, Access] | None:
    """The access of `stmt` that is each operand of the instruction; None if it computes something else.

    The expressions have to be the same, operation by operation, up to the order of what is added or multiplied. Of
    several such orders it is the one in which each operand runs over the loops that its indices are. Where an operand
    in registers has a format, an element that is rounded to it fits, too: tf32(A[i, k]) for A as tf32. A sum may have
    its terms where a test of data holds that is one for the whole nest.
    """
    instruction, value = performed.instruction, term_of(performed, stmt)
    equation = instruction.equation
    wanted = "sum" if instruction.accumulates else None
    if stmt.reduce != wanted or stmt.best or stmt.arg is not None or stmt.atomic:
        return None
    formats = {each.operand.name: each.format for each in instruction.fragments if each.format}
    found = [{**each, equation.target: stmt.target} for each in _matches(equation.value, value, formats)]
    return next((each for each in found if _runs_over_its_loops(performed, each)), found[0] if found else None)


def test_of(performed: Performed, stmt: Stmt) -> Expr | None:
    """What has to hold for a sum to have terms, if it is the same in all of the nest."""
    match stmt.value:
        case Op("select", (test, _, Const(0))) if stmt.reduce == "sum":
            nest = {name for index in performed.indices for name in index.names()}
            if all(nest.isdisjoint(v.names()) for v in walk(test) if isinstance(v, Affine)):
                return test
    return None


def term_of(performed: Performed, stmt: Stmt) -> Expr:
    """What a statement computes, or adds where that holds."""
    match stmt.value:
        case Op("select", (test, term, _)) if test == test_of(performed, stmt):
            return term
    return stmt.value


def rounded_operands(performed: Performed, stmt: Stmt) -> tuple[str, ...]:
    """The operands whose elements `stmt`, which the instruction computes, rounds to the format that they have."""
    found = operand_accesses(performed, stmt)
    assert found is not None
    value = term_of(performed, stmt)
    read = [Access(load.buffer, load.index) for load in loads(value)]
    inside = [
        (op.name, Access(load.buffer, load.index))
        for op in walk(value)
        if isinstance(op, Op) and op.name in FORMATS
        for load in loads(op)
    ]
    formats = {each.operand.name: each.format or "" for each in performed.instruction.fragments}
    return tuple(
        name
        for name, access in found.items()
        if (formats.get(name), access) in inside and inside.count((formats[name], access)) == read.count(access)
    )


def _runs_over_its_loops(performed: Performed, accesses: Mapping[str, Access]) -> bool:
    nest = {name for index in performed.indices for name in index.names()}
    return all(
        {n for i in access.index for n in i.names()} & nest
        == {n for point in operand_points(performed, name) for n in point.names()}
        for name, access in accesses.items()
    )


def _matches(wanted: Expr, value: Expr, formats: Mapping[str, str]) -> Iterator[dict[str, Access]]:
    """The ways in which `value` is `wanted`, each with the access that every load of it is."""
    match wanted, value:
        case Load(name, _, dtype), Op(word, (Load(buffer, index, other, None),)) if (
            dtype == other and formats.get(name) == word
        ):
            yield {name: Access(buffer, index)}
        case Load(name, _, dtype), Load(buffer, index, other, None) if dtype == other:
            yield {name: Access(buffer, index)}
        case Cast(inner, dtype), Cast(other_inner, other) if dtype == other:
            yield from _matches(inner, other_inner, formats)
        case Op(name, arguments, dtype), Op(other_name, others, other) if (name, dtype) == (other_name, other):
            for order in permutations(others) if name in COMMUTATIVE else (others,):
                if len(order) == len(arguments):
                    yield from _all_match(arguments, tuple(order), formats)
        case _:
            return


def _all_match(
    wanted: tuple[Expr, ...], values: tuple[Expr, ...], formats: Mapping[str, str]
) -> Iterator[dict[str, Access]]:
    if not wanted:
        yield {}
        return
    for first in _matches(wanted[0], values[0], formats):
        for rest in _all_match(wanted[1:], values[1:], formats):
            if all(first[name] == rest[name] for name in first.keys() & rest.keys()):
                yield first | rest


def with_operands(performed: Performed, stmt: Stmt, places: Mapping[str, Access]) -> Stmt:
    """`stmt`, which the instruction computes where its test holds, if it has one, with its operands at other places."""
    found = operand_accesses(performed, stmt)
    assert found is not None
    names = {access: name for name, access in found.items()}

    def move(load: Load | Access) -> Load | Access:
        place = places[names[Access(load.buffer, load.index)]]
        return replace(load, buffer=place.buffer, index=place.index)

    value = rewrite_accesses(term_of(performed, stmt), move)
    return replace(stmt, value=value, target=places[performed.instruction.equation.target])


def perfect_nest(loop: Loop) -> tuple[tuple[Loop, ...], Stmt] | None:
    """The loops directly inside one another from `loop` on, and the one statement in them; None if there is more."""
    found = [loop]
    while len(found[-1].body) == 1:
        (inner,) = found[-1].body
        if isinstance(inner, Stmt):
            return tuple(found), inner
        found.append(inner)
    return None


def inner_part(index: Affine, nest: Collection[str]) -> Affine:
    """The part of an index that the loops of a nest decide; the rest is the same in all of it."""
    return Affine(tuple((a, c) for a, c in index.terms if (names := names_of_atom(a)) and names <= set(nest)))


def values_at(performed: Performed, loops: Mapping[str, int], indices: Mapping[str, Affine]) -> dict[str, Affine]:
    """The loops of a nest where the indices of the instruction's equation have the values `indices`.

    Each index is a number whose digits the loops are: an index that is `high*8 + low` makes `high` its value by 8.
    """
    equation, found = performed.instruction.equation, dict[str, Affine]()
    for reached, mixed in zip((*equation.loops, *equation.reduced), performed.indices, strict=True):
        for name, weight in mixed.terms:
            assert isinstance(name, str)
            digit = indices.get(reached.name, const(0)) // weight
            found[name] = digit if loops[name] * weight == reached.extent.const else digit % loops[name]
    return found


def operand_points(performed: Performed, operand: str) -> tuple[Affine, ...]:
    """Which element of an operand an iteration of the nest uses, in the nest's loops."""
    equation = performed.instruction.equation
    names = [reached.name for reached in (*equation.loops, *equation.reduced)]
    values = dict(zip(names, performed.indices, strict=True))
    index = equation.index if operand == equation.target else _index_of(equation.value, operand)
    return tuple(i.substitute(values) for i in index)


def along_rows(performed: Performed, layout: SharedRows | SharedMatrix) -> Affine:
    """The index that runs along a row of an operand in shared memory, in the nest's loops."""
    along = {layout.along} if isinstance(layout, SharedMatrix) else layout.within.names()
    points = zip(layout.indices, operand_points(performed, layout.operand.name), strict=True)
    return sum((point for name, point in points if name in along), const(0))


def _index_of(value: Expr, operand: str) -> tuple[Affine, ...]:
    return next(load.index for load in loads(value) if load.buffer == operand)
