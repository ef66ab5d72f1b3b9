"""What a thread does about the launches before its own and behind it, where launches overlap."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LetNextBegin:
    """The next launch can begin when all blocks of this one have come by."""


@dataclass(frozen=True)
class AwaitLaunches:
    """Each thread waits until all launches before this one are complete, and what they have written is visible."""


LaunchNode = LetNextBegin | AwaitLaunches
