"""Lists, read back: whether a point is a hit, the place that it takes, and what is stored there below the capacity."""

from __future__ import annotations

from dataclasses import replace

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.values import Mismatch
from tilegen.ir.affine import const


def conjuncts(text):
    return conjuncts(text[1]) + conjuncts(text[2]) if text[0] in ("&&", "&") and len(text) == 3 else [text]


class Lists:
    """The part of a reading that follows lists."""

    bit = "", ""  # of a loop whose hits take their places together: what the text does now, and the loop's name there

    def together(self, node, loop, stmt, whole, texts):
        """The loop twice, with the first place of its hits in between."""
        run = texts.pop(0).body if isinstance(texts[0], c_text.Block) else tuple(texts.pop(0) for _ in texts[:4])
        match run:
            case (c_text.Declare(("int",), "hits", (), ("number", 0)), first, found, second):
                pass
            case text:
                raise Mismatch(f"hits of {stmt.name}: {text}")
        self.bit = "find", second.name
        self.body((node,), [first])
        self.bit = "store by blocks" if whole else "store", second.name
        self._for(replace(loop, body=(stmt,)), [second], False)
        self.bit = "", ""
        declared = (("int",), "places") if whole else (self.integer, "place")
        same((found.words, found.name), declared, f"first place of {stmt.name}")
        adds, bits = ("atomicAdd", "__popc") if self.cuda else ("atomic_add", "popcount")
        adds = "take_places" if whole else adds
        match found.start:
            case ("call", word, (), (("&", count), ("call", number, (), (("name", "hits"),)))):
                same((word, number), (adds, bits), f"first place of {stmt.name}")
                same(self.place(count), self.place_of(stmt.target), f"count of {stmt.name}")
            case other:
                raise Mismatch(f"first place of {stmt.name}: {other}")

    def _bits(self, node, text, what):
        loop = ("name", self.bit[1])
        if self.bit[0] == "find":
            same(self.term(text.test), self._value(node.value), f"condition of {what}")
            wanted = (c_text.Assign(("name", "hits"), "|=", ("<<", ("number", 1), loop)),)
            same((text.body, text.orelse), (wanted, ()), f"bits of {what}")
            return
        same(text.test, ("&", (">>", ("name", "hits"), loop), ("number", 1)), f"bits of {what}")
        match text.body:
            case (c_text.If(test, stores, ()), c_text.Call(("++", ("name", "place")))) if not text.orelse:
                self._kept(node, test, stores, what)
            case _:
                raise Mismatch(f"{what}: {text}")

    def list(self, node, texts):
        """The statement of a list, which may stand in a block after names for parts of it."""
        outer, what, text = dict(self.scope), f"list {node.name}", texts.pop(0)
        while isinstance(text, c_text.Block):
            *named, text = text.body
            for each in named:
                self.scope[each.name] = self.term(each.start)
        if self.bit[0] == "store by blocks":
            bit = ("&", (">>", ("name", "hits"), ("name", self.bit[1])), ("number", 1))
            next_one = ("call", "next_place", (), (("name", "places"), bit))
            same((text.words, text.name, text.start), (("const", *self.integer), "place", next_one), f"place of {what}")
            kept = texts.pop(0)
            self._kept(node, kept.test, kept.body, what)
            self.scope = outer
            return
        if self.bit[0]:
            self._bits(node, text, what)
            self.scope = outer
            return
        same(self.term(text.test), self._value(node.value), f"condition of {what}")
        match text:
            case c_text.If(_, (c_text.Declare(words, "place", (), start), c_text.If(test, stores, ())), ()):
                pass
            case _:
                raise Mismatch(f"{what}: {text}")
        same(words, ("const", *self.integer), f"type of a place in {what}")
        add = "atomicAdd" if self.cuda else "atomic_add"
        match start:
            case _ if not node.reduce:
                same(self.term(start), self._value(node.hits.rank), f"rank in {what}")
                count = None
            case ("++", count) if not node.atomic:
                pass
            case ("call", word, (), (("&", count), ("number", 1))) if node.atomic and word == add:
                pass
            case _:
                raise Mismatch(f"the next place of {what}: {start}")
        if count is not None:
            same(self.place(count), self.place_of(node.target), f"count of {what}")
        self._kept(node, test, stores, what)
        self.scope = outer

    def _kept(self, node, test, stores, what):
        place = self.scope["place"] = self.rng.randrange(1, 10**4)
        capacity = node.hits.capacity.evaluate(self.env)
        wanted = [(place, False), (capacity - place - 1, False)]
        same([self.margin(part) for part in conjuncts(test)], wanted, f"capacity of {what}")
        same(self.effects(stores), [*self._stores(node.hits, place)], f"what {what} stores")

    def _stores(self, hits, place):
        for number, item in enumerate(hits.items):
            index = [const(place) if d == hits.place else i for d, i in enumerate(hits.access.index)]
            if len(hits.items) > 1:
                index[-1] = const(number)
            access = replace(hits.access, index=tuple(index))
            yield "write", self.place_of(access), self.store_term(item, access)

    def margin(self, text):
        """(by how much a comparison of integers holds, whether it is an equality)."""
        if text[0] not in ("<", "<=", ">", ">=", "==") or len(text) != 3:
            raise Mismatch(f"a test of {text}")
        left, right = self.term(text[1]), self.term(text[2])
        if not (isinstance(left, int) and isinstance(right, int)):
            raise Mismatch(f"a test of data: {text}")
        margin = right - left if text[0] in ("<", "<=") else left - right
        return (abs(margin), True) if text[0] == "==" else (margin - (text[0] in ("<", ">")), False)
