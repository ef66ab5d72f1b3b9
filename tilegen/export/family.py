"""The C++ launcher of a family: it chooses a member by sizes as `Chooser` does, and calls that member's launcher."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import partial

from tilegen.export.c_names import Interface, SizeWriter
from tilegen.export.checks import size_checks
from tilegen.export.lines import fill, wrap_code
from tilegen.ir.parameter_facts import python_of
from tilegen.lab.choice.family import Candidate, Chooser
from tilegen.lab.choice.model import Coefficients

_fill = partial(fill, "family.cuh")
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.And: "&&", ast.Or: "||"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def family_launcher(interface: Interface, members: Mapping[str, Candidate], chooser: Chooser, title: str) -> str:
    """The text of the launcher.

    Args:
        members: by the names that their own launchers have.
        title: the comments at its head.
    """
    parts = [
        _fill(
            "head",
            title=title,
            header=interface.header,
            includes="\n".join(f'#include "{name}_launch.h"' for name in members),
            sizes="\n".join(f"    Int {interface.names[size]};" for size in interface.sizes),
        ),
        *(fill("launcher.cuh", part) for part in ("errors", "shown")),
        _choice(interface, list(members.values()), chooser),
        size_checks(interface, SizeWriter(interface)),
        _fill("launch"),
        _api(interface, list(members)),
    ]
    return wrap_code("\n\n".join(part.strip("\n") for part in parts))


def _choice(interface: Interface, members: Sequence[Candidate], chooser: Chooser) -> str:
    sizes = [interface.names[size] for size in interface.sizes]
    names = {f"n_{size}": f"size.{interface.names[size]}" for size in interface.sizes}
    known = {f"n_{name}": str(value) for name, value in chooser.values.items()} | names
    facts, times = list[str](), list[str]()
    for number, member in enumerate(members):
        held = " && ".join(_cpp_of(python_of(fact.formula), known) for fact in member.facts)
        facts += [f"        case {number}:", f"            return {held};"] if held else []
        times += [f"    case {number}:  // {member.name}", *_times(member, names), "        break;"]
    sms, cache, memory = members[0].model.figures
    return _fill(
        "choice",
        machine=chooser.machine.name,
        count=len(members),
        names=",\n    ".join(f'"{member.name}"' for member in members),
        facts="\n".join(facts),
        times="\n".join(times),
        sms=sms,
        cache=repr(cache),
        memory=repr(memory),
        place="\n".join(f"    place = place * 31 + unsigned(size.{size});" for size in sizes),
        same=" && ".join(f"seen.size.{size} == size.{size}" for size in sizes) or "true",
    )


def _times(member: Candidate, names: Mapping[str, str]) -> list[str]:
    """What adds up the times of a member's launches."""
    by = Coefficients(*map(float, astuple(member.coefficients)))
    counts = ast.parse(member.model.counts, mode="eval").body
    assert isinstance(counts, ast.Tuple)
    found = []
    for launch in counts.elts:
        assert isinstance(launch, ast.Tuple)
        blocks, resident, *others = (_written(each, names) for each in launch.elts)
        work = ", ".join([blocks, resident, *(f"double({each})" for each in others)])
        found.append(f"        total += time_of({{{work}}}, {{{', '.join(map(repr, astuple(by)))}}});")
    return found


def _cpp_of(text: str, names: Mapping[str, str]) -> str:
    return _written(ast.parse(text, mode="eval").body, names, inner=True)


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
            return f"double({write(left)}) / {write(right, inner=True)}"
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
        case ast.Call(ast.Name("min"), args):
            return f"std::min<Int>({{{', '.join(map(write, args))}}})"
        case ast.Call(ast.Name("max"), args):
            return f"std::max<double>({{{', '.join(f'double({write(each)})' for each in args)}}})"
        case _:
            raise TypeError(ast.dump(node))
    return f"({text})" if inner else text


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _api(interface: Interface, members: Sequence[str]) -> str:
    sizes = [f"int64_t {interface.names[size]}" for size in interface.sizes]
    own = [interface.names[size] for size in interface.sizes]
    arguments = ", ".join([*interface.arguments(), "workspace", "workspace_bytes", "stream"])
    calls, workspaces, loads = list[str](), list[str](), list[str]()
    for number, name in enumerate(members):
        calls += [f"    case {number}:", f"        return passed({name}_launch({arguments}), {name}_error_text());"]
        workspaces += [f"    case {number}:", f"        return {name}_workspace_bytes({', '.join(own)});"]
        loads += [f"    if (cudaError_t error = {name}_load())", f"        return passed(error, {name}_error_text());"]
    tensors = ["const void*" for _ in interface.tensors]
    return _fill(
        "api",
        name=interface.name,
        parameters=", ".join(
            [*interface.parameters(), "void* workspace", "size_t workspace_bytes", "cudaStream_t stream"]
        ),
        arguments=arguments,
        s=f"Sizes{{{', '.join(own)}}}",
        sizes=", ".join(sizes) or "void",
        choosing=", ".join([*tensors, *sizes]),
        calls="\n".join(calls),
        workspaces="\n".join(workspaces),
        loads="\n".join(loads),
    )
