"""Which iteration of each block and thread loop a thread runs, from its numbers along the axes."""

from dataclasses import replace
from itertools import product
from math import prod

from tilegen.ir.walk import loops

BLOCKS = ("block.x", "block.y", "block.z")
THREADS = ("thread.x", "thread.y", "thread.z")


def coordinates(launch, places, sizes):
    """Each block and thread loop, at a number along each axis; of loops that share an axis the last is the fastest.

    The first one takes what the others leave, which is beyond its extent where the number is beyond the grid.
    """
    left, found = dict(places), {}
    if launch.dealt:  # those of a tile have values inside of the loop over tiles
        launch = replace(launch, coordinates=tuple(c for c in launch.coordinates if c[1] != BLOCKS[0]))
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
    matrix, number = divmod(number, rows * columns)
    first = []
    for count in reversed(matrices):
        matrix, digit = divmod(matrix, count)
        first.insert(0, digit)
    group = min(group, rows)
    above = number // (group * columns) * group
    height = min(group, rows - above)
    return (*first, above + (number - above * columns) % height, (number - above * columns) // height)


SHARING = 2  # blocks that share out the tiles of a launch


def blocks_of(launch, sizes):
    """The blocks of a launch, each by its numbers along x, y and z."""
    x, y, z = (along.evaluate(sizes) for along in launch.grid)
    grid = product(range(z), range(y), range(min(x, SHARING) if launch.dealt else x))
    return [block[::-1] for block in grid]


class TileThread:
    """What a thread does for the tiles of its block: every so many-th on the line."""

    def tiles(self, node, path):
        launch, sizes = self.home.launch, self.home.sizes
        count = prod(factor.evaluate(sizes) for factor in launch.grid[0].factors)  # those too that data leave out
        for number in range(self.block[0], count, min(launch.grid[0].evaluate(sizes), SHARING)):
            self.env |= tile_at(launch, number, sizes)
            yield from self._body(node.body, (*path, number))
        for name, kind, _ in launch.coordinates:
            if kind == BLOCKS[0]:
                self.env.pop(name, None)
