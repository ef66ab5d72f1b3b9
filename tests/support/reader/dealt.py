"""The tiles that blocks share out, read back: how many there are, and where one is on the line."""

from dataclasses import replace
from math import prod

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.values import Mismatch
from tests.support.simulator.grid import tile_at
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering.launch.program import For, names_in

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
        if self.launch.dealt and not self.launch.ends:
            self._take_tiles(body, self._counts()[-2])

    def _take_tiles(self, body, rows):
        text, counts = self._take_declaration(body, ("const", "Tiles")), self._counts()
        parts = [each[2] if each[0] == "cast" else each for each in text.start[1:]]
        found = [*map(self.term, parts)]
        matrices = 1 if self.launch.ends else prod(counts[:-2])
        same([found[0], *found[2:]], [matrices, counts[-1], self.launch.dealt], "tiles")
        if isinstance(rows, For):
            self._end(rows.ends and rows.ends.end, parts[1], counts[-2], rows)
        else:
            same(found[1], rows, "rows of tiles")
        self.scope[text.name] = TILES

    def tiles(self, node, texts, _):
        """The loop over those of a block; inside, the coordinates are those of one of them."""
        words = ("blockIdx", "gridDim") if self.cuda else ("get_group_id", "get_num_groups")
        along = [("field", ("name", w), "x") if self.cuda else ("call", w, (), (("number", 0),)) for w in words]
        self.env |= tile_at(self.launch, self.rng.randrange(prod(self._counts())), self.env)
        if not self.launch.ends:
            self._tiles_of_a_line(node, texts, ("int", *along))
            return
        start, outer = self._take_declaration(texts, ("int",)), dict(self.scope)
        same(start.start, along[0], "the first tile of a block")
        found = zip(self._tile_names, self.launch.grid[0].factors, self.launch.ends, strict=True)
        around = [For(name, extent, node.body, "ragged", ends=ends) for name, extent, ends in found]
        body = texts
        for each in around[:-2]:
            body = self._into_matrix(each, body)
        self._take_tiles(body, around[-2])
        for each in (loop for loop in around if loop.ends):
            node = replace(node, body=rewrite(node.body, lambda v, each=each: self._with_tests_left_in(v, each)))
        self._tiles_of_a_line(node, body, ("", (), along[1]))
        rest = self._take(body, c_text.Assign)
        same(
            (rest.target, rest.sign, rest.value[:2]), (("name", start.name), "-=", ("call", "count_tiles")), "the rest"
        )
        same(body if body is not texts else [], [], "behind the tiles of a matrix")
        self.scope = outer

    def _into_matrix(self, loop, texts):
        """What stands in a loop around the tiles of a matrix, of which data may pick one."""
        if loop.ends and loop.ends.pick_one:
            text = self._take_declaration(texts, ("const", *self.integer))
            self._end(loop.ends.first, text.start, 0, loop)
            self.scope[text.name] = self.env[loop.name]
            return texts
        text, value = self._take(texts, c_text.For), self.env[loop.name]
        same(tuple(text.kind.split()), self.integer, f"type of {text.name}")
        ends = (loop.ends.first, loop.ends.end) if loop.ends else (None, None)
        self._end(ends[0], text.first, 0, loop)
        self._end(ends[1], text.extent, loop.extent.evaluate(self.env), loop)
        self.scope[text.name] = value
        return list(text.body)

    def _tiles_of_a_line(self, node, texts, wanted):
        text = self._take(texts, c_text.For)
        same((text.kind, text.first, text.step), wanted, "the tiles of a block")
        same(text.extent[:2], ("call", "count_tiles"), "how many tiles there are")
        same(self.term(text.extent[3][0]), TILES, "how many tiles there are")
        outer, body, used = dict(self.scope), list(text.body), names_in(walk(node.body))
        names = self._tile_names[-2:] if self.launch.ends else self._tile_names
        for name in (name for name in names if name in used):
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
