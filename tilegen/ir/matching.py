"""What an instruction's operands are in a nest of loops: its equation laid over the nest's statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from tilegen.ir.affine import Affine, const
from tilegen.ir.instructions import Instruction
from tilegen.ir.nodes import Access, Cast, Expr, Load, Loop, Op, Performed, Stmt
from tilegen.ir.walk import loads, rewrite_accesses

COMMUTATIVE = ("+", "*", "max", "min")


def operand_accesses(instruction: Instruction, stmt: Stmt) -> Mapping[str, Access] | None:
    """The access of `stmt` that is each operand of the instruction; None if it computes something else.

    The expressions have to be the same, operation by operation, up to the order of what is added or multiplied.
    """
    equation = instruction.equation
    wanted = "sum" if instruction.accumulates else None
    if stmt.reduce != wanted or stmt.best or stmt.arg is not None or stmt.atomic:
        return None
    for found in _matches(equation.value, stmt.value):
        return {**found, equation.target: stmt.target}
    return None


def _matches(wanted: Expr, value: Expr) -> Iterator[dict[str, Access]]:
    """The ways in which `value` is `wanted`, each with the access that every load of it is."""
    match wanted, value:
        case Load(name, _, dtype), Load(buffer, index, other, None) if dtype == other:
            yield {name: Access(buffer, index)}
        case Cast(inner, dtype), Cast(other_inner, other) if dtype == other:
            yield from _matches(inner, other_inner)
        case Op(name, arguments, dtype), Op(other_name, others, other) if (name, dtype) == (other_name, other):
            for order in permutations(others) if name in COMMUTATIVE else (others,):
                if len(order) == len(arguments):
                    yield from _all_match(arguments, tuple(order))
        case _:
            return


def _all_match(wanted: tuple[Expr, ...], values: tuple[Expr, ...]) -> Iterator[dict[str, Access]]:
    if not wanted:
        yield {}
        return
    for first in _matches(wanted[0], values[0]):
        for rest in _all_match(wanted[1:], values[1:]):
            if all(first[name] == rest[name] for name in first.keys() & rest.keys()):
                yield first | rest


def with_operands(instruction: Instruction, stmt: Stmt, places: Mapping[str, Access]) -> Stmt:
    """`stmt`, which the instruction computes, with its operands at other places."""
    found = operand_accesses(instruction, stmt)
    assert found is not None
    names = {access: name for name, access in found.items()}

    def move(load: Load | Access) -> Load | Access:
        place = places[names[Access(load.buffer, load.index)]]
        return replace(load, buffer=place.buffer, index=place.index)

    value = rewrite_accesses(stmt.value, move)
    return replace(stmt, value=value, target=places[instruction.equation.target])


def perfect_nest(loop: Loop) -> tuple[tuple[Loop, ...], Stmt] | None:
    """The loops directly inside one another from `loop` on, and the one statement in them; None if there is more."""
    found = [loop]
    while len(found[-1].body) == 1:
        (inner,) = found[-1].body
        if isinstance(inner, Stmt):
            return tuple(found), inner
        found.append(inner)
    return None


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


def _index_of(value: Expr, operand: str) -> tuple[Affine, ...]:
    return next(load.index for load in loads(value) if load.buffer == operand)
