"""A program without functions: the statements of each stand where it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from tilegen.ir.walk import accesses, walk
from tilegen.lowering.launch.program import Call, Declare, For, Function, Let, Spmd, names_in, nodes, with_lists
from tilegen.lowering.launch.substitution import substitute_integers
from tilegen.poly import Refused


@dataclass(frozen=True)
class _KnownFunction:
    """A function, what it speaks of that is not its own, and which of these names have got another meaning since."""

    function: Function
    free: frozenset[str]
    hidden: frozenset[str] = frozenset()


def without_calls(body: tuple[Spmd, ...]) -> tuple[Spmd, ...]:
    """`body` with the statements of its functions in place of their calls, each parameter being the argument.

    Raises:
        Refused: a function is called that is not known there, or with another number of arguments, or a name means one
            thing in the function and another where it is called.
    """
    return _inline_calls(body, {})


def _inline_calls(body: tuple[Spmd, ...], known: Mapping[str, _KnownFunction]) -> tuple[Spmd, ...]:
    out: list[Spmd] = []
    for node in body:
        match node:
            case Function():
                inner = replace(node, body=_inline_calls(node.body, _hide_names(known, node.parameters)))
                known = {**_hide_names(known, (node.name,)), node.name: _KnownFunction(inner, _free_names(inner))}
            case Call():
                out += _inline_call(node, known)
            case _:
                here = _hide_names(known, (node.name,)) if isinstance(node, For) else known
                out.append(with_lists(node, partial(_inline_calls, known=here)))
        if isinstance(node, Let | Declare):
            known = _hide_names(known, (node.name if isinstance(node, Let) else node.buffer,))
    return tuple(out)


def _free_names(function: Function) -> frozenset[str]:
    """The names that a function takes from where it stands, of integers and of memory."""
    inside = nodes(function.body)
    own = {v.name for v in inside if isinstance(v, For | Let)} | {*function.parameters, *function.unprinted}
    return (names_in(walk(function.body)) | {a.buffer for a in accesses(function.body)}) - own


def _hide_names(known: Mapping[str, _KnownFunction], names: tuple[str, ...]) -> Mapping[str, _KnownFunction]:
    """The functions where these names have got a new meaning."""
    return {n: replace(f, hidden=f.hidden | (f.free & {*names})) for n, f in known.items()} if known else known


def _inline_call(call: Call, known: Mapping[str, _KnownFunction]) -> tuple[Spmd, ...]:
    if call.function not in known:
        raise Refused(f"the function '{call.function}' is called where it is not known")
    found = known[call.function]
    function = found.function
    if found.hidden:
        raise Refused(f"'{min(found.hidden)}' is another one where '{call.function}' is called")
    counts = [(len(call.arguments), len(function.parameters)), (len(call.unprinted), len(function.unprinted))]
    if any(given != wanted for given, wanted in counts):
        raise Refused(f"'{call.function}' is called with another number of arguments than it has parameters")
    if len({*function.parameters, *function.unprinted}) < sum(wanted for _, wanted in counts):
        raise Refused(f"two parameters of '{call.function}' have one name")
    values = dict(zip((*function.parameters, *function.unprinted), (*call.arguments, *call.unprinted), strict=True))
    bound = {v.name for v in nodes(function.body) if isinstance(v, For | Let)}
    if caught := bound & names_in((*call.arguments, *call.unprinted)):
        raise Refused(f"'{min(caught)}' is another one inside of '{call.function}'")
    return substitute_integers(function.body, values)
