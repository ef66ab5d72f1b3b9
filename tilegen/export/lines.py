"""The exported C and C++: files beside this one with what stands in them for a kernel, and long lines, broken where a
reader would.

In such a file `${...}` stands for a value, and a line `//% ... %//` is a statement of Jinja's.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tilegen.backends.text.wrap import wrap_line

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_HIDDEN = "\x01"


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("tilegen.export", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        variable_start_string="${",
        variable_end_string="}",
        block_start_string="//%",
        block_end_string="%//",
        comment_start_string="//#",
        comment_end_string="#//",
    )
    found.filters["quoted"] = '"{}"'.format
    return found


def fill(file: str, **words: object) -> str:
    """The text that a file becomes with these words."""
    return wrap_code(_environment().get_template(file).render(words))


def wrap_code(text: str) -> str:
    """`text` with no line longer than need be, ending with a line's end; what stands in quotes stays whole."""
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
