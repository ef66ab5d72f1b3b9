"""Which iteration of each block and thread loop a thread runs, from its numbers along the axes."""

from dataclasses import replace

from tilegen.ir.walk import loops

BLOCKS = ("block.x", "block.y", "block.z")
THREADS = ("thread.x", "thread.y", "thread.z")


def coordinates(launch, places, sizes):
    """Each block and thread loop, at a number along each axis; of loops that share an axis the last is the fastest.

    The first one takes what the others leave, which is beyond its extent where the number is beyond the grid.
    """
    left, found = dict(places), {}
    if launch.dealt:
        names = [name for name, kind, _ in launch.coordinates if kind == BLOCKS[0]]
        found = tile_at(launch, left[BLOCKS[0]], sizes) if left.get(BLOCKS[0]) is not None else {}
        launch = replace(launch, coordinates=tuple(c for c in launch.coordinates if c[0] not in names), dealt=0)
    shared = {k for k, b in zip(BLOCKS, launch.grid, strict=True) if len(b.factors) > 1}
    first = {kind: name for name, kind, _ in reversed(launch.coordinates)}
    for name, kind, _ in reversed(launch.coordinates):
        if kind not in shared or name == first[kind]:
            found[name] = left[kind]
            continue
        extent = next(loop.extent for loop in loops(launch.distributed) if loop.name == name).evaluate(sizes)
        found[name], left[kind] = left[kind] % extent, left[kind] // extent
    return found


def tile_at(launch, number, sizes):
    """The coordinates of the tile at a place on the line of those that are dealt."""
    names = [name for name, kind, _ in launch.coordinates if kind == BLOCKS[0]]
    counts = [factor.evaluate(sizes) for factor in launch.grid[0].factors]
    counts += [1] * (len(counts) == 1)
    return dict(zip(names, place_of_tile(number, counts, launch.dealt), strict=False))


def place_of_tile(number, counts, group):
    """Which tile it is of so many matrices, rows and columns: in groups of rows, down each column of a group."""
    *matrices, rows, columns = counts
    rest = number // (rows * columns)
    first = []
    for count in reversed(matrices):
        first.insert(0, rest % count)
        rest //= count
    tile = 0
    wanted = number % (rows * columns)
    for above in range(0, rows, group):
        height = min(group, rows - above)
        if wanted < tile + height * columns:
            return (*first, above + (wanted - tile) % height, (wanted - tile) // height)
        tile += height * columns
    raise AssertionError(number)
