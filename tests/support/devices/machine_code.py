"""Is the machine code of all stock schedules what it was? By NVRTC for one architecture, no GPU needed.

    python -m tests.support.devices.machine_code --save before        the CUDA texts, one file each; and after a change:
    python -m tests.support.devices.machine_code --save after
    python -m tests.support.devices.machine_code before after

Of each text whose instructions differ it prints registers, bytes spilled, all instructions, and those of the part of
the kernel that has its work, kind by kind where they differ. Names and comments make no difference.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tests.support.stock import cases, schedule_stock
from tilegen.backends.compiler.nvrtc import DEFAULT_ARCH, compile_text
from tilegen.backends.compiler.sass import KINDS, hot, sass_of
from tilegen.backends.text import emit
from tilegen.lowering import lower

VERSIONS = {"": {}, ".whole": {"whole": True}}


def save(folder: Path) -> None:
    """One file for each stock schedule and version."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schedule in cases():
        for version, options in VERSIONS.items():
            text = emit(lower(schedule_stock(name, schedule).tree, **options), "cuda")
            (folder / f"{name}.{schedule}{version}.cu").write_text(text)


def differences(old: str, new: str, arch: str) -> list[str]:
    """A line for each kernel whose instructions are others."""
    if old == new:
        return []
    before, after = (compile_text(text, arch) for text in (old, new))
    lines = []
    for (name, one), two in zip(sass_of(before).items(), sass_of(after).values(), strict=True):
        if [_plain(i.text) for i in one.instructions] == [_plain(i.text) for i in two.instructions]:
            continue
        figures = [(r.registers, r.spills) for r in (before.resources[name], after.resources[name])]
        parts = [f"{what} {a} -> {b}" for what, a, b in zip(("registers", "spilled"), *figures, strict=True)]
        hots = hot(one), hot(two)
        parts.append(f"instructions {len(one.instructions)} -> {len(two.instructions)}")
        parts.append(f"main part {hots[0].count} -> {hots[1].count}")
        mixes = [(kind, *(h.mix.get(kind, 0) for h in hots)) for kind in KINDS]
        parts += [f"{kind} {a} -> {b}" for kind, a, b in mixes if a != b]
        lines.append(f"{name}: {', '.join(parts)}")
    return lines


def _plain(instruction: str) -> str:
    """An instruction without the numbers that labels have."""
    return re.sub(r"\.L_\w+", ".L", instruction)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", metavar="FOLDER", type=Path)
    parser.add_argument("--arch", default=DEFAULT_ARCH)
    parser.add_argument("--only", default="", help="texts whose name has this in it")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    if asked.save:
        save(asked.save)
        return 0
    before, after = asked.folders
    differ = same = 0
    for file in (f for f in sorted(before.glob("*.cu")) if asked.only in f.stem):
        for line in (found := differences(file.read_text(), (after / file.name).read_text(), asked.arch)):
            print(f"{file.stem}: {line}", flush=True)
        differ, same = differ + bool(found), same + (not found)
    print(f"{same} texts with the same machine code, {differ} with another")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
