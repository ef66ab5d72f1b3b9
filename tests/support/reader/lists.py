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

    def list(self, node, texts):
        """The statement of a list, which may stand in a block behind names for parts of it."""
        outer, what, text = dict(self.scope), f"list {node.name}", texts.pop(0)
        while isinstance(text, c_text.Block):
            *named, text = text.body
            for each in named:
                self.scope[each.name] = self.term(each.start)
        same(self.term(text.test), self._value(node.value), f"condition of {what}")
        match text:
            case c_text.If(_, (c_text.Declare(words, "place", (), start), c_text.If(test, stores, ())), ()):
                pass
            case _:
                raise Mismatch(f"{what}: {text}")
        same(words, ("const", *self.integer), f"type of a place in {what}")
        add = "atomicAdd" if self.cuda else "atomic_add"
        match start:
            case ("++", count) if not node.atomic:
                pass
            case ("call", word, (), (("&", count), ("number", 1))) if node.atomic and word == add:
                pass
            case _:
                raise Mismatch(f"the next place of {what}: {start}")
        same(self.place(count), self.place_of(node.target), f"count of {what}")
        place = self.scope["place"] = self.rng.randrange(1, 10**4)
        capacity = node.hits.capacity.evaluate(self.env)
        wanted = [(place, False), (capacity - place - 1, False)]
        same([self.margin(part) for part in conjuncts(test)], wanted, f"capacity of {what}")
        same(self.effects(stores), list(self._stores(node.hits, place)), f"what {what} stores")
        self.scope = outer

    def _stores(self, hits, place):
        for number, item in enumerate(hits.items):
            index = [const(place) if d == hits.place else i for d, i in enumerate(hits.access.index)]
            if len(hits.items) > 1:
                index[-1] = const(number)
            access = replace(hits.access, index=tuple(index))
            yield "write", self.place_of(access), self.store_term(item, access)
