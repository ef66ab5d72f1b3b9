"""The versions of a kernel's text: with vectors and without, for whole tiles, in 32 and in 64 bits; which one runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tilegen.backends.system.record import Record
from tilegen.backends.text import emit
from tilegen.errors import LimitError, TilegenError, UsageError
from tilegen.ir.nodes import Tree
from tilegen.ir.printing.show import show_fact
from tilegen.lowering import Launch, fits, lower, unmet
from tilegen.lowering.integers.counts import check_counts
from tilegen.lowering.integers.pitches import pitched_tensors, with_pitches
from tilegen.lowering.sync.bulk_loops import bulk_nests
from tilegen.poly import Facts
from tilegen.proof import Proof, demand, prove


@dataclass(frozen=True)
class TextVersion:
    """The vector loops that do without what they need, whether it is for whole tiles, the width of integers, and the
    tensors whose rows are apart."""

    scalarized: frozenset[str] = frozenset()
    whole: bool = False
    wide: bool | None = None  # None: where the kernel admits no smaller sizes
    pitched: frozenset[str] = frozenset()

    @property
    def words(self) -> tuple[object, ...]:
        """The same in each process."""
        return tuple(sorted(self.scalarized)), self.whole, self.wide, tuple(sorted(self.pitched))


class TextVersions:
    """The launches of each version of a tree, and what was proved of them: made at the first use, and kept.

    The launches and the proved texts are kept in `record`, too.
    """

    def __init__(self, tree: Tree, language: str, record: Record) -> None:
        self._tree, self._language, self._record = tree, language, record
        self._lowered: dict[TextVersion, tuple[Launch, ...]] = {}
        self._proofs: dict[TextVersion, Proof] = {}

    def launches(self, version: TextVersion) -> tuple[Launch, ...]:
        if version not in self._lowered:
            words = ("launches", self._language, *version.words)
            found = self._record.recall(*words)
            if found is None:
                scalarized, whole, wide = version.scalarized, version.whole, version.wide
                cuda = self._language == "cuda"
                found = lower(self._tree_of(version), scalarized=scalarized, whole=whole, wide=wide, instructions=cuda)
                self._record.keep(found, *words)
            self._lowered[version] = found
        return self._lowered[version]

    def _tree_of(self, version: TextVersion) -> Tree:
        return with_pitches(self._tree, version.pitched)

    def proof(self, version: TextVersion) -> Proof:
        """What was asked of a version; asked once, and of versions with the same launches once, too."""
        if version not in self._proofs:
            tree, launches = self._tree_of(version), self.launches(version)
            asked = tuple(self._proofs.items())  # other threads ask, too
            known = next((proof for each, proof in asked if self.launches(each) == launches), None)
            self._proofs[version] = known or prove(tree.kernel, launches, tree.reassociated)
        return self._proofs[version]

    def main(self) -> tuple[TextVersion, ...]:
        """Those that differ of: all vectors, none that needs an alignment, whole tiles."""
        every, whole = self.launches(TextVersion()), self.launches(TextVersion(whole=True))
        needing = frozenset(loop for launch in every for loop in launch.needs)
        found = [TextVersion(), TextVersion(needing)] if needing else [TextVersion()]
        if [launch.requires for launch in whole] != [launch.requires for launch in every]:
            found.append(TextVersion(whole=True))
        return tuple(found)

    @property
    def asked(self) -> tuple[Proof, ...]:
        """The proofs so far."""
        return tuple(self._proofs.values())

    def text(self, version: TextVersion, *, unproved: bool) -> str:
        """The text of a version. On record are those that are proved alone, so that they need no proof again.

        Raises:
            ProofError: it is not proved, and neither is it allowed to be `unproved`.
        """
        words = ("text", self._language, *version.words)
        text: str | None = self._record.recall(*words)
        if text is None:
            proof = self.proof(version)
            demand(proof, self._tree.kernel.name, unproved=unproved)
            text = emit(self.launches(version), self._language)
            if proof.verdict == "proved":
                self._record.keep(text, *words)
        return text

    def choose(self, sizes: Mapping[str, int], addresses: Mapping[str, int], *, whole: bool = True) -> TextVersion:
        """The version that runs at these sizes, on tensors at these addresses; one without is aligned.

        Of tensors whose rows are apart, `sizes` has the pitches, too.

        Args:
            whole: False leaves out those for whole tiles.

        Raises:
            LimitError: sizes that not even integers of 64 bits are enough for, or the count of a list is not.
        """
        check_counts(self._tree.kernel, sizes)
        for wide in (False, True):
            version = self._choose_vectors(sizes, addresses, wide, whole)
            if fits(self.launches(version), sizes):
                return version
        # For coordinates of boxes the hardware takes 32 bits alone: a version without boxes has none.
        nests = frozenset(nest.name for nest in bulk_nests(self._tree.body))
        version = replace(version, whole=False, scalarized=version.scalarized | nests)
        if nests and fits(self.launches(version), sizes):
            return version
        message = f"kernel '{self._tree.kernel.name}' needs integers of more than 64 bits for {sizes_text(sizes)}"
        raise LimitError(message, notes=("smaller sizes are the way out",))

    def _choose_vectors(
        self, sizes: Mapping[str, int], addresses: Mapping[str, int], wide: bool, whole: bool
    ) -> TextVersion:
        """Whole tiles where that goes, and vectors where they are aligned."""
        pitched = pitched_tensors(sizes)
        if whole:
            launches = self.launches(version := TextVersion(whole=True, wide=wide, pitched=pitched))
            met = all(c.holds(sizes) for launch in launches for c in launch.requires)
            if met and not unmet(launches, sizes, addresses):
                return version
        every = self.launches(TextVersion(wide=wide, pitched=pitched))
        return TextVersion(unmet(every, sizes, addresses), wide=wide, pitched=pitched)


def require_whole_tiles(unfixed: Callable[[], Tree], sizes: Mapping[str, int]) -> None:
    """Raises UsageError where `sizes` are none that the version for whole tiles is for, or no sizes are.

    Args:
        unfixed: makes the tree for all sizes; where that raises an error, its steps are for these sizes alone.
    """
    try:
        tree = unfixed()
        needed = dict.fromkeys(c for launch in lower(tree, whole=True) for c in launch.requires)
    except TilegenError:
        return
    notes = ("without --whole, or whole=True in Python, the text has the tests for other sizes",)
    if not Facts(tree.kernel).is_possible(needed, {}):
        message = f"no sizes have whole tiles in all loops: {' and '.join(map(show_fact, needed))} never hold together"
        raise UsageError(message, notes=notes)
    unmet = [c for c in needed if c.value.names() <= sizes.keys() and not c.holds(sizes)]
    if unmet:
        given = sizes_text({size: n for size, n in sizes.items() if any(size in c.value.names() for c in unmet)})
        raise UsageError(f"the text for whole tiles needs {', '.join(map(show_fact, unmet))}, and {given}", notes=notes)


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`M = 3, N = 4`."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())
