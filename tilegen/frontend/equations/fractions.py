"""Attributes that may be fractions, `eps: float = 1e-5`: numbers that stand in the equations before these are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from tilegen.errors import SourceError
from tilegen.frontend import syntax as s

_NAMES = ("base", "function", "word", "name", "type", "span")  # fields that hold no expressions


def fix_fractions(decl: s.KernelDecl, values: Mapping[str, float]) -> s.KernelDecl:
    """The kernel with these values, or the defaults, for its fractions, which it has no more.

    Raises SourceError where one has no value, or is called as something else is.
    """
    if not decl.fractions:
        return decl
    numbers = {name: values.get(name, default) for name, default in decl.fractions.items()}
    for param in (*decl.inputs, *decl.outputs, *decl.variables):
        if param.name.text in numbers:
            raise SourceError(f"'{param.name.text}' is declared twice", param.name.span)
    for name, number in numbers.items():
        if number is None:
            notes = (f"give it one ({name}=0.1), or a default in the kernel: {name}: float = 0.1",)
            raise SourceError(f"the attribute '{name}' of '{decl.name}' has no value", decl.span, notes=notes)
    groups = ("inputs", "outputs", "variables", "assumptions", "equations", "claims")
    fixed: dict[str, Any] = {group: _with_numbers(getattr(decl, group), numbers) for group in groups}
    return replace(decl, fractions={}, **fixed)


def _with_numbers(node: Any, numbers: Mapping[str, float | None]) -> Any:
    match node:
        case s.Name(text, span):
            return s.Num(float(numbers[text] or 0), span) if text in numbers else node
        case tuple():
            return tuple(_with_numbers(part, numbers) for part in node)
        case _ if isinstance(node, s.Syntax | s.Assign | s.ClaimDecl | s.Param):
            parts = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in _NAMES}
            return replace(node, **{name: _with_numbers(part, numbers) for name, part in parts.items()})
        case _:
            return node
