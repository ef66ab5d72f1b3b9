"""Products of 16 or 8 bits by warpgroups of sm_90a: `wgmma` reads both operands from shared memory; TMA fills it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilegen.errors import StepError
from tilegen.ir.nodes import DTYPE_BYTES
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import Spread, bind_blocks, fuse_rows, keep_inside, keep_results
from tilegen.suggest.nests import Nests
from tilegen.suggest.rules.product import Form, share_operands

# Rows and columns of a block's results, the tiles of operands that shared memory has room for, blocks that share an SM.
TILES = ((128, 256, 4, 1), (128, 128, 3, 2), (64, 128, 4, 2), (64, 64, 6, 2))


def _tile_for(form: Form, machine: Machine) -> tuple[int, int, int, int]:
    """The one that keeps all multiprocessors busy with the least work; small tiles wait for their operands."""

    def cost(tile: tuple[int, int, int, int]) -> float:
        rows, columns, _, resident = tile
        blocks = -(-form.row.extent // rows) * -(-form.column.extent // columns) * prod(a.extent for a in form.others)
        return -(-blocks // (machine.sms * resident)) * resident * rows * columns * (1 + 32 / rows + 32 / columns)

    return min(TILES, key=cost)


# The draft with all nests in loops over the results, and these: those around all tiles, those over rows and columns.
Join = Callable[[Draft], tuple[Draft, list[str]]]


def by_warpgroups(
    nests: Nests, draft: Draft, form: Form, machine: Machine, join: Join | None = None, spread: Spread = bind_blocks
) -> Draft:
    """A producer lets TMA fetch tiles of both operands, which warpgroups multiply by 64 rows.

    Args:
        join: other loops than those of the form; `spread` makes blocks of those over tiles.

    Raises StepError where the left operand is not stored along the sum, and TilegenError where a step is refused.
    """
    turned, terms = _is_turned(nests, form), terms_of(form)
    rows, columns, stages, resident = _tile_for(form, machine)
    i, j, k, kind = form.row.word, form.column.word, form.term.word, form.left.dtype
    term = form.term.names[0]
    draft, tm = draft.number("TM", rows, (64, 128))
    draft, tn = draft.number("TN", columns, (64, 128, 256))
    draft, tk = draft.number("TK", 4 * terms)
    draft, deep = draft.number("STAGES", stages, (2, 3, 4, 6))
    draft = draft.say(f"The sum runs over whole tiles: terms beyond {k} are products of zeros.").steps(
        f"round_up({term}, {tk})"
    )
    draft, names = join(draft) if join else fuse_rows(draft, nests, [*form.others, form.row, form.column])
    *others, row, column = names
    of_k = (f"{k}o", f"{k}i", f"f{k}", f"{k}{k}")
    bi, ti, wi, i64, bj, tj, ko, ki, fk, kk = draft.names(f"b{i}", f"t{i}", f"w{i}", f"{i}64", f"b{j}", f"t{j}", *of_k)
    draft = draft.say(
        f"A block has {tm} x {tn} results, and a warpgroup 64 rows of them: one instruction adds {terms} terms to them "
        "all."
    )
    draft = draft.steps(
        f"tile({row}, {tm}) -> {bi}, {ti}",
        f"tile({column}, {tn}) -> {bj}, {tj}",
        f"tile({term}, {tk}) -> {ko}, {ki}",
        f"tile({ti}, 64) -> {wi}, {i64}",
        f"tile({ki}, {terms}) -> {fk}, {kk}",
        f"order({', '.join([*others, bi, bj, ko, wi, fk, i64, tj, kk])})",
    )
    draft = spread(draft, [*others, bi, bj]).steps(f"bind({wi}, thread.y)")
    draft, stored = _keep_results(nests, draft, (bj, wi, i64, tj), j)
    draft = _operands(draft, form, ko, turned, (i64, tj))
    draft = draft.steps(
        f"tensorize({i64}, {tj}, {kk}, by=wgmma_m64n{{{tn}}}k{terms}_{'trans_' if turned else ''}{kind})",
        *stored,
        f"unroll({fk})",
    )
    draft = draft.say("A producer starts copies as soon as a tile has been used; the others multiply.")
    draft = draft.steps(f"pipeline({ko}, {deep})", f"specialize({ko})")
    return draft.maybe(f"resident({bj}, {resident})") if resident > 1 else draft


def _is_turned(nests: Nests, form: Form) -> bool:
    """True if the right operand is stored along the columns. StepError where no instruction reads operands so."""
    along = [load.index[nests.tensor(load.buffer).order[-1]].names() for load in (form.left, form.right)]
    if not along[0] & {*form.term.names}:
        raise StepError("wgmma reads its left operand along the sum")
    turned = bool(along[1] & {*form.column.names})
    if turned and terms_of(form) != 16:
        raise StepError("wgmma reads bytes along the sum")
    return turned


def terms_of(form: Form) -> int:
    """What an instruction adds up at once: 32 bytes of each factor."""
    return 32 // DTYPE_BYTES[form.left.dtype]


def _operands(draft: Draft, form: Form, at: str, turned: bool, used: tuple[str, str]) -> Draft:
    """Tiles of both operands in shared memory; the right one in panels where it is stored along the columns."""
    draft = draft.say(
        "Tiles of both operands lie in shared memory as the instruction reads them; TMA fetches each as a whole."
    )
    draft, names = share_operands(draft, form, at, used, ", panel=64" if turned else "")
    return draft.steps(
        *(f"swizzle({name}, {terms_of(form) // 2})" for name in names),
        *(f"bulk({name})" for name in names),
    )


def _keep_results(nests: Nests, draft: Draft, loops: tuple[str, str, str, str], column: str) -> tuple[Draft, list[str]]:
    """The sums in fragments, and the step that stores them: 16 bits leave in whole rows, by way of shared memory."""
    at, warp, row, along = loops
    result = nests.equations[-1].target
    kind = nests.tensor(result).dtype
    outside = [equation.target for equation in nests.equations if equation.target not in nests.inside]
    if kind not in ("f16", "bf16") or outside != [result]:
        return keep_fragments(nests, draft, at), []
    panel, part, group, s64, s16 = draft.names(*(f"{letter}{column}" for letter in ("h", "u", "f", "s64", "s16")))
    name = f"{result}.reg"
    draft = draft.say("The sums stay in the registers of a warpgroup; they leave 64 columns at a time, in whole rows.")
    draft = draft.steps(f"cache_register({nests.equations[0].target}, at={at})")
    draft = keep_inside(draft, nests, at).steps(
        f"cache_register({result}, at={at})",
        f"rename({along}, of={name}) -> {part}",
        f"rename({row}, of={name}) -> {s64}",
        f"tile({part}, 64) -> {panel}, {part}",
        f"tile({part}, 16) -> {group}, {s16}",
        f"order({panel}, {warp}, {group}, {s64}, {s16})",
        f"cache_shared({result}, at={panel}, vector=8)",
        f"swizzle({result}.shared, 8)",
    )
    return draft, [f"tensorize({s64}, {s16}, by=stmatrix_c_warpgroup_{kind})"]


def keep_fragments(nests: Nests, draft: Draft, at: str) -> Draft:
    """The sums as fragments, and what follows them."""
    draft = draft.say("The sums stay in the registers of the warp, and leave by two neighbours.")
    return keep_results(nests, draft, at, 2)
