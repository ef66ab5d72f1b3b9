"""How a step is called from Python: its signature and its documentation, for help(), editors and type checkers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field
from inspect import Parameter, Signature, getdoc
from types import EllipsisType
from typing import Any

from tilegen.ir.steps import Define
from tilegen.primitives import registry
from tilegen.primitives.calling.call import fields_by_place

# The annotation of a field -> what Python gives for it.
_TYPES: dict[str, Any] = {
    "int": int,
    "int | None": int | None,
    "str": str,
    "Instruction | tuple[Instruction, ...]": str | Sequence[str],
    "LoopName": str,
    "LoopName | None": str | None,
    "BufferName": str,
    "BufferName | None": str | None,
    "LoopName | tuple[LoopName, ...]": str | Sequence[str],
    "tuple[LoopName, ...]": Sequence[str],
    "tuple[BufferName, ...]": Sequence[str],
    "tuple[LoopName | Dots, ...]": Sequence[str | EllipsisType],
    "tuple[int, ...]": Sequence[int],
    "tuple[str, ...]": Sequence[str],
    "tuple[str, ...] | None": Sequence[str] | None,
    "tuple[str | tuple[str, ...], ...]": Sequence[str | Sequence[str]],
}
_STUB = '''\
"""Each step of the language as a method, for editors and type checkers. The build writes this file."""

import collections.abc
from types import EllipsisType
from typing import Self

class Steps:'''


def stub(composite: Mapping[str, Define]) -> str:
    """The text of _methods.pyi: a method for each primitive step, and for each of the `composite` ones."""
    steps = {word: (signature_of_primitive(word), documentation_of_primitive(word)) for word in registry()}
    for word, define in composite.items():
        steps[word] = signature_of_composite(define), documentation_of_composite(define)
    return _STUB + "".join(_method(word, *steps[word]) for word in sorted(steps))


def _method(word: str, signature: Signature, documentation: str) -> str:
    this = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    whole = str(signature.replace(parameters=[this, *signature.parameters.values()]))
    body = "\n".join(f"        {line}".rstrip() for line in documentation.splitlines()).strip()
    return f'''
    def {word}{whole.replace("ellipsis", "EllipsisType")} -> Self:
        """{body}
        """
'''


def signature_of_primitive(word: str) -> Signature:
    """The signature of the method for a primitive step; `into` holds the names after the arrow."""
    inside, behind = fields_by_place(registry()[word])
    parameters = [_parameter(f, Parameter.POSITIONAL_OR_KEYWORD) for f in inside]
    if inside and str(inside[0].type).startswith("tuple"):
        # Loops stand side by side, tensorize("i", "j", "k", by="mma"): what follows them is given by name.
        (of,) = _TYPES[str(inside[0].type)].__args__
        first = Parameter(inside[0].name, Parameter.VAR_POSITIONAL, annotation=of)
        parameters = [first, *(_parameter(f, Parameter.KEYWORD_ONLY) for f in inside[1:])]
    optional = any(f.default is not MISSING for f in behind)
    return Signature([*parameters, *_into(len(behind), optional)])


def signature_of_composite(define: Define) -> Signature:
    """The signature of the method for a composite step."""
    parameters = [Parameter(p, Parameter.POSITIONAL_OR_KEYWORD, annotation=str | int) for p in define.parameters]
    return Signature([*parameters, *_into(len(define.results), optional=False)])


def documentation_of_primitive(word: str) -> str:
    """How the step is written in a text, and the docstring of its class, whose example is a test."""
    step = registry()[word]
    return f"{(sys.modules[step.__module__].__doc__ or word).strip()}\n\n{getdoc(step) or ''}".strip()


def documentation_of_composite(define: Define) -> str:
    """How the step is written in a text, its comment, and the steps that it stands for."""
    results = f" -> {', '.join(define.results)}" if define.results else ""
    steps = "\n".join(f"    {call.text}" for call in define.steps)
    return f"{define.word}({', '.join(define.parameters)}){results}\n\n{define.doc.strip()}\n\nstands for:\n{steps}"


def _parameter(f: Field[Any], kind: Any) -> Parameter:
    default = Parameter.empty if f.default is MISSING else f.default
    return Parameter(f.name, kind, default=default, annotation=_TYPES[str(f.type)])


def _into(count: int, optional: bool) -> list[Parameter]:
    """The names after the arrow: one as a word, several as a tuple or a list."""
    if count == 0:
        return []
    if optional:
        return [Parameter("into", Parameter.KEYWORD_ONLY, annotation=Sequence[str], default=())]
    several: Any = tuple.__class_getitem__((str,) * count)
    return [Parameter("into", Parameter.KEYWORD_ONLY, annotation=str if count == 1 else several | list[str])]
