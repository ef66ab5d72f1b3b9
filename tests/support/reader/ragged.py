"""The reading of a loop whose ends data give: what they are for some value of the data, and which tests are left."""

from __future__ import annotations

from dataclasses import replace

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tests.support.reader.values import Memory, cast_term, combine_terms
from tilegen.ir.affine import var
from tilegen.ir.facts.choices import all_of
from tilegen.ir.nodes import THREAD_KINDS, Const, Index, Op, Stmt
from tilegen.ir.reductions.ragged import Bound, Found
from tilegen.ir.walk import rewrite, walk
from tilegen.lowering.launch.program import For, Perform, VectorCopy, VectorStore

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_HOLDS = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}


class Ragged:
    def ragged(self, node, texts, alone):
        if node.ends.pick_one:
            self._picked(node, texts if alone and len(texts) > 1 else [*self._take(texts, c_text.Block).body])
            return
        text, outer = self._take(texts, c_text.For), dict(self.scope)
        same(tuple(text.kind.split()), self.integer, f"type of {text.name}")
        first, end = node.ends.first, node.ends.end
        if isinstance(first, Found):
            self._found(first, text.first, first.place.evaluate(self.env), node)
        else:
            self._end(first, text.first, 0, node)
        extent = node.extent.evaluate(self.env)
        self._end(None if isinstance(end, Found) else end, text.extent, extent, node)
        self.env[node.name] = self.scope[text.name] = self.rng.randrange(1, 10**4)
        also = ()
        if isinstance(end, Found):
            also = ("<=", self._value(end.element), end.place.evaluate(self.env))
        same(text.also and self.term(text.also), also, f"what ends {node.name}")
        same(bool(text.next), node.ends.skips, f"the way to the next {node.name}")
        if text.next:
            self._found(first, text.next, self._value(first.element), node)

        self.body(rewrite(node.body, lambda value: self._with_tests_left_in(value, node)), text.body)
        self.scope = outer

    def _picked(self, node, inner):
        """The one iteration that runs: its declaration, and what it does."""
        text, outer = self._take_declaration(inner, ("const", *self.integer)), dict(self.scope)
        self._end(node.ends.first, text.start, 0, node)
        self.env[node.name] = self.scope[text.name] = self.rng.randrange(1, 10**4)
        self.body(rewrite(node.body, lambda value: self._with_tests_left_in(value, node)), tuple(inner))
        self.scope = outer

    def _found(self, end, text, place, node):
        """The text of the first iteration of a loop in which an element is above a place."""
        (index,), element = end.element.index, self.launch.buffers[end.element.buffer]
        kind = "" if self.cuda else {"i32": "int_", "i64": "long_"}[element.dtype]
        match text:
            case ("call", word, _, (("&", ("at", ("name", base), first)), count, where)):
                wanted = f"first_{kind}above", Memory(element.name, 1)
                same((word, self.scope[base]), wanted, f"an end of {node.name}")
                found = self.term(first), self.term(count), self.term(where)
                same(found, ((index - var(node.name)).evaluate(self.env), node.extent.evaluate(self.env), place), "it")
            case _:
                same(text, "first_above", f"an end of {node.name}")

    def _end(self, bound, text, otherwise, node):
        """The text of an end, with a number for the data."""
        found = self.term(text)
        if bound is None:
            same(found, otherwise, f"an end of {node.name}")
            return
        data, more = self._value(bound.value), bound.more.evaluate(self.env)
        if not bound.sure:
            wanted = ("iteration_at", data, more, bound.by, node.extent.evaluate(self.env))
            same(found, wanted, f"an end of {node.name}")
            return
        place = self.rng.randrange(abs(more) + 1, 10**6 + abs(more))
        for rest in (0, bound.by - 1):
            number = place * bound.by + rest - more
            same(_with_number(found, data, number), place, f"an end of {node.name}")

    def _with_tests_left_in(self, value, node):
        """A part of the loop without the tests of data that hold in all iterations that run."""
        if isinstance(value, VectorStore | VectorCopy) and value.where:
            left = [part for part in _parts(value.where) if not self._holds(part, node)]
            return replace(value, where=all_of(left) if left else None)
        if isinstance(value, Perform) and value.where:
            left = [part for part in _parts(value.where) if not self._holds(part, node)]
            return replace(value, where=all_of(left) if left else None)
        return self._with_tests_left(value, node) if isinstance(value, Stmt) else value

    def _with_tests_left(self, stmt, node):
        """The statement without the tests of data that hold in all iterations that run."""
        match stmt.value:
            case Op("select", (test, term, rest), dtype):
                inner = self._with_tests_left(Stmt(**{**vars(stmt), "value": term}), node).value
                left = [part for part in _parts(test) if not self._holds(part, node)]
                for part in left[1:]:
                    left[0] = Op("and", (left[0], part), "bool")
                value = Op("select", (left[0], inner, rest), dtype) if left else inner
                return Stmt(**{**vars(stmt), "value": value})
        return stmt

    def _holds(self, part, node):
        """True if a test holds in the first iteration or in the last, for any data, whatever runs in it."""
        word, (one, two) = getattr(part, "name", ""), getattr(part, "args", (None, None))[:2]
        if word not in _TURNED:
            return False
        if not isinstance(one, Index):
            word, one, two = _TURNED[word], two, one
        upper = word[0] == "<"
        bound, plus = node.ends.end if upper else node.ends.first, 0
        match two:
            case Op("+", (Op("%") as value, Const(number))):
                two, plus = value, number
        if not isinstance(one, Index) or not isinstance(bound, Bound) or two != bound.value:
            return False
        if node.name not in one.index.names():
            return False
        inner = {v.name: v.extent.const for v in walk(node.body) if isinstance(v, For) and v.extent.is_const}
        threads = dict(zip(THREAD_KINDS, self.launch.block, strict=True))
        inner |= {name: threads[kind] for name, kind, _ in self.launch.coordinates if kind in threads}
        for _ in range(50):
            env = {name: self.rng.randrange(64) for name in one.index.names() | bound.more.names()}
            env |= {name: self.rng.choice((0, extent - 1)) for name, extent in inner.items()}
            place = self.rng.randrange(10**4) * bound.by + self.rng.choice((0, bound.by - 1))
            number = place - bound.more.evaluate(env)
            env[node.name] = place // bound.by - upper
            if not _HOLDS[word](one.index.evaluate(env), number + plus):
                return False
        return True


def _parts(test):
    return [p for arg in test.args for p in _parts(arg)] if getattr(test, "name", "") == "and" else [test]


def _with_number(term, data, number):
    """A term of the text with a number for what is data."""
    match term:
        case _ if term == data:
            return number
        case ("cast", kind, value):
            return cast_term(kind, _with_number(value, data, number))
        case (word, *args):
            return combine_terms(word, [_with_number(a, data, number) for a in args])
    return term
