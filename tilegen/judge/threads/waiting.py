"""Waiting: where threads wait for each other, all threads of their block get there.

Theorem: barriers can keep all dependences between the threads of a block if none of these is inside of a thread loop. A
barrier stands in loops that the whole block runs; what a thread does in its iteration of a thread loop is in the order
of this thread alone. The lanes that hold a fragment together are threads in a loop around the loops over its elements.

This is asked of the last tree: threads that a loop has got may wait for none when the loops beside it have theirs.
"""

from __future__ import annotations

from contextlib import suppress

from tilegen.ir.hardware.fragments import deal_fragments
from tilegen.ir.nodes import THREAD_KINDS, Tree
from tilegen.ir.walk import loops
from tilegen.judge.threads.cross_thread import Crossing, meetings, ways_later
from tilegen.poly.instances import project
from tilegen.poly.system import Undecided
from tilegen.poly.verdict import NoForm


def check_waiting(tree: Tree) -> None:
    """Refused where threads have to wait for each other inside of a loop that not all threads of their block run."""
    dealt = project(deal_fragments(tree))
    for one, two, pairs in meetings(dealt, dealt.leaves):
        names, kinds = (found[: one.common_depth(two)] for found in (one.leaf.names, one.leaf.kinds))
        first = next((n for n, kind in enumerate(kinds) if kind in THREAD_KINDS), None)
        if first is None or one.places[0] != two.places[0]:
            continue
        for way in ways_later(one, two):
            for a, b in pairs if way[0] not in names[:first] else ():
                crossing = Crossing(dealt, one, two, a, b, way)
                with suppress(Undecided):  # the proof asks it of what is lowered, too
                    if crossing.is_possible():
                        raise _fault(tree, names[first], crossing)


def _fault(tree: Tree, name: str, crossing: Crossing) -> NoForm:
    known = {loop.name: loop for loop in loops(tree.body)}
    waits, buffer, loop = "threads have to wait for each other", crossing.a.buffer, known.get(name)
    if loop is None:  # they are lanes
        one, two = (project(tree).leaves[each.number] for each in (crossing.first, crossing.second))
        loop = known[one.leaf.names[one.common_depth(two) - 1]]
        sentence = f"{waits} inside of '{loop.name}', whose iterations are those of lanes that hold a fragment"
        way = f"let all of '{buffer}' be written before any of it is used: cache it outside of '{loop.name}'"
    elif loop.roles:
        sentence = f"{waits} in a role of '{name}', which the other roles do not run"
        way = f"place later uses of '{buffer}' after the roles, where a barrier can stand"
    else:
        sentence = f"{waits} inside of thread loop '{name}', which not all threads of the block run"
        way = f"leave '{name}' serial, or bind it to blocks: then a barrier can stand inside of it"
    return NoForm(sentence, crossing.describe(), way=way, span=loop.span)
