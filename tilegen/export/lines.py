"""Long lines of the exported C and C++, broken where a reader would; what stands in quotes stays whole."""

from __future__ import annotations

import re

from tilegen.backends.text.wrap import wrap_line

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_HIDDEN = "\x01"


def wrap_code(text: str) -> str:
    """`text` with no line longer than need be, ending with a line's end."""
    found = []
    for line in text.splitlines():
        if line.lstrip().startswith("//"):
            found += wrap_line(line)
            continue
        quoted = iter(_QUOTED.findall(line))
        plain = _QUOTED.sub(lambda match: _HIDDEN * len(match[0]), line)
        wrapped = "\n".join(wrap_line(plain))
        parts = re.split(f"{_HIDDEN}+", wrapped)
        found.append(parts[0] + "".join(next(quoted) + part for part in parts[1:]))
    return "\n".join(found) + "\n"
