"""Scalar arguments for a random kernel: numbers that a call gives, somewhere in its equations."""

from __future__ import annotations

import re

# The first operand of an equation's right side, or of what it reduces.
_FIRST = re.compile(r"^(    [a-z]\w*\[[^=]*\] = (?:(?:sum|prod|max|min|argmax|argmin)\[[^\]]*\]\()?)", re.MULTILINE)


def with_scalars(pick, text: str) -> str:
    """The text of a kernel on i32 with up to two scalars more, each of them in some of its equations."""
    names = pick([[]] * 3 + [["s0"], ["s0"], ["s0", "s1"]])
    for name in names:
        places = [match.end() for match in _FIRST.finditer(text)]
        place = pick(places)
        text = f"{text[:place]}{name} {pick('+-*')} {text[place:]}"
        declared = f"{name}: i32"
        text = (
            text.replace("(", f"({declared}, ", 1)
            if pick([True, False])
            else text.replace(") ->", f", {declared}) ->", 1)
        )
    return text
