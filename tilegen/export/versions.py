"""The versions of a kernel as a table: which texts there are, and what sizes and addresses each of them is for.

It says in data what `TextVersions` decides at each call, so that it can be printed in another language. The first row
that is met and fits runs; those of 64-bit offsets stand after those of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from tilegen.backends.calls.text_versions import TextVersion, TextVersions
from tilegen.backends.compiler.architectures import instructions_of
from tilegen.backends.text import emit
from tilegen.backends.text.arrays import scratch_buffers
from tilegen.ir.affine import Affine
from tilegen.ir.facts.choices import negations
from tilegen.ir.nodes import DTYPE_BYTES, Condition, Kernel, Tree
from tilegen.ir.printing.reserved_words import fresh
from tilegen.lowering import Launch
from tilegen.lowering.integers.integers import elements, shapes
from tilegen.lowering.sync.specialized import with_whole_rings
from tilegen.poly import Facts

Fact = Condition | tuple[str, int]
"""Of sizes, or a tensor with the bytes that its address is a multiple of."""


@dataclass(frozen=True)
class Version:
    """One text of the kernel.

    Attributes:
        name: unique among the versions: whole, vector, scalar, mixed_1, whole_64, ...
        launches: in their order; those of two versions that have the same text have the same name.
        needs: what has to hold of sizes and addresses.
        text: what it is to `TextVersions`.
    """

    name: str
    launches: tuple[Launch, ...]
    needs: tuple[Fact, ...]
    text: TextVersion

    @property
    def wide(self) -> bool:
        """Whether its offsets have 64 bits."""
        return bool(self.text.wide)

    @property
    def bounds(self) -> tuple[Condition, ...]:
        """What sizes have to be, beside few enough elements, so that no integer leaves its type."""
        return tuple(dict.fromkeys(c for launch in self.launches for c in launch.fitting))

    @property
    def shapes(self) -> tuple[tuple[Affine, ...], ...]:
        """What has to have fewer elements than `most_elements`, where that depends on sizes."""
        found = dict.fromkeys(shape for launch in self.launches for shape in shapes(launch))
        return tuple(shape for shape in found if any(not extent.is_const for extent in shape))

    @property
    def most_elements(self) -> int:
        return elements(self.wide)

    @property
    def is_hopeless(self) -> bool:
        """True if a tensor of a constant shape has too many elements."""
        constant = (s for launch in self.launches for s in shapes(launch) if all(extent.is_const for extent in s))
        return any(prod(max(1, extent.const) for extent in shape) >= self.most_elements for shape in constant)


def versions(tree: Tree, texts: TextVersions) -> tuple[Version, ...]:
    """The versions that calls can come to, in the order in which they are tried; `texts` has their launches.

    Raises:
        LimitError: as `lower` does.
    """
    narrow = tuple(v for v in _of_width(tree, texts, wide=False) if not v.is_hopeless)
    found = narrow
    if not narrow or any(v.bounds or v.shapes for v in narrow):
        found = (*narrow, *_of_width(tree, texts, wide=True))
    return _share_texts(found, tree)


def every_launch(table: Sequence[Version]) -> dict[str, Launch]:
    """The launches of all versions by name; the versions share some."""
    return {launch.name: launch for version in table for launch in version.launches}


# -- the versions of one width


def _of_width(tree: Tree, texts: TextVersions, wide: bool) -> tuple[Version, ...]:
    """Whole tiles, then the rest, those with the fewest scalarized loops first: the first one whose needs a call meets
    is scalarized where it has to be, and nowhere else."""
    all_vectors, whole = texts.launches(TextVersion(wide=wide)), texts.launches(TextVersion(whole=True, wide=wide))
    rows = [Version("whole", whole, _needs(tree, whole, frozenset(), every=True), TextVersion(whole=True, wide=wide))]
    for scalarized in _scalarized_sets(tree, all_vectors):
        text, needs = TextVersion(scalarized, wide=wide), _needs(tree, all_vectors, scalarized)
        rows.append(Version(_word(scalarized, all_vectors, needs), texts.launches(text), needs, text))
    if len(rows) > 1 and not rows[1].text.scalarized and _bodies(rows[0]) == _bodies(rows[1]):
        rows = rows[1:]  # the tiles make no difference
    kept: list[Version] = []
    for row in rows:
        if not any(set(before.needs) <= set(row.needs) for before in kept):
            kept.append(row)
    mixed = [v.name for v in kept].count("mixed")
    numbers = iter(range(1, mixed + 1))
    bits = "_64" if wide else ""
    return tuple(replace(v, name=f"{v.name}{f'_{next(numbers)}' if v.name == 'mixed' else ''}{bits}") for v in kept)


def _word(scalarized: frozenset[str], launches: Iterable[Launch], needs: tuple[Fact, ...]) -> str:
    needing = {loop for launch in launches for loop in launch.needs}
    if not needing:
        return "plain"
    return "vector" if not scalarized & needing else "mixed" if needs else "scalar"


def _needs(
    tree: Tree, launches: Iterable[Launch], scalarized: frozenset[str], *, every: bool = False
) -> tuple[Fact, ...]:
    """What the vector loops need that are not scalarized; with `every`, what the launches require beside."""
    found: dict[Fact, None] = {}
    for launch in launches:
        found |= dict.fromkeys(launch.requires if every else ())
        for loop, need in launch.needs.items():
            if loop not in scalarized:
                found |= dict.fromkeys((*need.requires, *need.alignment))
    facts = Facts(tree.kernel)
    open_ = [fact for fact in found if not _is_certain(fact, tree, facts)]
    for fact in tuple(open_):
        others = tuple(f for f in open_ if isinstance(f, Condition) and f != fact)
        if isinstance(fact, Condition) and facts.is_implied(fact, {}, others):
            open_.remove(fact)  # N % 256 == 0 says what N % 4 == 0 does
    return tuple(open_)


def _is_certain(fact: Fact, tree: Tree, facts: Facts) -> bool:
    """True of what holds in every call: scratch memory is aligned, and every tensor to its elements."""
    if isinstance(fact, Condition):
        return facts.is_implied(fact, {})
    name, by = fact
    if name in {b.name for b in scratch_buffers(tree)}:
        return True
    return DTYPE_BYTES[tree.kernel.tensor(name).dtype] % by == 0


def _scalarized_sets(tree: Tree, launches: Sequence[Launch]) -> Iterator[frozenset[str]]:
    """The sets of vector loops that are scalarized in some call, the smallest first."""
    needs = {}
    for launch in launches:
        for loop in launch.needs:
            needs[loop] = frozenset(_needs(tree, [replace(launch, needs={loop: launch.needs[loop]})], frozenset()))
    found = {with_whole_rings(tree, scalarized) for scalarized in _unmet_sets(tree.kernel, needs)}
    yield from sorted(found, key=lambda scalarized: (len(scalarized), sorted(scalarized)))


def _unmet_sets(kernel: Kernel, needs: Mapping[str, frozenset[Fact]]) -> Iterator[frozenset[str]]:
    """For everything that sizes and addresses can be, the loops that need what is not so."""
    facts = Facts(kernel)
    every = {fact for need in needs.values() for fact in need}
    conditions = sorted((f for f in every if isinstance(f, Condition)), key=str)
    tensors: dict[str, list[int]] = {}
    for name, by in sorted(f for f in every if not isinstance(f, Condition)):
        tensors.setdefault(name, []).append(by)
    aligned = [[{(name, by) for by in powers[:count]} for count in range(len(powers) + 1)] for name, powers in
               ((name, sorted(bys)) for name, bys in tensors.items())]  # fmt: skip
    for count in range(len(conditions) + 1):
        for held in combinations(conditions, count):
            if not _is_possible(facts, held, [c for c in conditions if c not in held]):
                continue
            for choice in product(*aligned):
                met = set(held).union(*choice)
                yield frozenset(loop for loop, need in needs.items() if not need <= met)


def _is_possible(facts: Facts, held: Sequence[Condition], broken: Sequence[Condition]) -> bool:
    ways = product(*(negations(c) for c in broken))
    return any(facts.is_possible((*held, *way), {}) for way in ways)


# -- names


def _bodies(version: Version) -> list[str]:
    return [_without_notes(launch) for launch in version.launches]


def _without_notes(launch: Launch) -> str:
    """The text of a launch, but for what is said of its name and needs."""
    return emit([replace(launch, requires=(), alignment={}, fitting=(), beyond=())])


def _share_texts(found: Sequence[Version], tree: Tree) -> tuple[Version, ...]:
    """The versions, their launches named after them; a text that two have in common has one name."""
    names: dict[str, Launch] = {}
    taken = {each.name for version in found for each in instructions_of(version.launches)}
    out = []
    for version in found:
        launches = []
        for launch in version.launches:
            text = emit([launch])
            if text not in names:
                suffix = f"_{version.name}" if len(found) > 1 else ""
                names[text] = replace(launch, name=fresh(f"{launch.name}{suffix}", taken, entry=True))
            launches.append(names[text])
        out.append(replace(version, launches=tuple(launches)))
    return tuple(out)
