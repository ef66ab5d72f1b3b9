"""Vector loops: the lanes of each access lie side by side, and the first one on a whole vector."""

from __future__ import annotations

from tilegen.ir.affine import const
from tilegen.ir.nodes import DTYPE_BYTES, Condition
from tilegen.poly.project import Leaf, Program, Use
from tilegen.poly.system import Row, example, rows_of, solvable
from tilegen.poly.verdict import Refused, Words

WIDTHS = (2, 4, 8, 16)
BYTES = 16


def check_vectors(program: Program) -> None:
    """Refused where a vector loop has no vector's width, or an access in it is no vector."""
    memo = program.original.memo
    for placed in program.leaves:
        leaf = placed.leaf
        if "vector" not in leaf.kinds:
            continue
        _no_lane_memory(program, leaf)
        layouts = tuple((program.buffers[u.buffer].order, program.buffers[u.buffer].swizzle) for u in leaf.uses)
        key = ("vectors", leaf.points, leaf.kinds)
        if memo.get(key) != layouts:
            _check_leaf(program, leaf)
            memo[key] = layouts


def _no_lane_memory(program: Program, leaf: Leaf) -> None:
    """The lanes of a statement run before the next statement, so nothing can live in one lane alone."""
    loop = leaf.names[leaf.kinds.index("vector")]
    for use in leaf.uses:
        if program.buffers[use.buffer].scope == loop:
            raise Refused(
                f"'{use.buffer}' lives in vector loop '{loop}', whose lanes would share it",
                None,
                f"cache it outside '{loop}', so that every lane has its own element",
            )


def _check_leaf(program: Program, leaf: Leaf) -> None:
    depth = leaf.kinds.index("vector")
    loop, extent = leaf.names[depth], leaf.extents[depth]
    if leaf.kinds.count("vector") > 1:
        raise Refused(
            f"vector loop '{leaf.names[depth + 1 + leaf.kinds[depth + 1 :].index('vector')]}' is inside '{loop}'"
        )
    if not extent.is_const or extent.const not in WIDTHS:
        raise Refused(f"vector loop '{loop}' has {extent} lanes, and a vector has 2, 4, 8 or 16")
    if depth != len(leaf.names) - 1:
        raise Refused(f"vector loop '{loop}' is not innermost: '{leaf.names[depth + 1]}' is inside it")
    for use in leaf.uses:
        dtype = program.buffers[use.buffer].dtype
        width = extent.const * DTYPE_BYTES[dtype]
        if width > BYTES and any(loop in i.names() for i in use.index):
            raise Refused(
                f"a vector of {extent.const} {dtype} has {width} bytes, and {BYTES} is the most",
                None,
                f"{BYTES // DTYPE_BYTES[dtype]} elements fit",
            )
    # Registers have no addresses: any lane may be in any of them.
    uses = [u for u in leaf.uses if program.buffers[u.buffer].space != "register"]
    faults = [f for f in (_fault(program, leaf, use, loop, extent.const) for use in uses) if f]
    if faults and (not leaf.stmt.is_copy or len(faults) == len(uses)):
        first, *others = (f.violation for f in faults)
        raise Refused(first.sentence, first.witness, *first.notes, *(note for v in others for note in v.notes))


def _fault(program: Program, leaf: Leaf, use: Use, loop: str, width: int) -> Refused | None:
    """What keeps the access from being one vector, or one value for all lanes; None if nothing does."""
    if all(loop not in i.names() for i in use.index):
        return None
    buffer = program.buffers[use.buffer]
    fastest = buffer.order[-1] if buffer.order else 0
    for dim, index in enumerate(use.index):
        step = 1 if dim == fastest else 0
        if not index.linear_in(loop) or index.coefficient(loop) != step:
            return _apart(program, leaf, use, loop)
    if buffer.swizzle and not buffer.swizzle.keeps(width):
        return Refused(
            f"the vectors of '{use.buffer}' in loop '{loop}' have {width} elements, and its swizzle moves units of "
            f"{buffer.swizzle.unit}",
            None,
            f"swizzle({use.buffer}, {width}) keeps them whole",
        )
    start = use.index[fastest].substitute({loop: const(0)})
    off = start % width
    if off.is_const and off.const == 0:
        return None
    question = (*program.original.context, *leaf.domain, *rows_of(Condition(off - 1)))
    if not solvable(question):
        return None
    words = _words(program, leaf, question)
    lane = {**words.point, loop: 0}
    at = ", ".join(str(i.evaluate(_filled(lane, i.names()))) for i in use.index)
    return Refused(
        f"the vectors of '{use.buffer}' in loop '{loop}' do not start at a multiple of {width} elements of their row",
        f"lane {loop}=0 of {words.instance(leaf)} is at {use.buffer}[{at}]{words.sizes}",
    )


def _apart(program: Program, leaf: Leaf, use: Use, loop: str) -> Refused:
    # At sizes where the statement runs, if there are such.
    question = (*program.original.context, *leaf.domain)
    if not solvable(question):
        question = (*program.original.context, *leaf.ranges)
    words = _words(program, leaf, question)
    lanes = []
    for lane in (0, 1):
        values = {**words.point, loop: lane}
        at = ", ".join(str(i.evaluate(_filled(values, i.names()))) for i in use.index)
        lanes += [f"lane {loop}={lane} is at {use.buffer}[{at}]"]
    return Refused(
        f"the lanes of '{loop}' are not side by side in '{use.buffer}'",
        f"{' and '.join(lanes)}{words.sizes}",
        "vectorize the loop that runs along the fastest dimension",
    )


def _words(program: Program, leaf: Leaf, question: tuple[Row, ...]) -> Words:
    found = example(question, [*program.original.kernel.sizes, *leaf.names])
    assert found is not None
    return Words(program.original, found)


def _filled(values: dict[str, int], names: frozenset[str]) -> dict[str, int]:
    return {n: values.get(n, 0) for n in names}
