"""Which iteration of each block and thread loop a thread runs, from its numbers along the axes."""

from tilegen.ir.walk import loops

BLOCKS = ("block.x", "block.y", "block.z")
THREADS = ("thread.x", "thread.y", "thread.z")


def coordinates(launch, places, sizes):
    """Each block and thread loop, at a number along each axis; of loops that share an axis the last is the fastest."""
    left, found = dict(places), {}
    shared = {k: len(b.factors) for k, b in zip(BLOCKS, launch.grid, strict=True)}
    for name, kind, _ in reversed(launch.coordinates):
        if shared.get(kind, 1) == 1:
            found[name] = places[kind]
            continue
        extent = next(loop.extent for loop in loops(launch.distributed) if loop.name == name).evaluate(sizes)
        found[name], left[kind] = left[kind] % extent, left[kind] // extent
    return found
