"""Steps that several rules take: nests joined into one, loops cut for blocks and threads, results in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.suggest.draft import Draft
from tilegen.suggest.nests import Axis, Nests


def power_of_two(number: int, most: int) -> int:
    """The least power of two that is not below the number, `most` at the most."""
    return min(most, 1 << max(0, number - 1).bit_length())


def vector_of(nests: Nests, axis: Axis) -> int:
    """The elements of 16 bytes of the widest type that is stored along this axis."""
    along = [a for a in nests.main if nests.fastest(a) in axis.names]
    return 16 // max((DTYPE_BYTES[nests.tensor(a.tensor).dtype] for a in along), default=16)


def fuse_rows(draft: Draft, nests: Nests, rows: Sequence[Axis]) -> tuple[Draft, list[str]]:
    """The nests joined in loops over `rows`, in this order, with the names of these loops."""
    if len(rows) > 1:
        for n in range(len(nests.equations)):
            wanted = [axis.loops[n] for axis in rows]
            if wanted != [r.name for r in nests.ranges(n)][: len(rows)]:
                draft = draft.steps(f"order({', '.join(wanted)}, ...)")
    if len(nests.equations) == 1:
        return draft, [axis.loops[0] for axis in rows]
    names = []
    for axis in rows:
        name = draft.fresh(axis.word, axis.names)
        draft = draft.steps(f"fuse({', '.join(axis.names)}) -> {name}")
        names.append(name)
    return draft, names


def shared_copy(draft: Draft, tensor: str) -> tuple[str, str]:
    """The name of the next copy of a tensor in shared memory, and what a step says where it is not the usual one."""
    usual = f"{tensor}.shared"
    if all(b.name != usual for b in draft.tree.buffers):
        return usual, ""
    name = draft.fresh(usual)
    return name, f" -> {name}"


def keep(draft: Draft, buffer: str, at: str, vector: int = 1) -> Draft:
    """A buffer in registers during an iteration of `at`, if that is accepted."""
    moved = f", vector={vector}" if vector > 1 else ""
    copies = {b.name for b in draft.tree.buffers}
    name = f" -> {draft.fresh(buffer)}" if f"{buffer}.reg" in copies else ""
    return draft.maybe(f"cache_register({buffer}, at={at}{moved}){name}")


def keep_inside(draft: Draft, nests: Nests, at: str) -> Draft:
    """The tensors between these equations in registers during an iteration of `at`, as far as they can be."""
    for equation in nests.equations:
        if equation.target in nests.inside and not equation.reduce:
            draft = keep(draft, equation.target, at)
    return draft


def keep_results(nests: Nests, draft: Draft, at: str, vector: int) -> Draft:
    """The sums of the first equation, and what follows them, in registers; they leave as vectors."""
    sums, *behind = [equation.target for equation in nests.equations]
    if not behind:
        return draft.steps(f"cache_register({sums}, at={at}, vector={vector})")
    draft = keep_inside(draft.steps(f"cache_register({sums}, at={at})"), nests, at)
    for target in behind:
        if target not in nests.inside:
            draft = draft.maybe(f"cache_register({target}, at={at}, vector={vector})")
    return draft


# Blocks of loops over tiles.
Spread = Callable[[Draft, Sequence[str]], Draft]


def bind_blocks(draft: Draft, names: Sequence[str]) -> Draft:
    """All of these loops along x, where a grid may have 2^31 blocks; the last one varies fastest."""
    what = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    return draft.steps(f"bind({what}, block.x)")
