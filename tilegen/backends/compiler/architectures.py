"""Which architectures have the instructions of a launch: said in the head of its text, and before a compiler fails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tilegen.backends.compiler import nvrtc
from tilegen.errors import DeviceError, UsageError, did_you_mean
from tilegen.ir.hardware.instructions import ARCHITECTURES, SPECIFIC_ARCHITECTURES, Instruction, arch_number
from tilegen.lowering.launch.launch import Launch


def instructions_of(launches: Iterable[Launch]) -> tuple[Instruction, ...]:
    """The instructions that warps run, each once, in the order of the text."""
    return tuple(dict.fromkeys(node.instruction for launch in launches for node in launch.performs))


HOPPER = "sm_90"
"""The first one with bulk copies of tensors, and with launches that begin early."""

_BULK, _DEPENDENT = "bulk copies", "dependent launches"


def features_of(launches: Iterable[Launch]) -> tuple[str, ...]:
    """What the launches ask of a GPU beside instructions, in words: all of it is since HOPPER."""
    launches = tuple(launches)
    bulk, dependent = any(each.maps for each in launches), any(each.dependent for each in launches)
    return (_BULK,) * bulk + (_DEPENDENT,) * dependent


def needed_lines(instructions: Sequence[Instruction], features: Sequence[str] = ()) -> Iterator[str]:
    """What a GPU has to be for all of the instructions, and which of them ask for that; nothing for none.

    Args:
        features: those of `features_of`.
    """
    for arch in SPECIFIC_ARCHITECTURES:
        if asking := [each for each in instructions if each.arch == arch]:
            yield _needs(asking)
    common = [each for each in instructions if each.arch in ARCHITECTURES]
    newest = max((each.arch for each in common), key=ARCHITECTURES.index, default="")
    if features and (not newest or arch_number(newest) <= arch_number(HOPPER)):
        yield f"needs {HOPPER} or later: {', '.join(features)}"
    elif common:
        yield _needs([each for each in common if each.arch == newest])


def _needs(asking: Sequence[Instruction]) -> str:
    return f"needs {asking[0].needs}: {', '.join(each.name for each in asking)}"


def compiled_architecture(instructions: Iterable[Instruction], arch: str) -> str:
    """What a text that uses the instructions is compiled for, to run on a GPU of `arch` ("sm_90").

    That is `arch` itself, or, where one of them asks for it, the architecture that this GPU alone has ("sm_90a").
    """
    specific = f"{arch}a"
    return specific if any(each.arch == specific for each in instructions) else arch


def require_instructions(launches: Iterable[Launch], arch: str, device: str = "") -> None:
    """Raises DeviceError where `arch` ("sm_80") lacks an instruction, UsageError where that names no architecture.

    Args:
        device: the GPU that is asked, for the message.
    """
    known = (*ARCHITECTURES, *SPECIFIC_ARCHITECTURES)
    named = re.fullmatch(r"(sm_\d+)[af]?", arch)
    if not named or not (device or named[1] in (*known, *nvrtc.architectures())):
        notes = (*did_you_mean(arch, known), f"known are {', '.join(known)}")
        raise UsageError(f"there is no architecture '{arch}'", notes=notes)
    launches = tuple(launches)
    for instruction in instructions_of(launches):
        if not instruction.runs_on(arch):
            where = f"{device} is {arch}" if device else f"this is for {arch}"
            others = f"a schedule without tensorize(..., by={instruction.name}) can run on {arch}"
            notes = (
                f"GPUs of {arch} have it: name {instruction.arch}" if instruction.arch == f"{arch}a" else others,
                "tilegen check --device cpu runs what it means, element by element",
            )
            message = f"the instruction '{instruction.name}' needs {instruction.needs}, and {where}"
            raise DeviceError(message, instruction.span, notes=notes)
    ways = {
        _BULK: ("bulk(...)", "copies by all threads"),
        _DEPENDENT: ("dependent_launch()", "runs one launch after the other"),
    }
    for feature in features_of(launches) if arch_number(arch) < arch_number(HOPPER) else ():
        where = f"{device} is {arch}" if device else f"this is for {arch}"
        step, instead = ways[feature]
        notes = (f"a schedule without {step} can run on {arch}", f"tilegen check --device cpu {instead}")
        raise DeviceError(f"{feature} need {HOPPER} or later, and {where}", notes=notes)
