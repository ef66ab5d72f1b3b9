"""What a kernel's `where` promises of its data: `different(p)`, that no two elements of `p` are equal, and
`rising(start, N)`, that the first of `start` is 0, the last N, and none less than the one before it."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.errors import SourceError, did_you_mean
from tilegen.frontend import syntax as s
from tilegen.frontend.equations.index import affine_of, never_negative
from tilegen.ir.affine import Affine
from tilegen.ir.nodes import INTEGERS, Tensor

_PROMISES = {
    "different": "different(p) says that none of p are equal",
    "rising": "rising(start, N) says that start goes from 0 to N and never falls",
}
Promises = tuple[tuple[str, ...], tuple[tuple[str, Affine], ...]]


def promises_of(decl: s.KernelDecl, tensors: Mapping[str, Tensor], index: Mapping[str, Affine]) -> Promises:
    """(the inputs of different elements, those that rise from 0, each with its last element).

    Raises SourceError for another promise, or one of what is no input of integers.
    """
    different: dict[str, None] = {}
    rising: dict[str, Affine] = {}
    for fact in decl.assumptions:
        match fact:
            case s.Apply(s.Name("different"), (s.Name(name),)) if _is_promised(tensors, name, fact):
                different[name] = None
            case s.Apply(s.Name("rising"), (s.Name(name), end)) if _is_promised(tensors, name, fact):
                rising[name] = affine_of(end, index, tensors)
                _check_steps(tensors[name], fact)
            case s.Apply(s.Name(word)) if word in _PROMISES:
                raise SourceError(
                    f"{word}(...) takes the name of an input{' and its last element' * (word == 'rising')}", fact.span
                )
            case s.Apply(word):
                notes = did_you_mean(word.text, [*_PROMISES]) or (*_PROMISES.values(),)
                raise SourceError(f"'{word.text}' is no promise", word.span, notes=notes)
    return tuple(different), tuple(rising.items())


def _is_promised(tensors: Mapping[str, Tensor], name: str, fact: s.Apply) -> bool:
    """True of an input of integers; SourceError for one of others."""
    if name not in tensors or tensors[name].role != "input":
        return False
    if tensors[name].dtype not in INTEGERS:
        raise SourceError(f"'{name}' has no integers, and {fact.function.text}(...) is of places", fact.span)
    return True


def _check_steps(tensor: Tensor, fact: s.Apply) -> None:
    if len(tensor.shape) != 1 or not never_negative(tensor.shape[0] - 2):
        notes = (f"of M rows it has one element more: {tensor.name}: {tensor.dtype}[M + 1]",)
        raise SourceError(f"'{tensor.name}' is no row of at least two elements that could rise", fact.span, notes=notes)
