"""The reading of a loop of which data pick an iteration: its declaration, the test that there is one, what it does."""

from __future__ import annotations

from tests.support.reader import c_text
from tests.support.reader.calls import same
from tilegen.ir.affine import var
from tilegen.ir.nodes import Condition, Index, Op, Stmt
from tilegen.ir.walk import rewrite, walk


class Scatters:
    def scatter(self, node, texts, alone):
        inner = texts if alone and len(texts) > 1 else [*self._take(texts, c_text.Block).body]
        (place,) = {_equal_parts(v.value, node.name)[0] for v in walk(node.body) if isinstance(v, Stmt)}
        long = self.dialect.types["i64"].split()
        words = long if place.dtype == "i64" else self.integer
        text, outer = self._take_declaration(inner, ("const", *words)), dict(self.scope)
        same(self.term(text.start), self._value(place), f"the iteration of {node.name}")
        self.env[node.name] = self.scope[text.name] = self.rng.randrange(1, 10**4)
        test = self._take(inner, c_text.If)
        same((len(inner), test.orelse), (0, ()), f"what stands beside the iteration of {node.name}")
        at = var(node.name)
        self._test((Condition(at), Condition(node.extent - 1 - at)), test.test)

        def without_test(value):
            return rewrite_value(value, node.name) if isinstance(value, Stmt) else value

        self.body(rewrite(node.body, without_test), test.body)
        self.scope = outer


def rewrite_value(stmt, loop):
    """The statement where the equality that picks the iteration holds."""
    _, parts = _equal_parts(stmt.value, loop)
    _, term, rest = stmt.value.args
    for part in parts[:1]:
        for other in parts[1:]:
            part = Op("and", (part, other), "bool")
        term = Op("select", (part, term, rest), stmt.value.dtype)
    return Stmt(**{**vars(stmt), "value": term})


def _equal_parts(value, loop):
    """(the iteration of `loop` in which a choice is the first of its values, the other parts of its test)."""
    parts, found = [value.args[0]], []
    while any(part.name == "and" for part in parts if isinstance(part, Op)):
        parts = [v for part in parts for v in (part.args if getattr(part, "name", "") == "and" else [part])]
    for part in parts:
        for one, two in (part.args, part.args[::-1]) if getattr(part, "name", "") == "==" else ():
            if isinstance(one, Index) and one.index.coefficient(loop) == 1 and not found:
                less = one.index - var(loop)
                place = two if not less.terms and not less.const else Op("-", (two, Index(less, one.dtype)), one.dtype)
                found = [place, [other for other in parts if other is not part]]
    return found
