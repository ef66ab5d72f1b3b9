"""Each step of the language as a method, with the signature and the documentation of the step.

_methods.pyi says the same to editors and to type checkers: the build of a wheel or of an editable install writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilegen.ir.steps import Define
from tilegen.primitives import registry
from tilegen.primitives.calling.signature import (
    documentation_of_composite,
    documentation_of_primitive,
    signature_of_composite,
    signature_of_primitive,
)
from tilegen.primitives.calling.words import suggest_step


class Steps:
    """What has a method for each step: the primitive ones, the composite ones of std.tg, and those of its own text."""

    _defines: Mapping[str, Define] = {}
    step: Callable[..., Any]

    def __getattr__(self, word: str) -> Callable[..., Any]:
        if word in registry():
            signature, documentation = signature_of_primitive(word), documentation_of_primitive(word)
        elif word in self._defines:
            signature = signature_of_composite(self._defines[word])
            documentation = documentation_of_composite(self._defines[word])
        else:
            near = "".join(f"; {note}" for note in suggest_step(word, [*registry(), *self._defines]))
            raise AttributeError(f"a schedule has no step and no attribute '{word}'{near}")

        def method(*arguments: object, **keywords: object) -> Any:
            return self.step(word, *arguments, **keywords)

        method.__name__ = method.__qualname__ = word
        method.__doc__ = documentation
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *registry(), *self._defines})
