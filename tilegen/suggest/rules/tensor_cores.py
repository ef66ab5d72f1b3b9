"""Products of factors of 16 or 8 bits on tensor cores: fragments of a warp, tiles in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tilegen.errors import TilegenError
from tilegen.lab.predict.machine import Machine
from tilegen.suggest.draft import Draft
from tilegen.suggest.moves import bind_blocks, fuse_rows
from tilegen.suggest.nests import Nests
from tilegen.suggest.rules.product import Form, form_of, is_product, share_operands
from tilegen.suggest.rules.warpgroups import by_warpgroups, keep_fragments, terms_of

TYPES = ("f16", "bf16", "i8")


def is_short_product(nests: Nests) -> bool:
    """True of a product of two operands of one of these types, and nothing about how its sums are kept."""
    form = form_of(nests) if is_product(nests) else None
    return form is not None and form.left.dtype == form.right.dtype in TYPES


def short_product(nests: Nests, draft: Draft, machine: Machine) -> Iterator[Draft]:
    """By warpgroups where the machine has these and the form fits, else by warps."""
    form = form_of(nests)
    assert form
    if machine.arch == "sm_90":
        with suppress(TilegenError):
            yield by_warpgroups(nests, draft, form, machine)
            return
    yield _by_warps(nests, draft, form)


def _by_warps(nests: Nests, draft: Draft, form: Form) -> Draft:
    """A warp has 64 x 64 results in fragments of the instruction `mma`, which are loaded by `ldmatrix`."""
    i, j, k = form.row.word, form.column.word, form.term.word
    term, terms = form.term.names[0], terms_of(form)
    draft, tm = draft.number("TM", 128, (64, 128, 256))
    draft, tn = draft.number("TN", 128, (64, 128, 256))
    draft, tk = draft.number("TK", 4 * terms, (2 * terms, 4 * terms))
    draft, stages = draft.number("STAGES", 3, (2, 3, 4))
    draft = draft.say(f"The sum runs over whole tiles: terms beyond {k} are products of zeros.").steps(
        f"round_up({term}, {tk})"
    )
    draft, names = fuse_rows(draft, nests, [*form.others, form.row, form.column])
    *others, row, column = names
    of_i = (f"b{i}", f"t{i}", f"w{i}", f"u{i}", f"f{i}", f"{i}16")
    of_j = (f"b{j}", f"t{j}", f"w{j}", f"u{j}", f"f{j}", f"m{j}", f"n{j}", f"{j}8")
    names = draft.names(*of_i, *of_j, f"{k}o", f"{k}i", f"f{k}", f"{k}{k}")
    bi, ti, wi, ii, fi, i16, bj, tj, wj, jj, fj, jn, nj, j8, ko, ki, fk, kk = names
    draft = draft.say(
        f"A block has {tm} x {tn} results, a warp 64 x 64 of them, and an instruction 16 x 8, from {terms} terms."
    )
    draft = draft.steps(
        f"tile({row}, {tm}) -> {bi}, {ti}",
        f"tile({column}, {tn}) -> {bj}, {tj}",
        f"tile({term}, {tk}) -> {ko}, {ki}",
        f"tile({ti}, 64) -> {wi}, {ii}",
        f"tile({tj}, 64) -> {wj}, {jj}",
        f"tile({ii}, 16) -> {fi}, {i16}",
        f"tile({jj}, 16) -> {fj}, {jn}",
        f"tile({jn}, 8) -> {nj}, {j8}",
        f"tile({ki}, {terms}) -> {fk}, {kk}",
        f"order({', '.join([*others, bi, bj, ko, wi, wj, fk, fi, fj, nj, i16, j8, kk])})",
    )
    draft = bind_blocks(draft, [*others, bi, bj]).steps(f"bind({wi}, thread.z)", f"bind({wj}, thread.y)")
    draft = keep_fragments(nests, draft, bj)
    draft = _operands(draft, form, ko, fk, (i16, nj, j8, kk))
    return draft.say("Tiles are copied ahead, while those before are multiplied.").steps(f"pipeline({ko}, {stages})")


def _operands(draft: Draft, form: Form, outer: str, at: str, loops: tuple[str, str, str, str]) -> Draft:
    """Tiles of both operands in shared memory, their fragments in registers, and the instructions for them."""
    (row, pair, column, term), kind = loops, form.left.dtype
    draft = draft.say(
        "Tiles of both operands in shared memory, 16 bytes at a time; their rows change places against conflicts."
    )
    draft, (a, b) = share_operands(draft, form, outer, (row, column))
    draft = draft.steps(
        *(f"swizzle({name}, {terms_of(form) // 2})" for name in (a, b)),
        f"cache_register({a}, at={at})",
        f"cache_register({b}, at={at})",
        f"tensorize({row}, {column}, {term}, by=mma_m16n8k{terms_of(form)}_{kind})",
        f"unroll({at})",
    )
    for load in ("a_{0}", "a_trans_{0}"), ("b_trans_{0}", "b_{0}"):
        nest = f"{row}, {term}" if load[0][0] == "a" else f"{term}, {pair}, {column}"
        ways = [[f"tensorize({nest}, by=ldmatrix_{name.format(kind)})"] for name in load]
        draft = draft.first(*ways, [])
    return draft
