"""What a barrier guards, as data, and the sentence beside it in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.judge import DependenceKind


@dataclass(frozen=True)
class Claim:
    """A dependence through `buffer` crosses the barrier.

    Attributes:
        kind: what the accesses before it and after it do, the later one first: "RAW" is read after write.
        carried_by: the loop of which the second access is in a later iteration, or None: both are in the same one.
    """

    kind: DependenceKind
    buffer: str
    carried_by: str | None = None


def sentence(claims: Sequence[Claim]) -> str:
    """What a barrier with these claims guards, in words; nothing where there are none.

    Where some of them are carried by a loop, all of them are carried by that one.
    """
    if not claims:
        return ""
    names, kinds = list(dict.fromkeys(claim.buffer for claim in claims)), {claim.kind for claim in claims}
    loop = claims[0].carried_by
    if loop is not None:
        return f"before the next {loop} {'reads' if kinds == {'RAW'} else 'overwrites'} {_list(names)}"
    if kinds == {"RAW"}:
        return f"{_list(names)} {_are(names)} complete: written above, read below"
    return f"{_list(names)} {_are(names)} {'written twice' if kinds == {'WAW'} else 'read above, overwritten below'}"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
