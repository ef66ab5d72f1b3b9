"""Stock schedules under Oclgrind with their own tiles: a run for each version of the text, at sizes around the tiles.

Arrays that are not aligned take the version without vectors; sizes that vectors take and tiles do not divide the one
with tests for borders; multiples of the tiles the one without. Large runs are optimised, which makes them four times
as fast; a register without a value that is read for nothing may be gone then, so small runs are not.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod

from tests.support.devices.on_simulator import Job
from tests.support.stock import shorter, tile
from tilegen.ir.walk import walk
from tilegen.lowering import lower
from tilegen.lowering.launch.program import For, If

SLOW, TOO_SLOW = 500_000, 3_000_000  # steps of all threads; a million takes 20 seconds, 5 if optimised
ROUNDS = 4  # of a loop over tiles: a pipeline has used each of its buffers again by then


def own_jobs(name, schedule):
    """A job for each version of the text; none for whole tiles where these are too large, or never fit."""
    tree = shorter(name, schedule).tree
    scalar, vector, whole = lower(tree, vector=False), lower(tree), lower(tree, whole=True)
    tiles = {size: tile(size, whole) for size in tree.kernel.sizes}
    versions = [("borders", vector, around(vector, tiles))]
    if scalar != vector:
        versions.append(("no vectors", scalar, around(scalar, tiles)))
    met = all(condition.value.evaluate(tiles) == 0 for launch in whole for condition in launch.requires)
    if met and whole != vector:
        versions.append(("whole tiles", whole, [tiles | rounds(whole, tiles, ROUNDS), tiles]))
    for version, launches, choices in versions:
        sizes, optimised = affordable(launches, choices)
        yield Job(f"{name}.{schedule}, {version}", tree, (sizes,), optimised=optimised, aligned=launches is not scalar)


def around(launches, tiles):
    """Sizes of a whole tile and some more, then of a part of one; where a loop is over tiles first of several."""
    step = {size: tile(size, launches) for size in tiles}
    part = {size: n // 4 // step[size] * step[size] for size, n in tiles.items()}
    several, one = (rounds(launches, tiles, n) for n in (ROUNDS - 1, 1))
    choices = (tiles | several, part | several, part | one, part)
    return [{size: n + step[size] for size, n in sizes.items()} for sizes in choices]


def rounds(launches, tiles, count):
    """`count` tiles of each size that a thread has a loop for."""
    looped = {n for launch in launches for v in walk(launch.body) if isinstance(v, For) for n in v.extent.names()}
    return {size: n * count for size, n in tiles.items() if size in looped}


def affordable(launches, choices):
    """(sizes, whether to optimise): the first sizes that take no more than some seconds, else the last."""
    for limit, optimised in ((SLOW, False), (TOO_SLOW, True)):
        for sizes in choices:
            if work(launches, sizes) <= limit:
                return sizes, optimised
    return choices[-1], True


def work(launches, sizes):
    """Steps of all threads at these sizes."""
    known = defaultdict(int, sizes)  # a loop that is shorter in some blocks is as long as in the first
    return sum(prod(e.evaluate(sizes) for e in v.grid) * v.threads * steps(v.body, known) for v in launches)


def steps(body, known):
    total = 0
    for node in body:
        match node:
            case For():
                total += node.extent.evaluate(known) * steps(node.body, known)
            case If():
                total += max(steps(node.body, known), steps(node.orelse, known))
            case _:
                total += 1
    return total
