"""Waiting: where threads wait for each other, all threads of their block come by.

Theorem: barriers can keep all dependences between the threads of a block if none of these is inside of a thread loop. A
barrier stands in loops that the whole block runs; what a thread does in its iteration of a thread loop is in the order
of this thread alone. The lanes that hold a fragment together are threads in a loop around the loops over its elements.
"""

from __future__ import annotations

from tilegen.ir.fragments import deal_fragments
from tilegen.ir.nodes import THREAD_KINDS
from tilegen.ir.walk import loops
from tilegen.judge.cross_thread import Crossing, meetings, ways_later
from tilegen.poly.instances import Projection, project
from tilegen.poly.verdict import NoForm


def check_waiting(program: Projection) -> None:
    """Refused where threads have to wait for each other and not all of their block come by."""
    dealt = project(deal_fragments(program.tree))
    for one, two, pairs in meetings(dealt, dealt.leaves):
        names, kinds = (found[: one.common_depth(two)] for found in (one.leaf.names, one.leaf.kinds))
        first = next((n for n, kind in enumerate(kinds) if kind in THREAD_KINDS), None)
        if first is None or one.places[0] != two.places[0]:
            continue
        for way in ways_later(one, two):
            for a, b in pairs if way[0] not in names[:first] else ():
                crossing = Crossing(dealt, one, two, a, b, way)
                if crossing.is_possible():
                    raise _refusal(program, names[first], crossing)


def _refusal(program: Projection, name: str, crossing: Crossing) -> NoForm:
    threads = next((loop for loop in loops(program.tree.body) if loop.name == name), None)
    told, buffer = "threads have to wait for each other", crossing.a.buffer
    if threads is None:  # they are lanes
        one, two = (program.leaves[each.number] for each in (crossing.first, crossing.second))
        loop = one.leaf.names[one.common_depth(two) - 1]
        sentence = f"{told} inside of '{loop}', whose iterations are those of lanes that hold a fragment"
        way = f"let all of '{buffer}' be written before any of it is used: cache it outside of '{loop}'"
    elif threads.roles:
        sentence = f"{told} in a role of '{threads.name}', where the other roles do not come by"
        way = f"leave what uses '{buffer}' later behind the roles, where a barrier can stand"
    else:
        sentence = f"{told} inside of thread loop '{threads.name}', where not all of the block come by"
        way = f"leave '{threads.name}' serial, or bind it to blocks: then a barrier can stand inside of it"
    return NoForm(sentence, crossing.describe(), way=way)
