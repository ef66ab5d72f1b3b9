"""The primitives: one file each, whose name is its word in a schedule. The folder is the registry.

A primitive is a frozen dataclass whose fields are its signature: the fields in order are the
positional arguments, any field can be given by name, and fields of type `NewName` are the names
after `->`, which may be left out where they have a default. `apply` is a pure function from tree to
tree; it raises StepError where it cannot build the tree, and never asks whether the result is legal.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, NewType, Protocol, TypeVar, dataclass_transform, get_args

from tilegen.ir.nodes import Tree

T = TypeVar("T")

LoopName = NewType("LoopName", str)  # an existing loop
BufferName = NewType("BufferName", str)  # an existing buffer
NewName = NewType("NewName", str)  # a name that the step gives, after ->


class Primitive(Protocol):
    """What every class in this folder offers."""

    def apply(self, tree: Tree) -> Tree:
        """The tree after the step. Raises StepError where it cannot be built."""


# What a step changes. `tilegen help` lists the steps in these groups.
Group = Literal["loops", "execution", "memory", "pipelining", "arithmetic"]
GROUPS: tuple[Group, ...] = get_args(Group)
_group_of: dict[str, Group] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def primitive(group: Group) -> Callable[[type[T]], type[T]]:
    """Make a class a frozen dataclass with keyword fields, a step of `group`."""

    def decorate(cls: type[T]) -> type[T]:
        _group_of[cls.__module__.rpartition(".")[2]] = group
        return dataclass(frozen=True, kw_only=True)(cls)

    return decorate


def words_in(group: Group) -> list[str]:
    """The words of the primitive steps of `group`, sorted."""
    return [word for word in registry() if _group_of[word] == group]


@cache
def registry() -> dict[str, type[Any]]:
    """word -> class, for every module of this folder; its rooms have what the words share."""
    found: dict[str, type[Any]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            continue
        classes = vars(import_module(f"{__name__}.{module.name}"))
        name = module.name.title().replace("_", "")
        found[module.name] = classes[name]
    return found
