"""What a kernel's `where` promises of its data: `different(p)`, that no two elements of `p` are equal."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.errors import SourceError, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.ir.nodes import INTEGERS, Tensor


def different_inputs(decl: s.KernelDecl, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The inputs of different elements. Raises SourceError for another promise, or of what is no input of integers."""
    found: list[str] = []
    for fact in decl.assumptions:
        if not isinstance(fact, s.Apply):
            continue
        if fact.function.text != "different":
            notes = did_you_mean(fact.function.text, ["different"]) or ("different(p) says that none of p are equal",)
            raise SourceError(f"'{fact.function.text}' is no promise", fact.function.span, notes=notes)
        match fact.args:
            case (s.Name(name),) if name in tensors and tensors[name].role == "input":
                if tensors[name].dtype not in INTEGERS:
                    raise SourceError(f"'{name}' has no integers, and different(...) is of places", fact.span)
                found.append(name)
            case _:
                raise SourceError("different(...) takes the name of an input", fact.span)
    return tuple(dict.fromkeys(found))
