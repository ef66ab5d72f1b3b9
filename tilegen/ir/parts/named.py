"""Numbers that a parameter of the schedule has given, by the loops that have them."""

from __future__ import annotations

from typing import NamedTuple


class Named(NamedTuple):
    """A number of a loop that is `times` the parameter `name`.

    `what` it is: "extent", the iterations of the loop; "stride", how many iterations of the loop that was cut one of
    this outer loop is; or "stages". Those of a loop that is cut again go on with its parts where these have them.
    """

    loop: str
    what: str
    name: str
    value: int
    times: int = 1

    @property
    def parameter(self) -> int:
        """The value of the parameter."""
        return self.value // self.times

    @property
    def text(self) -> str:
        return self.name if self.times == 1 else f"({self.times} * {self.name})"
