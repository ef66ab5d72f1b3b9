"""What a call gives besides arrays that are read: scalars, and an output whose elements are updated."""

from __future__ import annotations

import re

REDUCED = r"(?:sum|prod|max|min|argmax|argmin)\["
# The first operand of an equation's right side, or of what it reduces.
_FIRST = re.compile(rf"^(    [a-z]\w*\[[^=]*\] = (?:{REDUCED}[^\]]*\]\()?)", re.MULTILINE)


def with_scalars(pick, text: str) -> str:
    """The text of a kernel on i32 with up to two scalars more, each of them in some of its equations."""
    names = pick([[]] * 3 + [["s0"], ["s0"], ["s0", "s1"]])
    for name in names:
        place = pick([match.end() for match in _FIRST.finditer(text)])
        text = _with_parameter(pick, f"{text[:place]}{name} {pick('+-*')} {text[place:]}", f"{name}: i32")
    return text


def with_updates(pick, text: str) -> str:
    """The text of a kernel whose output `out` is an input, too, in some cases: read where its last equation defines it,
    and anywhere before."""
    found = re.search(r"-> (out: i32\[(.*?)\].*?)(?: where .*)?:\n", text)
    *lines, last = text.rstrip("\n").split("\n")
    index = re.match(r"    out\[([\w, ]+)\] = (.*)", last)
    if pick([True, True, False]) or not found or not index:
        return text
    point, value = index[1], index[2]
    if any(not word.isidentifier() for word in point.split(", ")):
        return text
    lines = [_reading_old(pick, line, point) for line in lines]
    if re.match(REDUCED, value) and pick([True, True, False]):
        condition = value[value.rindex(")") + 1 :]
        lines += [f"    var w0: i32[{found[2]}]", last.replace("    out[", "    w0[", 1)]
        last = f"    out[{point}] = {pick(['', f'out[{point}] + '])}w0[{point}]{condition}"
    elif not re.match(REDUCED, value):
        last = f"    out[{point}] = out[{point}] {pick('+-')} ({value}".replace(" for ", ") for ", 1)
        last += "" if ") for " in last else ")"
    return _with_parameter(pick, "\n".join([*lines, last]) + "\n", found[1])


def _reading_old(pick, line: str, point: str) -> str:
    """An equation over the same indices with a read of `out` in front, in some cases."""
    found = _FIRST.match(line)
    if not found or not re.match(rf"    \w+\[{re.escape(point)}\]", line) or pick([True, False]):
        return line
    words = [f"{word}{pick(['', '', ' + 1', ' - 1'])}" for word in point.split(", ")]
    return f"{line[: found.end()]}(out[{', '.join(words)}] else 0) {pick('+-')} {line[found.end() :]}"


def _with_parameter(pick, text: str, declared: str) -> str:
    """The kernel with one parameter more, the first or the last."""
    if pick([True, False]):
        return text.replace("(", f"({declared}, ", 1)
    return text.replace(") ->", f", {declared}) ->", 1)
