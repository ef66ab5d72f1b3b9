"""A scheduled kernel as a folder that needs no tilegen: text, machine code, header, launcher, and a test of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tilegen.backends.calls.launch_data import kernel_data, launch_data
from tilegen.backends.calls.text_versions import TextVersions
from tilegen.backends.compiler import fatbin, nvrtc
from tilegen.backends.compiler.architectures import require_instructions
from tilegen.backends.compiler.nvrtc import Compiled
from tilegen.backends.system.record import Record
from tilegen.backends.text import emit
from tilegen.backends.text.lines import comment_lines
from tilegen.errors import UsageError
from tilegen.export.build_files import cmake_lists
from tilegen.export.c_names import Interface, family_interface, interface
from tilegen.export.family import family_launcher
from tilegen.export.folder import check_folder, write_folder
from tilegen.export.header import header
from tilegen.export.launcher import launcher
from tilegen.export.trial_program import trial_program
from tilegen.export.versions import Fact, Version, every_launch, versions
from tilegen.ir.nodes import Condition
from tilegen.ir.printing.reserved_words import fresh
from tilegen.ir.printing.shown import counted
from tilegen.lab.choice.family import Candidate, Chooser, refusal, target_of
from tilegen.proof import demand
from tilegen.schedule import Derivation
from tilegen.version import __version__

Progress = Callable[[str, int, int], None]


def export(
    what: Derivation | Chooser,
    folder: Path,
    archs: Sequence[str],
    *,
    name: str = "",
    command: str = "",
    sizes: Mapping[str, int] | None = None,
    unproved: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> tuple[str, ...]:
    """Writes a kernel with all of its versions, compiled for `archs`, into `folder`; returns the names of the files.

    Of a family these are the members that all of `archs` can run, and what chooses among them. An architecture then
    stands for its GPUs: a member that needs "sm_90a" is compiled for that where "sm_90" is given.

    Args:
        archs: such as "sm_80" and "sm_90a".
        name: what functions and files are called after, the kernel if left out.
        command: what made the files, for their heads.
        sizes: what the test program computes, beside sizes that it chooses.
        unproved: True takes versions of which it is open whether they are the kernel, too; the heads say so.
        progress: is called with what is done, and how much of it.

    Raises:
        DeviceError: an architecture lacks an instruction, there is no compiler, or it refuses the text.
        UsageError: there is no such architecture or name in C, no member runs on all of `archs`, or the folder cannot
            be written, or has files of others.
        ProofError: a version is unproved, and that was not allowed. LimitError: as `lower` does.
    """
    archs = _given(archs)
    there = _runnable(what, archs) if isinstance(what, Chooser) else []
    found = family_interface(there[0].tree, name) if isinstance(what, Chooser) else interface(what.tree, name)
    members = _named(found.name, there)
    files = [f"{found.name}.cpp", found.header] if members else []
    files += [file for member in members or [found.name] for file in _file_names(member)]
    files += [f"{found.name}.json", f"{found.name}_test.cpp", "CMakeLists.txt"]
    check_folder(folder, files, f"{found.name}.json")
    how = archs, command, unproved, progress
    made = _made_family(what, found, members, *how) if isinstance(what, Chooser) else _made(what, found, *how)
    data = {"tilegen": __version__, "command": command, "files": files, **made.data}
    every = {
        **made.files,
        f"{found.name}_test.cpp": trial_program(found, made.head, sizes or {}),
        f"{found.name}.json": json.dumps(data, indent=2) + "\n",
        "CMakeLists.txt": cmake_lists(found.name, made.title, made.targets, nvrtc.options()),
    }
    write_folder(folder, {each: every[each] for each in files})
    return tuple(files)


def _runnable(chooser: Chooser, archs: Sequence[str]) -> list[Candidate]:
    found = [(c, c.refused or next(filter(None, (refusal(c.tree, a) for a in archs)), "")) for c in chooser.candidates]
    found = [(c, why or chooser.fault(c)) for c, why in found]
    there = [c for c, why in found if not why]
    if not there:
        notes = tuple(dict.fromkeys(f"{c.name}: {why}" for c, why in found))
        raise UsageError(f"no member of the family '{chooser.name}' is for {' and '.join(archs)}", notes=notes)
    return there


def _named(name: str, there: Sequence[Candidate]) -> dict[str, Candidate]:
    """Members by the names of their files."""
    taken = set[str]()
    return {fresh("_".join([name, *re.findall(r"\w+", each.name)]), taken): each for each in there}


@dataclass(frozen=True)
class Made:
    """Texts and machine code by file, their title, the architectures of each .cu, and what the manifest has of all."""

    files: Mapping[str, str | bytes]
    title: str
    targets: Mapping[str, Sequence[str]]
    data: Mapping[str, Any]

    @property
    def head(self) -> str:
        """The title as comments."""
        return "\n".join(comment_lines(self.title))


def _made_family(
    chooser: Chooser,
    found: Interface,
    members: Mapping[str, Candidate],
    archs: Sequence[str],
    command: str,
    unproved: bool,
    progress: Progress,
) -> Made:
    """The members, each as if it were alone, and what chooses among them."""
    made: dict[str, Made] = {}
    for number, (member, each) in enumerate(members.items(), 1):

        def of_member(what: str, done: int, total: int, number: int = number) -> None:
            progress(f"member {number} of {len(members)}: {what}", done, total)

        core, targets = each.scheduled().core, [target_of(each.tree, arch) for arch in archs]
        made[member] = _made(core, interface(core.tree, member), targets, command, unproved, of_member)
    title = f"the family {chooser.name} of {chooser.kernel.name}, of {counted([*made], 'member')}\n{_by(command)}"
    choice = f"A version is a schedule; a launch takes the fastest by a model of time of one {chooser.machine.name}."
    head = "\n".join(comment_lines(title))
    files: dict[str, str | bytes] = {
        f"{found.name}.cpp": family_launcher(found, members, chooser, head),
        found.header: header(found, head, choice),
    }
    for one in made.values():
        files |= one.files
    targets_of = {member: target for one in made.values() for member, target in one.targets.items()}
    shown = [{"name": members[member].name, "file": member, **one.data} for member, one in made.items()]
    return Made(files, title, targets_of, {"members": shown})


def _made(
    scheduled: Derivation, found: Interface, archs: Sequence[str], command: str, unproved: bool, progress: Progress
) -> Made:
    texts = TextVersions(scheduled.tree, "cuda", Record())
    table = versions(scheduled.tree, texts)
    for version, arch in product(table, archs):
        require_instructions(version.launches, arch)
    nvrtc.require_compiler()
    fatbin.require_tool()
    remarks = _prove(table, texts, unproved, progress, scheduled.kernel.name)
    title = "\n".join(filter(None, [scheduled.title, _by(command), remarks]))
    text = emit(tuple(every_launch(table).values()), "cuda", title)
    name, head = found.name, "\n".join(comment_lines(title))
    compiled = _compile(text, f"{name}.cu", archs, progress)
    files: dict[str, str | bytes] = {
        f"{name}.cu": text,
        found.header: header(found, head),
        f"{name}.cpp": launcher(found, table, head, archs),
        f"{name}.fatbin": fatbin.fat_binary(compiled, f"{name}.cu"),
    }
    return Made(files, title, {name: archs}, _manifest(scheduled, table, compiled))


def _given(archs: Sequence[str]) -> tuple[str, ...]:
    if not archs:
        raise UsageError("no architecture is given", notes=("--arch sm_80,sm_90 names two",))
    for arch in archs:
        require_instructions((), arch)
    return tuple(dict.fromkeys(archs))


def _by(command: str) -> str:
    return f"exported by tilegen {__version__}" + (f": {command}" if command else "")


def _compile(text: str, name: str, archs: Sequence[str], progress: Progress) -> list[Compiled]:
    found = []
    for number, arch in enumerate(archs):
        progress(f"compiling for {arch}", number, len(archs))
        found.append(nvrtc.compile_text(text, arch, name))
    return found


def _file_names(name: str) -> list[str]:
    return [f"{name}.cu", f"{name}_launch.h", f"{name}.cpp", f"{name}.fatbin"]


def _prove(table: Sequence[Version], texts: TextVersions, unproved: bool, progress: Progress, kernel: str) -> str:
    """What is not proved, if anything. Raises ProofError where that is not allowed."""
    open_ = []
    for number, version in enumerate(table):
        progress("proving the versions", number, len(table))
        proof = texts.proof(version.text)
        demand(proof, kernel, unproved=unproved)
        open_ += [f"version {version.name}: {proof.verdict}"] if proof.verdict != "proved" else []
    return "\n".join(open_)


def _manifest(scheduled: Derivation, table: Sequence[Version], compiled: Sequence[Compiled]) -> dict[str, Any]:
    launches = every_launch(table)
    return {
        "schedule": scheduled.name,
        "parameters": dict(scheduled.parameters),
        **kernel_data(scheduled.tree),
        "versions": [
            {
                "name": version.name,
                "needs": [*map(_need_text, version.needs)],
                "launches": [launch.name for launch in version.launches],
            }
            for version in table
        ],
        "launches": [launch_data(launch) for launch in launches.values()],
        "resources": {part.arch: {name: vars(r) for name, r in part.resources.items()} for part in compiled},
    }


def _need_text(fact: Fact) -> str:
    return str(fact) if isinstance(fact, Condition) else f"{fact[0]} aligned to {fact[1]} bytes"
