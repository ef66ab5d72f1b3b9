"""PTX and SASS of a kernel, without a GPU: the instructions, the loop that the work is in, and what it is made of."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tilegen.backends.compiler import nvrtc, toolkit
from tilegen.errors import DeviceError

# (kind, pattern of the opcode), the first that fits counts. HFMA2.MMA with two zeros is a way to clear a register.
_SASS_KINDS = (
    ("tensor", r"[HIDQ]MMA|[HIQ]?GMMA"),
    ("multiply-add", r"FFMA|DFMA|HFMA2(?!\.MMA)|HFMA2\.MMA\."),
    ("arithmetic", r"FADD|FMUL|DADD|DMUL|HADD2|HMUL2|FMNMX|FSET|FSETP|FSEL|DSETP|MUFU|FCHK|FSWZADD"),
    ("matrix load", r"LDSM"),
    ("asynchronous copy", r"LDGSTS"),
    ("shared load", r"LDS"),
    ("shared store", r"STS"),
    ("global load", r"LDG(?!DEPBAR)|LD$|LD\."),
    ("global store", r"STG|ST$|ST\.|RED|ATOM"),
    ("spill", r"LDL|STL"),
    ("barrier", r"BAR|DEPBAR|LDGDEPBAR|SYNCS|WARPSYNC|WARPGROUP"),
    ("control", r"BRA|BSSY|BSYNC|EXIT|CALL|RET|NOP|BREAK|JMP|YIELD"),
    ("move", r"MOV|UMOV|CS2R|S2R|S2UR|HFMA2|LDC|ULDC|R2UR|PRMT"),
    ("shuffle", r"SHFL|REDUX"),
    ("integer", r"\w"),
)
_PTX_KINDS = (
    ("tensor", r"w?gmma\.mma|mma"),
    ("multiply-add", r"fma"),
    ("arithmetic", r"(?:add|sub|mul|div|neg|abs|min|max|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh|setp|selp|cvt)\S*\.b?f\d"),
    ("matrix load", r"ldmatrix"),
    ("asynchronous copy", r"cp\.async\.c[ag]"),
    ("shared load", r"ld\.shared"),
    ("shared store", r"st\.shared|stmatrix"),
    ("global load", r"ld\.(?:relaxed\.|volatile\.|weak\.)?global"),
    ("global store", r"st\.(?:relaxed\.|volatile\.|weak\.)?global|red|atom"),
    ("spill", r"(?:ld|st)\.local"),
    ("barrier", r"bar|membar|fence|mbarrier|cp\.async"),
    ("control", r"bra|ret|exit|call"),
    ("move", r"mov|ld\.param|prmt|cvta"),
    ("shuffle", r"shfl|redux"),
    ("integer", r"\w"),
)
KINDS = tuple(kind for kind, _ in _SASS_KINDS)
_NAMED = KINDS[: KINDS.index("barrier")]


@dataclass(frozen=True)
class SassInstruction:
    """One instruction: its text, its opcode with modifiers, its kind (one of KINDS), and where it may jump.

    `lines` are those of the CUDA text that it comes from, where it was compiled with them: the innermost one first,
    then those of the calls that have been put in line.
    """

    text: str
    opcode: str
    kind: str
    target: str | None = None
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Listing:
    """The instructions of one kernel. `labels` gives the place of each label among them."""

    kernel: str
    language: str
    instructions: tuple[SassInstruction, ...]
    labels: Mapping[str, int]


@dataclass(frozen=True)
class Hot:
    """The part of a listing in which a kernel spends its time.

    Attributes:
        first: place of the first instruction in the listing, `count` how many there are.
        what: "loop", "block" (the straight part of a loop that has most of its work), or "kernel" without a loop.
        mix: instructions of each kind.
        opcodes: the most frequent opcodes with their number.
        words: the opcodes without modifiers of each kind that computes, loads or copies.
    """

    first: int
    count: int
    what: str
    mix: Mapping[str, int]
    opcodes: tuple[tuple[str, int], ...]
    words: Mapping[str, tuple[str, ...]]

    @property
    def useful(self) -> int:
        """Instructions of tensor cores and multiply-adds, or other floating-point operations where there are none."""
        return self.mix.get("tensor", 0) + self.mix.get("multiply-add", 0) or self.mix.get("arithmetic", 0)


def sass(text: str, arch: str = nvrtc.DEFAULT_ARCH) -> dict[str, Listing]:
    """The machine code of every kernel of a CUDA text, by name.

    Raises:
        DeviceError: no disassembler or no compiler is there, or one of them refuses.
    """
    return sass_of(nvrtc.compile_text(text, arch))


def sass_of(compiled: nvrtc.Compiled) -> dict[str, Listing]:
    """The machine code of what has been compiled already. Raises DeviceError as `sass` does."""
    tool = toolkit.nvdisasm()
    if tool is None:
        raise DeviceError(
            "there is no nvdisasm to read machine code with",
            notes=(
                toolkit.way_to_a_compiler(),
                "PTX needs no tool: --ptx",
            ),
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(compiled.cubin)
        done = subprocess.run([str(tool), "-gi", "-c", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceError(f"nvdisasm fails: {(done.stderr.strip() or 'without a word').splitlines()[0]}")
    return parse_sass(done.stdout)


def ptx(text: str, arch: str = nvrtc.DEFAULT_ARCH) -> dict[str, Listing]:
    """The PTX of every kernel of a CUDA text, by name. Raises DeviceError where it does not compile."""
    return parse_ptx(nvrtc.compile_ptx(text, arch))


def parse_sass(listing: str) -> dict[str, Listing]:
    """The kernels of nvdisasm's text."""
    found = {}
    for part in re.split(r"^\.text\.", listing, flags=re.M)[1:]:
        name, _, body = part.partition(":")
        found[name] = _parse_listing(name, "sass", body, r"(\.L_\w+):", r"/\*[0-9a-f]{4,}\*/\s*(.*?)\s*;", _SASS_KINDS)
    return found


def parse_ptx(listing: str) -> dict[str, Listing]:
    """The kernels of a PTX text."""
    found = {}
    for part in re.split(r"\.entry ", listing)[1:]:
        name, body = part.partition("(")[0], part[part.index("\n{") :]
        # Inline assembly has scopes, and several instructions on a line.
        body = re.sub(r";[ \t]*(?=\S)", ";\n", re.sub(r"^\s*\{", "", body, flags=re.M))
        found[name] = _parse_listing(
            name, "ptx", body, r"(\$L_\w+):", r"^\s*((?:@!?%p\d+\s+)?[a-z].*?)\s*;", _PTX_KINDS
        )
    return found


def _parse_listing(
    name: str, language: str, body: str, label: str, instruction: str, kinds: tuple[tuple[str, str], ...]
) -> Listing:
    instructions: list[SassInstruction] = []
    labels: dict[str, int] = {}
    places: list[tuple[str, int]] = []  # (file, line) of what follows
    ahead = False  # the line before has named a place
    for line in body.splitlines():
        if match := re.match(r'\s*//## File "(.*?)", line (\d+)', line):
            places = [*(places if ahead else []), (match.group(1), int(match.group(2)))]
        elif match := re.match(rf"\s*{label}", line):
            labels[match.group(1)] = len(instructions)
        elif match := re.search(instruction, line):
            # Of a header's functions it is the call in the text that counts.
            lines_of_text = tuple(number for file, number in places if file.endswith(".cu"))
            instructions.append(replace(_instruction(match.group(1), kinds), lines=lines_of_text))
        ahead = bool(re.match(r"\s*//## File", line))
    # The assembler fills up the last line with NOPs after a jump to itself.
    while instructions and instructions[-1].opcode == "NOP":
        instructions.pop()
    if instructions and labels.get(instructions[-1].target or "") == len(instructions) - 1:
        instructions.pop()
    return Listing(name, language, tuple(instructions), labels)


def _instruction(text: str, kinds: tuple[tuple[str, str], ...]) -> SassInstruction:
    words = [word for word in text.split() if not word.startswith(("@", "{"))]
    opcode = words[0] if words else text
    # What never runs holds other instructions apart: loads of nothing around a product by four warps.
    kind = next(kind for kind, pattern in kinds if re.match(pattern, "BAR" if text.startswith("@!PT ") else opcode))
    target = re.search(r"(\.L_\w+|\$L_\w+)", text) if kind == "control" else None
    jumps = target and not opcode.startswith(("BSSY", "CALL"))
    return SassInstruction(text, opcode, kind, target.group(1) if target and jumps else None)


# -- the loop that the work is in


def hot(listing: Listing) -> Hot:
    """The innermost loop with most of the work: of tensor cores, else of multiply-adds.

    Where there is a fast and a careful one, it is the fast one. Loops are found by their jumps backwards. Without
    multiply-adds other arithmetic counts, then any instruction.
    """
    code = listing.instructions
    kinds = {i.kind for i in code}
    wanted = next((k for k in ("tensor", "multiply-add", "arithmetic") if k in kinds), None)
    score = [0]
    for instruction in code:
        score.append(score[-1] + (instruction.kind == wanted if wanted else 1))

    def of(part: tuple[int, int]) -> int:
        return score[part[1]] - score[part[0]]

    loops = _loops(listing)
    inner = [p for p in loops if not any(_is_within(q, p) and 4 * of(q) >= of(p) for q in loops)]
    best, what = (0, len(code)), "kernel"
    if inner:
        # A fast loop and a careful one have the same work, and the fast one has less beside it.
        most = max(map(of, inner))
        rich = [p for p in inner if 5 * of(p) >= 2 * most]
        best, what = max(rich, key=lambda p: (of(p) / (p[1] - p[0]), of(p))), "loop"
    if what == "loop" and wanted:
        blocks = [b for b in _basic_blocks(listing) if best[0] <= b[0] and b[1] <= best[1] and b != best]
        most = max(map(of, blocks), default=0)
        rich = [b for b in blocks if 2 * of(b) >= most and 5 * of(b) >= 2 * of(best)]
        if rich:
            best, what = max(rich, key=lambda b: of(b) / (b[1] - b[0])), "block"
    chosen = code[best[0] : best[1]]
    mix = Counter(i.kind for i in chosen)
    opcodes = Counter(i.opcode for i in chosen)
    ordered = {kind: mix[kind] for kind in KINDS if mix[kind]}
    words = {kind: _opcode_words(i.opcode for i in chosen if i.kind == kind) for kind in _NAMED if mix[kind]}
    return Hot(best[0], len(chosen), what, ordered, tuple(opcodes.most_common(8)), words)


def _opcode_words(opcodes: Iterable[str]) -> tuple[str, ...]:
    """The opcodes without their modifiers; of a load or a store in PTX with the memory that it is of."""
    found = (re.match(r"(?:ld|st|cp|red|atom)\.\w+|\w+", opcode) for opcode in opcodes)
    return tuple(dict.fromkeys(match[0] for match in found if match))


def _is_within(part: tuple[int, int], whole: tuple[int, int]) -> bool:
    return part != whole and whole[0] <= part[0] and part[1] <= whole[1]


def _loops(listing: Listing) -> list[tuple[int, int]]:
    """(first, end) of every stretch that a jump backwards closes; a jump to itself, after the end, is none."""
    found = []
    for place, instruction in enumerate(listing.instructions):
        start = listing.labels.get(instruction.target or "")
        if start is not None and start < place:
            found.append((start, place + 1))
    return found


def _basic_blocks(listing: Listing) -> list[tuple[int, int]]:
    """The stretches from one jump, or place that is jumped back to, to the next jump."""
    back = {start for start, _ in _loops(listing)}
    jumps = {n + 1 for n, i in enumerate(listing.instructions) if i.target is not None}
    behind = {place for place in listing.labels.values() if place in jumps}
    places = sorted({0, len(listing.instructions)} | back | jumps | behind)
    return list(zip(places, places[1:], strict=False))
