"""The C++ launcher of a family: it chooses a member by sizes as `Chooser` does, and calls that member's launcher."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from functools import partial

from tilegen.export.c_names import Interface
from tilegen.export.checks import words_of_checks
from tilegen.export.lines import fill
from tilegen.ir.parameter_facts import python_of
from tilegen.lab.choice.family import Candidate, Chooser

_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.And: "&&", ast.Or: "||"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def family_launcher(interface: Interface, members: Mapping[str, Candidate], chooser: Chooser, title: str) -> str:
    """The text of the launcher.

    Args:
        members: by the names that their own launchers have.
        title: the comments at its head.
    """
    sms, cache, memory = next(iter(members.values())).model.figures
    return fill(
        "family.cuh",
        **words_of_checks(interface),
        name=interface.name,
        title=title,
        members=members,
        say=_Choice(interface, chooser.values),
        machine=chooser.machine.name,
        sms=sms,
        cache=cache,
        memory=memory,
        same=" && ".join(f"seen.size.{size} == size.{size}" for size in interface.own_sizes) or "true",
        arguments=", ".join([*interface.arguments(), "workspace", "workspace_bytes", "stream"]),
        choosing=", ".join([*("const void*" for _ in interface.tensors), *interface.size_parameters]),
    )


class _Choice:
    """What decides among the members, as C++."""

    def __init__(self, interface: Interface, values: Mapping[str, int]) -> None:
        self._sizes = {f"n_{size}": f"size.{interface.names[size]}" for size in interface.sizes}
        self._known = {f"n_{name}": str(value) for name, value in values.items()} | self._sizes

    def facts_of(self, member: Candidate) -> str:
        parsed = (ast.parse(python_of(fact.formula), mode="eval").body for fact in member.facts)
        return " && ".join(_written(each, self._known, inner=True) for each in parsed)

    def times_of(self, member: Candidate) -> Iterator[tuple[str, str]]:
        """(the work, the coefficients) of each launch of a member."""
        by = ", ".join(repr(float(each)) for each in astuple(member.coefficients))
        counts = ast.parse(member.model.counts, mode="eval").body
        assert isinstance(counts, ast.Tuple)
        for launch in counts.elts:
            assert isinstance(launch, ast.Tuple)
            blocks, resident, *others = (_written(each, self._sizes) for each in launch.elts)
            yield ", ".join([blocks, resident, *(f"double({each})" for each in others)]), by


def _written(node: ast.expr, names: Mapping[str, str], inner: bool = False) -> str:
    """Python of integers and numbers as C++, where `Int` is exact for all sizes, too; `inner` parenthesizes a sum."""
    write = partial(_written, names=names)
    match node:
        case ast.Constant(value):
            return repr(value)
        case ast.Name(word):
            return names[word]
        case ast.UnaryOp(ast.Not(), one):
            return f"!{write(one, inner=True)}"
        case ast.UnaryOp(ast.USub(), one):
            return f"(-{write(one, inner=True)})"
        case ast.BinOp(left, ast.FloorDiv(), right):
            return f"floor_div({write(left)}, {write(right)})"
        case ast.BinOp(left, ast.Mod(), right):
            return f"floor_mod({write(left)}, {write(right)})"
        case ast.BinOp(left, ast.Div(), right):
            by = f"({write(right)})" if _is_product(right) else write(right, inner=True)
            return f"double({write(left)}) / {by}"
        case ast.BinOp(left, ast.Mult(), right):
            return f"{write(left, inner=not _is_product(left))} * {write(right, inner=True)}"
        case ast.BinOp(left, sign, right):
            text = f"{write(left)} {_SIGNS[type(sign)]} {write(right, inner=not _is_product(right))}"
        case ast.BoolOp(sign, args):
            text = f" {_SIGNS[type(sign)]} ".join(write(each, inner=True) for each in args)
        case ast.Compare(left, [sign], [right]):
            text = f"{write(left)} {_COMPARED[type(sign)]} {write(right)}"
        case ast.IfExp(test, yes, no):
            text = f"{write(test, inner=True)} ? {write(yes)} : {write(no)}"
        case ast.Call(ast.Name("min"), args) if not any(isinstance(each, ast.Div) for each in ast.walk(node)):
            return f"std::min<Int>({{{', '.join(map(write, args))}}})"
        case ast.Call(ast.Name("min" | "max" as word), args):
            return f"std::{word}<double>({{{', '.join(f'double({write(each)})' for each in args)}}})"
        case _:
            raise TypeError(ast.dump(node))
    return f"({text})" if inner else text


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
