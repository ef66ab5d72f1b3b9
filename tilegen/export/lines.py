"""The exported C and C++: parts of files, filled in, and long lines, broken where a reader would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from tilegen.backends.text.wrap import wrap_line

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_HIDDEN = "\x01"


@cache
def _parts_of(file: str) -> Mapping[str, str]:
    """The parts of a file beside this one, by the words above them: `// ==== word`."""
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    _, *found = re.split(r"^// ==== (\w+)\n", text, flags=re.MULTILINE)
    return {name: part.strip("\n") + "\n" for name, part in zip(found[::2], found[1::2], strict=True)}


def fill(file: str, part: str, **words: object) -> str:
    """A part of a file with what each $word stands for; one alone in a comment stands for lines, or for none."""

    def change(match: re.Match[str]) -> str:
        line, word = match.groups()
        found = str(words[line or word])
        return f"{found}\n" if line and found else found

    return re.sub(r"^ *// \$([a-z]+)\n|\$([a-z]+)", change, _parts_of(file)[part], flags=re.MULTILINE)


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
