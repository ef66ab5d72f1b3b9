"""The documents and what is shown in them: blocks between fences, commands with their output, tables.

In the output of a command `...` stands for anything: on a line of its own for lines, within a line for a part of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "examples/language.md",
    "examples/records.md",
    "examples/results.md",
    "examples/trust.md",
    "tests/nets.md",
)
# The chapters of the course are run as notebooks (tests/68_course), and held to the same in what they name.
TEXTS = (*DOCUMENTS, *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "examples/course").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """What stands between two fences of a document, from `line` on; `kind` is the word after the first fence."""

    document: str
    line: int
    kind: str
    text: str

    @property
    def file(self) -> str | None:
        """The name that a comment in its first line gives it: `# mine.tg`."""
        found = re.match(r"# (\w+\.tg)\n", self.text)
        return found[1] if found else None


@dataclass(frozen=True)
class Command:
    """`$ tilegen ...` in a block of kind console, and the output that is shown below it."""

    document: str
    line: int
    words: str
    output: str


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str) -> list[Block]:
    text = text_of(document)
    return [Block(document, text.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in _FENCE.finditer(text)]


def commands(document: str) -> list[Command]:
    found = []
    for block in blocks(document):
        if block.kind == "console":
            parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
            assert parts[0] == "", f"{document}:{block.line}: a block of kind console begins with a command"
            line = block.line
            for words, output in zip(parts[1::2], parts[2::2], strict=True):
                found.append(Command(document, line, words, output.rstrip("\n")))
                line += 1 + output.count("\n")
    return found


def tables(document: str) -> list[list[list[str]]]:
    """The tables, each a list of rows of cells, without the line that rules the head off."""
    found = []
    for lines in re.findall(r"(?:^\|.*\|\n)+", text_of(document), re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines.splitlines()]
        found.append([row for row in rows if set("".join(row)) - set("-: ")])
    return found


def run_command(words: str, folder: Path) -> str:
    """What a command of tilegen writes, on standard output and standard error, run in `folder` without a GPU."""
    program, *arguments = words.split()
    assert program == "tilegen", f"only tilegen's own commands are run, not {program}"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "80"}
    ran = subprocess.run(
        [sys.executable, "-m", "tilegen", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert "Traceback" not in ran.stdout, ran.stdout
    return "\n".join(line.rstrip() for line in ran.stdout.splitlines()).strip("\n")


def matches(shown: str, actual: str) -> bool:
    """True if `actual` is what is shown, with anything where that has `...`."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else _line_pattern(line) + r"\n" for line in shown.splitlines()
    )
    return re.fullmatch(pattern, actual + "\n") is not None


def _line_pattern(line: str) -> str:
    if "..." not in line:
        # The last bits of a sum, and its name, are the processor's that PoCL compiles for.
        shares = re.sub(r"[\d.]+ % of the bound", "<share> % of the bound", line)
        exact = re.escape(re.sub(r" on PoCL on .*", " on PoCL on <processor>", shares))
        return exact.replace("<share>", r"[\d.]+").replace("<processor>", ".*")
    # What is left out also decides how wide the columns of a table are.
    first, *parts = line.split("...")
    return ".*?".join(" +".join(map(re.escape, re.split(" +", p))) for p in (first.rstrip(), *map(str.strip, parts)))


def restore_elisions(shown: str, actual: str) -> str:
    """`actual` with as many of the elisions of `shown` as still fit: what --update-golden writes."""
    old, new = shown.splitlines(), actual.splitlines()
    inline = [line for line in old if "..." in line and line.strip() != "..."]
    new = [next((o for o in inline if re.fullmatch(_line_pattern(o), line)), line) for line in new]
    for i, line in enumerate(old):
        if line.strip() == "..." and (i == 0 or old[i - 1] in new):
            first = 0 if i == 0 else new.index(old[i - 1]) + 1
            if i + 1 == len(old):
                new[first:] = [line]
            elif old[i + 1] in new[first:]:
                new[first : new.index(old[i + 1], first)] = [line]
    return "\n".join(new)


def replace_output(command: Command, output: str) -> None:
    """Writes `output` below the command, in place of what is shown there."""
    text = text_of(command.document)
    old, new = ("\n".join(filter(None, (f"$ {command.words}", below))) + "\n" for below in (command.output, output))
    assert text.count(old) == 1, f"{command.document}:{command.line}: the same is shown twice"
    (ROOT / command.document).write_text(text.replace(old, new), encoding="utf-8")
