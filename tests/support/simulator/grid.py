"""Which iteration of each block and thread loop a thread runs, from its numbers along the axes."""

from tilegen.ir.walk import loops

BLOCKS = ("block.x", "block.y", "block.z")
THREADS = ("thread.x", "thread.y", "thread.z")


def coordinates(launch, places, sizes):
    """Each block and thread loop, at a number along each axis; of loops that share an axis the last is the fastest.

    The first one takes what the others leave, which is beyond its extent where the number is beyond the grid.
    """
    left, found = dict(places), {}
    shared = {k for k, b in zip(BLOCKS, launch.grid, strict=True) if len(b.factors) > 1}
    first = {kind: name for name, kind, _ in reversed(launch.coordinates)}
    for name, kind, _ in reversed(launch.coordinates):
        if kind not in shared or name == first[kind]:
            found[name] = left[kind]
            continue
        extent = next(loop.extent for loop in loops(launch.distributed) if loop.name == name).evaluate(sizes)
        found[name], left[kind] = left[kind] % extent, left[kind] // extent
    return found
