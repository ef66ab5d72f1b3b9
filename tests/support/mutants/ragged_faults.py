"""Faults in the ends of loops that data give, of a lowered program and of a text."""

from __future__ import annotations

from dataclasses import replace

from tests.support.mutants.places import edited, nodes, put
from tilegen.ir.affine import const
from tilegen.ir.nodes import ONLY, Load, Op, Stmt
from tilegen.ir.reductions.ragged import Found, term_of
from tilegen.ir.walk import rewrite
from tilegen.lowering.launch.program import For


def _told(change):
    """The program with each end of such a loop as `change` has it."""

    def fault(program):
        def each(node):
            if isinstance(node, For) and node.ends:
                for name in ("first", "end"):
                    if end := getattr(node.ends, name):
                        yield from (
                            (replace(node, ends=replace(node.ends, **{name: new})),) for new in change(name, end)
                        )

        yield from edited(program, each)
        for place, ends in enumerate(program.ends):
            for name in ("first", "end") if ends else ():
                if end := getattr(ends, name):
                    for new in change(name, end):
                        changed = replace(ends, **{name: new})
                        yield replace(program, ends=(*program.ends[:place], changed, *program.ends[place + 1 :]))

    return fault


@_told
def early_end(name, end):
    """A term of a row is left out: its first one, or its last; or a row with a single term."""
    if isinstance(end, Found):
        yield replace(end, place=end.place + (1 if name == "first" else -1))
        return
    yield replace(end, more=end.more + (end.by if name == "first" else -end.by))


@_told
def late_row(name, end):
    """The end is read a row late."""

    def late(value):
        return replace(value, index=(value.index[0] + 1,)) if isinstance(value, Load) else value

    field = "element" if isinstance(end, Found) else "value"
    yield replace(end, **{field: rewrite(getattr(end, field), late)})


@_told
def other_end(name, end):
    """A constant stands for data."""
    if isinstance(end, Found):
        return
    yield replace(end, value=rewrite(end.value, lambda v: replace(v, index=(const(0),)) if isinstance(v, Load) else v))


def empty_row(program):
    """A row without terms is passed over: its result is stored in the loop, which does not run for it."""
    found, outputs = [*nodes(program.body)], [b.name for b in program.buffers.values() if b.space == "global"]
    stores = [(path, node) for path, node in found if isinstance(node, Stmt) and node.target.buffer in outputs]
    for path, loop in found:
        for other, store in stores if isinstance(loop, For) and loop.ends else ():
            without = put(program.body, other, ())
            yield replace(program, body=put(without, path, (replace(loop, body=(*loop.body, store)),)))


def other_rows(program):
    """An element is stored in every iteration, or in that of a neighbouring row, or of two."""

    def each(node):
        if isinstance(node, Stmt) and node.reduce == ONLY and (chosen := term_of(node.value)):
            test, term = chosen
            yield (replace(node, value=term),)
            for old, new in ((">=", ">"), ("<", "<=")):
                changed = rewrite(test, lambda v, old=old, new=new: replace(v, name=new) if is_named(v, old) else v)
                yield (replace(node, value=replace(node.value, args=(changed, *node.value.args[1:]))),)

    return edited(program, each)


def is_named(value, word):
    return isinstance(value, Op) and value.name == word


FAULTS = {"early end": early_end, "late row": late_row, "other end": other_end, "empty row": empty_row}
TEXT_FAULTS = {
    "early end": [
        (r"(for \(\w+ (\w+) = \(?start\[.*?), (\w+ = )", r"\1 + 1, \3"),
        (r"(, \w+ = .*start\[.*)(; \w+ <)", r"\1 - 1\2"),
    ],
    "late row": [(r"start\[", "start[1 + ")],
    "empty row": [
        (
            r"(?s)(= \(?)(start\[[^]]*\])(.*?, \w+ = \(?)(start\[[^]]*\])(.*?)(\w+\[[^\n]*\] = \w+_reg)",
            r"\1\2\3\4\5if (\2 < \4) \6",
        )
    ],
}
