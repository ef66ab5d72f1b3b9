"""What a value works out of itself once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached_property(Generic[T]):
    """As that of functools, without its lock, which takes longer than most of what is kept. Two threads that ask at
    the same time both work out the same."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self.work, self.name, self.__doc__ = work, work.__name__, work.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        found = instance.__dict__[self.name] = self.work(instance)
        return found
