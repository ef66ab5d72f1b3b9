"""Faults in what a warp does by one instruction: in a tree, in a lowered program, in a text."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.places import each, edited, nodes, of, put
from tests.support.stock import instructions
from tilegen.ir.affine import const, var
from tilegen.ir.hardware.fragments import registers_of
from tilegen.ir.nodes import Access, Load, Loop, Stmt
from tilegen.ir.walk import rewrite, stmts, walk
from tilegen.lowering.launch.program import For, Perform, VectorCopy, VectorLoad, VectorStore

LANES = ("lane", "lane_")


# -- trees


def other_layouts(tree):
    """A buffer in fragments of another stock layout of its shape and type, or with its indices exchanged."""
    known = [f for i in instructions().values() for f in i.fragments]
    for n, b in enumerate(tree.buffers):
        mine = b.fragment
        others = [f for f in known if mine and (f.shape, f.operand.dtype) == (mine.shape, mine.operand.dtype)]
        different = [f for f in others if [*map(f.place, f.points())] != [*map(mine.place, mine.points())]]
        for changes in [{"fragment": f} for f in different] + [{"fragment_dims": b.fragment_dims[::-1]}] * bool(mine):
            yield replace(tree, buffers=(*tree.buffers[:n], replace(b, **changes), *tree.buffers[n + 1 :]))


def other_instructions(tree):
    """A nest computed by another instruction of its shape; or whose indices are other loops of the nest."""
    for path, node in nodes(tree.body):
        if not isinstance(node, Loop) or not node.performed:
            continue
        done = node.performed
        for other in instructions().values():
            if other != done.instruction and [o.shape for o in other.operands] == [
                o.shape for o in done.instruction.operands
            ]:
                new = replace(node, performed=replace(done, instruction=other))
                yield replace(tree, body=put(tree.body, path, (new,)))
        turned = replace(node, performed=replace(done, indices=done.indices[::-1]))
        yield replace(tree, body=put(tree.body, path, (turned,)))


def started_again(tree):
    """A sum in fragments that starts anew in each round of a loop around its updates."""
    held = {b.name for b in tree.buffers if b.fragment}
    starts = {}
    for path, node in nodes(tree.body):
        inside = stmts((node,)) if isinstance(node, Loop) else ()
        names = {s.target.buffer for s in inside}
        if len(names) == 1 and names <= held and all(s.name.endswith(".init") for s in inside):
            starts.setdefault(names.pop(), (path, node))
    for path, node in nodes(tree.body):
        if isinstance(node, Loop) and node.kind in ("serial", "unrolled"):
            for name, (begins, start) in starts.items():
                beside = path[: len(begins)][:-1] == begins[:-1] and path != begins
                if beside and any(s.reduce and s.target.buffer == name for s in stmts((node,))):
                    yield replace(tree, body=put(tree.body, path, (replace(node, body=(start, *node.body)),)))


TREE_FAULTS = {
    "fragment under another layout": other_layouts,
    "another instruction": other_instructions,
    "sum started again": started_again,
}


# -- lowered programs


def _leaves(launch, change):
    return edited(
        launch, lambda n: change(n) if isinstance(n, Stmt | Perform | VectorCopy | VectorLoad | VectorStore) else []
    )


def wrong_lane_map(launch):
    """Bits of the lane's number exchanged, where one node speaks of it."""
    held = any(isinstance(v, Perform) for v in launch.nodes)
    lane = next((name for name, kind, _ in launch.coordinates if kind == "thread.x"), None)

    def change(node):
        for other in (var(lane) % 4 * 8 + var(lane) // 4, var(lane) // 8 + var(lane) % 8 * 4):
            for access in _accesses(node):
                index = tuple(i.substitute({lane: other}) for i in access.index)
                if index != access.index:
                    yield (_with_access(node, access, replace(access, index=index)),)

    if held and lane:
        yield from _leaves(launch, change)


def _accesses(node):
    """What `node` touches element by element: what it describes has faults of its own, those of warpgroups."""
    found = node.operands if isinstance(node, Perform) else walk(node)
    return dict.fromkeys(each for each in found if isinstance(each, Access | Load))


def slots_swapped(launch):
    """Registers of a fragment by another number: the neighbour, the one two further, those of another fragment."""
    held = {name: registers_of(b) for name, b in launch.buffers.items() if b.fragment}

    def moved(access):
        for by in (1, 2):
            if access.buffer in held and access.index and by < held[access.buffer]:
                last = access.index[-1]
                yield replace(
                    access,
                    index=(*access.index[:-1], last + by if last == const(0) else held[access.buffer] - by - last),
                )
        for d in range(len(access.index) - 1):
            if access.buffer in held and access.index[d] != const(0):
                yield replace(access, index=(*access.index[:d], const(0), *access.index[d + 1 :]))

    def change(node):
        for access in _accesses(node):
            for new in moved(access):
                yield (_with_access(node, access, new),)

    return _leaves(launch, change)


def _with_access(node, old, new):
    """`node` with another access; what an instruction is said to do is as it was."""
    if isinstance(node, Perform):
        return replace(node, operands=tuple(new if each == old else each for each in node.operands))
    return rewrite(node, lambda v: new if v == old else v)


def wrong_row(launch):
    """The address that a lane gives: a row or a column further, of another lane, of no lane."""

    def change(node):
        for access in _accesses(node) if isinstance(node, Perform) else ():
            if launch.buffers[access.buffer].space != "shared":
                continue
            for d, index in enumerate(access.index):
                for other in (index + 1, index + 8, index.substitute(dict.fromkeys(LANES, const(0)))):
                    if other != index:
                        yield (
                            _with_access(
                                node, access, replace(access, index=(*access.index[:d], other, *access.index[d + 1 :]))
                            ),
                        )

    return edited(launch, change)


@of(Perform)
def operands_swapped(node, launch):
    for n in range(len(node.operands) - 1):
        turned = [*node.operands]
        turned[n : n + 2] = turned[n : n + 2][::-1]
        yield (replace(node, operands=tuple(turned)),)


def instruction_dropped(launch):
    return each(launch, Perform, lambda n: [()])


@of(Perform)
def instruction_repeated(node, launch):
    if not node.instruction.is_copy:
        yield (node, node)
        yield (For("again", const(2), (node,)),)


LAUNCH_FAULTS = {
    "wrong lane map": wrong_lane_map,
    "register slots swapped": slots_swapped,
    "wrong row of ldmatrix": wrong_row,
    "operands of an instruction swapped": operands_swapped,
    "instruction dropped": instruction_dropped,
    "instruction repeated": instruction_repeated,
}


# -- texts

_CALL = r"^( *(?:mma|ldmatrix|stmatrix)_\w+\([^;]*;\n)"
TEXT_FAULTS = {
    "wrong lane map": [(r"\blane / 4\b", "lane / 8"), (r"\(lane % 4\)", "(lane % 8)")],
    "register slots swapped": [
        (r"\{%(\d+), %(\d+)", r"{%\2, %\1"),
        (r'("[=+]?[rfd]"\(\w+\[)0\]', r"\g<1>1]"),
        (r"(_reg(?:\[\w+\])*\[[^\]]*)(?=\] =)", r"\1 ^ 1"),
    ],
    "wrong row of ldmatrix": [(r"\blane % 16\b(?!\) [&%])", "lane % 8"), (r"\blane / 16\b", "lane / 8")],
    "operands of an instruction swapped": [
        (r"^( *mma_\w+\([^,]*), ([^,]*), ([^,]*)\);", r"\1, \3, \2);"),
        (r"^( *mma_\w+\(\w+\[)\w+(?=\])", r"\g<1>0"),
    ],
    "instruction dropped": [(_CALL, "")],
    "instruction repeated": [(_CALL, r"\1\1")],
    "another instruction": [(r"\.x4\.trans\b", ".x4"), (r"\bf32\.bf16\.bf16", "f32.f16.f16")],
    "sum not read": [(r'"\+([fdr])"', r'"=\1"')],
    "registers out of line": [(r"__align__\(4\) ", "")],
}
