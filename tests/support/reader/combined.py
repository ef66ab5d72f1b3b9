"""What lanes of a warp combine, and what blocks hand on, against the text that prints it."""

from __future__ import annotations

from tests.support.reader import c_text
from tests.support.reader.calls import memory_between, same
from tests.support.reader.values import Memory
from tilegen.ir.nodes import Access, Const, Op
from tilegen.ir.reductions.initial import init_value
from tilegen.lowering.launch.program import nodes
from tilegen.lowering.launch.timelines import LookBack

ONE_OR_NONE = (Const(1, "i32"), Const(0, "i32"))


class Combined:
    def combined(self, node, texts):
        (self.combine if node.arg is None or node.start else self.combine_pair)(node, texts)

    def combine(self, node, texts):
        """What lanes exchange: a call of a helper, in OpenCL with the place that it goes through."""
        kind = self.dialect.types[node.dtype]
        text = self._take_declaration(texts, ("const", *kind.split()))
        which, lanes = ("up_to" if node.inclusive else "ahead_of", "lane") if node.start else ("of", "lanes")
        bits = isinstance(node.value, Op) and node.value == Op("select", (node.value.args[0], *ONE_OR_NONE), "i32")
        reduce = "ones" if (self.cuda, bits, node.reduce, node.lanes) == (True, True, "sum", 32) else node.reduce
        word = "_".join((reduce, which, lanes) if self.cuda else (node.reduce, which, kind, lanes))
        same(text.start[:2], ("call", word), f"what lanes exchange for {node.name}")
        *place, term = text.start[3]
        if node.arg is not None:
            self._term_of_lane(node, place.pop(), node.arg, Const(1, node.dtype))
        if node.start:
            same(self.term(place.pop()), self._value(node.start), f"terms of {node.name}")
        if self.cuda:
            same(text.start[2], (str(node.lanes),), f"lanes of {node.name}")
        else:
            *memory, flat, lanes = place
            names = [text.name, *([f"{text.name}_factor"] if node.arg is not None else [])]
            same(memory, [("name", memory_between(each)) for each in names], f"memory of {node.name}")
            which = [self.launch.flat.evaluate(self.env), node.lanes]
            same([self.term(each) for each in (flat, lanes)], which, f"lanes of {node.name}")
        self._term_of_lane(node, term, node.value, init_value(node.reduce, node.dtype))
        self.scope[text.name] = Memory(node.name, 0)

    def combine_pair(self, node, texts):
        """A value and its index, which the call of the helper changes."""
        found = []
        last = Const(1, node.arg_dtype) if node.reduce == "linear" else init_value("min", node.arg_dtype)
        for name, dtype, value, neutral in (
            (node.name, node.dtype, node.value, init_value(node.reduce, node.dtype)),
            (node.arg_name, node.arg_dtype, node.arg, last),
        ):
            text = self._take_declaration(texts, tuple(self.dialect.types[dtype].split()))
            self._term_of_lane(node, text.start, value, neutral)
            self.scope[text.name] = Memory(name, 0)
            found.append(text.name)
        call = self._take(texts, c_text.Call).call
        names = [("name", name) for name in found]
        if self.cuda:
            same(call, ("call", f"{node.reduce}_of_lanes", (str(node.lanes),), tuple(names)), f"lanes of {node.name}")
            return
        kinds = "_".join(self.dialect.types[dtype] for dtype in (node.dtype, node.arg_dtype))
        same(call[1], f"{node.reduce}_of_{kinds}_lanes", f"what lanes exchange for {node.name}")
        first, second, *numbers, value, index = call[3]
        same([first, second], [("name", memory_between(name)) for name in found], f"memory of {node.name}")
        flat = self.launch.flat.evaluate(self.env)
        same([self.term(each) for each in numbers], [flat, node.lanes], f"lanes of {node.name}")
        same([value, index], [("&", name) for name in names], f"results of {node.name}")

    def _term_of_lane(self, node, text, value, neutral):
        """What a lane puts in: its value, or the neutral one where it has none."""
        if node.test:
            same(text[0], "choice", f"terms of {node.name}")
            self._test(node.test, text[1])
            same(self.term(text[3]), self._value(neutral), f"terms of {node.name}")
            text = text[2]
        same(self.term(text), self._value(value), f"terms of {node.name}")

    def handed(self, node, texts, _):
        """An iteration that is a block: the rest of the list."""
        text = self._take_declaration(texts, ("const", *self.integer))
        states = next(each.states for each in nodes(node.body) if isinstance(each, LookBack))
        word, (memory,) = text.start[1], text.start[3]
        same((word, self.scope[memory[1]]), ("draw_number", Memory(states, 1)), "the number of a block")
        self.env[node.name] = self.scope[text.name] = self.rng.randrange(1, 10**4)
        self.body(node.body, texts)
        texts.clear()

    def look_back(self, node, texts):
        """The register becomes what the helper gives for its start, and for what the block adds."""
        text = self._take(texts, c_text.Assign)
        kind = self.dialect.types[self.launch.buffers[node.buffer].dtype]
        place, number, start, value, *factor = text.value[3]
        same((text.sign, *text.value[:3]), ("=", "call", f"{node.reduce}_of_blocks_before", (kind,)), "a look-back")
        same(self.place(text.target), self.place_of(Access(node.buffer, ())), "what blocks hand on")
        same(self.scope[place[1]], Memory(node.states, 1), "where blocks tell each other")
        same(self.term(number), self.env[node.block], "the number of a block")
        same(self.place(start), self.place_of(Access(node.buffer, ())), "the start of what is handed on")
        same(self.term(value), self._value(node.value), "what a block adds")
        wanted = [self._value(node.factor)] if node.factor else []
        same([*map(self.term, factor)], wanted, "what a block multiplies by")
