"""Register budgets: a warpgroup that takes registers waits until others have given up enough, and that happens.

    if consumer: take 240; ...
    else:        give 24; ...

Theorem: budgets change no value and nobody waits for ever, if one test tells consumers from others, both of them whole
warpgroups, and the first thing that the consumers do is to take registers, and the others to give some; if each takes
more and gives less than the launch gave; and if all of them together then have no more than the launch gave the block.

Why: all warps of a warpgroup run it, once, for nothing stands around that test or before it that lets threads go.
Those who give wait for nothing. When they have given, what the consumers take is there. The launch gives a thread as
many registers as the resident blocks can have: the text bounds the launch by both numbers for it (a test compiles
all stock schedules, and looks).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilegen.ir.hardware.budgets import FEWEST, MOST, UNIT, WARPGROUP, launched_registers
from tilegen.ir.nodes import Condition
from tilegen.lowering.launch.launch import Launch
from tilegen.lowering.launch.program import If, Spmd, nodes
from tilegen.lowering.launch.timelines import REGISTERS, Arrive, Await, is_event
from tilegen.poly import Refused
from tilegen.proof.reading.roles import consuming_threads


def without_budgets(body: tuple[Spmd, ...], launch: Launch) -> tuple[Spmd, ...]:
    """`body` without its register budgets, which change no value. Raises Refused where one hangs or is not legal."""
    out: list[Spmd] = []
    for node in body:
        match node:
            case If((consumes,), (Await() as more, *ones), (Arrive() as less, *rest)) if (
                more.line == less.line == REGISTERS
            ):
                _check(consumes, more.count, less.count, launch)
                out.append(replace(node, body=tuple(ones), orelse=tuple(rest)))
            case _:
                out.append(node)
    kept = sum(is_event(node, REGISTERS) for node in nodes(out))
    if kept or len(nodes(body)) - len(nodes(out)) > 2:
        raise Refused("registers are taken or given elsewhere than at the beginning of two roles")
    return tuple(out)


def _check(consumes: Condition, taken: int, given: int, launch: Launch) -> None:
    consuming = consuming_threads(consumes, launch)
    others = prod(launch.block) - consuming
    if consuming % WARPGROUP or others % WARPGROUP or launch.left_out:
        raise Refused(
            f"registers are taken by {consuming} threads and given by {others}, which are no whole warpgroups"
        )
    launched = launched_registers(launch.threads, launch.resident)
    if any(count % UNIT or not FEWEST <= count <= MOST for count in (taken, given)) or not given <= launched < taken:
        raise Refused(f"threads that were launched with {launched} registers take {taken} and give all but {given}")
    missing = consuming * taken + others * given - launch.threads * launched
    if missing > 0:
        raise Refused(f"consumers wait for {missing} registers that nobody gives up")
