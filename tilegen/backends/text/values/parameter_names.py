"""Numbers by the names of the schedule's parameters that gave them: `bi * TM` for `bi * 128`, `float A_shared[TK][TM]`.

Only what is known to come from a parameter has its name; a number that happens to be equal stays a number. A name that
the text has for something else, or one with small letters, which a name of the text's own might be, is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tilegen.ir.affine import Affine, Atom, Div, Mod, const
from tilegen.ir.nodes import Access, Buffer
from tilegen.ir.parts.named import Named
from tilegen.ir.printing.reserved_words import means
from tilegen.ir.walk import accesses, loads, loops, stmts
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import Function


@dataclass(frozen=True)
class ParameterNames:
    """What the text of one launch has names for.

    Attributes:
        values: of each name.
        strides: (loop, its factor) -> the text for the factor.
        extents: of loops.
        stages: of a pipelined loop, or of the number of its iterations.
        tilings: (M + 127)/128 -> the name of 128.
        lengths: (buffer, dimension) -> the text for what the extent of the dimension is, and how much more it is.
    """

    values: Mapping[str, int] = field(default_factory=dict)
    strides: Mapping[tuple[Atom, int], str] = field(default_factory=dict)
    extents: Mapping[str, Named] = field(default_factory=dict)
    stages: Mapping[Atom, Named] = field(default_factory=dict)
    tilings: Mapping[Atom, str] = field(default_factory=dict)
    lengths: Mapping[tuple[str, int], tuple[str, int]] = field(default_factory=dict)

    def stage_of(self, atom: Mod) -> str:
        """The text for what a remainder is taken by: the stages of a loop in it, or the iterations of a tile."""
        inside = [self.stages[a] for a in (*atom.arg.names(), *(a for a, _ in atom.arg.terms)) if a in self.stages]
        tile = self.tilings.get(Div(atom.arg + (atom.by - 1), atom.by), str(atom.by))
        return next((each.name for each in inside if each.value == atom.by), tile)

    def extent(self, loop: str, value: Affine) -> str:
        """The text for the extent of a loop, or of all but its last iteration; nothing without a name."""
        found = self.extents.get(loop)
        if found is None or not value.is_const or value.const not in (found.value, found.value - 1):
            return ""
        return found.name if value.const == found.value else f"{found.name} - 1"

    def rest_of_tile(self, low: Affine, more: int) -> str:
        """The text for `more`, which takes `low` from the first element of a tile, bi*TM, to its last one: TM - 1.

        In parentheses it is one number to a compiler; `i + TM - 1 < M` without them makes other, longer machine code.
        """
        atom, factor = min(low.terms, key=lambda term: term[1])
        name, tiles = self.strides.get((atom, factor)), (more + 1) // factor
        if name is None or (more + 1) % factor:
            return ""
        return f"({name} - 1)" if tiles == 1 else f"({tiles} * {name} - 1)"

    def declared(self, lines: Iterable[str]) -> list[str]:
        """The line that declares those names that the lines have."""
        text = "\n".join(line.split("//")[0] for line in lines)
        used = [name for name in self.values if re.search(rf"\b{name}\b", text)]
        return [f"constexpr int {', '.join(f'{name} = {self.values[name]}' for name in used)};"] if used else []


def parameter_names(launch: Launch, names: Mapping[str, str]) -> ParameterNames:
    """What the text of `launch` can name, beside the `names` that it has."""
    taken = {*names.values(), launch.name}
    named = [each for each in launch.named if each.name.isupper() and each.name not in taken and not means(each.name)]
    strides: dict[tuple[Atom, int], str] = {(n.loop, n.value): n.text for n in named if n.what == "stride"}
    stages: dict[Atom, Named] = {n.loop: n for n in named if n.what == "stages"}
    tilings: dict[Atom, set[str]] = {}
    for loop in loops(launch.distributed):
        for n in (n for n in named if (n.loop, n.what) == (loop.name, "stride")):
            for atom in loop.extent.divisions():
                if isinstance(atom, Div) and atom.by == n.parameter:
                    tilings.setdefault(atom, set()).add(n.name)
                    stages |= {atom: stages[loop.name]} if loop.name in stages else {}
    only = {atom: texts.pop() for atom, texts in tilings.items() if len(texts) == 1}
    strides |= {(atom, atom.by): text for atom, text in only.items() if isinstance(atom, Div)}
    strides |= _strides_of_offsets(launch, strides)
    extents = {n.loop: n for n in named if n.what == "extent"}
    found = ParameterNames({n.name: n.parameter for n in named}, strides, extents, stages, only)
    lengths: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for buffer, dim, length in (*_lengths_of_loops(launch, found), *_lengths_of_tiles(launch, found)):
        lengths.setdefault((buffer, dim), set()).add(length)
    return replace(found, lengths={key: texts.pop() for key, texts in lengths.items() if len(texts) == 1})


def _strides_of_offsets(launch: Launch, strides: Mapping[tuple[Atom, int], str]) -> dict[tuple[Atom, int], str]:
    """Those of the parameters of functions that are added to a loop: of `ahead` in ahead*8 + ko*8."""
    offsets = {name for node in launch.nodes if isinstance(node, Function) for name in node.parameters}
    found: dict[tuple[Atom, int], str] = {}
    for value in (v for v in launch.inside if offsets and isinstance(v, Affine)):
        texts = {term[1]: strides[term] for term in value.terms if term in strides}
        found |= {(a, f): texts[f] for a, f in value.terms if a in offsets and f in texts and (a, f) not in strides}
    return found


def _lengths_of_loops(launch: Launch, found: ParameterNames) -> Iterator[tuple[str, int, tuple[str, int]]]:
    """Dimensions that a loop runs along, or the stages of one."""
    for access in accesses(launch.body):
        buffer = launch.buffers[access.buffer]
        if buffer.space not in ("register", "shared"):
            continue
        for dim, (place, extent) in enumerate(zip(access.index, buffer.shape, strict=True)):
            match place:
                case Affine(((Mod(by=by) as atom, 1),), 0) if extent == const(by):
                    text = found.stage_of(atom)
                case Affine(((str(name), 1),), 0):
                    text = found.extent(name, extent)
                case _:
                    continue
            if text and not text.isdigit():
                yield access.buffer, dim, (text, 0)


def _lengths_of_tiles(launch: Launch, found: ParameterNames) -> Iterator[tuple[str, int, tuple[str, int]]]:
    """Dimensions of copies that hold a tile of their source: A[bi*128 + i] lies at A.shared[i]."""
    for stmt in stmts(launch.distributed):
        target = launch.buffers.get(stmt.target.buffer)
        if not stmt.is_copy or target is None or target.space != "shared":
            continue
        for dim, place in _kept_places(stmt.target, target, launch.memory):
            for source in (place_of for load in loads(stmt) for place_of in load.index):
                start = source - place
                if not place.terms or not {atom for atom, _ in place.terms}.isdisjoint(a for a, _ in start.terms):
                    continue
                for atom, factor in start.terms:
                    more = target.shape[dim].const - factor
                    if (text := found.strides.get((atom, factor))) and 0 <= more < factor:
                        yield target.name, dim, (text, more)


def _kept_places(access: Access, buffer: Buffer, memory: Iterable[Buffer]) -> Iterator[tuple[int, Affine]]:
    """(dimension of the text's buffer, place along it) for an access of the tree, which also has dimensions of 1."""
    shape = next(each.shape for each in memory if each.name == buffer.name)
    kept = [d for d, extent in enumerate(shape) if extent != const(1)]
    if tuple(shape[d] for d in kept) == buffer.shape:
        yield from ((dim, access.index[d]) for dim, d in enumerate(kept))
