"""A scheduled kernel as a folder that needs no tilegen: text, machine code, header, launcher, and a test of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

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
from tilegen.export.c_names import Interface, interface
from tilegen.export.folder import check_folder, write_folder
from tilegen.export.header import header
from tilegen.export.launcher import launcher
from tilegen.export.launches import every_launch
from tilegen.export.trial_program import trial_program
from tilegen.export.versions import Fact, Version, versions
from tilegen.ir.nodes import Condition
from tilegen.proof import demand
from tilegen.schedule import Derivation
from tilegen.version import __version__

Progress = Callable[[str, int, int], None]


def export(
    scheduled: Derivation,
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

    Args:
        archs: such as "sm_80" and "sm_90a".
        name: what functions and files are called after, the kernel if left out.
        command: what made the files, for their heads.
        sizes: what the test program computes, beside sizes that it chooses.
        unproved: True takes versions of which it is open whether they are the kernel, too; the heads say so.
        progress: is told what is done, and how much of it.

    Raises:
        DeviceError: an architecture lacks an instruction, there is no compiler, or it refuses the text.
        UsageError: there is no such architecture or name in C, or the folder cannot be written, or has files of others.
        ProofError: a version is unproved, and that was not allowed.
        LimitError: as `lower` does.
    """
    archs = tuple(dict.fromkeys(archs))
    if not archs:
        raise UsageError("no architecture is given", notes=("--arch sm_80,sm_90 names two",))
    found = interface(scheduled.tree, name)
    files = _file_names(found)
    check_folder(folder, files, f"{found.name}.json")
    texts = TextVersions(scheduled.tree, "cuda", Record())
    table = versions(scheduled.tree, texts)
    for version, arch in product(table, archs):
        require_instructions(version.launches, arch)
    nvrtc.require_compiler()
    fatbin.require_tool()
    title = _title(scheduled, command, _prove(table, texts, unproved, progress, scheduled.kernel.name))
    text = emit(tuple(every_launch(table).values()), "cuda", title)
    compiled = _compile(text, f"{found.name}.cu", archs, progress)
    written = _contents(found, table, title, compiled, sizes or {}) | {
        f"{found.name}.cu": text,
        f"{found.name}.json": _manifest(scheduled, command, files, table, compiled),
    }
    write_folder(folder, {each: written[each] for each in files})
    return tuple(files)


def _compile(text: str, name: str, archs: Sequence[str], progress: Progress) -> list[Compiled]:
    found = []
    for number, arch in enumerate(archs):
        progress(f"compiling for {arch}", number, len(archs))
        found.append(nvrtc.compile_text(text, arch, name))
    return found


def _file_names(found: Interface) -> list[str]:
    text, *rest = (f"{found.name}.{word}" for word in ("cu", "cpp", "fatbin", "json"))
    return [text, found.header, *rest, f"{found.name}_test.cpp", "CMakeLists.txt"]


def _contents(
    found: Interface, table: Sequence[Version], title: str, compiled: Sequence[Compiled], sizes: Mapping[str, int]
) -> dict[str, str | bytes]:
    head = "\n".join(comment_lines(title))
    archs = [part.arch for part in compiled]
    name = found.name
    return {
        found.header: header(found, head),
        f"{name}.cpp": launcher(found, table, head, archs),
        f"{name}.fatbin": fatbin.fat_binary(compiled, f"{name}.cu"),
        f"{name}_test.cpp": trial_program(found, head, sizes),
        "CMakeLists.txt": cmake_lists(name, title, archs, nvrtc.options()),
    }


def _prove(table: Sequence[Version], texts: TextVersions, unproved: bool, progress: Progress, kernel: str) -> str:
    """What is not proved, if anything. Raises ProofError where that is not allowed."""
    open_ = []
    for number, version in enumerate(table):
        progress("proving the versions", number, len(table))
        proof = texts.proof(version.text)
        demand(proof, kernel, unproved=unproved)
        open_ += [f"version {version.name}: {proof.verdict}"] if proof.verdict != "proved" else []
    return "\n".join(open_)


def _title(scheduled: Derivation, command: str, remarks: str) -> str:
    by = f"exported by tilegen {__version__}" + (f": {command}" if command else "")
    return "\n".join(filter(None, [scheduled.title, by, remarks]))


def _manifest(
    scheduled: Derivation, command: str, files: Sequence[str], table: Sequence[Version], compiled: Sequence[Compiled]
) -> str:
    launches = every_launch(table)
    data = {
        "tilegen": __version__,
        "command": command,
        "files": files,
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
    return json.dumps(data, indent=2) + "\n"


def _need_text(fact: Fact) -> str:
    return str(fact) if isinstance(fact, Condition) else f"{fact[0]} aligned to {fact[1]} bytes"
