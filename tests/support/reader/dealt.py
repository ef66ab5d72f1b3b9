"""The tiles that blocks share out, read back: how many there are, and where one is on the line."""

from math import prod

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.values import Mismatch
from tests.support.simulator.grid import tile_at
from tilegen.ir.walk import walk
from tilegen.lowering.launch.program import names_in

TILES = ("tiles",)


class DealtTiles:
    """A part of a walk over a launch and its text."""

    @property
    def _tile_names(self):
        return [name for name, kind, _ in self.launch.coordinates if kind == "block.x"]

    def _counts(self):
        counts = [factor.evaluate(self.env) for factor in self.launch.grid[0].factors]
        return counts if len(counts) > 1 else [*counts, 1]

    def all_tiles(self, body):
        """How many matrices, rows and columns there are, and rows of a group."""
        if not self.launch.dealt:
            return
        text, counts = self._take_declaration(body, ("const", "Tiles")), self._counts()
        found = [self.term(each[2] if each[0] == "cast" else each) for each in text.start[1:]]
        same(found, [prod(counts[:-2]), *counts[-2:], self.launch.dealt], "tiles")
        self.scope[text.name] = TILES

    def tiles(self, node, texts, _):
        """The loop over those of a block; inside, the coordinates are those of one of them."""
        text = self._take(texts, c_text.For)
        words = ("blockIdx", "gridDim") if self.cuda else ("get_group_id", "get_num_groups")
        along = [("field", ("name", w), "x") if self.cuda else ("call", w, (), (("number", 0),)) for w in words]
        same((text.kind, text.first, text.step), ("int", *along), "the tiles of a block")
        same(text.extent[:2], ("call", "count_tiles"), "how many tiles there are")
        same(self.term(text.extent[3][0]), TILES, "how many tiles there are")
        self.env |= tile_at(self.launch, self.rng.randrange(prod(self._counts())), self.env)
        outer, body, used = dict(self.scope), list(text.body), names_in(walk(node.body))
        for name in (name for name in self._tile_names if name in used):
            place = self._take_declaration(body, ("const", *self.integer))
            same(self._place_of_tile(place.start, text.name), self.env[name], name)
            self.scope[place.name] = self.env[name]
        self.body(node.body, body)
        self.scope = outer

    def _place_of_tile(self, start, tile):
        """What the text says of the tile: its row, its column, or a digit of its matrix."""
        values, counts = [self.env[name] for name in self._tile_names], self._counts()
        match start:
            case ("call", word, (), (tiles, ("name", name))):
                same((self.term(tiles), name), (TILES, tile), "the tile")
                matrix = 0
                for value, count in zip(values[:-2], counts[:-2], strict=True):
                    matrix = matrix * count + value
                row, column = values[-2:] if len(values) > 1 else (values[0], 0)
                return {"matrix_of_tile": matrix, "row_of_tile": row, "column_of_tile": column}[word]
            case ("/" | "%" as sign, left, right):
                value, by = self._place_of_tile(left, tile), self.term(right)
                return value // by if sign == "/" else value % by
        raise Mismatch("a coordinate of a tile")
